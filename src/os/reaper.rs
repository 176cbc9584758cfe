//! The one `waitpid` of the tree.

use std::io;

use crate::exit::Ended;
use crate::os::process::Pid;
use crate::signal::Signal;

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This process ended; its pid is free from now on.
    Process(Pid, Ended),
    /// There are children, but none has ended.
    NoneReady,
    NoChildren,
}

/// Reaps one ended child without waiting. SIGCHLDs coalesce, so one signal means: call this until nothing is ready.
///
/// # Errors
///
/// What the kernel says other than "no child" and "interrupted"; none is known.
pub fn reap_one() -> io::Result<Reaped> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid to write to. __WALL: also children that were created without SIGCHLD.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid == 0 {
            return Ok(Reaped::NoneReady);
        }
        if pid > 0 {
            match ended(status) {
                Some(ended) => return Ok(Reaped::Process(Pid::new(pid), ended)),
                // A stop or a continue of a traced process: not an end.
                None => continue,
            }
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(Reaped::NoChildren),
            Some(_) | None => return Err(error),
        }
    }
}

/// Decodes a wait status; none for what is no end. Done here because the usual decoders refuse real-time signals.
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
