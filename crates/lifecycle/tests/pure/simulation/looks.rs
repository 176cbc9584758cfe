//! Looks at jobs: their results, and the results that an act needs.

use ojs_lifecycle::api::{JobState, JobView};

use super::backend::serial_of;
use super::ledger::{Claim, broken};
use super::promise::Kept;

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

/// Whether a look shows the claim's reservation, judged by the shown fields.
pub fn shows_ours(claim: &Claim, view: &JobView) -> bool {
    let is_ours = view.worker.as_ref().is_none_or(|worker| *worker == claim.worker);
    view.state == JobState::Active && is_ours && serial_of(&view.reservation) == claim.serial
}
