//! Looks at jobs: their results, and the results that an act needs.

use std::time::Duration;

use ojs_lifecycle::api::{Failure, JobId, JobState, JobView, Reply};

use super::backend::serial_of;
use super::ledger::{Claim, Ledger, broken};
use super::promise::Kept;
use super::talk::Talk;

/// The true result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// This reservation, or none.
    Reservation(Option<u64>),
    /// The worker may not look.
    Nothing,
}

impl Claim {
    /// A look has to show a repeated delivery as this worker's before the machine acts on it.
    pub fn is_seen(&self, promise: &'static str, shown: Option<Shown>, is_first: bool) -> Kept {
        let is_ours = matches!(shown, Some(Shown::Nothing)) || shown == Some(Shown::Reservation(Some(self.serial)));
        if self.is_again && is_first && !is_ours {
            return Err(broken(promise, format!("{shown:?}: {self:?}")));
        }
        Ok(())
    }
}

impl Talk {
    /// A look is sent. Returns whether it is surely about a job whose outcome is decided.
    pub fn looks(&mut self, job: &JobId, ledger: &mut Ledger, now: Duration) -> bool {
        let may_be_elsewhere = self.absences.may_be_elsewhere(job, now);
        let Some(claim) = ledger.find(job) else { return false };
        claim.is_in_question |= may_be_elsewhere;
        claim.needs_look || !(claim.is_held() || claim.is_waiting())
    }

    /// A look is answered.
    pub fn looked(&mut self, job: &JobId, reply: &Reply, ledger: &mut Ledger) {
        if matches!(reply, Reply::Failed(Failure::Unsupported | Failure::Refused)) {
            ledger.shown.insert(job.clone(), Shown::Nothing);
        }
        let (is_ours, is_offered) = if let Reply::JobSeen(view) = reply {
            if view.state == JobState::Missing {
                ledger.shown.insert(job.clone(), Shown::Nothing);
            }
            // The machine learns the result of a later look only with its answer.
            ledger.is_seen(job);
            let is_ours = ledger.find(job).is_some_and(|claim| shows_ours(claim, view));
            (is_ours, view.state != JobState::Hidden)
        } else {
            (false, reply.clone().failure().may_pass())
        };
        if is_ours {
            self.absences.is_seen(job);
            ledger
                .find(job)
                .into_iter()
                .for_each(|claim| claim.is_in_question = false);
        }
        if is_ours || !is_offered {
            self.cleared.insert(job.clone());
        }
    }
}

/// Whether a look shows the claim's reservation, judged by the shown fields.
pub fn shows_ours(claim: &Claim, view: &JobView) -> bool {
    let is_ours = view.worker.as_ref().is_none_or(|worker| *worker == claim.worker);
    view.state == JobState::Active && is_ours && serial_of(&view.reservation) == claim.serial
}
