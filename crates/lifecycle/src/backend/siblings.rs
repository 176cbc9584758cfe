//! Requests that are on their way twice because the first one hangs. They have one answer.

use std::collections::BTreeMap;

use crate::api::{CallId, Failure, FailureClass, Reply};

/// A request that went out more than once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Family {
    /// Those that have no answer yet.
    open: Vec<CallId>,
    /// The weightiest of the answers that say no.
    refusal: Option<Failure>,
    /// How often it went out.
    sent: usize,
}

/// Requests that are on their way more than once, under the number of the one that went out first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Siblings {
    families: BTreeMap<CallId, Family>,
    /// Of which family a request is that went out later.
    first_of: BTreeMap<CallId, CallId>,
}

/// The meaning of an answer that may be one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OneAnswer {
    /// It, or a weightier one of before, is the answer to the request that went out first under
    /// this number.
    Decides {
        /// The first one's number.
        first: CallId,
        /// The answer.
        reply: Reply,
        /// Those that nobody waits for any more.
        open: Vec<CallId>,
    },
    /// A sibling may still bring another one.
    Waits {
        /// The first one's number.
        first: CallId,
    },
}

impl Siblings {
    /// The request went out again beside its first, as `sibling`.
    pub(super) fn joins(&mut self, first: CallId, sibling: CallId) {
        let family = self.families.entry(first).or_insert_with(|| Family {
            open: vec![first],
            refusal: None,
            sent: 1,
        });
        family.open.push(sibling);
        family.sent += 1;
        self.first_of.insert(sibling, first);
    }

    /// How often this request is, or was, on its way.
    pub(crate) fn sent(&self, first: CallId) -> usize {
        self.families.get(&first).map_or(1, |family| family.sent)
    }

    /// How many requests are on their way that went out beside another one.
    pub(super) fn hedges(&self) -> usize {
        self.first_of.len()
    }

    /// Whether this one went out later than its first.
    pub(crate) fn is_hedge(&self, call: CallId) -> bool {
        self.first_of.contains_key(&call)
    }

    /// Those of a request that have no answer yet: itself, where it is on its way once.
    pub(crate) fn open(&self, first: CallId) -> Vec<CallId> {
        self.families
            .get(&first)
            .map_or_else(|| vec![first], |family| family.open.clone())
    }

    /// Nobody waits for its answer any more: those that have none yet.
    pub(super) fn forget(&mut self, first: CallId) -> Vec<CallId> {
        let open = self.open(first);
        self.families.remove(&first);
        for call in &open {
            self.first_of.remove(call);
        }
        open
    }

    /// The first ones of all that are on their way more than once.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = CallId> {
        self.families.keys().copied()
    }

    /// One is answered. A good answer, or that the job is completed already, decides whenever it
    /// comes, a bad one when there is none left that could bring another.
    pub(crate) fn answered(&mut self, call: CallId, reply: Reply) -> OneAnswer {
        let first = self.first_of.remove(&call).unwrap_or(call);
        let Some(mut family) = self.families.remove(&first) else {
            return OneAnswer::Decides {
                first,
                reply,
                open: Vec::new(),
            };
        };
        family.open.retain(|open| *open != call);
        let reply = match reply {
            // By one of them: none has to be waited for.
            done @ Reply::Failed(Failure::AlreadyCompleted) => done,
            Reply::Failed(failure) => {
                let weightier = family.refusal.map_or(failure, |before| weightier(before, failure));
                family.refusal = Some(weightier);
                if !family.open.is_empty() {
                    self.families.insert(first, family);
                    return OneAnswer::Waits { first };
                }
                Reply::Failed(sent_more_than_once(weightier))
            }
            good @ (Reply::Registered { .. }
            | Reply::HeartbeatOk { .. }
            | Reply::Fetched(_)
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_)) => good,
        };
        for open in &family.open {
            self.first_of.remove(open);
        }
        OneAnswer::Decides {
            first,
            reply,
            open: family.open,
        }
    }
}

