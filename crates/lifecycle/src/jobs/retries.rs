//! Requests about jobs that are retried before their pause ends, because the cause of their failure
//! is gone.

use crate::api::ids::Claim;
use crate::api::{JobTimer, Moment};
use crate::jobs::job::{LookStep, Report};
use crate::jobs::part::Jobs;
use crate::retry::state::Failures;

impl Jobs {
    /// Retries at this moment the reports and looks whose last failure has no cause any more.
    /// Returns whether there is one.
    pub(crate) fn retry_now(&mut self, failures: Failures, at: Moment, is_soon: bool) -> bool {
        if failures == Failures::OfAnOutage {
            // The backend may be another version than before the outage.
            self.backend.no_progress_at = None;
            self.backend.no_checkpoints_at = None;
        }
        let mut is_one_retried = false;
        for (claim, report) in self.ledger.reports() {
            let is_in_flight = !report.step.is_pause();
            is_one_retried |= report.setbacks.retry_now(failures, is_in_flight, is_soon)
                && (is_in_flight || self.timers.bring_forward(JobTimer::Report(claim), at));
        }
        for (claim, again) in self.ledger.agains() {
            let is_in_flight = again.step != LookStep::Pausing;
            is_one_retried |= again.setbacks.retry_now(failures, is_in_flight, is_soon)
                && (is_in_flight || self.timers.bring_forward(JobTimer::LookAgain(claim), at));
        }
        is_one_retried
    }

    /// Counts one more request of this outcome.
    pub(crate) fn report_goes_out(&mut self, claim: Claim) {
        self.ledger.report_mut(claim).into_iter().for_each(Report::goes_out);
    }

    /// An attempt to report this outcome was never sent.
    pub(crate) fn report_did_not_get_there(&mut self, claim: Claim) {
        self.ledger
            .report_mut(claim)
            .into_iter()
            .for_each(Report::did_not_get_there);
    }
}
