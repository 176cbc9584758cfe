//! Forwarding: what is sent to the init reaches the child, once, as it is.

use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::{Ask, Kind};
use crate::namespace::{Running, list};
use crate::support::proc;
use crate::support::wait::wait_until;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(sigterm_ends_the_child_and_gives_143, BOTH),
    case!(sigusr1_ends_the_child_and_gives_138, BOTH),
    case!(sigusr2_ends_the_child_and_gives_140, BOTH),
    case!(sigterm_reaches_a_child_that_handles_it, BOTH),
    case!(each_ordinary_signal_is_forwarded, BOTH),
    case!(fault_signals_sent_by_kill_are_forwarded, BOTH),
    case!(sigtstp_is_forwarded, BOTH).exempt(&[(Kind::DumbInit, "arrives as SIGSTOP")]),
    case!(sigttin_and_sigttou_are_forwarded, BOTH).exempt(&[(Kind::DumbInit, "arrive as SIGSTOP")]),
    case!(real_time_signals_are_forwarded, BOTH),
    case!(signals_32_and_33_are_forwarded, BOTH),
    case!(queued_real_time_signals_all_arrive, BOTH),
    case!(the_child_gets_nothing_that_was_not_sent, BOTH),
    case!(stop_signals_never_stop_the_init, BOTH),
    case!(sigstop_of_the_child_and_sigcont_to_the_init_resume_it, BOTH),
    case!(sigtstp_stops_and_sigcont_resumes_the_child, BOTH),
    case!(the_init_stops_itself_with_its_child_on_sigtstp, PROCESS)
        .exempt(&[(Kind::Ojs, "named exception: SIGTSTP never stops ojs-init")]),
];

/// Sends each in turn and compares with what the child has logged; the next one waits for the one
/// before.
fn forwards(ctx: &Ctx, signals: impl Iterator<Item = i32>) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[]).start()?;
    init.ready("log")?;
    let mut missing = Vec::new();
    let mut expected = Vec::new();
    for signal in signals {
        init.signal(signal)?;
        expected.push(signal);
        let patience = if missing.is_empty() {
            ctx.patience.min(std::time::Duration::from_secs(3))
        } else {
            SHORT
        };
        if !wait_until(patience, || {
            init.logged("log") == expected || !matches!(init.is_running(), Ok(true))
        }) {
            missing.push(signal);
            expected = init.logged("log");
        }
        ensure!(init.is_running()?, "signal {signal} ended the init: {:?}", init.wait());
    }
    ensure!(missing.is_empty(), "not forwarded: {}", list(&missing));
    Ok(())
}

/// Once one signal is known to be missing, the others get less time to be late.
const SHORT: std::time::Duration = std::time::Duration::from_millis(300);

const FAULTS: [i32; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];
const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

fn ends_by(ctx: &Ctx, signal: i32) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[&format!("default={signal}")]).start()?;
    init.ready("log")?;
    init.signal(signal)?;
    init.ends_with(128 + signal)
}

fn sigterm_ends_the_child_and_gives_143(ctx: &Ctx) -> Verdict {
    ends_by(ctx, libc::SIGTERM)
}

fn sigusr1_ends_the_child_and_gives_138(ctx: &Ctx) -> Verdict {
    ends_by(ctx, libc::SIGUSR1)
}

fn sigusr2_ends_the_child_and_gives_140(ctx: &Ctx) -> Verdict {
    ends_by(ctx, libc::SIGUSR2)
}

fn sigterm_reaches_a_child_that_handles_it(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&["exit-on=15:7"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn each_ordinary_signal_is_forwarded(ctx: &Ctx) -> Verdict {
    let special = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD];
    forwards(
        ctx,
        (1..=31).filter(|signal| !special.contains(signal) && !FAULTS.contains(signal) && !STOPS.contains(signal)),
    )
}

fn fault_signals_sent_by_kill_are_forwarded(ctx: &Ctx) -> Verdict {
    forwards(ctx, FAULTS.into_iter())
}

fn sigtstp_is_forwarded(ctx: &Ctx) -> Verdict {
    forwards(ctx, [libc::SIGTSTP].into_iter())
}

fn sigttin_and_sigttou_are_forwarded(ctx: &Ctx) -> Verdict {
    forwards(ctx, [libc::SIGTTIN, libc::SIGTTOU].into_iter())
}

fn real_time_signals_are_forwarded(ctx: &Ctx) -> Verdict {
    forwards(ctx, 34..=64)
}

fn signals_32_and_33_are_forwarded(ctx: &Ctx) -> Verdict {
    forwards(ctx, 32..=33)
}

fn queued_real_time_signals_all_arrive(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&[]).start()?;
    init.ready("log")?;
    for _ in 0..100 {
        init.signal(40)?;
    }
    let logged = init.logs("log", 100)?;
    ensure!(logged == [40; 100], "the child got {} of 100", logged.len());
    Ok(())
}

fn the_child_gets_nothing_that_was_not_sent(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&["exit-on=12:7"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGUSR1)?;
    init.logs("log", 1)?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)?;
    let logged = init.logged("log");
    ensure!(
        logged == [libc::SIGUSR1, libc::SIGUSR2],
        "the child got {}",
        list(&logged)
    );
    Ok(())
}

fn state_of(pid: i32) -> char {
    proc::stat(pid).map_or('?', |stat| stat.state)
}

fn stop_signals_never_stop_the_init(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.actor(&["exit-on=12:7"]).start()?;
    init.ready("log")?;
    for signal in STOPS {
        init.signal(signal)?;
    }
    let pid = init.init_pid()?;
    // An init that forwards them is done when the child has them all; others get a moment to stop
    // themselves.
    wait_until(SHORT, || {
        init.logged("log").len() == STOPS.len() || state_of(pid) == 'T'
    });
    ensure!(state_of(pid) != 'T', "the init has stopped itself");
    init.signal(libc::SIGCONT)?;
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

/// The child stops; SIGCONT to the init wakes it, and SIGUSR2 then ends it.
fn resumes(ctx: &Ctx, init: &mut Running<'_>, child: i32) -> Verdict {
    ensure!(
        wait_until(ctx.patience, || state_of(child) == 'T'),
        "the child did not stop"
    );
    init.signal(libc::SIGCONT)?;
    ensure!(
        wait_until(ctx.patience, || state_of(child) != 'T'),
        "the child is still stopped"
    );
    init.signal(libc::SIGUSR2)?;
    init.ends_with(7)
}

fn sigstop_of_the_child_and_sigcont_to_the_init_resume_it(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[])?
        .actor(&["stop", "default=18", "exit-on=12:7"])
        .start()?;
    let child = init.ready("log")?;
    resumes(ctx, &mut init, child)
}

fn sigtstp_stops_and_sigcont_resumes_the_child(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[])?
        .actor(&["default=20", "default=18", "exit-on=12:7"])
        .start()?;
    let child = init.ready("log")?;
    init.signal(libc::SIGTSTP)?;
    resumes(ctx, &mut init, child)
}

fn the_init_stops_itself_with_its_child_on_sigtstp(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch_as_far_as_possible(&[Ask::Group])?
        .actor(&["default=20"])
        .start()?;
    init.ready("log")?;
    init.signal(libc::SIGTSTP)?;
    let pid = init.init_pid()?;
    let patience = std::time::Duration::from_millis(500);
    ensure!(wait_until(patience, || state_of(pid) == 'T'), "goes on by design");
    Ok(())
}
