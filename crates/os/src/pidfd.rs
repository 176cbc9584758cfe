//! Holds a process, so that another process that gets its pid later is never mistaken for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::errno::{check, new_descriptor};
use crate::process::{self, Pid};
use ojs_values::signal::Signal;

/// One process, which cannot be mistaken for another for as long as this lives.
#[derive(Debug)]
pub struct ProcessWatch {
    pid: Pid,
    hold: Hold,
}

/// The mark that distinguishes the process from a later one with its pid.
#[derive(Debug)]
enum Hold {
    /// A descriptor of the process itself (a pidfd).
    Descriptor(OwnedFd),
    /// When it started, from `/proc`.
    StartTime(u64),
    /// Nothing is needed: the process had ended before this hold.
    Ended,
}

/// The ways to hold on to a process, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The socket names its peer's process (Linux 6.5).
    OfSocket,
    /// `pidfd_open` (Linux 5.3).
    OfPid,
    /// Used without pidfds, or if a seccomp filter forbids them.
    #[cfg_attr(not(test), expect(dead_code, reason = "only a test begins with the last resort"))]
    StartTime,
}

impl ProcessWatch {
    /// Holds a process whose pid cannot have been reused yet: a child that this process has not
    /// reaped.
    ///
    /// # Errors
    ///
    /// No descriptor is left (EMFILE, ENFILE, ENOMEM); or there are no pidfds and `/proc` does not
    /// help either.
    pub fn of(pid: Pid) -> io::Result<Self> {
        Self::by(Way::OfPid, pid)
    }

    /// Holds the process that connected this Unix socket; `pid` is the pid of `SO_PEERCRED`.
    ///
    /// Before Linux 6.5 the hold uses the pid, so a peer that has closed its end by then counts as
    /// ended: another process may have its pid.
    ///
    /// # Errors
    ///
    /// As for [`of`](Self::of).
    pub fn of_peer(socket: BorrowedFd<'_>, pid: Pid) -> io::Result<Self> {
        Self::of_peer_by(Way::OfSocket, socket, pid)
    }

    fn of_peer_by(best: Way, socket: BorrowedFd<'_>, pid: Pid) -> io::Result<Self> {
        if best == Way::OfSocket {
            match peer_descriptor(socket) {
                Ok(descriptor) => {
                    let hold = Hold::Descriptor(descriptor);
                    return Ok(Self { pid, hold });
                }
                Err(error) if is_exhaustion(&error) => return Err(error),
                // An older kernel, or the process has been reaped: the next way finds out.
                Err(_) => {}
            }
        }
        let watch = Self::by(best.max(Way::OfPid), pid)?;
        // A process that still holds the other end now was there the whole time, and so was its
        // pid.
        let is_closed = is_closed(socket)?;
        let hold = if is_closed { Hold::Ended } else { watch.hold };
        Ok(Self { pid, hold })
    }

    fn by(best: Way, pid: Pid) -> io::Result<Self> {
        if best <= Way::OfPid {
            match descriptor(pid) {
                Ok(descriptor) => {
                    let hold = Hold::Descriptor(descriptor);
                    return Ok(Self { pid, hold });
                }
                Err(error) if is_gone(&error) => return Ok(Self { pid, hold: Hold::Ended }),
                Err(error) if is_exhaustion(&error) => return Err(error),
                // ENOSYS before Linux 5.3, EPERM or another error of a seccomp filter.
                Err(_) => {}
            }
        }
        let hold = process::start_time(pid)?.map_or(Hold::Ended, Hold::StartTime);
        Ok(Self { pid, hold })
    }

    /// The pid, for people. After the process was reaped another process may have the number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the process has ended. A zombie has, unless another thread of it is still running.
    /// Unknown counts as not ended: for example no descriptor is left to read `/proc`.
    pub fn has_ended(&self) -> bool {
        match &self.hold {
            Hold::Descriptor(descriptor) => is_readable(descriptor.as_fd()),
            Hold::StartTime(started) => process::start_time(self.pid).is_ok_and(|now| now != Some(*started)),
            Hold::Ended => true,
        }
    }

    /// Signals the process. A zombie accepts every signal and ignores it.
    ///
    /// # Errors
    ///
    /// ESRCH: it has ended. EPERM: it runs as another user and this process lacks `CAP_KILL`.
    /// Without pidfds: the error of reading `/proc`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match &self.hold {
            Hold::Descriptor(descriptor) => match signal_by_descriptor(descriptor.as_fd(), signal) {
                // A seccomp filter may forbid this call alone. The descriptor still shows whether
                // the pid is the right one, except in the moment between the two calls.
                Err(error) if is_refusal(&error) && !self.has_ended() => process::signal(self.pid, signal),
                result => result,
            },
            Hold::StartTime(started) if process::start_time(self.pid)? == Some(*started) => {
                process::signal(self.pid, signal)
            }
            Hold::StartTime(_) | Hold::Ended => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }

    /// A descriptor that becomes readable when the process has ended. `None`: the process has
    /// ended, or there are no pidfds. Without pidfds the caller has to poll
    /// [`has_ended`](Self::has_ended).
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.hold {
            Hold::Descriptor(descriptor) => Some(descriptor.as_fd()),
            Hold::StartTime(_) | Hold::Ended => None,
        }
    }
}

/// A pidfd of the process that connected this socket.
fn peer_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut descriptor: i32 = -1;
    let mut size = libc::socklen_t::try_from(size_of_val(&descriptor)).unwrap_or(0);
    // SAFETY: value and size are valid to write to, and the size is that of the value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut descriptor).cast(),
            &raw mut size,
        )
    };
    check(result)?;
    // SAFETY: a new descriptor.
    unsafe { new_descriptor(descriptor) }
}

/// A pidfd of the process that has this pid now: readable after the process has ended.
///
/// # Errors
///
/// ESRCH: there is no such process. EMFILE, ENFILE, ENOMEM: no descriptor is left. ENOSYS, EPERM:
/// the kernel has no pidfds, or a seccomp filter forbids them.
pub fn descriptor(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: numbers only, and the descriptor is new.
    unsafe { new_descriptor(libc::syscall(libc::SYS_pidfd_open, pid.number(), 0)) }
}

fn signal_by_descriptor(descriptor: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    // SAFETY: numbers, and a null pointer that stands for the information that kill would send.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            descriptor.as_raw_fd(),
            signal.number(),
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    check(result)?;
    Ok(())
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    events(descriptor, PollFlags::POLLIN).is_ok_and(|events| events.contains(PollFlags::POLLIN))
}

/// Whether the other end of this socket is closed in every process.
fn is_closed(socket: BorrowedFd<'_>) -> io::Result<bool> {
    events(socket, PollFlags::empty()).map(|events| events.contains(PollFlags::POLLHUP))
}

fn events(descriptor: BorrowedFd<'_>, asked: PollFlags) -> io::Result<PollFlags> {
    let mut waiting = [PollFd::new(descriptor, asked)];
    poll(&mut waiting, PollTimeout::ZERO)?;
    let [polled] = waiting;
    Ok(polled.revents().unwrap_or(PollFlags::empty()))
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::EACCES))
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

#[cfg(test)]
#[path = "pidfd_tests.rs"]
mod tests;
