//! Doing something in another process: as another user, or with settings that belong to a whole
//! process.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Uid, alarm, fork, setgroups, setresgid, setresuid};

/// Longest that it may take, in seconds.
const PATIENCE: u32 = 30;

/// Runs `body` in a process of its own, as this user, and returns what it said, or how it failed.
/// The process ends without running anything else.
pub fn forked(user: Option<u32>, body: impl FnOnce() -> Result<String, String>) -> String {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the C library makes its memory usable in the child, which runs `body` and never
    // returns from here.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            alarm::set(PATIENCE);
            let said = match user.map_or(Ok(()), become_user) {
                Ok(()) => said(body).unwrap_or_else(|error| format!("failed: {error}")),
                Err(error) => format!("cannot become user {user:?}: {error}"),
            };
            let _ = writer.write_all(said.as_bytes());
            // SAFETY: ends the process at once, as it must: the rest of it belongs to the parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(writer);
            let mut said = String::new();
            reader.read_to_string(&mut said).unwrap();
            waitpid(child, None).unwrap();
            said
        }
    }
}

fn said(body: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.unwrap_or_else(|| "panicked".to_owned()))
    })
}

fn become_user(uid: u32) -> nix::Result<()> {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[group])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    // As after an exec: its files in /proc are its own.
    nix::sys::prctl::set_dumpable(true)
}
