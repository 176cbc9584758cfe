//! The signals as a descriptor, for a loop that waits for other descriptors too.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::errno::new_descriptor;
use crate::signals::{self, KERNEL_SET_BYTES, SignalSet};
use ojs_values::signal::Signal;

/// A descriptor that is readable while a signal of its set is pending. The signals have to be
/// blocked.
///
/// The descriptor shows signals of the process and of the calling thread, so wait and
/// [`take`](Self::take) on one thread.
#[derive(Debug)]
pub struct SignalFd {
    descriptor: OwnedFd,
    set: SignalSet,
}

impl SignalFd {
    /// A descriptor for these signals. The raw call, because the C libraries hide signals 32 to 34.
    ///
    /// # Errors
    ///
    /// EMFILE, ENFILE, ENOMEM, or the error of a seccomp filter.
    pub fn new(set: SignalSet) -> io::Result<Self> {
        let new_one: i32 = -1;
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: the set is valid for the size given, and the kernel only reads it. The descriptor
        // is new.
        let descriptor = unsafe {
            new_descriptor(libc::syscall(
                libc::SYS_signalfd4,
                new_one,
                &raw const set.0,
                KERNEL_SET_BYTES,
                flags,
            ))
        };
        let descriptor = descriptor?;
        Ok(Self { descriptor, set })
    }

