//! Connections that no request has at the moment. The one that was used last is used first, so the
//! others age and are closed.
//!
//! The connection of the last heartbeat is reserved for the next one. Then a heartbeat is not late
//! if other connections hang, or if no further one can be opened.

use std::net::SocketAddr;
use std::time::Duration;

use ojs_lifecycle::api::{Lane, Moment};

/// Most connections that are kept without a request: as many as are in use when all is well and
/// there is much to do.
const MOST_KEPT: usize = 80;

/// How long a connection is kept. No timer wakes the loop for it: it is closed at the next look.
const KEPT_LIMIT: Duration = Duration::from_secs(15);

/// How long a backend surely keeps a connection if it announces no time. The shortest usual time is
/// 5 s.
const USUAL_KEEP_ALIVE: Duration = Duration::from_secs(4);

/// Margin below the time that a backend announces, because the request is on its way for some of
/// it.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// Age from which on a connection is replaced: its name may have got another address.
const RENEWED_AFTER: Duration = Duration::from_secs(5 * 60);

/// Between two searches for connections that are kept for too long.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// A kept connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeptConnection {
    slot: usize,
    since: Moment,
    /// The backend does not close it for being unused before this.
    safe_until: Moment,
    /// The connection is too old from then on.
    old_at: Moment,
    /// Only heartbeats and their like get this one.
    is_reserved: bool,
}

/// The history of a connection that is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) struct Used {
    /// Since when it is there.
    pub(in crate::daemon) since: Moment,
    /// How long the backend keeps the connection without a request, if it announces that.
    pub(in crate::daemon) keep_alive: Option<Duration>,
    /// The kind of its last request.
    pub(in crate::daemon) lane: Lane,
}

impl Used {
    /// Until when the backend surely keeps the connection, if it carries nothing from now on.
    pub(in crate::daemon) fn safe_until(&self, now: Moment) -> Moment {
        let margin = |said: Duration| said.saturating_sub(KEEP_ALIVE_MARGIN);
        now.after(self.keep_alive.map_or(USUAL_KEEP_ALIVE, margin))
    }
}

/// The connection that a request wants.
#[derive(Debug, Clone, Copy)]
pub(in crate::daemon) struct Wanted {
    /// The kind of the request.
    pub(in crate::daemon) lane: Lane,
    /// The backend may get it twice.
    pub(in crate::daemon) may_come_twice: bool,
    /// A kept connection will do.
    pub(in crate::daemon) takes_kept: bool,
    /// A kept connection must have carried an answer since then.
    pub(in crate::daemon) used_since: Option<Moment>,
}

/// A kept connection that the peer has closed sooner than it announced, or than is usual.
#[derive(Debug, Clone, Copy)]
pub(in crate::daemon) struct EarlyEnd {
    /// The address that it led to.
    pub(in crate::daemon) address: SocketAddr,
    /// When it was closed.
    pub(in crate::daemon) at: Moment,
}

/// The kept connections, the one that was used last at the end.
#[derive(Debug, Default)]
pub(in crate::daemon) struct KeptConnections {
    kept: Vec<KeptConnection>,
    looked: Option<Moment>,
}

impl KeptConnections {
    /// Keeps this connection. Returns the slot of one to close, if there are too many or this one
    /// is too old.
    pub(in crate::daemon) fn keep(&mut self, slot: usize, used: Used, now: Moment) -> Option<usize> {
        let old_at = used.since.after(RENEWED_AFTER);
        if old_at <= now {
            return Some(slot);
        }
        let is_reserved = used.lane == Lane::Beat;
        if is_reserved {
            self.kept.iter_mut().for_each(|kept| kept.is_reserved = false);
        }
        self.kept.push(KeptConnection {
            slot,
            since: now,
            safe_until: used.safe_until(now),
            old_at,
            is_reserved,
        });
        if self.kept.len() > MOST_KEPT {
            self.oldest()
        } else {
            None
        }
    }

