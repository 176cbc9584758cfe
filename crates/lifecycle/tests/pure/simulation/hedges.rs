//! The reference for requests that are sent for the second time because the first one hangs.

use std::time::Duration;

use ojs_lifecycle::api::{Call, CallId, Endpoint, Failure, FailureClass, Reply, WorkerState};

use super::course::Course;
use super::promise::{Kept, promise};
use super::talk::{Pending, Talk};

impl Talk {
    /// The next request is sent for the second time.
    pub fn hedges(&mut self, endpoint: Endpoint, state: WorkerState) -> Kept {
        promise!(
            "only what may come twice goes out twice",
            endpoint.may_come_twice(),
            "{endpoint:?}"
        );
        let there = self.calls.values().filter(|pending| pending.first.is_some()).count();
        promise!(
            "one request in ten is there for the second time, unless the end is near",
            state == WorkerState::Terminate || there < (self.calls.len() / 10).max(1),
            "{there} of {}",
            self.calls.len()
        );
        self.is_hedging = true;
        Ok(())
    }

    /// Notes a request beside the oldest equal one that was sent once; at the end also beside one
    /// whose first got a bad answer.
    pub fn hedged(&mut self, id: CallId, call: &Call, give_up: Duration, state: WorkerState, now: Duration) -> Kept {
        let is_end = state == WorkerState::Terminate;
        let is_alone = |first: CallId| self.calls.values().all(|pending| pending.first != Some(first));
        let is_same = |(first, pending): &(&CallId, &Pending)| {
            pending.call == *call && (is_end || pending.first.is_none() && is_alone(**first))
        };
        let found = self.calls.iter().find(is_same);
        let first = found.map(|(id, pending)| (pending.first.unwrap_or(*id), pending.clone()));
        let Some((first, pending)) = first else {
            promise!("only what is on its way goes out twice", false, "{call:?}");
            return Ok(());
        };
        promise!(
            "nothing goes out twice while the backend answers nothing",
            is_end || self.answered_at.is_some_and(|at| at > pending.sent),
            "{call:?}"
        );
        let (first, sent) = (Some(first), now);
        let pending = Pending {
            first,
            sent,
            give_up,
            ..pending
        };
        self.calls.insert(id, pending);
        Ok(())
    }

    /// The result of an answer that may be one of several: a good one decides, a bad one waits for
    /// the others.
    pub fn one_answer(&mut self, id: CallId, pending: &Pending, reply: &Reply) -> Option<Reply> {
        let first = pending.first.unwrap_or(id);
        let is_sibling = |(other, pending): &(&CallId, &Pending)| pending.first == Some(first) || **other == first;
        let siblings: Vec<CallId> = self.calls.iter().filter(is_sibling).map(|(other, _)| *other).collect();
        let is_completed = *reply == Reply::Failed(Failure::AlreadyCompleted);
        let Some(failure) = failed(reply).filter(|_| !is_completed) else {
            self.calls.retain(|other, _| !siblings.contains(other));
            return Some(reply.clone());
        };
        if siblings.is_empty() {
            let all = pending.refusals.iter().copied().chain([failure]);
            return all.max_by_key(|failure| weight(*failure)).map(Reply::Failed);
        }
        for sibling in siblings {
            self.calls.entry(sibling).and_modify(|open| open.refusals.push(failure));
        }
        None
    }
}

impl Course {
    /// A request that is sent twice has the old content.
    pub fn called(&mut self, call: &Call) -> Kept {
        let is_hedge = std::mem::take(&mut self.is_hedging);
        let Call::Heartbeat { state, form, .. } = call else {
            return Ok(());
        };
        if is_hedge {
            Ok(())
        } else {
            self.told(*state, Some(*form))
        }
    }
}

fn failed(reply: &Reply) -> Option<Failure> {
    if let Reply::Failed(failure) = reply {
        Some(*failure)
    } else {
        None
    }
}

fn weight(failure: Failure) -> u8 {
    match failure.class() {
        FailureClass::Verdict => 3,
        FailureClass::Outage | FailureClass::NotNow if failure.was_never_sent() => 0,
        FailureClass::NotNow => 1,
        FailureClass::Outage => 2,
    }
}

/// Whether the backend answered, well or badly.
pub fn is_answer(reply: &Reply) -> bool {
    if let Reply::Failed(failure) = reply {
        !failure.was_never_sent() && failure.class() != FailureClass::Outage
    } else {
        true
    }
}
