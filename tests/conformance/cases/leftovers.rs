//! Processes that the main child leaves behind are asked to end, get bounded time, and do not
//! survive.

use std::time::Duration;

use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::Ask;
use crate::support::wait::{Stopwatch, now};
use crate::support::{proc, sys};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(without_a_grace_period_leftovers_are_not_waited_for, BOTH),
    case!(without_a_grace_period_leftovers_are_left_alone, PROCESS).needs(&[Ask::OnlyTheChild]),
    case!(leftovers_get_sigterm_when_the_main_child_ends, BOTH).needs(&[Ask::TermLeftovers]),
    case!(a_leftover_gets_time_to_clean_up, BOTH),
    case!(a_leftover_daemon_gets_time_to_clean_up, BOTH),
    case!(a_stopped_leftover_gets_to_clean_up, BOTH),
    case!(after_a_sigterm_leftovers_get_the_rest_of_the_grace_period, BOTH),
    case!(a_leftover_that_ignores_sigterm_is_killed_in_the_end, BOTH).needs(&[Ask::Grace("1s")]),
    case!(no_process_of_the_group_survives, PROCESS).needs(&[Ask::Grace("1s")]),
    case!(no_daemon_survives, PROCESS).needs(&[Ask::Grace("1s")]),
];

/// Whether anything that the case started is still alive.
fn survivors(ctx: &Ctx) -> usize {
    proc::with_environment(&ctx.marker)
        .into_iter()
        .filter(|&pid| proc::lives(pid))
        .count()
}

/// The main child leaves a process of that kind and ends with 7; returns how long the init took
/// from its end.
fn leave(ctx: &Ctx, grace: &'static str, kind: &str) -> Result<Duration, crate::case::Trouble> {
    let leftover = format!("leftover={kind}");
    let asks = [Ask::Grace(grace), Ask::Subreaper];
    let asks = if ctx.is_pid1() { asks.get(..1) } else { asks.get(..) };
    let launch = ctx.launch_as_far_as_possible(asks.unwrap_or_default())?;
    let mut init = launch.actor(&[&leftover, "exit-on=12:7"]).start()?;
    init.ready("log")?;
    let start = now();
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    Ok(now() - start)
}

fn cleaned_up(ctx: &Ctx) -> bool {
    ctx.dir().join("log.left.clean").exists()
}

fn without_a_grace_period_leftovers_are_not_waited_for(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&["leftover=stubborn", "exit-on=12:7"]).start()?;
    init.ready("log")?;
    let watch = Stopwatch::start();
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let took = watch.elapsed();
    ensure!(took < Duration::from_secs(1), "it waited for {took:.2?}");
    Ok(())
}

fn without_a_grace_period_leftovers_are_left_alone(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[Ask::OnlyTheChild])?
        .actor(&["leftover=log", "exit-on=12:7"])
        .start()?;
    init.ready("log")?;
    let leftover = init.ready("log.left")?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    // This one shows that a signal from the init would have been logged by now.
    sys::send(leftover, libc::SIGWINCH)?;
    let logged = init.logs("log.left", 1)?;
    ensure!(logged == [libc::SIGWINCH], "the leftover got {logged:?}");
    Ok(())
}

fn leftovers_get_sigterm_when_the_main_child_ends(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[Ask::TermLeftovers])?
        .actor(&["leftover=log", "then-exit=7"])
        .start()?;
    init.ends_with(7)?;
    let logged = init.logs("log.left", 1)?;
    ensure!(logged.contains(&libc::SIGTERM), "the leftover got {logged:?}");
    Ok(())
}

/// The leftover had its time, and nobody waited any longer.
fn has_cleaned_up(ctx: &Ctx, took: Duration) -> Verdict {
    ensure!(
        cleaned_up(ctx),
        "the leftover was cut off: the init was gone after {took:.2?}"
    );
    ensure!(
        took < Duration::from_secs(4),
        "the init waited on although nobody was left: {took:.2?}"
    );
    Ok(())
}

fn is_cleaned_up_in_time(ctx: &Ctx, kind: &str) -> Verdict {
    let took = leave(ctx, "6s", kind)?;
    has_cleaned_up(ctx, took)
}

fn a_leftover_gets_time_to_clean_up(ctx: &Ctx) -> Verdict {
    is_cleaned_up_in_time(ctx, "slow")
}

fn a_leftover_daemon_gets_time_to_clean_up(ctx: &Ctx) -> Verdict {
    is_cleaned_up_in_time(ctx, "slow+daemon")
}

fn a_stopped_leftover_gets_to_clean_up(ctx: &Ctx) -> Verdict {
    is_cleaned_up_in_time(ctx, "stopped")
}

fn after_a_sigterm_leftovers_get_the_rest_of_the_grace_period(ctx: &Ctx) -> Verdict {
    let launch = ctx.launch_as_far_as_possible(&[Ask::Grace("6s")])?;
    let mut init = launch.actor(&["leftover=slow", "default=15"]).start()?;
    init.ready("log")?;
    let start = now();
    init.signal(libc::SIGTERM)?;
    init.ends_with(143)?;
    let took = now() - start;
    has_cleaned_up(ctx, took)
}

fn is_killed_in_the_end(ctx: &Ctx, kind: &str) -> Verdict {
    let took = leave(ctx, "1s", kind)?;
    let bounds = Duration::from_millis(1000)..=Duration::from_millis(1600);
    ensure!(bounds.contains(&took), "the init was gone after {took:.2?}");
    let left = survivors(ctx);
    ensure!(left == 0, "{left} processes survive");
    Ok(())
}

fn a_leftover_that_ignores_sigterm_is_killed_in_the_end(ctx: &Ctx) -> Verdict {
    is_killed_in_the_end(ctx, "stubborn")
}

fn no_process_of_the_group_survives(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[Ask::Grace("500ms")])?
        .actor(&["team=4", "exit-on=12:7"])
        .start()?;
    init.ready("log")?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let left = survivors(ctx);
    ensure!(left == 0, "{left} processes survive");
    Ok(())
}

fn no_daemon_survives(ctx: &Ctx) -> Verdict {
    is_killed_in_the_end(ctx, "stubborn+daemon")
}