    /// Takes a connection that fits the request. A request that may not be sent twice gets none
    /// that the backend may just be closing.
    pub(in crate::daemon) fn take(&mut self, wanted: Wanted, now: Moment) -> Option<usize> {
        let Wanted {
            lane,
            may_come_twice,
            used_since,
            ..
        } = wanted;
        let is_beat = lane == Lane::Beat;
        let lives =
            |kept: &KeptConnection| now < kept.old_at && used_since.is_none_or(|used_since| kept.since > used_since);
        let is_safe = |kept: &KeptConnection| may_come_twice || now < kept.safe_until;
        let fits = |kept: &KeptConnection| lives(kept) && is_safe(kept) && kept.is_reserved == is_beat;
        let mut index = self.kept.iter().rposition(fits);
        if is_beat && index.is_none() {
            index = self.kept.iter().rposition(lives);
        }
        Some(self.kept.remove(index?).slot)
    }

    /// Removes the connections that are unused since then; the heartbeat's one only with
    /// `with_reserved`.
    pub(in crate::daemon) fn unused_since(&mut self, time: Moment, with_reserved: bool) -> Vec<usize> {
        let is_unused = |kept: &KeptConnection| kept.since <= time && (with_reserved || !kept.is_reserved);
        let slots = self.kept.iter().filter(|kept| is_unused(kept)).map(|kept| kept.slot);
        let slots = slots.collect();
        self.kept.retain(|kept| !is_unused(kept));
        slots
    }

    /// Removes the connection in this slot.
    pub(in crate::daemon) fn forget(&mut self, slot: usize) {
        self.kept.retain(|kept| kept.slot != slot);
    }

    /// The slots of the kept connections.
    pub(in crate::daemon) fn slots(&self) -> impl Iterator<Item = usize> {
        self.kept.iter().map(|kept| kept.slot)
    }

    /// Whether there is none.
    pub(in crate::daemon) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether this one is kept.
    pub(in crate::daemon) fn has(&self, slot: usize) -> bool {
        self.kept.iter().any(|kept| kept.slot == slot)
    }

    /// Removes and returns the connections that were kept for too long, at most once in
    /// `BETWEEN_LOOKS`.
    pub(in crate::daemon) fn outdated(&mut self, now: Moment) -> Vec<usize> {
        if self.looked.is_some_and(|looked| looked.elapsed(now) < BETWEEN_LOOKS) {
            return Vec::new();
        }
        self.looked = Some(now);
        let is_outdated = |kept: &KeptConnection| now >= kept.old_at || kept.since.elapsed(now) >= KEPT_LIMIT;
        let slots = self.kept.iter().filter(|kept| is_outdated(kept)).map(|kept| kept.slot);
        let slots = slots.collect();
        self.kept.retain(|kept| !is_outdated(kept));
        slots
    }

