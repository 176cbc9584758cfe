//! How many requests may be under way at the same time, and how many may wait for their turn. Each
//! kind has its own bounds, so a FETCH that hangs delays no heartbeat, and a thousand reports delay
//! neither.

use std::collections::VecDeque;

use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Lane, MOST_STREAMS};

/// Most reports under way at once; as many again stand in for those that hang.
const MOST_REPORTS: usize = 64;

/// Fewest reports that may wait.
const FEWEST_WAITING_REPORTS: usize = 64;

/// Most registers, heartbeats and deregisters under way. A new worker's register, an old one's
/// deregister and a heartbeat may hang at once, and the last heartbeat waits for none of them.
const MOST_BEATS: usize = 8;

/// Most FETCHes under way at once, and that wait: the lifecycle never sends more.
const MOST_FETCHES: usize = 2;

/// Most of progress, checkpoints and the manifest, and of those that wait: they can.
const MOST_SIDE: usize = 4;
const MOST_WAITING_SIDE: usize = 256;

/// Most streams of events: one for each queue, and one for all together.
const MOST_STREAMS_AT_ONCE: usize = MOST_STREAMS + 1;

/// The answer to a request that enters its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum LaneEntry {
    /// The request can start now.
    Now,
    /// The request waits for another one to end.
    Later,
    /// Neither: as many wait as may.
    Refused,
}

/// The requests of one lane.
#[derive(Debug)]
struct LaneState {
    under_way: usize,
    most_under_way: usize,
    /// So many more may start, in place of those that hang.
    stand_ins: usize,
    waiting: VecDeque<CallId>,
    most_waiting: usize,
}

impl LaneState {
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

    /// Starts the next waiting request.
    fn next(&mut self) -> Option<CallId> {
        if !self.has_room() {
            return None;
        }
        let next = self.waiting.pop_front();
        self.under_way += usize::from(next.is_some());
        next
    }
}

/// The requests of all lanes.
#[derive(Debug)]
pub(in crate::daemon) struct Lanes {
    beat: LaneState,
    fetch: LaneState,
    report: LaneState,
    side: LaneState,
    stream: LaneState,
}

impl Lanes {
    /// Lanes of a worker with so many jobs at once: each job may have a report under way and one
    /// that hangs.
    pub(in crate::daemon) fn new(concurrency: usize) -> Self {
        let waiting_reports = concurrency.saturating_mul(2).max(FEWEST_WAITING_REPORTS);
        Self {
            beat: LaneState::new(MOST_BEATS, MOST_BEATS),
            fetch: LaneState::new(MOST_FETCHES, MOST_FETCHES),
            report: LaneState::new(concurrency.saturating_mul(2).clamp(2, MOST_REPORTS), waiting_reports),
            side: LaneState::new(MOST_SIDE, MOST_WAITING_SIDE),
            stream: LaneState::new(MOST_STREAMS_AT_ONCE, 0),
        }
    }

    fn of(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Beat => &mut self.beat,
            Lane::Fetch => &mut self.fetch,
            Lane::Report => &mut self.report,
            Lane::Side => &mut self.side,
            Lane::Stream => &mut self.stream,
        }
    }

    /// Admits or queues a request.
    pub(in crate::daemon) fn enter(&mut self, lane: Lane, id: CallId) -> LaneEntry {
        let state = self.of(lane);
        if state.has_room() {
            state.under_way += 1;
            LaneEntry::Now
        } else if state.waiting.len() < state.most_waiting {
            state.waiting.push_back(id);
            LaneEntry::Later
        } else {
            LaneEntry::Refused
        }
    }

    /// Ends a request that was under way. Returns the one that starts instead.
    pub(in crate::daemon) fn leave(&mut self, lane: Lane) -> Option<CallId> {
        let state = self.of(lane);
        state.under_way = state.under_way.saturating_sub(1);
        if state.under_way < state.most_under_way {
            state.stand_ins = 0;
        }
        state.next()
    }

    /// True if reports wait for their turn.
    pub(in crate::daemon) fn has_waiting_reports(&self) -> bool {
        !self.report.waiting.is_empty()
    }

    /// So many reports hang. Returns the next report that starts in place of one of them.
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
        let mut lanes = Lanes::new(10);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(1)), LaneEntry::Now);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(2)), LaneEntry::Now);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(3)), LaneEntry::Later);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(4)), LaneEntry::Later);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(5)), LaneEntry::Refused);
        assert_eq!(lanes.enter(Lane::Beat, CallId(6)), LaneEntry::Now);
        assert_eq!(lanes.leave(Lane::Fetch), Some(CallId(3)));
        assert_eq!(lanes.enter(Lane::Fetch, CallId(7)), LaneEntry::Later);
        lanes.forget(Lane::Fetch, CallId(4));
        lanes.forget(Lane::Fetch, CallId(7));
        assert_eq!(lanes.leave(Lane::Fetch), None);
        assert_eq!(lanes.enter(Lane::Fetch, CallId(8)), LaneEntry::Now);
    }

    #[test]
    fn others_go_in_place_of_reports_that_hang_up_to_a_bound() {
        let mut lanes = Lanes::new(1_000);
        let now = (0..300)
            .filter(|id| lanes.enter(Lane::Report, CallId(*id)) == LaneEntry::Now)
            .count();
        assert_eq!(now, MOST_REPORTS);
        assert_eq!(lanes.stand_in(0), None);
        assert_eq!([lanes.stand_in(1), lanes.stand_in(1)], [Some(CallId(64)), None]);
        let more = std::iter::from_fn(|| lanes.stand_in(usize::MAX)).count();
        assert_eq!(more, MOST_REPORTS - 1);
        // Each that ends makes room for one, until all is as usual again.
        assert!(lanes.leave(Lane::Report).is_some());
        while lanes.leave(Lane::Report).is_some() {}
        for _ in 0..MOST_REPORTS {
            lanes.leave(Lane::Report);
        }
        let now = (0..300)
            .filter(|id| lanes.enter(Lane::Report, CallId(*id)) == LaneEntry::Now)
            .count();
        assert_eq!(now, 1);
    }
}