/// Of two answers that say no the one that says more: the backend's word before none, and what may
/// have been carried out before what cannot have been. Of two of a kind the later one.
fn weightier(before: Failure, later: Failure) -> Failure {
    let weight = |failure: Failure| match failure.class() {
        FailureClass::Verdict => 3,
        FailureClass::NotNow | FailureClass::Outage if failure.was_never_sent() => 0,
        FailureClass::NotNow => 1,
        FailureClass::Outage => 2,
    };
    if weight(before) > weight(later) { before } else { later }
}

/// The failure of a request of which an earlier copy may have been carried out.
fn sent_more_than_once(failure: Failure) -> Failure {
    if let Failure::Conflict { .. } = failure {
        Failure::Conflict { was_sent_twice: true }
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: CallId = CallId(1);

    const SECOND: CallId = CallId(2);

    fn two() -> Siblings {
        let mut siblings = Siblings::default();
        siblings.joins(FIRST, SECOND);
        siblings
    }

    fn decides(reply: Reply, open: &[CallId]) -> OneAnswer {
        let open = open.to_vec();
        OneAnswer::Decides {
            first: FIRST,
            reply,
            open,
        }
    }

    #[test]
    fn a_request_that_went_out_once_has_the_answer_that_it_gets() {
        let no = Reply::Failed(Failure::NotFound);
        assert_eq!(Siblings::default().answered(FIRST, no.clone()), decides(no, &[]));
    }

    #[test]
    fn a_good_answer_to_either_decides_at_once() {
        for (answered, open) in [(FIRST, SECOND), (SECOND, FIRST)] {
            let mut siblings = two();
            let answer = siblings.answered(answered, Reply::Accepted);
            assert_eq!(answer, decides(Reply::Accepted, &[open]));
            assert_eq!(siblings, Siblings::default());
        }
    }

    #[test]
    fn that_the_job_is_completed_already_is_as_good_as_a_good_answer() {
        let completed = Reply::Failed(Failure::AlreadyCompleted);
        assert_eq!(two().answered(SECOND, completed.clone()), decides(completed, &[FIRST]));
    }

    #[test]
    fn a_bad_answer_waits_for_the_other_one_which_may_be_good() {
        for (answered, other) in [(FIRST, SECOND), (SECOND, FIRST)] {
            let mut siblings = two();
            let answer = siblings.answered(answered, Reply::Failed(Failure::NotFound));
            assert_eq!(answer, OneAnswer::Waits { first: FIRST });
            assert_eq!(siblings.answered(other, Reply::Accepted), decides(Reply::Accepted, &[]));
            assert_eq!(siblings, Siblings::default());
        }
    }

    #[test]
    fn of_two_bad_answers_the_backends_word_decides_before_silence_and_silence_before_what_was_never_sent() {
        let cases = [
            (Failure::NotFound, Failure::Unanswered, Failure::NotFound),
            (Failure::NotSent, Failure::Unanswered, Failure::Unanswered),
            (Failure::NotSent, Failure::Lost, Failure::Lost),
        ];
        for (one, other, decisive) in cases {
            for (one, other) in [(one, other), (other, one)] {
                let mut siblings = two();
                siblings.answered(FIRST, Reply::Failed(one));
                let answer = siblings.answered(SECOND, Reply::Failed(other));
                assert_eq!(answer, decides(Reply::Failed(decisive), &[]));
            }
        }
    }

    #[test]
    fn a_conflict_may_be_with_the_sibling() {
        let mut siblings = two();
        let conflict = |was_sent_twice| Reply::Failed(Failure::Conflict { was_sent_twice });
        siblings.answered(SECOND, Reply::Failed(Failure::Unanswered));
        assert_eq!(siblings.answered(FIRST, conflict(false)), decides(conflict(true), &[]));
    }
}
