//! What the backend itself answered to an ACK or a FAIL, for the workers that wait for that: an answer is here while the lifecycle is told
//! of it, and no longer.

use std::collections::BTreeMap;

use crate::daemon::backend::outcome::OutcomeReply;
use crate::lifecycle::api::{CallId, Event, JobId};

/// Answers of the backend to outcomes.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Of those that the lifecycle is still to be told: no more than there are outcomes on their way.
    heard: BTreeMap<CallId, OutcomeReply>,
    /// The one that it is told now.
    present: Option<OutcomeReply>,
}

impl Replies {
    /// An answer came in; the lifecycle is told of it in a moment.
    pub(super) fn heard(&mut self, call: CallId, reply: OutcomeReply) {
        self.heard.insert(call, reply);
    }

    /// The lifecycle is told this now; none: what time it is.
    pub(super) fn telling(&mut self, event: Option<&Event>) {
        self.present = match event {
            Some(Event::BackendReplied(call, _)) => self.heard.remove(call),
            Some(_) | None => None,
        };
    }

    /// The answer that the lifecycle is being told, if it is about this job.
    pub(super) fn about(&self, job: &JobId) -> Option<&OutcomeReply> {
        self.present.as_ref().filter(|reply| reply.job == *job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::api::Reply;

    #[test]
    fn an_answer_counts_for_its_job_while_the_lifecycle_is_told_of_it() {
        let mut replies = Replies::default();
        let job = JobId("1".into());
        let reply = OutcomeReply {
            job: job.clone(),
            status: 200,
            body: b"{}".as_slice().into(),
        };
        replies.heard(CallId(1), reply.clone());
        assert_eq!(replies.about(&job), None);
        replies.telling(Some(&Event::BackendReplied(CallId(1), Reply::Accepted)));
        assert_eq!(replies.about(&job), Some(&reply));
        assert_eq!(replies.about(&JobId("2".into())), None);
        replies.telling(None);
        assert_eq!(replies.about(&job), None);
    }
}
