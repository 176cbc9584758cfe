//! Standard error: closed, broken or full, it never decides over the child.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::case::{BOTH, Case, Ctx, PROCESS, Trouble, Verdict, case, ensure};
use crate::init::Ask;

/// The cases of this theme.
pub const CASES: &[Case] = &[
    case!(with_standard_error_closed_a_missing_command_is_127, BOTH),
    case!(with_standard_error_a_broken_pipe_a_missing_command_is_127, BOTH),
    case!(
        with_standard_error_a_broken_pipe_a_command_without_permission_is_126,
        PROCESS
    ),
    case!(a_broken_standard_error_does_not_end_the_init, BOTH),
    case!(a_full_standard_error_does_not_block_the_init, BOTH),
    case!(with_standard_error_full_a_missing_command_is_127, BOTH),
    case!(standard_error_stays_as_blocking_as_it_was, BOTH),
];

/// As much noise as this init can make.
const NOISY: [Ask; 3] = [Ask::Verbose(3), Ask::WarnOnReap, Ask::Subreaper];

/// A pipe that takes no further byte. The reader keeps it from being broken.
fn full_pipe() -> Result<(PipeReader, PipeWriter), Trouble> {
    let (reader, mut writer) = std::io::pipe()?;
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    fcntl(writer.as_fd(), FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok((reader, writer))
}

fn broken_pipe() -> Result<PipeWriter, Trouble> {
    Ok(std::io::pipe()?.1)
}

fn with_standard_error_closed_a_missing_command_is_127(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .step("close=2")
        .command(&["no-such-command-anywhere"])
        .start()?
        .ends_with(127)
}

fn with_standard_error_a_broken_pipe_a_missing_command_is_127(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .stderr(broken_pipe()?)
        .command(&["no-such-command-anywhere"])
        .start()?
        .ends_with(127)
}

fn with_standard_error_a_broken_pipe_a_command_without_permission_is_126(ctx: &Ctx) -> Verdict {
    ctx.launch(&[])?
        .stderr(broken_pipe()?)
        .command(&["/etc/passwd"])
        .start()?
        .ends_with(126)
}

/// A child that makes orphans, gets a signal and ends, while the init has things to say.
fn works_with_standard_error(ctx: &Ctx, stderr: PipeWriter) -> Verdict {
    let launch = ctx.launch_as_far_as_possible(&NOISY)?.stderr(stderr);
    let mut init = launch.actor(&["waves=1", "orphans=20", "exit-on=15:7"]).start()?;
    init.ready("log")?;
    for count in 1..=20 {
        init.signal(libc::SIGUSR1)?;
        init.logs("log", count)?;
    }
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}

fn a_broken_standard_error_does_not_end_the_init(ctx: &Ctx) -> Verdict {
    works_with_standard_error(ctx, broken_pipe()?)
}

fn a_full_standard_error_does_not_block_the_init(ctx: &Ctx) -> Verdict {
    let (_reader, writer) = full_pipe()?;
    works_with_standard_error(ctx, writer)
}

fn with_standard_error_full_a_missing_command_is_127(ctx: &Ctx) -> Verdict {
    let (_reader, writer) = full_pipe()?;
    ctx.launch(&[])?
        .stderr(writer)
        .command(&["no-such-command-anywhere"])
        .start()?
        .ends_with(127)
}

/// The child shares the open file: what the init sets there, the child would have to live with.
fn standard_error_stays_as_blocking_as_it_was(ctx: &Ctx) -> Verdict {
    let (_reader, writer) = std::io::pipe()?;
    let ours = writer.try_clone()?;
    let launch = ctx.launch_as_far_as_possible(&NOISY)?.stderr(writer);
    let mut init = launch.actor(&["exit-on=15:7"]).start()?;
    init.ready("log")?;
    let flags = OFlag::from_bits_retain(fcntl(ours.as_fd(), FcntlArg::F_GETFL)?);
    ensure!(!flags.contains(OFlag::O_NONBLOCK), "it is non-blocking now");
    init.signal(libc::SIGTERM)?;
    init.ends_with(7)
}
