//! Requests whose answers are late, and the usual time of an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{CallId, Moment};
use crate::backend::answer_times::AnswerTimes;
use crate::backend::siblings::Siblings;

/// Of so many requests on their way one may be there for the second time; one in any case.
const REQUESTS_FOR_EACH_HEDGE: usize = 10;

/// Requests whose answers are missed before their time is over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Hedges {
    /// How long answers take.
    pub(super) times: AnswerTimes,
    /// Those that are on their way more than once.
    pub(crate) siblings: Siblings,
    /// When each of them went out. Numbers grow with time, so the oldest comes first.
    sent: BTreeMap<CallId, Moment>,
    /// Those that nothing was done about yet.
    watched: BTreeSet<CallId>,
    /// Those whose connections we closed: that they have no answer tells nothing about the backend.
    reset: BTreeSet<CallId>,
}

impl Hedges {
    /// Watches a request for which there is a rule if it hangs.
    pub(super) fn watches(&mut self, call: CallId, now: Moment) {
        self.sent.insert(call, now);
        self.watched.insert(call);
    }

    /// A request went out beside another one.
    pub(super) fn joins(&mut self, first: CallId, sibling: CallId, now: Moment) {
        self.siblings.joins(first, sibling);
        self.sent.insert(sibling, now);
        self.done_about(first);
    }

    /// The rule for this request was applied.
    pub(super) fn done_about(&mut self, call: CallId) {
        self.watched.remove(&call);
    }

    /// Its connection is closed.
    pub(super) fn resets(&mut self, call: CallId) {
        self.watched.remove(&call);
        self.reset.insert(call);
    }

    /// Whether that was so.
    pub(crate) fn was_reset(&mut self, call: CallId) -> bool {
        self.reset.remove(&call)
    }

    /// The request is answered, or given up. Returns when it went out.
    pub(super) fn forget(&mut self, call: CallId) -> Option<Moment> {
        self.watched.remove(&call);
        self.sent.remove(&call)
    }

    /// When the newest of this request that has no answer went out.
    pub(crate) fn newest(&self, first: CallId) -> Option<Moment> {
        let open = self.siblings.open(first);
        open.iter().filter_map(|call| self.sent.get(call)).max().copied()
    }

    /// Whether another request may go out for the second time, with so many on their way.
    pub(super) fn has_room(&self, on_their_way: usize) -> bool {
        self.siblings.hedges() < (on_their_way / REQUESTS_FOR_EACH_HEDGE).max(1)
    }

    /// Whether there is anything to watch.
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// The watched requests, with the time when each went out, the oldest first.
    pub(super) fn watched(&self) -> impl Iterator<Item = (CallId, Moment)> {
        let sent = |call: &CallId| self.sent.get(call).map(|at| (*call, *at));
        self.watched.iter().filter_map(sent)
    }

    /// Whether the oldest of them has been without an answer for this long.
    pub(super) fn is_one_without_answer_for(&self, time: Duration, now: Moment) -> bool {
        self.watched()
            .next()
            .is_some_and(|(_, sent_at)| sent_at.elapsed(now) >= time)
    }

    /// Whether all that is watched, or went out twice, is one of these.
    pub(crate) fn are_all(&self, is_on_its_way: impl Fn(CallId) -> bool) -> bool {
        let watched = self
            .watched
            .iter()
            .all(|call| self.sent.contains_key(call) && is_on_its_way(*call));
        let sent = |call: &CallId| is_on_its_way(*call) || self.siblings.is_hedge(*call);
        watched
            && self.reset.iter().all(|call| is_on_its_way(*call))
            && self.sent.keys().all(sent)
            && self.siblings.firsts().all(is_on_its_way)
    }
}
