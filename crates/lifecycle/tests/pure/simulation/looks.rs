//! Looks at jobs: what they show, and what has to be seen before something is done.

use ojs_lifecycle::api::{JobState, JobView};

use super::backend::serial_of;
use super::ledger::{Claim, broken};
use super::promise::Kept;

/// The true result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// This reservation, or none.
    Reservation(Option<u64>),
    /// We may not look.
    Nothing,
}

impl Claim {
    /// Before anything is done with what came again a look has to show it.
    pub fn is_seen(&self, promise: &'static str, shown: Option<Shown>, is_first: bool) -> Kept {
        let is_ours = matches!(shown, Some(Shown::Nothing)) || shown == Some(Shown::Reservation(Some(self.serial)));
        if self.is_again && is_first && !is_ours {
            return Err(broken(promise, format!("{shown:?}: {self:?}")));
        }
        Ok(())
    }
}

/// Whether a look shows the reservation that we have: by what is shown.
pub fn shows_ours(claim: &Claim, view: &JobView) -> bool {
    let is_ours = view.worker.as_ref().is_none_or(|worker| *worker == claim.worker);
    view.state == JobState::Active && is_ours && serial_of(&view.reservation) == claim.serial
}
