//! Attempts at the addresses of a name, each started without waiting for the one before to fail
//! (RFC 8305). An address that does not answer costs a quarter of a second.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use nix::errno::Errno;

use crate::daemon::backend::fault::Fault;
use ojs_lifecycle::api::Moment;

/// Between two attempts.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(250);

/// An address without an answer after this time would delay the next request too.
const LATE_AFTER: Duration = Duration::from_millis(100);

/// Most addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

/// A connection in the making.
#[derive(Debug)]
pub(in crate::daemon) struct Dial {
    left: VecDeque<SocketAddr>,
    /// The address that is tried next or now, and since when.
    turn: Option<(SocketAddr, Moment)>,
    /// The attempts under way.
    attempts: Vec<Attempt>,
    /// When the next one begins, if none was successful by then.
    next_at: Moment,
    /// Why an attempt failed: the most informative fault.
    fault: Option<Fault>,
}

/// An attempt under way.
#[derive(Debug)]
struct Attempt {
    slot: usize,
    address: SocketAddr,
    began: Moment,
}

impl Dial {
    /// To one of these addresses.
    pub(in crate::daemon) fn new(addresses: &[SocketAddr], now: Moment) -> Self {
        Self {
            left: by_turns(addresses),
            turn: None,
            attempts: Vec::new(),
            next_at: now,
            fault: None,
        }
    }

    /// The next address, if it is time for it.
    pub(in crate::daemon) fn next(&mut self, now: Moment) -> Option<SocketAddr> {
        if self.next_at > now && !self.attempts.is_empty() {
            return None;
        }
        self.next_at = now.after(BETWEEN_ATTEMPTS);
        let address = self.left.pop_front()?;
        self.turn = Some((address, now));
        Some(address)
    }

    /// When the next address has its turn, if there is one.
    pub(in crate::daemon) fn next_at(&self) -> Option<Moment> {
        (!self.left.is_empty()).then_some(self.next_at)
    }

    /// Notes that the attempt at the current address has begun, in this slot.
    pub(in crate::daemon) fn began(&mut self, slot: usize) {
        let attempt = self.turn.map(|(address, began)| Attempt { slot, address, began });
        self.attempts.extend(attempt);
    }

    /// An attempt failed; the next one need not wait.
    pub(in crate::daemon) fn failed(&mut self, slot: Option<usize>, fault: Fault, now: Moment) {
        self.attempts.retain(|attempt| Some(attempt.slot) != slot);
        self.next_at = now;
        // A refusal proves that the host is there. A missing address family on this machine proves
        // nothing.
        if self.fault.as_ref().is_none_or(is_no_way) {
            self.fault = Some(fault);
        }
    }

    /// The peer has answered in this slot, so no further address is tried. Returns the attempts
    /// that are not needed any more.
    pub(in crate::daemon) fn settle(&mut self, slot: usize) -> Vec<usize> {
        self.left.clear();
        let (winner, others) = std::mem::take(&mut self.attempts)
            .into_iter()
            .partition(|attempt| attempt.slot == slot);
        self.attempts = winner;
        others.into_iter().map(|attempt| attempt.slot).collect()
    }

    /// The addresses without an answer for so long that others go before them. The address of the
    /// slot `besides` has answered, so it is not one of them.
    pub(in crate::daemon) fn late(&self, besides: Option<usize>, now: Moment) -> Vec<SocketAddr> {
        let is_late = |attempt: &&Attempt| Some(attempt.slot) != besides && attempt.began.elapsed(now) >= LATE_AFTER;
        let late = self.attempts.iter().filter(is_late);
        late.map(|attempt| attempt.address).collect()
    }

    /// Whether an address has not answered for so long that it may not answer at all.
    pub(in crate::daemon) fn is_late(&self, now: Moment) -> bool {
        !self.late(None, now).is_empty()
    }

    /// Whether no attempt is left, and why.
    pub(in crate::daemon) fn is_over(&mut self) -> Option<Fault> {
        let is_over = self.left.is_empty() && self.attempts.is_empty();
        is_over.then(|| self.fault.take().unwrap_or(Fault::NoHost))
    }

    /// The slots of the attempts under way.
    pub(in crate::daemon) fn attempts(&self) -> impl Iterator<Item = usize> {
        self.attempts.iter().map(|attempt| attempt.slot)
    }
}

fn is_no_way(fault: &Fault) -> bool {
    let Fault::Io(error) = fault else { return false };
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL)
    )
}

/// Alternates the two families, beginning with that of the first address.
fn by_turns(addresses: &[SocketAddr]) -> VecDeque<SocketAddr> {
    let is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let of = |first: bool| {
        addresses
            .iter()
            .filter(move |address| (address.is_ipv6() == is_v6) == first)
    };
    let (mut first, mut second) = (of(true), of(false));
    let mut ordered = VecDeque::new();
    while ordered.len() < MOST_ADDRESSES {
        let before = ordered.len();
        ordered.extend(first.next());
        ordered.extend(second.next());
        if ordered.len() == before {
            break;
        }
    }
    ordered.truncate(MOST_ADDRESSES);
    ordered
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    #[test]
    fn the_families_take_turns_a_quarter_of_a_second_apart() {
        let all = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"]);
        let mut dial = Dial::new(&all, at(0));
        assert_eq!(dial.next(at(0)), Some(all[0]));
        dial.began(7);
        assert_eq!(dial.next(at(249)), None);
        assert_eq!(dial.next_at(), Some(at(250)));
        assert_eq!(dial.next(at(250)), Some(all[3]));
        dial.began(8);
        dial.failed(Some(8), Fault::Closed, at(300));
        assert_eq!(dial.next(at(300)), Some(all[1]), "after a failure at once");
        assert!(dial.attempts().eq([7]));
    }

    #[test]
    fn an_address_that_does_not_answer_soon_is_late_and_the_one_that_did_is_not() {
        let all = addresses(&["10.0.0.1:1", "10.0.0.2:1"]);
        let mut dial = Dial::new(&all, at(0));
        for (slot, millis) in [(7, 0), (8, 250)] {
            dial.next(at(millis)).unwrap();
            dial.began(slot);
        }
        assert!(dial.late(None, at(99)).is_empty());
        assert_eq!(dial.late(Some(8), at(400)), [all[0]]);
        assert_eq!(dial.settle(8), [7]);
        assert!(dial.attempts().eq([8]));
    }

    #[test]
    fn what_is_told_is_the_failure_that_says_most() {
        let mut dial = Dial::new(&addresses(&["10.0.0.1:1", "[::1]:1"]), at(0));
        let os = |errno: Errno| Fault::Io(io::Error::from_raw_os_error(errno as i32));
        for errno in [Errno::ENETUNREACH, Errno::ECONNREFUSED] {
            assert!(dial.is_over().is_none());
            dial.next(at(0)).unwrap();
            dial.began(1);
            dial.failed(Some(1), os(errno), at(0));
        }
        let fault = dial.is_over().unwrap();
        assert!(matches!(fault, Fault::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused));
    }

    #[test]
    fn a_name_with_very_many_addresses_is_tried_at_some_of_them() {
        let many: Vec<SocketAddr> = (0..200).map(|port| SocketAddr::from(([10, 0, 0, 1], port))).collect();
        assert_eq!(by_turns(&many).len(), MOST_ADDRESSES);
    }
}
