//! How many requests may be under way at the same time, and how many may wait for that. Each kind has bounds of its own: a
//! FETCH that hangs delays no heartbeat, and a thousand reports delay neither.

use std::collections::VecDeque;

use crate::lifecycle::api::Lane;
use crate::lifecycle::api::ids::CallId;

/// Most reports that are wanted under way at once; as many again stand in for those that hang.
const MOST_REPORTS: usize = 64;

/// Fewest reports that may wait.
const FEWEST_WAITING_REPORTS: usize = 64;

/// Most of register, heartbeat and deregister: further ones where the first one hangs. A new worker's register, an old
/// one's deregister and a heartbeat may hang at the same time, and the last heartbeat waits for none of them.
const MOST_BEATS: usize = 4;

/// Most of progress, checkpoints and the manifest, and of those that wait: they can.
const MOST_SIDE: usize = 4;
const MOST_WAITING_SIDE: usize = 256;

/// Whether there is room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Room {
    /// It can go now.
    Now,
    /// It waits for another one to end.
    Later,
    /// There is none.
    None,
}

/// The requests of one kind.
#[derive(Debug)]
struct LaneRoom {
    under_way: usize,
    most_under_way: usize,
    waiting: VecDeque<CallId>,
    most_waiting: usize,
}

impl LaneRoom {
    fn new(most_under_way: usize, most_waiting: usize) -> Self {
        Self {
            under_way: 0,
            most_under_way,
            waiting: VecDeque::new(),
            most_waiting,
        }
    }
}

/// The requests of all kinds.
#[derive(Debug)]
pub(in crate::daemon) struct LaneRooms {
    beat: LaneRoom,
    fetch: LaneRoom,
    report: LaneRoom,
    side: LaneRoom,
}

impl LaneRooms {
    /// For a worker with so many jobs at once: each may have a report under way and one that hangs.
    pub(in crate::daemon) fn new(concurrency: usize) -> Self {
        let waiting_reports = concurrency.saturating_mul(2).max(FEWEST_WAITING_REPORTS);
        Self {
            beat: LaneRoom::new(MOST_BEATS, MOST_BEATS),
            // There is never a reason for two at once.
            fetch: LaneRoom::new(1, 1),
            report: LaneRoom::new(concurrency.clamp(1, MOST_REPORTS) * 2, waiting_reports),
            side: LaneRoom::new(MOST_SIDE, MOST_WAITING_SIDE),
        }
    }

    fn of(&mut self, lane: Lane) -> &mut LaneRoom {
        match lane {
            Lane::Beat => &mut self.beat,
            Lane::Fetch => &mut self.fetch,
            Lane::Report => &mut self.report,
            Lane::Side => &mut self.side,
        }
    }

    /// A request comes.
    pub(in crate::daemon) fn enter(&mut self, lane: Lane, id: CallId) -> Room {
        let room = self.of(lane);
        if room.under_way < room.most_under_way {
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
        let next = room.waiting.pop_front();
        if next.is_none() {
            room.under_way = room.under_way.saturating_sub(1);
        }
        next
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
        assert_eq!(rooms.enter(Lane::Fetch, CallId(2)), Room::Later);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(3)), Room::None);
        assert_eq!(rooms.enter(Lane::Beat, CallId(4)), Room::Now);
        assert_eq!(rooms.leave(Lane::Fetch), Some(CallId(2)));
        assert_eq!(rooms.enter(Lane::Fetch, CallId(5)), Room::Later);
        rooms.forget(Lane::Fetch, CallId(5));
        assert_eq!(rooms.leave(Lane::Fetch), None);
        assert_eq!(rooms.enter(Lane::Fetch, CallId(6)), Room::Now);
    }
}
