//! The command line that every init has.

use std::os::unix::fs::PermissionsExt;

use crate::case::{BOTH, Case, Ctx, PROCESS, Verdict, case, ensure, fail};
use crate::init::Ask;
use crate::support::sys::Ended;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(no_arguments_is_an_error_that_shows_how_to_use_it, PROCESS),
    case!(an_unknown_option_is_an_error_and_starts_nothing, BOTH),
    case!(help_is_shown_with_status_0, PROCESS),
    case!(the_version_is_shown_with_status_0, PROCESS),
    case!(a_command_after_the_double_dash_runs, BOTH),
    case!(a_second_double_dash_is_the_command_and_fails, PROCESS),
    case!(after_the_double_dash_a_word_like_an_option_is_a_program, PROCESS),
    case!(without_a_double_dash_options_of_the_command_are_its_own, PROCESS).needs(&[Ask::BareCommand]),
    case!(verbose_runs_tell_of_the_child_and_keep_its_status, BOTH).needs(&[Ask::Verbose(3)]),
    case!(without_verbose_nothing_is_said, BOTH),
];

fn no_arguments_is_an_error_that_shows_how_to_use_it(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.start()?;
    let ended = init.wait()?;
    ensure!(matches!(ended, Ended::Code(1..)), "ends with {ended:?}");
    let said = init.stderr() + &init.stdout();
    ensure!(
        said.to_lowercase().contains("usage"),
        "does not show how to use it: {said:?}"
    );
    Ok(())
}

fn an_unknown_option_is_an_error_and_starts_nothing(ctx: &Ctx) -> Verdict {
    let mut init = ctx
        .launch(&[])?
        .options(&["--no-such-option"])
        .shell("touch started")
        .start()?;
    let ended = init.wait()?;
    ensure!(matches!(ended, Ended::Code(1..)), "ends with {ended:?}");
    ensure!(!init.stderr().is_empty(), "says nothing");
    ensure!(!ctx.dir().join("started").exists(), "the command was started");
    Ok(())
}

fn help_is_shown_with_status_0(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.options(&["-h"]).start()?;
    init.ends_with(0)?;
    let said = init.stderr() + &init.stdout();
    ensure!(said.to_lowercase().contains("usage"), "no help: {said:?}");
    Ok(())
}

fn the_version_is_shown_with_status_0(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[])?.options(&["--version"]).start()?;
    init.ends_with(0)?;
    let said = init.stderr() + &init.stdout();
    ensure!(
        said.contains('.') && said.contains(|c: char| c.is_ascii_digit()),
        "no version: {said:?}"
    );
    Ok(())
}

fn a_command_after_the_double_dash_runs(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?.command(&["true"]).start()?.ends_with(0)?;
    ctx.launch(&[])?.command(&["false"]).start()?.ends_with(1)
}

fn a_second_double_dash_is_the_command_and_fails(ctx: &Ctx) -> Verdict {
    let ended = ctx.launch(&[])?.command(&["--", "true"]).start()?.wait()?;
    ensure!(matches!(ended, Ended::Code(1..)), "ends with {ended:?}");
    Ok(())
}

fn after_the_double_dash_a_word_like_an_option_is_a_program(ctx: &Ctx) -> Verdict {
    for name in ["-h", "-s", "-w", "-g", "--version", "--help"] {
        let program = ctx.dir().join(name);
        std::fs::write(&program, "#!/bin/sh\nexit 33\n")?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let path = format!("{}:/usr/bin:/bin", ctx.dir().display());
        let ended = ctx
            .launch(&[])?
            .command(&[name, "--foo"])
            .variable("PATH", path)
            .start()?
            .wait()?;
        ensure!(ended == Ended::Code(33), "{name}: {ended:?}");
    }
    Ok(())
}

fn without_a_double_dash_options_of_the_command_are_its_own(ctx: &Ctx) -> Verdict {
    let words = [
        "sh",
        "-c",
        "test \"$1 $2\" = '-g --version' && exit 7",
        "sh",
        "-g",
        "--version",
    ];
    ctx.launch(&[Ask::BareCommand])?.command(&words).start()?.ends_with(7)
}

fn verbose_runs_tell_of_the_child_and_keep_its_status(ctx: &Ctx) -> Verdict {
    let mut init = ctx.launch(&[Ask::Verbose(3)])?.shell("exit 6").start()?;
    init.ends_with(6)?;
    if init.stderr().is_empty() && init.stdout().is_empty() {
        fail("says nothing")
    } else {
        Ok(())
    }
}

fn without_verbose_nothing_is_said(ctx: &Ctx) -> Verdict {
    // An ordinary process may say that it is one, if that has consequences.
    let asks: &[Ask] = if ctx.is_pid1() { &[] } else { &[Ask::Subreaper] };
    let mut init = ctx.launch_as_far_as_possible(asks)?.shell("exit 6").start()?;
    init.ends_with(6)?;
    let said = init.stderr();
    let most = usize::from(!ctx.is_pid1());
    ensure!(said.lines().count() <= most, "says {said:?}");
    Ok(())
}
