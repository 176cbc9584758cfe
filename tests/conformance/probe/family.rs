//! Processes that a child leaves to its init: orphans, teams, daemons.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::{actor, publish, text};
use crate::support::sys;
use crate::support::wait::{pause, wait_until};

/// How long a probe waits for its own relatives.
const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until a relative has said that it is ready.
pub fn await_file(path: &str) -> Result<(), String> {
    let there = wait_until(PATIENCE, || std::path::Path::new(path).exists());
    if there {
        Ok(())
    } else {
        Err(format!("{path} never appeared"))
    }
}

/// Processes whose parent is gone; they live until they are released, all at the same time.
#[derive(Debug)]
pub struct Orphans {
    release: PipeWriter,
}

impl Orphans {
    /// Makes that many. When this returns their parent is gone, so that the init has adopted them
    /// all.
    pub fn make(count: usize) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("orphans: {error}");
        let (reader, release) = std::io::pipe().map_err(failed)?;
        let parent = sys::fork(|| {
            for _ in 0..count {
                if sys::fork(|| wait_for_release(&reader, &release)).is_err() {
                    return super::BROKEN;
                }
            }
            0
        });
        match parent.and_then(|parent| sys::reap(parent, true)).map_err(failed)? {
            Some(sys::Ended::Code(0)) => Ok(Self { release }),
            other => Err(format!("the parent of {count} orphans: {other:?}")),
        }
    }

    /// Lets them all end now.
    pub fn release(self) {
        drop(self.release);
    }
}

/// An orphan: ends when nobody holds the writing end any more.
fn wait_for_release(mut reader: &PipeReader, writer: &PipeWriter) -> i32 {
    sys::close(writer.as_raw_fd());
    let _ = reader.read(&mut [0]);
    0
}

/// `chain FILE`: ignores USR1 and ends with 5 once its own child, which does not, was ended by it.
pub fn chain(arguments: &[OsString]) -> Result<i32, String> {
    let path = text(arguments.first())?;
    let failed = |error: std::io::Error| error.to_string();
    let member = sys::fork(|| {
        if sys::set_mask(0).is_err() || publish(path, "ready").is_err() {
            return super::BROKEN;
        }
        loop {
            nix::unistd::pause();
        }
    })
    .map_err(failed)?;
    sys::set_ignored(libc::SIGUSR1, true).map_err(failed)?;
    await_file(path)?;
    publish(&format!("{path}.ready"), &std::process::id().to_string())?;
    match sys::reap(member, true).map_err(failed)? {
        Some(sys::Ended::Signal(libc::SIGUSR1)) => Ok(5),
        other => Err(format!("the member of the group ended otherwise: {other:?}")),
    }
}

/// Starts a process that outlives its parent. `what` is KIND or KIND+daemon (a session of its own,
/// parent gone).
pub fn leave_behind(what: &str, log: &str) -> Result<(), String> {
    let path = format!("{log}.left");
    let (kind, daemon) = what.strip_suffix("+daemon").map_or((what, false), |kind| (kind, true));
    let failed = |error: std::io::Error| error.to_string();
    if daemon {
        let parent = sys::fork(|| {
            let _ = nix::unistd::setsid();
            sys::fork(|| remain(kind, &path)).map_or(super::BROKEN, |_| 0)
        });
        parent.and_then(|parent| sys::reap(parent, true)).map_err(failed)?;
    } else {
        sys::fork(|| remain(kind, &path)).map_err(failed)?;
    }
    await_file(&format!("{path}.ready"))
}

/// The life of a leftover: `slow` takes a second to clean up after SIGTERM, so does `stopped` once
/// it is resumed, `stubborn` ignores it, `log` logs.
fn remain(kind: &str, path: &str) -> i32 {
    if kind == "log" {
        return actor::log_signals(path);
    }
    // A signal that keeps its default action in the main child does not have to in this one.
    let ready = || publish(&format!("{path}.ready"), &std::process::id().to_string());
    if sys::set_mask(u64::MAX).is_err() || ready().is_err() {
        return super::BROKEN;
    }
    if kind == "stopped" && sys::send(std::process::id().cast_signed(), libc::SIGSTOP).is_err() {
        return super::BROKEN;
    }
    loop {
        match sys::take_signal(sys::bit(libc::SIGTERM), None) {
            Ok(Some(_)) if kind != "stubborn" => break,
            Ok(_) => {}
            Err(_) => return super::BROKEN,
        }
    }
    pause(Duration::from_secs(1));
    publish(&format!("{path}.clean"), "clean").map_or(super::BROKEN, |()| 0)
}
