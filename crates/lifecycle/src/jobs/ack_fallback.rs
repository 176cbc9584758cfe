//! Outcomes that the backend refuses in their full form. ojs-init retries in the bare form, or
//! sends the ACK without its result.

use std::time::Duration;

use crate::api::{Claim, ErrorCode, JobNotice, JobTimer, Moment, Outcome};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::stages::ReportStage;

/// Time for the worker to send another answer if the backend refuses its result, from the first
/// refusal of a result of the job. A worker that repeats its ACK gets no further time, so the
/// repetition ends.
const OTHER_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Time for which ACKs are sent in the bare form before one is tried in the full form again.
const BARE_FOR: Duration = Duration::from_secs(10 * 60);

impl Jobs {
    pub(super) fn is_bare_at_first(&self, what: &Outcome, cx: &Context) -> bool {
        what.is_ack() && self.bare_acks_since(cx).is_some()
    }

    fn bare_acks_since(&self, cx: &Context) -> Option<Moment> {
        let since = self.backend.bare_acks_since;
        since.filter(|since| since.elapsed(cx.now) < BARE_FOR)
    }

    /// Remembers the form that worked for an ACK. A FAIL may have been refused for its content.
    pub(super) fn note_ack_form(&mut self, is_bare: bool, cx: &Context) {
        let since = self.bare_acks_since(cx).unwrap_or(cx.now);
        self.backend.bare_acks_since = is_bare.then_some(since);
    }

    /// Retries in the bare form, or asks for a smaller result, because the backend will never
    /// accept this request.
    pub(super) fn report_is_refused(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Some(report) = job.report() else { return };
        let (id, listener) = (job.id().clone(), report.listener);
        match report.what {
            Outcome::Acked { .. } | Outcome::Failed { .. } if !report.is_bare => {
                if let Some(report) = self.ledger.report_mut(claim) {
                    report.is_bare = true;
                }
                self.ledger.step(claim, ReportStage::Due);
            }
            Outcome::Acked { result: Some(_) } => {
                let until = self.other_answer_until(claim, cx);
                self.ledger.step(claim, ReportStage::ResultRefused);
                match listener.filter(|id| cx.takers.is_open(*id)) {
                    Some(holder) if until > cx.now => {
                        let message = "the backend does not take this result; ack with a smaller one, or fail";
                        self.refuse(holder, ErrorCode::Refused, message, id);
                        self.listener_was_told(claim, holder, cx);
                        self.timers.arm(JobTimer::WithoutResult(claim), until);
                    }
                    // The holder gets the reply to the ACK without the result.
                    Some(_) | None => self.drop_result(claim, cx),
                }
            }
            Outcome::Acked { result: None } | Outcome::Failed { .. } | Outcome::Requeued { .. } => {
                if let Some(holder) = listener {
                    let message = "the backend refuses the outcome";
                    self.refuse(holder, ErrorCode::Refused, message, id);
                    self.listener_was_told(claim, holder, cx);
                }
                let job = self.ledger.get(claim).cloned();
                self.let_reservation_expire(claim, "the backend refuses its outcome in every form", cx);
                if let Some(job) = job {
                    self.remember_refusal(&job, ErrorCode::Refused);
                }
            }
        }
    }

    /// Until when the worker may answer differently.
    fn other_answer_until(&mut self, claim: Claim, cx: &Context) -> Moment {
        let latest = cx.now.after(OTHER_ANSWER_WITHIN);
        let report = self.ledger.report_mut(claim);
        report.map_or(latest, |report| *report.other_answer_until.get_or_insert(latest))
    }

    /// Sends the ACK without its result, because there is no other answer, or the backend never
    /// accepts this result.
    pub(crate) fn drop_result(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let subject = job.subject();
        let what = Outcome::Acked { result: None };
        let is_bare = self.is_bare_at_first(&what, cx);
        if let Some(report) = self.ledger.report_mut(claim)
            && report.step == ReportStage::ResultRefused
        {
            report.what = what;
            report.is_bare = is_bare;
            self.ledger.step(claim, ReportStage::Due);
            self.notify(JobNotice::ResultDropped(subject));
        }
    }
}
