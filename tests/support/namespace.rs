//! Processes that are PID 1 of a PID namespace of their own.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::channel;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::sys::set_ignored;

/// Starts the command as PID 1 of a new PID namespace, with a `/proc` that shows it. Needs root.
/// Returns its pid out here; whoever gets it reaps it.
pub fn spawn_as_pid_1(mut command: Command) -> i32 {
    // SAFETY: system calls only; the paths fit into the buffers that the calls keep on their
    // stacks.
    unsafe { command.pre_exec(own_proc) };
    let (told, pid) = channel();
    // A thread's new PID namespace holds only the thread's children.
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWPID).expect("making a PID namespace needs root");
        let pid = spawn(command);
        // The last process of a mount namespace waits in its exit for all processors, for seconds
        // if they are busy (synchronize_rcu_expedited). That time is not the command's.
        let mounts = File::open(format!("/proc/{pid}/ns/mnt"));
        told.send(pid).unwrap();
        let _ = waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        drop(mounts);
    });
    pid.recv().unwrap()
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
