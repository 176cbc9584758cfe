//! The status of the child is the status of the init.

use super::super::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure};
use crate::init::Ask;
use crate::support::sys::{Ended, HIGHEST_SIGNAL};

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(every_exit_code_comes_through, BOTH),
    case!(death_by_any_signal_is_128_plus_its_number, BOTH),
    case!(each_exit_code_can_be_remapped_to_zero, PROCESS).needs(&[Ask::RemapExit(1)]),
    case!(only_the_named_exit_codes_are_remapped, PROCESS).needs(&[Ask::RemapExit(1)]),
    case!(death_by_a_signal_can_be_remapped, BOTH).needs(&[Ask::RemapExit(143)]),
];

fn every_exit_code_comes_through(ctx: &Ctx) -> Verdict {
    let mut wrong = Vec::new();
    for code in 0..=255 {
        let ended = ctx.launch(&[])?.shell(&format!("exit {code}")).start()?.wait()?;
        if ended != Ended::Code(code) {
            wrong.push(format!("{code}: {ended:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join(", "));
    Ok(())
}

fn death_by_any_signal_is_128_plus_its_number(ctx: &Ctx) -> Verdict {
    let harmless = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    let mut wrong = Vec::new();
    for signal in (1..=HIGHEST_SIGNAL).filter(|signal| !harmless.contains(signal)) {
        let mut words = ctx.probe("die", "unused", &[]);
        words.pop();
        words.push(signal.to_string().into());
        let ended = ctx.launch(&[])?.command(&words).start()?.wait();
        match ended {
            Ok(Ended::Code(code)) if code == 128 + signal => {}
            other => wrong.push(format!("{signal}: {other:?}")),
        }
        // An init that hangs once would hang for each of the others too.
        ensure!(wrong.len() < 3, "{}", wrong.join(", "));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join(", "));
    Ok(())
}

fn each_exit_code_can_be_remapped_to_zero(ctx: &Ctx) -> Verdict {
    for code in 0..=255 {
        let mut init = ctx
            .launch(&[Ask::RemapExit(code)])?
            .shell(&format!("exit {code}"))
            .start()?;
        init.ends_with(0)?;
    }
    Ok(())
}

fn only_the_named_exit_codes_are_remapped(ctx: &Ctx) -> Verdict {
    for code in 0..=255 {
        let others: Vec<Ask> = (0..=255).filter(|&other| other != code).map(Ask::RemapExit).collect();
        let mut init = ctx.launch(&others)?.shell(&format!("exit {code}")).start()?;
        init.ends_with(i32::from(code))?;
    }
    Ok(())
}

fn death_by_a_signal_can_be_remapped(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::RemapExit(143)])?.actor(&["default=15"]).start()?;
    init.ready("log")?;
    init.signal(libc::SIGTERM)?;
    init.ends_with(0)
}
