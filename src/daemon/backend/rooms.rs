//! How many requests may be under way at the same time, and how many may wait for that. Each kind
//! has bounds of its own: a FETCH that hangs delays no heartbeat, and a thousand reports delay
//! neither.

use std::collections::VecDeque;

use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Lane, MOST_STREAMS};

/// Most reports under way at once; as many again stand in for those that hang.
const MOST_REPORTS: usize = 64;

/// Fewest reports that may wait.
const FEWEST_WAITING_REPORTS: usize = 64;

/// Most of register, heartbeat and deregister: further ones where the first one hangs. A new
/// worker's register, an old one's deregister and a heartbeat may hang at the same time, and the
/// last heartbeat waits for none of them.
const MOST_BEATS: usize = 8;

/// Most FETCHes under way at once, and that wait: the lifecycle never sends more.
const MOST_FETCHES: usize = 2;

/// Most of progress, checkpoints and the manifest, and of those that wait: they can.
const MOST_SIDE: usize = 4;
const MOST_WAITING_SIDE: usize = 256;

/// Most streams of events: one for each queue, and one for all together.
const MOST_STREAMS_AT_ONCE: usize = MOST_STREAMS + 1;

/// Whether there is room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Room {
    /// The request can go now.
    Now,
    /// The request waits for another one to end.
    Later,
    /// There is none.
    None,
}

/// The requests of one kind.
#[derive(Debug)]
struct LaneRoom {
    under_way: usize,
    most_under_way: usize,
    /// So many more may go, in place of those that hang.
    stand_ins: usize,
    waiting: VecDeque<CallId>,
    most_waiting: usize,
}

impl LaneRoom {
    fn new(most_under_way: usize, most_waiting: usize) -> Self {
        Self {
            under_way: 0,
            most_under_way,
            stand_ins: 0,
            waiting: VecDeque::new(),
            most_waiting,
        }
    }

    fn has_room(&self) -> bool {
        self.under_way < self.most_under_way + self.stand_ins
    }

    /// Lets the next one go.
    fn next(&mut self) -> Option<CallId> {
        if !self.has_room() {
            return None;
        }
        let next = self.waiting.pop_front();
        self.under_way += usize::from(next.is_some());
        next
    }
}

/// The requests of all kinds.
#[derive(Debug)]
pub(in crate::daemon) struct LaneRooms {
    beat: LaneRoom,
    fetch: LaneRoom,
    report: LaneRoom,
    side: LaneRoom,
    stream: LaneRoom,
}

impl LaneRooms {
    /// For a worker with so many jobs at once: each may have a report under way and one that hangs.
    pub(in crate::daemon) fn new(concurrency: usize) -> Self {
        let waiting_reports = concurrency.saturating_mul(2).max(FEWEST_WAITING_REPORTS);
        Self {
            beat: LaneRoom::new(MOST_BEATS, MOST_BEATS),
            fetch: LaneRoom::new(MOST_FETCHES, MOST_FETCHES),
            report: LaneRoom::new(concurrency.saturating_mul(2).clamp(2, MOST_REPORTS), waiting_reports),
            side: LaneRoom::new(MOST_SIDE, MOST_WAITING_SIDE),
            stream: LaneRoom::new(MOST_STREAMS_AT_ONCE, 0),
        }
    }

    fn of(&mut self, lane: Lane) -> &mut LaneRoom {
        match lane {
            Lane::Beat => &mut self.beat,
            Lane::Fetch => &mut self.fetch,
            Lane::Report => &mut self.report,
            Lane::Side => &mut self.side,
            Lane::Stream => &mut self.stream,
        }
    }

    /// A request comes.
    pub(in crate::daemon) fn enter(&mut self, lane: Lane, id: CallId) -> Room {
        let room = self.of(lane);
        if room.has_room() {
            room.under_way += 1;
            Room::Now
        } else if room.waiting.len() < room.most_waiting {
            room.waiting.push_back(id);
            Room::Later
        } else {
            Room::None
        }
    }

    /// A request ends that was under way; the one that goes instead.
    pub(in crate::daemon) fn leave(&mut self, lane: Lane) -> Option<CallId> {
        let room = self.of(lane);
        room.under_way = room.under_way.saturating_sub(1);
        if room.under_way < room.most_under_way {
            room.stand_ins = 0;
        }
        room.next()
    }

    /// Whether reports wait for others.
    pub(in crate::daemon) fn has_waiting_reports(&self) -> bool {
        !self.report.waiting.is_empty()
    }

    /// So many reports hang: the next one that goes in place of one of those, if there is one.
    pub(in crate::daemon) fn stand_in(&mut self, slow: usize) -> Option<CallId> {
        self.report.stand_ins = slow.min(self.report.most_under_way);
        self.report.next()
    }

    /// A request ends that waited.
    pub(in crate::daemon) fn forget(&mut self, lane: Lane, id: CallId) {
        self.of(lane).waiting.retain(|waiting| *waiting != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_when_another_one_ends_and_nobody_waits_without_a_bound() {
        let mut rooms = LaneRooms::new(10);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(1)), Room::Now);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(2)), Room::Now);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(3)), Room::Later);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(4)), Room::Later);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(5)), Room::None);
        assert_eq!(rooms.enter(Lane::Beat, CallId(6)), Room::Now);
        assert_eq!(rooms.leave(Lane::Fetch), Some(CallId(3)));
        assert_eq!(rooms.enter(Lane::Fetch, CallId(7)), Room::Later);
        rooms.forget(Lane::Fetch, CallId(4));
        rooms.forget(Lane::Fetch, CallId(7));
        assert_eq!(rooms.leave(Lane::Fetch), None);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(8)), Room::Now);
    }

    #[test]
    fn others_go_in_place_of_reports_that_hang_up_to_a_bound() {
        let mut rooms = LaneRooms::new(1_000);
        let now = (0..300)
            .filter(|id| rooms.enter(Lane::Report, CallId(*id)) == Room::Now)
            .count();
        assert_eq!(now, MOST_REPORTS);
        assert_eq!(rooms.stand_in(0), None);
        assert_eq!([rooms.stand_in(1), rooms.stand_in(1)], [Some(CallId(64)), None]);
        let more = std::iter::from_fn(|| rooms.stand_in(usize::MAX)).count();
        assert_eq!(more, MOST_REPORTS - 1);
        // Each that ends makes room for one, until all is as usual again.
        assert!(rooms.leave(Lane::Report).is_some());
        while rooms.leave(Lane::Report).is_some() {}
        for _ in 0..MOST_REPORTS {
            rooms.leave(Lane::Report);
        }
        let now = (0..300)
            .filter(|id| rooms.enter(Lane::Report, CallId(*id)) == Room::Now)
            .count();
        assert_eq!(now, 1);
    }
}
