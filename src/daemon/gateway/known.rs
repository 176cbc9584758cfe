//! The processes of the worker that had connections, and the descriptors of those. A new connection
//! of such a process is found by a look or two.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use ojs_os::descriptors;
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::Pid;

/// Most processes that are known.
const MOST_KNOWN: usize = 4096;

/// Descriptors that are remembered of each: a client that opens a connection for each of 50
/// requests at once uses as many in turn.
const MOST_NUMBERS: usize = 64;

/// Descriptors above the highest of these that are looked at as well, for a client that opens more
/// connections.
const NUMBERS_BEYOND: usize = 2;

/// Most looks for one connection: a millisecond or two.
const MOST_LOOKS: usize = 1024;

/// A process that had a connection.
#[derive(Debug)]
struct KnownProcess {
    pid: Pid,
    /// Weak, because its owners decide how long the process is known.
    watch: Weak<ProcessWatch>,
    /// The descriptors of its connections, the last one first, because a number is used again as
    /// soon as it is free.
    numbers: VecDeque<i32>,
}

impl KnownProcess {
    /// The likely descriptor of its next new connection. The first guess is the best.
    fn guess(&self, round: usize) -> Option<i32> {
        let Some(beyond) = round.checked_sub(self.numbers.len()) else {
            return self.numbers.get(round).copied();
        };
        let highest = self.numbers.iter().max()?;
        let beyond = i32::try_from(beyond).ok().filter(|_| beyond < NUMBERS_BEYOND)?;
        highest.checked_add(1 + beyond)
    }

    fn had(&mut self, number: i32) {
        self.numbers.retain(|known| *known != number);
        self.numbers.push_front(number);
        self.numbers.truncate(MOST_NUMBERS);
    }
}

/// The known processes, the last one to connect first.
#[derive(Debug, Default)]
pub(super) struct KnownProcesses(VecDeque<KnownProcess>);

impl KnownProcesses {
    /// Adds a process of the worker. `number`: the descriptor of its connection, if it has one.
    pub(super) fn add(&mut self, watch: &Rc<ProcessWatch>, number: Option<i32>) {
        let pid = watch.pid();
        let of_pid = self.0.iter().position(|known| known.pid == pid);
        let former = of_pid.and_then(|at| self.0.remove(at));
        let mut known = former
            .filter(|known| known.watch.as_ptr() == Rc::as_ptr(watch))
            .unwrap_or_else(|| KnownProcess {
                pid,
                watch: Rc::downgrade(watch),
                numbers: VecDeque::new(),
            });
        number.into_iter().for_each(|number| known.had(number));
        self.0.push_front(known);
        self.0.truncate(MOST_KNOWN);
    }

    /// The hold on the process that has this pid now, if it is one of these.
    pub(super) fn hold_on(&self, pid: Pid) -> Option<Rc<ProcessWatch>> {
        let mut of_pid = self.0.iter().filter(|known| known.pid == pid);
        of_pid.find_map(|known| known.watch.upgrade().filter(|watch| !watch.has_ended()))
    }

    /// The pids of those that live, as far as it is known.
    pub(super) fn pids(&self) -> Vec<Pid> {
        let living = self.0.iter().filter(|known| known.watch.strong_count() > 0);
        living.map(|known| known.pid).collect()
    }

    /// The process with this socket, if a guess finds it. Each process gets one look before any
    /// gets its second.
    pub(super) fn holder(&mut self, inode: u64) -> Option<Rc<ProcessWatch>> {
        self.0.retain(|known| known.watch.strong_count() > 0);
        let guesses = (0..MOST_NUMBERS + NUMBERS_BEYOND).flat_map(|round| {
            let all = self.0.iter().enumerate();
            all.filter_map(move |(at, known)| Some((at, known.pid, known.guess(round)?)))
        });
        let has_it = |(_, pid, number): &(usize, Pid, i32)| {
            let seen = descriptors::socket_at(*pid, *number);
            seen.is_ok_and(|seen| seen == Some(inode))
        };
        let (at, _, number) = guesses.take(MOST_LOOKS).find(has_it)?;
        let mut known = self.0.remove(at)?;
        // The pid belongs to no other process before this one has ended.
        let watch = known.watch.upgrade().filter(|watch| !watch.has_ended())?;
        known.had(number);
        self.0.push_front(known);
        Some(watch)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_is_found_where_it_had_a_connection_for_as_long_as_somebody_holds_on_to_it() {
        let (one, _other) = UnixStream::pair().unwrap();
        let number = one.as_raw_fd();
        let inode = fs::metadata(format!("/proc/self/fd/{number}")).unwrap().ino();
        let watch = Rc::new(ProcessWatch::of(Pid::own()).unwrap());
        let mut known = KnownProcesses::default();
        known.add(&watch, None);
        assert!(known.holder(inode).is_none(), "it had none yet");
        known.add(&watch, Some(number));
        known.add(&watch, None);
        let is_it = |found: Option<Rc<ProcessWatch>>| found.is_some_and(|found| Rc::ptr_eq(&found, &watch));
        assert!(is_it(known.holder(inode)));
        assert!(is_it(known.hold_on(Pid::own())));
        assert!(known.holder(u64::MAX).is_none());
        assert_eq!(known.pids(), [Pid::own()]);
        drop(watch);
        assert!(known.holder(inode).is_none());
        assert!(known.pids().is_empty());
    }

    #[test]
    fn the_last_number_is_the_first_guess_and_those_beyond_the_highest_are_the_last_ones() {
        let mut known = KnownProcess {
            pid: Pid::own(),
            watch: Weak::new(),
            numbers: VecDeque::new(),
        };
        assert_eq!(known.guess(0), None);
        [9, 5, 7].into_iter().for_each(|number| known.had(number));
        let guesses: Vec<_> = (0..6).map(|round| known.guess(round)).collect();
        assert_eq!(guesses, [Some(7), Some(5), Some(9), Some(10), Some(11), None]);
    }
}
