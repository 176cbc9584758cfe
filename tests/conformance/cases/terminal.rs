//! Terminals: the child has the foreground, what is typed reaches it, and nobody's foreground is
//! stolen.

use super::Report;
use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::support::proc;
use crate::support::wait::wait_until;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(on_a_terminal_the_child_is_in_the_foreground, BOTH),
    case!(on_a_terminal_the_child_gets_no_signal_at_the_start, BOTH),
    case!(a_shell_has_job_control, BOTH),
    case!(typed_lines_reach_the_child_and_its_output_comes_back, BOTH),
    case!(an_interactive_shell_ends_with_the_status_that_was_typed, BOTH),
    case!(a_typed_control_c_ends_the_child_with_130, BOTH),
    case!(a_typed_control_c_reaches_a_child_that_handles_it_once, BOTH),
    case!(a_typed_control_z_stops_the_child_and_not_the_init, BOTH),
    case!(a_hangup_of_the_terminal_reaches_the_child, BOTH),
    case!(in_the_background_the_foreground_is_not_stolen, PROCESS),
    case!(a_terminal_that_is_not_ours_is_no_error, BOTH),
];

fn on_a_terminal_the_child_is_in_the_foreground(ctx: &Ctx) -> Verdict {
    let (launch, _terminal) = ctx.launch(&[])?.report(&["exit=0"]).on_terminal()?;
    let mut init = launch.start()?;
    init.ends_with(0)?;
    let report = Report(init.file("report")?);
    let (group, foreground) = (report.get("group"), report.get("foreground"));
    ensure!(
        group.is_some() && group == foreground,
        "it is in group {group:?}, the foreground is {foreground:?}"
    );
    Ok(())
}

/// Making a session or giving up a terminal can send SIGHUP and SIGCONT to the child.
fn on_a_terminal_the_child_gets_no_signal_at_the_start(ctx: &Ctx) -> Verdict {
    let (launch, _terminal) = ctx.launch(&[])?.actor(&["exit-on=12:7"]).on_terminal()?;
    let mut init = launch.start()?;
    init.ready("log")?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let logged = init.logged("log");
    ensure!(logged == [libc::SIGUSR2], "the child got {logged:?}");
    Ok(())
}

fn a_shell_has_job_control(ctx: &Ctx) -> Verdict {
    let script = "case $- in *m*) ;; *) exit 3;; esac; sleep 0.01 & wait; exit 7";
    let (launch, mut terminal) = ctx.launch(&[])?.command(&["sh", "-m", "-c", script]).on_terminal()?;
    let ended = launch.start()?.ends_with(7);
    terminal.shows("\n", std::time::Duration::ZERO);
    let said = terminal.text();
    ensure!(!said.contains("job control"), "the shell says {said:?}");
    ended
}

fn typed_lines_reach_the_child_and_its_output_comes_back(ctx: &Ctx) -> Verdict {
    let (launch, mut terminal) = ctx.launch(&[])?.command(&["tac"]).on_terminal()?;
    let mut init = launch.start()?;
    terminal.write("one\ntwo\nthree\n\x04")?;
    let shown = terminal.shows("three\r\ntwo\r\none", ctx.patience);
    ensure!(shown, "the terminal shows {:?}", terminal.text());
    init.ends_with(0)
}

fn an_interactive_shell_ends_with_the_status_that_was_typed(ctx: &Ctx) -> Verdict {
    let (launch, mut terminal) = ctx
        .launch(&[])?
        .command(&["sh", "-i"])
        .variable("PS1", "ready> ")
        .on_terminal()?;
    let mut init = launch.start()?;
    ensure!(
        terminal.shows("ready> ", ctx.patience),
        "no prompt: {:?}",
        terminal.text()
    );
    terminal.write("exit 5\n")?;
    init.ends_with(5)
}

fn a_typed_control_c_ends_the_child_with_130(ctx: &Ctx) -> Verdict {
    let (launch, mut terminal) = ctx.launch(&[])?.actor(&["default=2"]).on_terminal()?;
    let mut init = launch.start()?;
    init.ready("log")?;
    terminal.write("\x03")?;
    init.ends_with(130)
}

fn a_typed_control_c_reaches_a_child_that_handles_it_once(ctx: &Ctx) -> Verdict {
    let (launch, mut terminal) = ctx.launch(&[])?.actor(&["exit-on=12:7"]).on_terminal()?;
    let mut init = launch.start()?;
    init.ready("log")?;
    terminal.write("\x03")?;
    init.logs("log", 1)?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let logged = init.logged("log");
    ensure!(logged == [libc::SIGINT, libc::SIGUSR2], "the child got {logged:?}");
    Ok(())
}

fn a_typed_control_z_stops_the_child_and_not_the_init(ctx: &Ctx) -> Verdict {
    let (launch, mut terminal) = ctx
        .launch(&[])?
        .actor(&["default=20", "default=18", "exit-on=12:7"])
        .on_terminal()?;
    let mut init = launch.start()?;
    let child = init.ready("log")?;
    terminal.write("\x1a")?;
    let stopped = |pid: i32| proc::stat(pid).is_some_and(|stat| stat.state == 'T');
    ensure!(wait_until(ctx.patience, || stopped(child)), "the child did not stop");
    ensure!(!stopped(init.init_pid()?), "the init is stopped too");
    init.signal(libc::SIGCONT)?;
    ensure!(wait_until(ctx.patience, || !stopped(child)), "the child did not go on");
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

fn a_hangup_of_the_terminal_reaches_the_child(ctx: &Ctx) -> Verdict {
    let (launch, terminal) = ctx.launch(&[])?.actor(&["default=1"]).on_terminal()?;
    let mut init = launch.start()?;
    init.ready("log")?;
    drop(terminal);
    init.ends_with(129)
}

fn in_the_background_the_foreground_is_not_stolen(ctx: &Ctx) -> Verdict {
    let (launch, _terminal) = ctx.launch(&[])?.actor(&["exit-on=12:7"]).on_terminal()?;
    let mut init = launch.in_background().start()?;
    init.ready("log")?;
    let shell = proc::stat(init.pid).ok_or("the shell is gone")?;
    ensure!(
        shell.foreground == shell.group,
        "the foreground went from {} to {}",
        shell.group,
        shell.foreground
    );
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

/// Standard input is a terminal, but of another session, as with `docker exec` into a strange
/// set-up.
fn a_terminal_that_is_not_ours_is_no_error(ctx: &Ctx) -> Verdict {
    let (_terminal, end) = crate::support::pty::Terminal::open()?;
    ctx.launch(&[])?.shell("exit 7").stdin(end).start()?.ends_with(7)
}
