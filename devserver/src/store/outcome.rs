//! Outcomes of a job: ACK, FAIL, giving back, cancelling, activating.

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::Store;
use super::job::{End, Job, JobState};
use super::retry::{Exhaustion, FailedAttempt, Verdict};
use crate::json::{Object, raw};
use crate::moment::{Moment, wall};
use crate::refusal::{Refusal, RefusalKind};

/// The error code of a FAIL that names none (the specification's word for an error of the handler).
const DEFAULT_CODE: &str = "handler_error";

impl Store {
    /// Completes a job for its worker.
    ///
    /// # Errors
    ///
    /// There is no such job, it is not active, or another worker has it.
    pub fn ack(
        &mut self,
        now: Moment,
        id: &str,
        worker: Option<&str>,
        result: Option<Box<RawValue>>,
    ) -> Result<&Job, Refusal> {
        self.check_reservation(id, worker)?;
        self.change(id, |job| {
            job.attempts_used = job.attempt;
            job.times_acked += 1;
            job.result = result;
            job.error = None;
            if let Some(progress) = &mut job.progress {
                progress.fraction = Some(1.0);
            }
            job.end_delivery(now, End::Acked);
            finish(job, now, JobState::Completed);
        });
        self.existing_job(id)
    }

    /// Fails a job for its worker.
    ///
    /// # Errors
    ///
    /// There is no such job, it is not active, another worker has it, or the error is invalid.
    pub fn fail(&mut self, now: Moment, id: &str, worker: Option<&str>, error: Object) -> Result<&Job, Refusal> {
        self.check_reservation(id, worker)?;
        let code = error.text("code")?;
        let kind = error.text("type")?;
        if code.is_none() && kind.is_none() {
            return Err(Refusal::field("error.code", "given (or error.type), as text"));
        }
        let failed = FailedAttempt {
            code: code.as_deref(),
            kind: kind.as_deref(),
            retryable: error.get("retryable", "true or false")?,
        };
        let mut entry = error.clone();
        entry.set("code", raw(code.as_deref().unwrap_or(DEFAULT_CODE)));
        entry.set("type", raw(kind.as_deref().or(code.as_deref()).unwrap_or(DEFAULT_CODE)));
        self.end_execution(now, id, End::Failed, failed, entry);
        self.existing_job(id)
    }

    /// Gives a job back for its worker, as if it had never been delivered.
    ///
    /// # Errors
    ///
    /// There is no such job, it is not active, or another worker has it.
    pub fn requeue(&mut self, now: Moment, id: &str, worker: Option<&str>) -> Result<&Job, Refusal> {
        self.check_reservation(id, worker)?;
        self.change(id, |job| {
            job.end_delivery(now, End::Requeued);
            make_available(job, now);
        });
        self.existing_job(id)
    }

    /// Ends an execution without success: the policy decides the next state. After a FAIL the next
    /// attempt waits; a recovered job is available at once.
    pub(super) fn end_execution(&mut self, now: Moment, id: &str, end: End, failed: FailedAttempt<'_>, error: Object) {
        let random = self.random.f64();
        let epoch = self.epoch;
        self.change(id, |job| {
            use_up_attempt(job, now, epoch, end, error);
            match (job.policy.verdict(job.attempts_used, failed), end) {
                (Verdict::Over(exhaustion), _) => {
                    job.is_dead_letter = exhaustion == Exhaustion::DeadLetter;
                    finish(job, now, JobState::Discarded);
                }
                (Verdict::Retry, End::Failed) => {
                    let delay = job.policy.delay(job.attempts_used, random).min(super::LONGEST);
                    job.state = JobState::Retryable;
                    job.reservation = None;
                    job.retry_delay = Some(delay);
                    job.due_at = Some(now + delay);
                }
                (
                    Verdict::Retry,
                    End::Acked | End::Requeued | End::VisibilityTimeout | End::WorkerDeath | End::Cancelled,
                ) => {
                    job.attempt += 1;
                    make_available(job, now);
                }
            }
        });
    }

