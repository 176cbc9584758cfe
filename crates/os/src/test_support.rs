//! Helpers for the tests of several files in this folder.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, poll};

use crate::clock;

const LIMIT: Duration = Duration::from_secs(20);

/// Waits until no process has the other end of this pipe or Unix socket any more. That may be a
/// while after it was dropped. A child that another test starts at that moment has a copy of it
/// until the child has exec'ed, which is slow if the program is still on the disk.
pub fn wait_until_the_other_end_is_closed(end: impl AsFd) {
    let give_up = clock::monotonic() + LIMIT;
    let mut waiting = [PollFd::new(end.as_fd(), PollFlags::empty())];
    let is_closed = PollFlags::POLLHUP | PollFlags::POLLERR;
    loop {
        let left = give_up.saturating_sub(clock::monotonic());
        assert!(!left.is_zero(), "the other end is still open");
        let ready = poll(&mut waiting, clock::poll_timeout(left));
        if ready == Ok(1) && waiting[0].revents().is_some_and(|events| events.intersects(is_closed)) {
            return;
        }
    }
}
