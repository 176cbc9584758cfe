//! Orphans: adopted, reaped, and never taken for the child.

use crate::case::{BOTH, Case, Ctx, PID1, PROCESS, Trouble, Verdict, case, ensure};
use crate::init::Ask;
use crate::namespace::Running;
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(a_hundred_orphans_are_reaped, PID1),
    case!(with_the_subreaper_option_a_hundred_orphans_are_reaped, PROCESS).needs(&[Ask::Subreaper]),
    case!(with_the_subreaper_variable_a_hundred_orphans_are_reaped, PROCESS).needs(&[Ask::SubreaperByEnvironment]),
    case!(without_an_option_orphans_are_adopted_outside_process_1_too, PROCESS),
    case!(orphans_stay_in_the_process_group_of_the_child, PID1),
    case!(five_thousand_orphans_are_reaped, PID1),
    case!(the_status_is_right_when_everything_ends_at_the_same_time, BOTH),
    case!(an_orphan_killed_by_a_signal_changes_nothing, PID1),
    case!(the_warning_option_tells_of_each_reaped_orphan, BOTH).needs(&[Ask::WarnOnReap]),
    case!(without_the_warning_option_orphans_are_reaped_in_silence, PID1),
];

/// Waits until the init has no child but this one, and no zombie.
pub fn only_child_is_left(ctx: &Ctx, init: &Running<'_>, child: i32) -> Verdict {
    let pid = init.init_pid()?;
    let alone = wait_until(ctx.patience, || proc::children(pid) == [child]);
    ensure!(
        alone,
        "{} children are left that should have been reaped",
        proc::children(pid).len().saturating_sub(1)
    );
    Ok(())
}

/// An init whose child has made that many orphans; they are checked to be adopted.
fn with_orphans<'a>(ctx: &'a Ctx, asks: &[Ask], count: usize) -> Result<(Running<'a>, i32), Trouble> {
    let orphans = format!("orphans={count}");
    let mut init = ctx
        .launch(asks)?
        .actor(&[&orphans, "release-on=10", "exit-on=15:7"])
        .start()?;
    let child = init.ready("log")?;
    let adopted = proc::children(init.init_pid()?).len().saturating_sub(1);
    ensure!(adopted >= count, "only {adopted} of {count} orphans were adopted");
    Ok((init, child))
}

fn release_and_end(ctx: &Ctx, mut init: Running<'_>, child: i32) -> Verdict {
    init.signal(libc::SIGUSR1)?;
    init.logs("log", 1)?;
    only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn a_hundred_orphans_are_reaped(ctx: &Ctx) -> Verdict {
    let (init, child) = with_orphans(ctx, &[], 100)?;
    release_and_end(ctx, init, child)
}

fn with_the_subreaper_option_a_hundred_orphans_are_reaped(ctx: &Ctx) -> Verdict {
    let (init, child) = with_orphans(ctx, &[Ask::Subreaper], 100)?;
    release_and_end(ctx, init, child)
}

fn with_the_subreaper_variable_a_hundred_orphans_are_reaped(ctx: &Ctx) -> Verdict {
    let (init, child) = with_orphans(ctx, &[Ask::SubreaperByEnvironment], 100)?;
    release_and_end(ctx, init, child)
}

fn without_an_option_orphans_are_adopted_outside_process_1_too(ctx: &Ctx) -> Verdict {
    let (init, child) = with_orphans(ctx, &[], 100)?;
    release_and_end(ctx, init, child)
}

fn orphans_stay_in_the_process_group_of_the_child(ctx: &Ctx) -> Verdict {
    let (init, child) = with_orphans(ctx, &[], 20)?;
    let expected = proc::stat(child).map(|stat| stat.group);
    for orphan in proc::children(init.init_pid()?) {
        let group = proc::stat(orphan).map(|stat| stat.group);
        ensure!(
            group == expected,
            "an orphan is in group {group:?}, the child in {expected:?}"
        );
    }
    release_and_end(ctx, init, child)
}

fn five_thousand_orphans_are_reaped(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[])?
        .actor(&["orphans=1000", "wave-on=10", "exit-on=15:7"])
        .start()?;
    let child = init.ready("log")?;
    for wave in 1..=5 {
        init.signal(libc::SIGUSR1)?;
        init.logs("log", wave)?;
    }
    only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

/// The init is stopped while the child and all orphans end, so that one SIGCHLD stands for all of
/// them.
fn the_status_is_right_when_everything_ends_at_the_same_time(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch_as_far_as_possible(if ctx.is_pid1() { &[] } else { &[Ask::Subreaper] })?
        .actor(&["orphans=100", "exit-on=10:7"])
        .start()?;
    let child = init.ready("log")?;
    let pid = init.init_pid()?;
    let is_in = |pid: i32, state: char| proc::stat(pid).is_some_and(|stat| stat.state == state);
    sys::send(pid, libc::SIGSTOP)?;
    ensure!(
        wait_until(ctx.patience, || is_in(pid, 'T')),
        "the init could not be stopped"
    );
    sys::send(child, libc::SIGUSR1)?;
    let ended = || proc::children(pid).into_iter().all(|child| is_in(child, 'Z'));
    ensure!(wait_until(ctx.patience, ended), "not all have ended");
    sys::send(pid, libc::SIGCONT)?;
    init.ends_with(7)
}

fn an_orphan_killed_by_a_signal_changes_nothing(ctx: &Ctx) -> Verdict {
    let (mut init, child) = with_orphans(ctx, &[], 5)?;
    for orphan in proc::children(init.init_pid()?).into_iter().filter(|&pid| pid != child) {
        sys::send(orphan, libc::SIGKILL)?;
    }
    only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

/// Runs one orphan to its end and returns its number as the init knows it, and what was said.
fn one_orphan(ctx: &Ctx, asks: &[Ask]) -> Result<(i32, String), Trouble> {
    let (mut init, child) = with_orphans(ctx, asks, 1)?;
    let orphan = proc::children(init.init_pid()?)
        .into_iter()
        .find(|&pid| pid != child)
        .ok_or("no orphan")?;
    let inner = proc::inner_pid(orphan).ok_or("no number")?;
    init.signal(libc::SIGUSR1)?;
    only_child_is_left(ctx, &init, child)?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)?;
    Ok((inner, init.stderr()))
}

fn mentions(text: &str, number: i32) -> bool {
    text.split(|c: char| !c.is_ascii_digit())
        .any(|word| word == number.to_string())
}

fn the_warning_option_tells_of_each_reaped_orphan(ctx: &Ctx) -> Verdict {
    let asks: &[Ask] = if ctx.is_pid1() {
        &[Ask::WarnOnReap]
    } else {
        &[Ask::WarnOnReap, Ask::Subreaper]
    };
    let (orphan, said) = one_orphan(ctx, asks)?;
    ensure!(mentions(&said, orphan), "no word of process {orphan}: {said:?}");
    Ok(())
}

fn without_the_warning_option_orphans_are_reaped_in_silence(ctx: &Ctx) -> Verdict {
    let (_, said) = one_orphan(ctx, &[])?;
    ensure!(said.is_empty(), "it says {said:?}");
    Ok(())
}
