//! Processes that are PID 1 of a PID namespace of their own.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::sys::set_ignored;

/// Starts the command as PID 1 of a new PID namespace, with a `/proc` that shows it. Needs root.
/// Returns its pid out here; whoever gets it reaps it.
pub fn spawn_as_pid_1(mut command: Command) -> i32 {
    // SAFETY: system calls only; the paths fit into the buffers that the calls keep on their
    // stacks.
    unsafe { command.pre_exec(own_proc) };
    // A thread's new PID namespace holds only the thread's children.
    let start = move || {
        unshare(CloneFlags::CLONE_NEWPID).expect("making a PID namespace needs root");
        spawn(command)
    };
    std::thread::spawn(start).join().unwrap()
}

/// Starts the command; whoever gets its pid reaps it.
pub fn spawn(command: Command) -> i32 {
    spawn_child(command).id().cast_signed()
}

/// Starts the command with the signals of a terminal: what nohup, or a shell that put the tests
/// into the background, ignores is none of its business.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts the init"
)]
pub fn spawn_child(mut command: Command) -> Child {
    let not_ignored = || {
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT]
            .map(|signal| set_ignored(signal, false))
            .into_iter()
            .collect()
    };
    // SAFETY: system calls only.
    unsafe { command.pre_exec(not_ignored) };
    command.spawn().unwrap()
}

fn own_proc() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>)?;
    Ok(())
}
