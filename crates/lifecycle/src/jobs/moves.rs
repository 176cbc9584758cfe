//! The only place where the holder of a job changes. The credit of both holders changes in the same
//! step.

use crate::api::ids::{Claim, HolderId};
use crate::jobs::job::{Job, Place};
use crate::jobs::part::Jobs;
use crate::jobs::said::Said;

impl Jobs {
    /// Moves a job.
    pub(super) fn place(&mut self, claim: Claim, place: Place) {
        let before = self.holder_of(claim);
        self.ledger.place(claim, place);
        let after = self.holder_of(claim);
        for holder in [before, after].into_iter().flatten() {
            self.count_jobs_of(holder);
        }
    }

    /// Removes a job.
    pub(super) fn strike_out(&mut self, claim: Claim) -> Option<Job> {
        let job = self.ledger.remove(claim)?;
        if let Some(holder) = job.holder() {
            self.count_jobs_of(holder);
        }
        Some(job)
    }

    /// Marks a lost job as overdue, because its handler has had its time to answer.
    pub(super) fn is_overdue(&mut self, claim: Claim) {
        self.ledger.is_overdue(claim);
        if let Some(holder) = self.holder_of(claim) {
            self.count_jobs_of(holder);
        }
    }

    /// Marks the reservation of a lost job as ojs-init's again.
    pub(super) fn is_ours_again(&mut self, claim: Claim) {
        self.ledger.regain(claim);
        if let Some(holder) = self.holder_of(claim) {
            self.count_jobs_of(holder);
        }
    }

    fn holder_of(&self, claim: Claim) -> Option<HolderId> {
        self.ledger.get(claim).and_then(Job::holder)
    }

    fn count_jobs_of(&mut self, holder: HolderId) {
        let (held, overdue) = (self.ledger.held_by(holder).len(), self.ledger.overdue_of(holder).len());
        self.say(Said::Holds(holder, held, overdue));
    }
}
