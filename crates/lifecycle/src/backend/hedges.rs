//! Requests whose answers are late, and the usual time of an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{CallId, Moment};
use crate::backend::answer_times::AnswerTimes;
use crate::backend::siblings::Siblings;

/// One hedge is allowed for this many requests in flight, and one in any case.
const REQUESTS_FOR_EACH_HEDGE: usize = 10;

/// Requests that may hang before they time out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Hedges {
    /// Recent answer times of the backend.
    pub(super) times: AnswerTimes,
    /// Requests that are in flight more than once.
    pub(crate) siblings: Siblings,
    /// When each request was sent. Numbers grow with time, so the oldest request is the first.
    sent: BTreeMap<CallId, Moment>,
    /// Requests that ojs-init has not acted on yet.
    watched: BTreeSet<CallId>,
    /// Requests whose connections ojs-init closed. A missing answer to one of these proves nothing
    /// about the backend.
    reset: BTreeSet<CallId>,
}

impl Hedges {
    /// Watches a request for which there is a rule if it hangs.
    pub(super) fn watches(&mut self, call: CallId, now: Moment) {
        self.sent.insert(call, now);
        self.watched.insert(call);
    }

    /// A hedge was sent beside another request.
    pub(super) fn joins(&mut self, first: CallId, sibling: CallId, now: Moment) {
        self.siblings.joins(first, sibling);
        self.sent.insert(sibling, now);
        self.done_about(first);
    }

    /// The rule for this request was applied.
    pub(super) fn done_about(&mut self, call: CallId) {
        self.watched.remove(&call);
    }

    /// ojs-init closed the connection of this request.
    pub(super) fn resets(&mut self, call: CallId) {
        self.watched.remove(&call);
        self.reset.insert(call);
    }

    /// Whether ojs-init closed the connection of this request. Forgets it.
    pub(crate) fn was_reset(&mut self, call: CallId) -> bool {
        self.reset.remove(&call)
    }

    /// The request was answered or given up. Returns when it was sent.
    pub(super) fn forget(&mut self, call: CallId) -> Option<Moment> {
        self.watched.remove(&call);
        self.sent.remove(&call)
    }

    /// When the newest unanswered copy of this request was sent.
    pub(crate) fn newest(&self, first: CallId) -> Option<Moment> {
        let open = self.siblings.open(first);
        open.iter().filter_map(|call| self.sent.get(call)).max().copied()
    }

    /// Whether another hedge may be sent, with this many requests in flight.
    pub(super) fn has_room(&self, on_their_way: usize) -> bool {
        self.siblings.hedges() < (on_their_way / REQUESTS_FOR_EACH_HEDGE).max(1)
    }

    /// Whether no request is watched.
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// The watched requests and when each was sent, the oldest first.
    pub(super) fn watched(&self) -> impl Iterator<Item = (CallId, Moment)> {
        let sent = |call: &CallId| self.sent.get(call).map(|at| (*call, *at));
        self.watched.iter().filter_map(sent)
    }

    /// Whether the oldest watched request has been without an answer for this long.
    pub(super) fn is_one_without_answer_for(&self, time: Duration, now: Moment) -> bool {
        self.watched()
            .next()
            .is_some_and(|(_, sent_at)| sent_at.elapsed(now) >= time)
    }

    /// Whether every watched or repeated request is in flight.
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
