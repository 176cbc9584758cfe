//! The requests in flight. Each has one record, whether it was sent once or again beside a copy
//! that hangs: the copies share one answer. The requests about each topic are kept together,
//! because every event counts them and there may be thousands of requests.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::ids::CallId;
use crate::api::{Call, Failure, FailureClass, Moment, Reply};
use crate::backend::purpose::{Purpose, Topic, WhenItHangs};
use crate::groups::Groups;

/// One hedge is allowed for this many requests in flight, and one in any case.
const REQUESTS_FOR_EACH_HEDGE: usize = 10;

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentCall {
    pub(super) purpose: Purpose,
    /// The call that is sent again if the request hangs; none: it may not be sent twice.
    pub(super) again: Option<Call>,
    /// The copies without an answer. When each was sent, if a rule is applied to it should it hang.
    open: Vec<(CallId, Option<Moment>)>,
    /// How often the request was sent.
    sent: usize,
    /// The weightiest failure so far.
    refusal: Option<Failure>,
    /// ojs-init closed its connection. A missing answer then proves nothing about the backend.
    pub(super) was_reset: bool,
}

impl SentCall {
    /// The rule for the request if it hangs.
    pub(super) fn when_it_hangs(&self) -> WhenItHangs {
        self.purpose.when_it_hangs(self.again.is_some())
    }

    /// The numbers of the copies without an answer.
    pub(crate) fn open(&self) -> impl Iterator<Item = CallId> {
        self.open.iter().map(|(copy, _)| *copy)
    }
}

/// The requests in flight, under the numbers of their first copies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Calls {
    all: BTreeMap<CallId, SentCall>,
    /// The first copy of each later copy.
    first_of: BTreeMap<CallId, CallId>,
    /// Requests with a rule that ojs-init has not applied yet. Numbers grow with time, so the
    /// oldest request is the first.
    watched: BTreeSet<CallId>,
    /// The requests about each topic. Only a handful is about no single job.
    by_topic: Groups<Topic, CallId>,
}

impl Calls {
    /// Adds a request. `again` is what may be sent again.
    pub(super) fn insert(&mut self, first: CallId, purpose: Purpose, again: Option<Call>, now: Moment) {
        self.by_topic.insert(purpose.topic(), first);
        let mut request = SentCall {
            purpose,
            again,
            open: Vec::new(),
            sent: 1,
            refusal: None,
            was_reset: false,
        };
        let has_rule = request.when_it_hangs() != WhenItHangs::Wait;
        request.open.push((first, has_rule.then_some(now)));
        if has_rule {
            self.watched.insert(first);
        }
        self.all.insert(first, request);
    }

    /// Removes a request that was answered or that is no longer waited for.
    pub(super) fn remove(&mut self, first: CallId) -> Option<SentCall> {
        let request = self.all.remove(&first)?;
        self.watched.remove(&first);
        for copy in request.open() {
            self.first_of.remove(&copy);
        }
        self.by_topic.remove(&request.purpose.topic(), &first);
        Some(request)
    }

    pub(crate) fn get(&self, first: CallId) -> Option<&SentCall> {
        self.all.get(&first)
    }

    /// The number of the first copy of this copy's request.
    pub(super) fn first(&self, copy: CallId) -> CallId {
        self.first_of.get(&copy).copied().unwrap_or(copy)
    }

    /// A hedge was sent beside the copies of this request.
    pub(super) fn joins(&mut self, first: CallId, copy: CallId, now: Moment) {
        self.watched.remove(&first);
        if let Some(request) = self.all.get_mut(&first) {
            request.open.push((copy, Some(now)));
            request.sent += 1;
            self.first_of.insert(copy, first);
        }
    }

    /// A copy was answered. Returns the answer that decides, this one or a weightier earlier one. A
    /// good answer, or "already completed", decides at once. A failure decides only when no other
    /// copy can still be answered.
    pub(super) fn decides(&mut self, first: CallId, copy: CallId, reply: Reply) -> Option<Reply> {
        self.first_of.remove(&copy);
        let Some(request) = self.all.get_mut(&first) else {
            return Some(reply);
        };
        request.open.retain(|(open, _)| *open != copy);
        let failure = match reply.failed() {
            // A good answer, or the job is completed, by a copy or by another worker: no other
            // answer is needed.
            None | Some(Failure::AlreadyCompleted) => return Some(reply),
            Some(failure) => failure,
        };
        let failure = request.refusal.map_or(failure, |before| weightier(before, failure));
        request.refusal = Some(failure);
        let was_sent_twice = request.sent > 1;
        let decisive = if matches!(failure, Failure::Conflict { .. }) && was_sent_twice {
            // The conflict may be with the other copy.
            Failure::Conflict { was_sent_twice }
        } else {
            failure
        };
        request.open.is_empty().then_some(Reply::Failed(decisive))
    }

