//! Signals at bad moments.

use std::time::Duration;

use crate::case::{BOTH, Case, Ctx, PID1, Trouble, Verdict, case, ensure};
use crate::init::Ask;
use crate::namespace::Running;
use crate::support::proc;
use crate::support::random::Random;
use crate::support::sys::{Ended, bit};
use crate::support::wait::{now, spin, wait_for};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(a_sigterm_at_any_moment_after_the_mask_is_set_is_not_lost, PID1).limit(60),
    case!(a_sigterm_between_fork_and_exec_is_not_lost, BOTH),
    case!(a_sigterm_around_the_end_of_the_child_is_harmless, PID1),
    case!(a_storm_of_signals_while_orphans_end_is_survived, BOTH),
];

/// Looks without pause until the condition holds: what follows must come at once.
fn watch(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = now() + patience;
    while now() < deadline {
        if condition() {
            return true;
        }
    }
    false
}

/// Waits until the init has replaced the launcher. It may be gone by the time that this is seen.
pub fn image_is_visible(init: &Running<'_>, ctx: &Ctx) -> Result<i32, Trouble> {
    let pid = init.init_pid()?;
    let visible = watch(ctx.patience, || {
        proc::image(pid).as_ref() == Some(&ctx.init.program) || !proc::lives(pid)
    });
    ensure!(visible, "the init never started");
    Ok(pid)
}

/// Sends SIGTERM to an init whose child would run for long; whether that ended it at once.
fn is_lost(init: &mut Running<'_>) -> Result<bool, Trouble> {
    init.signal(libc::SIGTERM)?;
    match init.wait_at_most(Duration::from_secs(2)) {
        Ok(Ended::Code(143)) => Ok(false),
        Ok(other) => crate::case::fail(format!("it ended with {other:?}")),
        Err(_) => Ok(true),
    }
}

fn a_sigterm_at_any_moment_after_the_mask_is_set_is_not_lost(ctx: &Ctx) -> Verdict {
    let rounds = if ctx.thorough { 1000 } else { 300 };
    let mut random = Random::from_time();
    let mut lost = 0;
    for round in 1..=rounds {
        let mut init = ctx.launch(&[])?.command(&["sleep", "30"]).start()?;
        let pid = image_is_visible(&init, ctx)?;
        let is_set = |mask: &str| proc::signal_mask(pid, mask).is_some_and(|mask| mask & bit(libc::SIGTERM) != 0);
        // Inside sigtimedwait the kernel shows the awaited signals as not blocked; by then there is
        // a child.
        let set = watch(ctx.patience, || {
            is_set("SigBlk") || is_set("SigCgt") || !proc::children(pid).is_empty()
        });
        ensure!(
            set,
            "the mask is never set; the init: {:?}",
            init.wait_at_most(Duration::ZERO)
        );
        spin(Duration::from_micros(random.below(3000)));
        lost += u32::from(is_lost(&mut init)?);
        ensure!(lost < 5, "{lost} lost in {round} rounds (seed {})", random.seed());
    }
    ensure!(lost == 0, "{lost} lost in {rounds} rounds (seed {})", random.seed());
    Ok(())
}

/// A search path of so many missing directories that the exec takes a good part of the round.
fn long_path() -> String {
    (0..12_000).map(|number| format!("/n/{number:05}:")).collect::<String>() + "/usr/bin:/bin"
}

fn a_sigterm_between_fork_and_exec_is_not_lost(ctx: &Ctx) -> Verdict {
    let mut random = Random::from_time();
    let mut lost = 0;
    let rounds = 40;
    for _ in 0..rounds {
        let mut init = ctx
            .launch(&[])?
            .command(&["sleep", "30"])
            .variable("PATH", long_path())
            .start()?;
        let pid = image_is_visible(&init, ctx)?;
        ensure!(
            watch(ctx.patience, || !proc::children(pid).is_empty()),
            "it has no child"
        );
        spin(Duration::from_micros(random.below(8000)));
        lost += u32::from(is_lost(&mut init)?);
        ensure!(lost < 3, "{lost} lost (seed {})", random.seed());
    }
    ensure!(lost == 0, "{lost} lost in {rounds} rounds (seed {})", random.seed());
    Ok(())
}

fn a_sigterm_around_the_end_of_the_child_is_harmless(ctx: &Ctx) -> Verdict {
    let mut random = Random::from_time();
    for _ in 0..100 {
        let mut init = ctx.launch(&[])?.shell("exit 7").start()?;
        image_is_visible(&init, ctx)?;
        spin(Duration::from_micros(random.below(4000)));
        // The child may be gone by now, which is one of the moments in question.
        let _ = init.signal(libc::SIGTERM);
        let ended = init.wait()?;
        ensure!(
            matches!(ended, Ended::Code(7 | 143)),
            "ends with {ended:?} (seed {})",
            random.seed()
        );
    }
    Ok(())
}

fn a_storm_of_signals_while_orphans_end_is_survived(ctx: &Ctx) -> Verdict {
    let asks: &[Ask] = if ctx.is_pid1() { &[] } else { &[Ask::Subreaper] };
    let launch = ctx.launch_as_far_as_possible(asks)?;
    let mut init = launch
        .actor(&["orphans=500", "release-on=10", "exit-on=12:7"])
        .start()?;
    let child = init.ready("log")?;
    init.signal(libc::SIGUSR1)?;
    for _ in 0..2000 {
        init.signal(libc::SIGTERM)?;
    }
    let seen = wait_for(ctx.patience, || {
        init.logged("log").contains(&libc::SIGTERM).then_some(())
    });
    ensure!(seen.is_some(), "no SIGTERM reached the child");
    super::reaping::only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}