    /// Fetches one pending signal; `None` if there is none. Drops SIGPIPE and SIGXFSZ that this
    /// process's own write caused, as [`signals::wait`] does.
    ///
    /// With an edge-triggered poll: call `take` until it returns `None`, because the next event
    /// reports only later signals. Call it once more after [`signals::around_thread_start`]. That
    /// function sets signals aside. `take` returns these first, but the descriptor may never become
    /// readable for them.
    ///
    /// # Errors
    ///
    /// The kernel's error; none is known.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        if let Some(signal) = signals::take_set_aside(self.set) {
            return Ok(Some(signal));
        }
        loop {
            let Some((signal, sender)) = self.read()? else {
                return Ok(None);
            };
            if !signals::is_self_inflicted(signal, sender) {
                return Ok(Some(signal));
            }
        }
    }

    /// The next pending signal and the pid of its sender.
    fn read(&self) -> io::Result<Option<(Signal, u32)>> {
        loop {
            // SAFETY: zero is a valid signalfd_siginfo, which is plain numbers.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            let size = size_of_val(&info);
            // SAFETY: `info` is valid to write that many bytes to.
            let count = unsafe { libc::read(self.as_raw_fd(), (&raw mut info).cast(), size) };
            if count >= 0 {
                let number = i32::try_from(info.ssi_signo).unwrap_or(0);
                return Ok(Signal::from_number(number).map(|signal| (signal, info.ssi_pid)));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Ok(None),
                Some(_) | None => return Err(error),
            }
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;
    use crate::test_support::wait_until_the_other_end_is_closed;

    /// Every signal except those that the C library uses for its threads can be raised on this
    /// thread alone.
    fn raise(number: i32) {
        // SAFETY: numbers only. The signal is for this thread, which has it blocked.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), number) };
        assert_eq!(result, 0);
    }

    /// Like `raise`, with the pid of another process as the sender.
    fn raise_as(sender: u32, number: i32) {
        // SAFETY: zero is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = number;
        info.si_code = libc::SI_QUEUE;
        // SAFETY: the kernel reads `info`, in which the sender's pid follows three integers and, on
        // 64-bit machines, a gap. A process may send itself any signal information.
        let result = unsafe {
            (&raw mut info).cast::<u32>().add(4).write(sender);
            let (pid, thread) = (libc::getpid(), libc::gettid());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, thread, number, &raw const info)
        };
        assert_eq!(result, 0);
    }

    fn is_readable(signals: &SignalFd) -> bool {
        let mut waiting = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        poll(&mut waiting, PollTimeout::ZERO).unwrap() == 1
    }

    /// Signals that are set aside belong to the whole process, so one test at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Runs `test` on a new thread with every signal blocked.
    fn with_all_blocked(test: impl FnOnce(SignalFd) + Send) {
        let _turn = ONE_AT_A_TIME.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                SignalSet::ALL.set_as_mask();
                test(SignalFd::new(SignalSet::ALL).unwrap());
            });
        });
    }

    #[test]
    fn every_signal_that_can_be_blocked_is_taken_one_at_a_time_real_time_ones_included() {
        with_all_blocked(|signals| {
            assert_eq!(signals.take().unwrap(), None);
            assert!(!is_readable(&signals));
            // A stop signal removes a pending SIGCONT, so this one is sent alone.
            raise(libc::SIGCONT);
            assert_eq!(signals.take().unwrap(), Some(Signal::CONT));
            let is_possible = |number: &i32| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCONT].contains(number);
            let numbers: Vec<i32> = (1..=64).filter(is_possible).collect();
            for number in &numbers {
                // As if from another process: this process's own SIGPIPE and SIGXFSZ would be
                // dropped.
                raise_as(4_000_000, *number);
            }
            assert!(is_readable(&signals));
            let mut taken: Vec<i32> = std::iter::from_fn(|| signals.take().unwrap())
                .map(Signal::number)
                .collect();
            taken.sort_unstable();
            assert_eq!(taken, numbers);
            assert!(!is_readable(&signals));
        });
    }

    #[test]
    fn a_real_time_signal_that_came_twice_is_taken_twice() {
        with_all_blocked(|signals| {
            raise(40);
            raise(40);
            let taken: Vec<_> = std::iter::from_fn(|| signals.take().unwrap())
                .map(Signal::number)
                .collect();
            assert_eq!(taken, [40, 40]);
        });
    }

    #[test]
    fn our_own_broken_pipe_is_swallowed_and_does_not_hide_the_signal_behind_it() {
        with_all_blocked(|signals| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            drop(reader);
            wait_until_the_other_end_is_closed(&writer);
            writer.write_all(b"x").unwrap_err();
            raise(libc::SIGTERM);
            assert_eq!(signals.take().unwrap(), Some(Signal::TERM));
            assert_eq!(signals.take().unwrap(), None);
        });
    }

    #[test]
    fn a_broken_pipe_that_somebody_sends_is_a_signal_like_any_other() {
        with_all_blocked(|signals| {
            raise_as(std::process::id() + 1, libc::SIGPIPE);
            assert_eq!(signals.take().unwrap(), Some(Signal::PIPE));
        });
    }

    #[test]
    fn only_the_signals_of_the_set_are_taken() {
        with_all_blocked(|_| {
            let signals = SignalFd::new(SignalSet::of(&[Signal::HUP])).unwrap();
            raise(libc::SIGTERM);
            assert_eq!(signals.take().unwrap(), None);
            raise(libc::SIGHUP);
            assert_eq!(signals.take().unwrap(), Some(Signal::HUP));
        });
    }

    #[test]
    fn what_a_thread_start_set_aside_comes_first_although_the_descriptor_is_not_readable() {
        with_all_blocked(|signals| {
            raise(34);
            assert!(!signals::has_set_aside());
            signals::around_thread_start(|| assert!(!is_readable(&signals)));
            assert!(
                signals::has_set_aside(),
                "whoever waits for the descriptor now has to ask first"
            );
            raise(libc::SIGTERM);
            assert_eq!(signals.take().unwrap().map(Signal::number), Some(34));
            assert!(!signals::has_set_aside());
            assert_eq!(signals.take().unwrap(), Some(Signal::TERM));
            assert_eq!(signals.take().unwrap(), None);
        });
    }

    #[test]
    fn the_descriptor_is_closed_on_exec() {
        let signals = SignalFd::new(SignalSet::ALL).unwrap();
        let flags = nix::fcntl::fcntl(&signals, nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags, nix::fcntl::FdFlag::FD_CLOEXEC.bits());
        assert_eq!(signals::wait(SignalSet::of(&[]), Some(Duration::ZERO)).unwrap(), None);
    }
}