    /// The rule for this request was applied.
    pub(super) fn done_about(&mut self, first: CallId) {
        self.watched.remove(&first);
    }

    /// ojs-init closed the connection of this request.
    pub(super) fn resets(&mut self, first: CallId) {
        self.watched.remove(&first);
        if let Some(request) = self.all.get_mut(&first) {
            request.was_reset = true;
        }
    }

    /// When this copy was sent, if it has no answer and its request has a rule.
    pub(super) fn sent_at(&self, copy: CallId) -> Option<Moment> {
        let request = self.all.get(&self.first(copy))?;
        request.open.iter().find(|(open, _)| *open == copy)?.1
    }

    /// When the newest unanswered copy of this request was sent.
    pub(crate) fn newest_sending(&self, first: CallId) -> Option<Moment> {
        self.all.get(&first)?.open.iter().filter_map(|(_, at)| *at).max()
    }

    /// How often this request was sent.
    pub(crate) fn times_sent(&self, first: CallId) -> usize {
        self.all.get(&first).map_or(1, |request| request.sent)
    }

    /// Whether another hedge may be sent.
    pub(super) fn have_room_for_a_hedge(&self) -> bool {
        self.first_of.len() < (self.all.len() / REQUESTS_FOR_EACH_HEDGE).max(1)
    }

    /// The watched requests and when each was sent, the oldest first.
    pub(super) fn watched(&self) -> impl Iterator<Item = (CallId, Moment)> {
        self.watched
            .iter()
            .filter_map(|call| Some((*call, self.sent_at(*call)?)))
    }

    /// All requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallId, &SentCall)> {
        self.all.iter().map(|(first, request)| (*first, request))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The requests that are about no single job, with their purposes.
    pub(crate) fn general(&self) -> impl Iterator<Item = (CallId, &Purpose)> {
        self.by_topic
            .of(&Topic::General)
            .iter()
            .filter_map(|first| Some((*first, &self.all.get(first)?.purpose)))
    }

    /// Whether a request about no single job with such a purpose is in flight.
    pub(crate) fn is_any(&self, is: impl Fn(&Purpose) -> bool) -> bool {
        self.general().any(|(_, purpose)| is(purpose))
    }

    /// Number of requests that a report, or a repeated delivery, waits for.
    pub(crate) fn reports(&self) -> usize {
        self.by_topic.of(&Topic::Report).len()
    }

    /// Number of requests that check a job that a heartbeat did not extend.
    pub(crate) fn checks(&self) -> usize {
        self.by_topic.of(&Topic::Check).len()
    }

    /// Compares the groups and the later copies with the requests.
    ///
    /// # Errors
    ///
    /// One of them differs.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut right = Self::default();
        for (first, request) in &self.all {
            right.insert(*first, request.purpose.clone(), None, Moment::default());
            let later = request.open().filter(|copy| copy != first);
            right.first_of.extend(later.map(|copy| (copy, *first)));
        }
        let is_watched_open = self.watched.iter().all(|first| self.sent_at(*first).is_some());
        if self.by_topic == right.by_topic && is_watched_open && self.first_of == right.first_of {
            Ok(())
        } else {
            Err("the requests that are on their way are counted wrongly".to_owned())
        }
    }
}

/// The failure that proves more: a verdict of the backend before none, and a request that may have
/// been carried out before one that was not. Of two equal ones the later one.
fn weightier(before: Failure, later: Failure) -> Failure {
    let weight = |failure: Failure| match failure.class() {
        FailureClass::Verdict => 3,
        FailureClass::NotNow | FailureClass::Outage if failure.was_never_sent() => 0,
        FailureClass::NotNow => 1,
        FailureClass::Outage => 2,
    };
    if weight(before) > weight(later) { before } else { later }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