    /// The connection to close first if there is no room for another; that of the heartbeat is
    /// last.
    pub(in crate::daemon) fn oldest(&mut self) -> Option<usize> {
        let index = self.kept.iter().position(|kept| !kept.is_reserved).unwrap_or(0);
        (index < self.kept.len()).then(|| self.kept.remove(index).slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ojs_lifecycle::api::Endpoint;

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    fn used(since: u64, keep_alive: Option<u64>, lane: Lane) -> Used {
        Used {
            since: at(since),
            keep_alive: keep_alive.map(Duration::from_secs),
            lane,
        }
    }

    fn of(endpoint: Endpoint, used_since: Option<Moment>) -> Wanted {
        Wanted {
            lane: endpoint.lane(),
            may_come_twice: endpoint.may_come_twice(),
            takes_kept: true,
            used_since,
        }
    }

    fn report(since: u64) -> Used {
        used(since, None, Lane::Report)
    }

    #[test]
    fn the_last_one_goes_first_and_a_request_that_may_come_once_gets_no_doubtful_one() {
        let mut kept = KeptConnections::default();
        for (slot, millis) in [(1, 0), (2, 10)] {
            assert_eq!(kept.keep(slot, report(0), at(millis)), None);
        }
        assert_eq!(kept.take(of(Endpoint::Fetch, None), at(4_005)), Some(2));
        assert_eq!(kept.take(of(Endpoint::Nack, None), at(4_005)), None);
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(4_005)), Some(1));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(4_005)), None);
    }

    #[test]
    fn what_the_backend_says_counts() {
        let mut kept = KeptConnections::default();
        kept.keep(1, used(0, Some(60), Lane::Fetch), at(0));
        kept.keep(2, used(0, Some(2), Lane::Fetch), at(0));
        assert_eq!(kept.take(of(Endpoint::Fetch, None), at(1_500)), Some(1));
        assert_eq!(kept.take(of(Endpoint::Fetch, None), at(1_500)), None);
    }

    #[test]
    fn the_connection_of_the_last_heartbeat_is_for_the_next_one() {
        let mut kept = KeptConnections::default();
        kept.keep(1, used(0, None, Lane::Beat), at(0));
        kept.keep(2, report(0), at(1));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(2)), Some(2));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(2)), None);
        assert_eq!(kept.take(of(Endpoint::Heartbeat, None), at(10_000)), Some(1));
        // Without a reserved connection a heartbeat gets any; of several the last one counts.
        kept.keep(2, report(0), at(10_000));
        assert_eq!(kept.take(of(Endpoint::Heartbeat, None), at(10_000)), Some(2));
        kept.keep(1, used(0, None, Lane::Beat), at(10_000));
        kept.keep(2, used(0, None, Lane::Beat), at(10_000));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(10_000)), Some(1));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(10_000)), None);
    }

    #[test]
    fn an_old_one_is_not_used_and_what_is_not_used_is_closed_when_somebody_looks() {
        let mut kept = KeptConnections::default();
        let five_minutes = 5 * 60 * 1_000;
        assert_eq!(kept.keep(1, report(0), at(five_minutes)), Some(1));
        kept.keep(2, report(0), at(five_minutes - 1));
        assert_eq!(kept.take(of(Endpoint::Ack, None), at(five_minutes)), None);
        assert_eq!(kept.outdated(at(five_minutes)), [2]);
        kept.keep(3, report(five_minutes), at(five_minutes));
        assert!(kept.outdated(at(five_minutes + 14_999)).is_empty());
        assert!(
            kept.outdated(at(five_minutes + 15_000)).is_empty(),
            "looked a moment ago"
        );
        assert_eq!(kept.outdated(at(five_minutes + 16_000)), [3]);
    }

    #[test]
    fn what_hangs_elsewhere_gets_one_that_was_used_since_and_the_others_go_when_nothing_comes() {
        let mut kept = KeptConnections::default();
        kept.keep(1, used(0, None, Lane::Beat), at(0));
        for (slot, millis) in [(2, 0), (3, 20)] {
            kept.keep(slot, report(0), at(millis));
        }
        assert_eq!(kept.take(of(Endpoint::Ack, Some(at(10))), at(30)), Some(3));
        assert_eq!(kept.take(of(Endpoint::Ack, Some(at(10))), at(30)), None);
        assert_eq!(kept.take(of(Endpoint::Heartbeat, Some(at(10))), at(30)), None);
        assert_eq!(kept.unused_since(at(10), false), [2]);
        assert_eq!(kept.unused_since(at(10), true), [1]);
    }

    #[test]
    fn there_are_never_too_many() {
        let mut kept = KeptConnections::default();
        let closed: Vec<usize> = (0..MOST_KEPT + 2)
            .filter_map(|slot| kept.keep(slot, report(0), at(0)))
            .collect();
        assert_eq!(closed, [0, 1]);
        kept.forget(2);
        assert_eq!(kept.oldest(), Some(3));
    }

    #[test]
    fn the_one_of_the_heartbeat_is_closed_last() {
        let mut kept = KeptConnections::default();
        kept.keep(1, used(0, None, Lane::Beat), at(0));
        kept.keep(2, report(0), at(0));
        assert_eq!([kept.oldest(), kept.oldest(), kept.oldest()], [Some(2), Some(1), None]);
    }
}
