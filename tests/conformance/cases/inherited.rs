//! Signal state of whoever started the init: the child gets it unchanged, and nothing else.

use super::Report;
use crate::case::{BOTH, Case, Ctx, PROCESS, Trouble, Verdict, case, ensure};
use crate::init::Ask;
use crate::namespace::{Launch, list};
use crate::support::sys::{mask_of, signals_of};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(ignored_signals_stay_ignored_in_the_child, BOTH),
    case!(blocked_signals_stay_blocked_in_the_child, BOTH),
    case!(nothing_else_is_blocked_or_ignored_in_the_child, BOTH),
    case!(an_ignored_sigpipe_stays_ignored_in_the_child, PROCESS),
    case!(an_ignored_sigchld_stays_ignored_in_the_child, BOTH),
    case!(an_ignored_sigchld_does_not_hang_the_init, BOTH),
    case!(a_blocked_sigchld_does_not_hang_the_init, BOTH),
    case!(a_sigterm_pending_at_exec_reaches_the_child, BOTH),
    case!(children_that_ended_before_the_exec_do_not_disturb, BOTH),
    case!(a_child_from_before_the_exec_is_not_taken_for_ours, BOTH),
    case!(the_death_of_the_parent_sends_the_chosen_signal, BOTH).needs(&[Ask::ParentDeath("SIGUSR1")]),
];

fn report_after(launch: Launch<'_>) -> Result<Report, Trouble> {
    let mut init = launch.report(&["exit=0"]).start()?;
    init.ends_with(0)?;
    Ok(Report(init.file("report")?))
}

fn same(what: &str, found: u64, expected: &[i32]) -> Verdict {
    let found = signals_of(found);
    ensure!(
        found == expected,
        "{what} in the child: {}; expected {}",
        list(&found),
        list(expected)
    );
    Ok(())
}

fn ignored_signals_stay_ignored_in_the_child(ctx: &Ctx) -> Verdict {
    let ignored = [libc::SIGINT, libc::SIGSEGV, libc::SIGTTOU];
    let mut launch = ctx.launch(&[])?;
    for signal in ignored {
        launch = launch.step(format!("ignore={signal}"));
    }
    same("ignored", report_after(launch)?.mask("SigIgn"), &ignored)
}

fn blocked_signals_stay_blocked_in_the_child(ctx: &Ctx) -> Verdict {
    let blocked = [libc::SIGILL, libc::SIGTERM, libc::SIGTTIN];
    let mut launch = ctx.launch(&[])?;
    for signal in blocked {
        launch = launch.step(format!("block={signal}"));
    }
    same("blocked", report_after(launch)?.mask("SigBlk"), &blocked)
}

fn nothing_else_is_blocked_or_ignored_in_the_child(ctx: &Ctx) -> Verdict {
    let report = report_after(ctx.launch(&[])?)?;
    same("blocked", report.mask("SigBlk"), &[])?;
    same("ignored", report.mask("SigIgn"), &[])
}

fn an_ignored_sigpipe_stays_ignored_in_the_child(ctx: &Ctx) -> Verdict {
    let report = report_after(ctx.launch(&[])?.step(format!("ignore={}", libc::SIGPIPE)))?;
    same("ignored", report.mask("SigIgn"), &[libc::SIGPIPE])
}

fn an_ignored_sigchld_stays_ignored_in_the_child(ctx: &Ctx) -> Verdict {
    let mut launch = ctx.launch(&[])?.step(format!("ignore={}", libc::SIGCHLD));
    launch = launch.report(&[]);
    let mut init = launch.start()?;
    let report = Report(init.file("report")?);
    ensure!(
        report.mask("SigIgn") == mask_of(&[libc::SIGCHLD]),
        "ignored: {}",
        list(&signals_of(report.mask("SigIgn")))
    );
    Ok(())
}

fn an_ignored_sigchld_does_not_hang_the_init(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .step(format!("ignore={}", libc::SIGCHLD))
        .shell("exit 7")
        .start()?
        .ends_with(7)
}

fn a_blocked_sigchld_does_not_hang_the_init(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .step(format!("block={}", libc::SIGCHLD))
        .shell("exit 7")
        .start()?
        .ends_with(7)
}

fn a_sigterm_pending_at_exec_reaches_the_child(ctx: &Ctx) -> Verdict {
    let launch = ctx
        .launch(&[])?
        .step("block=15")
        .step("raise=15")
        .actor(&["exit-on=15:7"]);
    launch.start()?.ends_with(7)
}

fn children_that_ended_before_the_exec_do_not_disturb(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.step("zombies=3").actor(&["exit-on=15:7"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn a_child_from_before_the_exec_is_not_taken_for_ours(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.step("lodger=50").shell("sleep 0.3; exit 7").start()?;
    init.ends_with(7)
}

fn the_death_of_the_parent_sends_the_chosen_signal(ctx: &Ctx) -> Verdict {
    let launch = ctx.launch(&[Ask::ParentDeath("SIGUSR1")])?.actor(&[]).under_parent();
    let mut init = launch.start()?;
    init.ready("log")?;
    init.signal_parent(libc::SIGKILL)?;
    let logged = init.logs("log", 1)?;
    ensure!(logged == [libc::SIGUSR1], "the child got {}", list(&logged));
    Ok(())
}
