//! Events that time brings: jobs become available, expire, run out of their
//! reservation; workers that fell silent are dead.

use std::sync::Arc;

use serde_json::json;

use super::Store;
use super::job::{End, JobId, JobState, WorkerId};
use super::outcome::{finish, make_available, use_up_attempt};
use super::retry::FailedAttempt;
use crate::json::{Object, raw};
use crate::moment::{Moment, wall};

/// The error type of a job whose reservation expired (worker protocol, appendix B).
const VISIBILITY_TIMEOUT: &str = "visibility_timeout";

/// The message of its error.
const TIMEOUT_MESSAGE: &str = "the visibility timeout was over before an ACK or FAIL";

/// The error type of a job whose execution exceeded its timeout (timeouts 3.1).
const TIMEOUT: &str = "timeout";

/// The error type of a job whose worker was declared dead.
const WORKER_DEATH: &str = "worker_death";

/// The error type of a job that no worker fetched in time.
const EXPIRED: &str = "expired";

/// An act of the server itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// `visibility_timeout`, `timeout`, `worker_death` or `expired`.
    pub what: &'static str,
    /// The worker that it is about.
    pub worker: Option<WorkerId>,
    /// The jobs that it is about.
    pub jobs: Vec<JobId>,
}

impl Store {
    /// Fires all due timers.
    pub fn tick(&mut self, now: Moment) -> Vec<Occurrence> {
        self.changes.set_now(now);
        let mut occurred = Vec::new();
        while let Some((due, id)) = self.index.timers.first().cloned()
            && due <= now
        {
            occurred.extend(self.fire_timer(now, &id));
        }
        while let Some((last, worker)) = self.heartbeats.first().cloned()
            && last + self.settings.heartbeat_timeout <= now
        {
            occurred.push(self.declare_dead(now, &worker));
        }
        occurred
    }

    /// Fires the due timer of one job.
    fn fire_timer(&mut self, now: Moment, id: &JobId) -> Option<Occurrence> {
        let job = self.jobs.get(id)?;
        let is_expired = job.expires_at.is_some_and(|expires_at| expires_at <= now);
        match job.state {
            JobState::Active if job.times_out_at.is_some_and(|at| at <= now) => {
                let worker = job.worker().cloned();
                self.recover(
                    now,
                    id,
                    End::Failed,
                    TIMEOUT,
                    "the execution took longer than the job's timeout",
                );
                Some(occurrence(TIMEOUT, worker, vec![Arc::clone(id)]))
            }
            JobState::Active => {
                let worker = job.worker().cloned();
                self.recover(now, id, End::VisibilityTimeout, VISIBILITY_TIMEOUT, TIMEOUT_MESSAGE);
                Some(occurrence(VISIBILITY_TIMEOUT, worker, vec![Arc::clone(id)]))
            }
            JobState::Scheduled | JobState::Available | JobState::Pending if is_expired => {
                let error = json!({
                    "type": EXPIRED,
                    "code": EXPIRED,
                    "message": "nobody fetched the job before its expires_at",
                    "attempt": 0,
                    "occurred_at": wall(self.epoch, now),
                });
                self.change(id, |job| {
                    job.record(raw(&error));
                    finish(job, now, JobState::Discarded);
                });
                Some(occurrence(EXPIRED, None, vec![Arc::clone(id)]))
            }
            JobState::Scheduled | JobState::Retryable => {
                self.change(id, |job| make_available(job, now));
                None
            }
            JobState::Available
            | JobState::Pending
            | JobState::Completed
            | JobState::Cancelled
            | JobState::Discarded => {
                self.change(id, |job| job.due_at = None);
                None
            }
        }
    }

    /// Ends the deliveries of all jobs of a worker whose heartbeats stopped for too long, and
    /// removes the worker (worker protocol 10.2).
    fn declare_dead(&mut self, now: Moment, worker: &WorkerId) -> Occurrence {
        let held = self.index.held.get(worker).cloned().unwrap_or_default();
        let message = format!("the worker '{worker}' has sent no heartbeat for too long and was declared dead");
        for id in &held {
            self.recover(now, id, End::WorkerDeath, WORKER_DEATH, &message);
        }
        self.drop_worker(worker);
        occurrence(WORKER_DEATH, Some(Arc::clone(worker)), held.into_iter().collect())
    }

    /// Lets the reservation of an active job run out and another worker do the job, all in this
    /// moment; whether the job was active. The policy is not asked: the last attempt would end it.
    pub fn overtake(&mut self, now: Moment, id: &str, by: &str) -> bool {
        let Some(job) = self.jobs.get(id).filter(|job| job.state == JobState::Active) else {
            return false;
        };
        let error = recovery_error(job.worker(), VISIBILITY_TIMEOUT, TIMEOUT_MESSAGE);
        let id = Arc::clone(&job.id);
        let epoch = self.epoch;
        self.change(&id, |job| {
            use_up_attempt(job, now, epoch, End::VisibilityTimeout, error)
        });
        self.reserve(now, &id, Some(Arc::from(by)), None, self.settings.visibility_timeout);
        self.ack(now, &id, Some(by), None).is_ok()
    }

    /// Ends an active job's delivery; the policy decides the next state.
    fn recover(&mut self, now: Moment, id: &JobId, end: End, kind: &str, message: &str) {
        let error = recovery_error(self.jobs.get(id).and_then(|job| job.worker()), kind, message);
        let failed = FailedAttempt {
            retryable: Some(true),
            ..FailedAttempt::default()
        };
        self.end_execution(now, id, end, failed, error);
    }
}

/// The error of an execution of which its worker reported nothing.
fn recovery_error(worker: Option<&WorkerId>, kind: &str, message: &str) -> Object {
    let mut error = Object::default();
    error.set("type", raw(kind));
    error.set("code", raw(kind));
    error.set("message", raw(message));
    error.set("retryable", raw(&true));
    if let Some(worker) = worker {
        error.set("details", raw(&json!({"worker_id": &**worker})));
    }
    error
}

fn occurrence(what: &'static str, worker: Option<WorkerId>, jobs: Vec<JobId>) -> Occurrence {
    Occurrence { what, worker, jobs }
}
