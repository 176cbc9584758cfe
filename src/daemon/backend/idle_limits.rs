//! Idle limits that peers do not announce. Some proxies close a connection after less idle time
//! than is usual. To ojs-init that looks like a server that stops, but it happens again at the same
//! idle age.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ojs_lifecycle::api::Moment;

/// Two kept connections to one address that end within this time belong to one event.
pub(in crate::daemon::backend) const ENDS_TOGETHER: Duration = Duration::from_secs(1);

/// Largest difference between the idle ages of two ends by one idle limit. A peer closes by a
/// timer, and ojs-init notices it late.
const SAME_AGE_WITHIN: Duration = Duration::from_millis(250);

/// Most addresses in memory. The one without an early end for the longest time is forgotten first.
const MOST_ADDRESSES: usize = 16;

/// The knowledge about one address.
#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    /// When the last event of early ends began.
    ended_at: Moment,
    /// The idle age of its first connection.
    age: Duration,
    /// The idle limit, after two events had about the same age.
    limit: Option<Duration>,
}

/// The idle limits of all addresses.
#[derive(Debug, Default)]
pub(in crate::daemon) struct IdleLimits {
    /// In the order of their last early ends.
    peers: VecDeque<Peer>,
}

impl IdleLimits {
    /// Notes that a peer has closed a kept connection early, at this idle age. Returns true if its
    /// idle limit explains that. Limit: a server that stops twice, each time with a connection of
    /// the same idle age, counts as one with an idle limit.
    pub(in crate::daemon::backend) fn explain(&mut self, address: SocketAddr, age: Duration, now: Moment) -> bool {
        let index = self.peers.iter().position(|peer| peer.address == address);
        let mut peer = index.and_then(|index| self.peers.remove(index)).unwrap_or(Peer {
            address,
            ended_at: now,
            age,
            limit: None,
        });
        if peer.ended_at.elapsed(now) >= ENDS_TOGETHER {
            if age.abs_diff(peer.age) <= SAME_AGE_WITHIN {
                let limit = age.min(peer.age);
                peer.limit = Some(peer.limit.map_or(limit, |known| known.min(limit)));
            }
            peer.ended_at = now;
            peer.age = age;
        }
        let is_explained = peer
            .limit
            .is_some_and(|limit| age.saturating_add(SAME_AGE_WITHIN) >= limit);
        self.peers.push_back(peer);
        if self.peers.len() > MOST_ADDRESSES {
            self.peers.pop_front();
        }
        is_explained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], number))
    }

    fn explains(limits: &mut IdleLimits, number: u16, age: u64, at: u64) -> bool {
        let at = Moment::new(Duration::from_millis(at));
        limits.explain(peer(number), Duration::from_millis(age), at)
    }

    #[test]
    fn a_second_end_at_about_the_same_idle_age_is_explained_and_a_younger_one_is_not() {
        let mut limits = IdleLimits::default();
        assert!(!explains(&mut limits, 1, 2_000, 10_000));
        assert!(!explains(&mut limits, 2, 2_100, 20_000), "another address");
        assert!(explains(&mut limits, 1, 2_200, 20_000));
        assert!(explains(&mut limits, 1, 3_500, 30_000));
        assert!(!explains(&mut limits, 1, 1_000, 40_000));
        assert!(explains(&mut limits, 1, 1_990, 50_000));
    }

    #[test]
    fn ends_of_one_event_explain_nothing_and_neither_do_two_of_different_ages() {
        let mut limits = IdleLimits::default();
        assert!(!explains(&mut limits, 1, 500, 10_000));
        assert!(!explains(&mut limits, 1, 500, 10_900));
        assert!(!explains(&mut limits, 1, 900, 20_000));
        assert!(!explains(&mut limits, 1, 500, 20_000));
    }

    #[test]
    fn however_many_addresses_there_are_only_so_many_are_remembered() {
        let mut limits = IdleLimits::default();
        for number in 0..100 {
            explains(&mut limits, number, 500, 10_000);
        }
        assert_eq!(limits.peers.len(), MOST_ADDRESSES);
        assert!(explains(&mut limits, 99, 500, 20_000));
        assert!(!explains(&mut limits, 0, 500, 20_000));
    }
}
