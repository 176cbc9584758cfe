//! Answers to an outcome, and their meaning for its claim.

use ojs_lifecycle::api::{Failure, JobId, Reply};

use super::ledger::{Claim, Ledger};
use super::promise::{Kept, promise};

pub fn outcome_replied(claim: &mut Claim, is_ack: bool, reply: &Reply) {
    match reply {
        Reply::Accepted => claim.is_taken = true,
        Reply::Failed(Failure::AlreadyCompleted) => claim.is_taken |= is_ack,
        Reply::Failed(Failure::Lost) => {}
        // Of the ACK it is looked at whether that got through; a nack may have been carried out.
        Reply::Failed(Failure::Conflict { .. }) => claim.needs_look = true,
        Reply::Failed(Failure::NotFound) => claim.needs_look = !is_ack,
        Reply::Failed(Failure::Refused) => {
            claim.is_doubtful = false;
        }
        Reply::Failed(
            Failure::NotSent
            | Failure::Overloaded
            | Failure::NoCredentials
            | Failure::RetryLater { .. }
            | Failure::Redirected
            | Failure::Unauthorized
            | Failure::Unsupported
            | Failure::NotFromBackend
            | Failure::Unregistered,
        ) => claim.is_doubtful = false,
        Reply::Failed(Failure::Unanswered | Failure::ServerError)
        | Reply::Registered { .. }
        | Reply::HeartbeatOk { .. }
        | Reply::Fetched(_)
        | Reply::JobSeen(_)
        | Reply::Manifest(_) => claim.needs_look |= !is_ack,
    }
}

impl Ledger {
    /// An outcome is sent to the backend for the first time.
    pub fn outcome_sent(&mut self, id: &JobId) -> Kept {
        let claim = self.find(id);
        let is_first = claim.is_some_and(|claim| claim.holder.is_some() && !claim.is_decided);
        promise!("the time with a worker is told once", is_first, "{id}");
        Ok(())
    }

    /// An operator cancels a job: one that waits is decided at once, and a shutdown need not be the
    /// reason for the end of another.
    pub fn cancelled(&mut self, id: &JobId) {
        for claim in self.claims.iter_mut().filter(|claim| claim.id == *id) {
            claim.is_decided |= claim.is_waiting();
            claim.may_be_decided = true;
        }
    }
}
