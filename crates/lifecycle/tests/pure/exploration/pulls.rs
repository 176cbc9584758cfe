//! Holders that ask for their jobs, and the promise that each request is answered once.

use std::time::Duration;

use ojs_lifecycle::api::{Event, FromWorker, GivenJob, HolderId, JobId, PullId, Wants};

use super::promises::Kind;
use super::world::{Kin, World};

impl World {
    pub fn wants(&mut self, holder: HolderId) {
        self.next_pull += 1;
        let (pull, count) = (PullId(self.next_pull), self.cast.each);
        self.pulls.insert(pull, (holder, usize::try_from(count).unwrap()));
        let wants = Wants {
            pull,
            count,
            queues: Some(vec!["default".into()]),
            within: Duration::from_millis(700),
        };
        self.happen(Event::Said(holder, FromWorker::Wants(wants)));
    }

    /// The machine answers a request for jobs once, with at most the requested number.
    pub fn pull_is_answered(&mut self, holder: HolderId, pull: PullId, jobs: &[GivenJob]) {
        match self.pulls.remove(&pull) {
            Some((asked, most)) if asked == holder && jobs.len() <= most => {}
            other => self.break_promise(&format!(
                "{pull} of {holder} is answered with {}: {other:?}",
                jobs.len()
            )),
        }
        for job in jobs {
            let job = JobId((&*job.envelope).into());
            self.check_handover(holder, &job);
            if let Some(fate) = self.jobs.get_mut(&job) {
                fate.pull = Some(pull);
            }
        }
    }

    /// The client that waits for the answer to a request for jobs disconnects: that is the price of
    /// another request. If there is an answer, the client has not read it.
    pub fn takes_back(&mut self, holder: HolderId, pull: PullId) {
        self.left.pulls -= u8::from(self.pulls.remove(&pull).is_some());
        let unread = self
            .jobs
            .values_mut()
            .filter(|fate| fate.pull == Some(pull) && fate.said.is_none());
        unread.for_each(|fate| fate.said = Some(Kind::Requeue));
        self.happen(Event::Said(holder, FromWorker::WantsNoMore { pull }));
    }

    /// Whether its holders ask for jobs themselves.
    pub fn is_pulling(&self) -> bool {
        self.cast.kin != Kin::Told
    }
}