    /// Cancels a job at once, in any state; returns its former state.
    ///
    /// # Errors
    ///
    /// There is no such job, or it has ended.
    pub fn cancel(&mut self, now: Moment, id: &str) -> Result<JobState, Refusal> {
        let job = self.existing_job(id)?;
        let state = job.state;
        if state.is_terminal() {
            let message = format!("the job '{id}' is {state}: there is nothing left to cancel");
            let details = serde_json::json!({"job_id": id, "current_state": state.name()});
            return Err(Refusal::new(RefusalKind::Conflict, message).with(&details));
        }
        self.change(id, |job| {
            job.end_delivery(now, End::Cancelled);
            finish(job, now, JobState::Cancelled);
        });
        Ok(state)
    }

    /// Makes a pending job available.
    ///
    /// # Errors
    ///
    /// There is no such job, or it is not pending.
    pub fn activate(&mut self, now: Moment, id: &str) -> Result<&Job, Refusal> {
        let job = self.existing_job(id)?;
        if job.state != JobState::Pending {
            let message = format!("the job '{id}' is {}, not pending: it cannot be activated", job.state);
            return Err(wrong_state(job, JobState::Pending, message));
        }
        self.change(id, |job| make_available(job, now));
        self.existing_job(id)
    }

    /// A job that must exist.
    ///
    /// # Errors
    ///
    /// There is no such job.
    pub fn existing_job(&self, id: &str) -> Result<&Job, Refusal> {
        self.jobs.get(id).ok_or_else(|| Refusal::no_job(id))
    }

    /// Refuses a worker that may not report the outcome of a job (worker protocol 5.6).
    fn check_reservation(&self, id: &str, worker: Option<&str>) -> Result<(), Refusal> {
        let job = self.existing_job(id)?;
        if job.state != JobState::Active {
            let message = format!(
                "the job '{id}' is {}, not active: it is not yours to speak for",
                job.state
            );
            return Err(wrong_state(job, JobState::Active, message));
        }
        if job.is_held_by(worker) {
            return Ok(());
        }
        let holder = job.worker().map(|holder| &**holder);
        let caller = worker.unwrap_or_default();
        let message = format!("the job '{id}' is reserved for another worker than '{caller}'");
        let details = serde_json::json!({
            "job_id": id,
            "current_state": "active",
            "expected_state": "active",
            "worker_id": caller,
            "reserved_by": holder,
        });
        Err(Refusal::new(RefusalKind::Conflict, message).with(&details))
    }
}

/// The refusal for a job that is in another state than it must be.
pub(super) fn wrong_state(job: &Job, expected: JobState, message: String) -> Refusal {
    let details = serde_json::json!({
        "job_id": &*job.id,
        "current_state": job.state.name(),
        "expected_state": expected.name(),
    });
    Refusal::new(RefusalKind::Conflict, message).with(&details)
}

/// Ends a delivery without success: its attempt counts, and the error is kept.
pub(super) fn use_up_attempt(job: &mut Job, now: Moment, epoch: Timestamp, end: End, mut error: Object) {
    error.set("attempt", raw(&job.attempt));
    error.set("occurred_at", raw(&wall(epoch, now)));
    job.record(raw(&error));
    job.attempts_used = job.attempt;
    job.end_delivery(now, end);
}

/// Ends the life of a job. Removes its checkpoint, which is no longer needed (durable execution
/// 5.2).
pub(super) fn finish(job: &mut Job, now: Moment, state: JobState) {
    job.state = state;
    job.reservation = None;
    job.due_at = None;
    job.ended_at = Some(now);
    job.retry_delay = None;
    job.checkpoint = None;
}

/// Makes a job available. The job expires only if it was never fetched.
pub(super) fn make_available(job: &mut Job, now: Moment) {
    job.state = JobState::Available;
    job.reservation = None;
    job.enqueued_at = Some(now);
    job.due_at = job.expires_at.filter(|_| job.times_delivered == 0);
}
