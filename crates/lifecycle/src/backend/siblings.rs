//! Requests in flight twice because the first copy hangs. The copies share one answer.

use std::collections::BTreeMap;

use crate::api::{CallId, Failure, FailureClass, Reply};

/// A request that was sent more than once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Family {
    /// Copies without an answer.
    open: Vec<CallId>,
    /// The weightiest failure so far.
    refusal: Option<Failure>,
    /// How often the request was sent.
    sent: usize,
}

/// Requests in flight more than once, under the number of the first copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Siblings {
    families: BTreeMap<CallId, Family>,
    /// The first copy of each later copy.
    first_of: BTreeMap<CallId, CallId>,
}

/// The meaning of an answer that may be one of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OneAnswer {
    /// This answer, or a weightier earlier one, is the answer to the request with the number
    /// `first`.
    Decides {
        /// The number of the first copy.
        first: CallId,
        /// The deciding answer.
        reply: Reply,
        /// Copies whose answers are no longer needed.
        open: Vec<CallId>,
    },
    /// A sibling may still return another answer.
    Waits {
        /// The number of the first copy.
        first: CallId,
    },
}

impl Siblings {
    /// The request was sent again as `sibling`.
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

    /// How often this request was sent.
    pub(crate) fn sent(&self, first: CallId) -> usize {
        self.families.get(&first).map_or(1, |family| family.sent)
    }

    /// How many hedges are in flight.
    pub(super) fn hedges(&self) -> usize {
        self.first_of.len()
    }

    /// Whether this is a later copy.
    pub(crate) fn is_hedge(&self, call: CallId) -> bool {
        self.first_of.contains_key(&call)
    }

    /// The unanswered copies of a request: the request itself if it was sent once.
    pub(crate) fn open(&self, first: CallId) -> Vec<CallId> {
        self.families
            .get(&first)
            .map_or_else(|| vec![first], |family| family.open.clone())
    }

    /// The answer is no longer needed. Returns the unanswered copies.
    pub(super) fn forget(&mut self, first: CallId) -> Vec<CallId> {
        let open = self.open(first);
        self.families.remove(&first);
        for call in &open {
            self.first_of.remove(call);
        }
        open
    }

    /// The first copies of all requests in flight more than once.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = CallId> {
        self.families.keys().copied()
    }

    /// A copy was answered. A good answer, or "already completed", decides at once. A failure
    /// decides only when no other copy can still be answered.
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
        let reply = match reply.failed() {
            // A good answer, or the job is completed, by a copy or by another worker: no other
            // answer is needed.
            None | Some(Failure::AlreadyCompleted) => reply,
            Some(failure) => {
                let weightier = family.refusal.map_or(failure, |before| weightier(before, failure));
                family.refusal = Some(weightier);
                if !family.open.is_empty() {
                    self.families.insert(first, family);
                    return OneAnswer::Waits { first };
                }
                Reply::Failed(sent_more_than_once(weightier))
            }
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

/// The failure of a request if an earlier copy may have been carried out.
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
