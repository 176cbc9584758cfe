//! The one place of the tree that reaps.

use std::io;
use std::mem;
use std::time::Duration;

use nix::errno::Errno;

use crate::errno::errno;
use crate::process::Pid;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// The target of a wait for every child.
const ANY_CHILD: i32 = -1;

/// The result of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This process ended; its pid is free from now on.
    Process(Pid, Ended),
    /// There are children, but none has ended.
    NoneReady,
    NoChildren,
}

/// Reaps one ended child without waiting. SIGCHLDs coalesce, so after one signal the caller repeats
/// this until no child is ready.
///
/// # Errors
///
/// An error other than "no child" and "interrupted"; none is known.
pub fn reap_one() -> io::Result<Reaped> {
    match wait(ANY_CHILD, libc::WNOHANG) {
        Ok(Some((pid, ended, _))) => Ok(Reaped::Process(pid, ended)),
        Ok(None) => Ok(Reaped::NoneReady),
        Err(Errno::ECHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error.into()),
    }
}

/// The resources of a process and of the children that it has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time, in user mode and in the kernel.
    pub cpu: Duration,
    /// The most memory that one of the processes had resident at a time, in bytes. Includes this
    /// process's memory at the start of the child, because the kernel counts from the clone on.
    pub max_rss_bytes: u64,
}

/// Whether this child has ended. The child is not reaped, so no other process gets its number or
/// that of its group.
pub fn has_ended(pid: Pid) -> bool {
    let id = libc::id_t::try_from(pid.number()).unwrap_or(0);
    peek(libc::P_PID, id) == Some(pid.number())
}

/// Whether this process has a child, living or not reaped. The kernel's answer is safer than its
/// list of children, which may lack one while others start and end.
pub fn has_children() -> bool {
    peek(libc::P_ALL, 0).is_some()
}

/// A child that has ended. Until it is reaped the kernel may name the same one again.
pub(crate) fn ended_child() -> Option<Pid> {
    peek(libc::P_ALL, 0).filter(|pid| *pid > 0).map(Pid::new)
}

/// The number of a child that has ended, without reaping it: 0 if none of these children has ended,
/// `None` if there are no such children.
fn peek(kind: libc::idtype_t, id: libc::id_t) -> Option<i32> {
    // __WALL: also children that were created without SIGCHLD. Before Linux 4.7 the call refuses
    // that.
    for more in [libc::__WALL, 0] {
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | more;
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        // SAFETY: the structure is valid to write to.
        if unsafe { libc::waitid(kind, id, &raw mut info, options) } == 0 {
            // SAFETY: the call has filled it, or left the zeros.
            return Some(unsafe { info.si_pid() });
        }
        if errno() != libc::EINVAL {
            return None;
        }
    }
    None
}

/// Reaps this child, if it has ended.
///
/// # Errors
///
/// ECHILD: it is no child of this process, or was already reaped.
pub fn reap(pid: Pid) -> io::Result<Option<(Ended, Usage)>> {
    let found = wait(pid.number(), libc::WNOHANG)?;
    Ok(found.map(|(_, ended, usage)| (ended, taken(&usage))))
}

/// Waits for the end of this child and reaps it. For one that has ended, or is about to by its own
/// making.
///
/// # Errors
///
/// As for [`reap`].
pub(crate) fn wait_for(pid: Pid) -> io::Result<Option<(Ended, Usage)>> {
    let found = wait(pid.number(), 0)?;
    Ok(found.map(|(_, ended, usage)| (ended, taken(&usage))))
}

/// A child that has ended; `None` if none has.
fn wait(target: i32, options: i32) -> Result<Option<(Pid, Ended, libc::rusage)>, Errno> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    loop {
        let mut status = 0;
        // SAFETY: both are valid to write to. __WALL: also children that were created without
        // SIGCHLD.
        let result = unsafe { libc::wait4(target, &raw mut status, options | libc::__WALL, &raw mut usage) };
        match (Errno::result(result), ended(status)) {
            (Ok(0), _) => return Ok(None),
            (Ok(pid), Some(ended)) => return Ok(Some((Pid::new(pid), ended, usage))),
            // A stop or a continue of a traced process is no end.
            (Ok(_), None) | (Err(Errno::EINTR), _) => {}
            (Err(error), _) => return Err(error),
        }
    }
}

fn taken(usage: &libc::rusage) -> Usage {
    let time = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Usage {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        // In KiB.
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024),
    }
}

/// Decodes a wait status; `None` if the status is not an end. Done here because the usual decoders
/// refuse real-time signals.
fn ended(status: i32) -> Option<Ended> {
    if libc::WIFEXITED(status) {
        return u8::try_from(libc::WEXITSTATUS(status)).ok().map(Ended::Exited);
    }
    if libc::WIFSIGNALED(status) {
        return Signal::from_number(libc::WTERMSIG(status)).map(Ended::Signalled);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_by_real_time_signals_are_understood() {
        for number in 1..=64 {
            assert_eq!(
                ended(number),
                Signal::from_number(number).map(Ended::Signalled),
                "{number}"
            );
        }
    }

    #[test]
    fn every_exit_status_is_understood_and_a_stop_is_no_end() {
        for status in 0..=255u8 {
            assert_eq!(ended(i32::from(status) << 8), Some(Ended::Exited(status)));
        }
        assert_eq!(ended(0x137f), None, "stopped by SIGSTOP");
        assert_eq!(ended(0xffff), None, "continued");
    }
}
