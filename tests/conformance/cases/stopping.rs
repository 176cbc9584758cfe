//! Stopping a child that does not want to: SIGTERM with SIGCONT, a grace period, SIGKILL.

use std::time::Duration;

use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::Ask;
use crate::support::proc;
use crate::support::sys::{self, Ended};
use crate::support::wait::{now, wait_until};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(without_a_grace_period_the_init_waits_for_the_child, BOTH),
    case!(a_repeated_sigterm_reaches_the_child_each_time, BOTH),
    case!(
        a_child_that_ignores_sigterm_is_killed_when_the_grace_period_is_over,
        BOTH
    )
    .needs(&[Ask::Grace("2s")]),
    case!(signals_during_the_grace_period_do_not_extend_it, BOTH).needs(&[Ask::Grace("2s")]),
    case!(a_child_that_ends_in_time_ends_the_init_at_once, BOTH).needs(&[Ask::Grace("2s")]),
    case!(the_kill_reaches_the_whole_group, PROCESS).needs(&[Ask::Grace("2s")]),
    case!(a_signal_that_stops_nobody_starts_no_grace_period, BOTH).needs(&[Ask::Grace("2s")]),
    case!(everything_is_gone_before_the_limit_of_the_orchestrator, BOTH).needs(&[Ask::Limit("3s")]),
    case!(a_stopped_child_ends_on_sigterm, BOTH),
    case!(a_stopped_child_gets_to_handle_sigterm, BOTH),
    case!(a_stopped_child_that_ignores_sigterm_is_killed, BOTH).needs(&[Ask::Grace("2s")]),
];

fn without_a_grace_period_the_init_waits_for_the_child(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[]).start()?;
    let child = init.ready("log")?;
    init.signal(libc::SIGTERM)?;
    init.logs("log", 1)?;
    let gone = wait_until(Duration::from_millis(1500), || !matches!(init.is_running(), Ok(true)));
    ensure!(!gone, "it did not wait: {:?}", init.wait());
    sys::send(child, libc::SIGKILL)?;
    init.ends_with(137)
}

fn a_repeated_sigterm_reaches_the_child_each_time(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&["exit-on=12:7"]).start()?;
    init.ready("log")?;
    for count in 1..=5 {
        init.signal(libc::SIGTERM)?;
        init.logs("log", count)?;
    }
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

/// SIGTERM, and the time from it to the end of the init, which must have this status.
fn stop_and_time(init: &mut crate::namespace::Running<'_>, status: i32) -> Result<Duration, crate::case::Trouble> {
    let start = now();
    init.signal(libc::SIGTERM)?;
    init.ends_with(status)?;
    Ok(now() - start)
}

fn within(took: Duration, from_ms: u64, to_ms: u64) -> Verdict {
    let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
    ensure!(
        (from..=to).contains(&took),
        "it took {took:.2?}, not {from:?} to {to:?}"
    );
    Ok(())
}

fn a_child_that_ignores_sigterm_is_killed_when_the_grace_period_is_over(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Grace("2s")])?.actor(&[]).start()?;
    init.ready("log")?;
    within(stop_and_time(&mut init, 137)?, 2000, 2500)
}

fn signals_during_the_grace_period_do_not_extend_it(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Grace("2s")])?.actor(&[]).start()?;
    init.ready("log")?;
    let start = now();
    init.signal(libc::SIGTERM)?;
    let mut next = Duration::ZERO;
    wait_until(Duration::from_secs(5), || {
        if now() - start >= next {
            let _ = init.signal(if next.subsec_millis() == 500 {
                libc::SIGTERM
            } else {
                libc::SIGUSR1
            });
            next += Duration::from_millis(100);
        }
        !matches!(init.is_running(), Ok(true))
    });
    init.ends_with(137)?;
    within(now() - start, 2000, 2500)
}

fn a_child_that_ends_in_time_ends_the_init_at_once(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Grace("20s")])?.actor(&["exit-on=15:7"]).start()?;
    init.ready("log")?;
    within(stop_and_time(&mut init, 7)?, 0, 1000)
}

fn the_kill_reaches_the_whole_group(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Grace("300ms")])?.actor(&["team=4"]).start()?;
    init.ready("log")?;
    stop_and_time(&mut init, 137)?;
    let left: Vec<i32> = proc::with_environment(&ctx.marker)
        .into_iter()
        .filter(|&pid| proc::lives(pid))
        .collect();
    ensure!(left.is_empty(), "{} processes survive", left.len());
    Ok(())
}

fn a_signal_that_stops_nobody_starts_no_grace_period(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Grace("200ms")])?.actor(&["exit-on=12:7"]).start()?;
    init.ready("log")?;
    for signal in [libc::SIGUSR1, libc::SIGHUP, libc::SIGWINCH] {
        init.signal(signal)?;
    }
    let gone = wait_until(Duration::from_secs(1), || !matches!(init.is_running(), Ok(true)));
    ensure!(!gone, "the child was killed for it");
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

fn everything_is_gone_before_the_limit_of_the_orchestrator(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Limit("3s")])?.actor(&[]).start()?;
    init.ready("log")?;
    within(stop_and_time(&mut init, 137)?, 500, 3000)
}

/// A child that has stopped itself; SIGCONT has its usual effect.
fn stopped<'a>(
    ctx: &'a Ctx,
    grace: &'static str,
    options: &[&str],
) -> Result<crate::namespace::Running<'a>, crate::case::Trouble> {
    let options: Vec<&str> = ["stop", "default=18"].iter().chain(options).copied().collect();
    let mut init = ctx
        .launch_as_far_as_possible(&[Ask::Grace(grace)])?
        .actor(&options)
        .start()?;
    let child = init.ready("log")?;
    let is_stopped = || proc::stat(child).is_some_and(|stat| stat.state == 'T');
    ensure!(wait_until(ctx.patience, is_stopped), "the child did not stop");
    Ok(init)
}

fn a_stopped_child_ends_on_sigterm(ctx: &Ctx) -> Verdict {
    let mut init = stopped(ctx, "20s", &["default=15"])?;
    within(stop_and_time(&mut init, 143)?, 0, 1000)
}

fn a_stopped_child_gets_to_handle_sigterm(ctx: &Ctx) -> Verdict {
    let mut init = stopped(ctx, "20s", &["exit-on=15:7"])?;
    within(stop_and_time(&mut init, 7)?, 0, 1000)
}

fn a_stopped_child_that_ignores_sigterm_is_killed(ctx: &Ctx) -> Verdict {
    let mut init = stopped(ctx, "1s", &["ignore=15"])?;
    init.signal(libc::SIGTERM)?;
    let ended = init.wait()?;
    ensure!(ended == Ended::Code(137), "ends with {ended:?}");
    Ok(())
}
