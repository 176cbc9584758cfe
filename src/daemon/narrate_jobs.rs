//! What becomes of jobs, as records of the log, in the words of OJS logging 6.1. Ids and types appear, arguments and
//! results never.

use std::collections::BTreeMap;
use std::time::Duration;

use log::Level;

use crate::daemon::log_record::{ERROR_MESSAGE_BYTES, ERROR_TYPE_BYTES, Fields, Note, clipped};
use crate::lifecycle::effect::{CancelReason, Outcome};
use crate::lifecycle::event::{JobError, Subject};
use crate::lifecycle::ids::{ConnectionId, JobId};
use crate::wire::backend::DEFAULT_ERROR_CODE;

/// Most jobs whose time and error are remembered. What comes on top is told without them.
const MOST_JOBS: usize = 16_384;

/// A FAIL that is on its way, as far as the log is concerned.
#[derive(Debug)]
struct Failing {
    kind: String,
    message: String,
    is_retryable: bool,
}

/// What is known of a job that is under way.
#[derive(Debug, Default)]
struct Known {
    /// When it was given to a worker, on the monotonic clock.
    began: Option<Duration>,
    failing: Option<Failing>,
}

/// Tells of jobs.
#[derive(Debug, Default)]
pub struct JobNarrator {
    known: BTreeMap<JobId, Known>,
    completed: u64,
}

impl JobNarrator {
    /// Jobs that were completed since the start.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// A FAIL goes to the backend.
    pub fn failing(&mut self, job: &JobId, error: &JobError) {
        if let Some(known) = self.known(job) {
            let names = [&error.kind, &error.code];
            let name = names.into_iter().flatten().find(|name| !name.is_empty());
            known.failing = Some(Failing {
                kind: clipped(name.map_or(DEFAULT_ERROR_CODE, |name| name), ERROR_TYPE_BYTES),
                message: clipped(&error.message, ERROR_MESSAGE_BYTES),
                is_retryable: error.retryable,
            });
        }
    }

    fn known(&mut self, job: &JobId) -> Option<&mut Known> {
        let has_room = self.known.len() < MOST_JOBS || self.known.contains_key(job);
        has_room.then(|| self.known.entry(job.clone()).or_default())
    }

    /// It was taken from the backend.
    pub fn claimed(job: &Subject) -> Note {
        note(Level::Debug, job, Some("active"), "Job fetched by worker")
    }

    /// It was given to a worker.
    pub fn handed_over(&mut self, job: &Subject, connection: ConnectionId, now: Duration) -> Note {
        if let Some(known) = self.known(&job.id) {
            known.began = Some(now);
        }
        let fields = Fields::of_job(job, Some("active")).with("connection", connection.0);
        Note::new(Level::Debug, "Job given to the worker").about(fields)
    }

    /// The backend has its outcome.
    pub fn settled(&mut self, job: &Subject, outcome: Outcome, now: Duration) -> Note {
        let known = self.known.remove(&job.id).unwrap_or_default();
        let duration = known.began.map(|began| milliseconds(now.saturating_sub(began)));
        let note = match outcome {
            Outcome::Acked => {
                self.completed += 1;
                note(Level::Info, job, Some("completed"), "Job completed successfully")
            }
            Outcome::Requeued => note(Level::Info, job, Some("available"), "Job given back to its queue"),
            Outcome::Failed => failed(job, known.failing),
        };
        note.and(|fields| fields.with_any("duration_ms", duration))
    }

    /// Nobody is told what became of it.
    pub fn abandoned(&mut self, job: &Subject, why: &str) -> Note {
        self.known.remove(&job.id);
        note(
            Level::Warn,
            job,
            None,
            &format!("Job left to its visibility timeout: {why}"),
        )
    }

    /// A delivery of it came to nothing.
    pub fn void(job: &Subject, why: &str) -> Note {
        note(
            Level::Info,
            job,
            None,
            &format!("Job delivered again for nothing: {why}"),
        )
    }

    /// It was delivered again before a worker had it.
    pub fn replaced(job: &Subject) -> Note {
        let message = "Job delivered again while it waits for a worker; the new delivery counts";
        note(Level::Warn, job, Some("active"), message)
    }

    /// It was delivered again while a worker has it.
    pub fn adopted(job: &Subject) -> Note {
        let message = "Job delivered again; its handler goes on with the new reservation";
        note(Level::Warn, job, Some("active"), message)
    }

    /// It is no longer ours.
    pub fn reservation_lost(&mut self, job: &Subject, reason: CancelReason) -> Note {
        self.known.remove(&job.id);
        match reason {
            CancelReason::Cancelled => note(Level::Info, job, Some("cancelled"), "Job cancelled"),
            CancelReason::Lost | CancelReason::Shutdown | CancelReason::Timeout => {
                let message = "Job lost: its reservation is over, and its outcome is not reported";
                note(Level::Warn, job, None, message)
            }
        }
    }

    /// Its own timeout is over.
    pub fn timed_out(&self, job: &Subject, now: Duration) -> Note {
        let began = self.known.get(&job.id).and_then(|known| known.began);
        let elapsed = began.map(|began| now.saturating_sub(began));
        let after = elapsed.map(|elapsed| format!(" after {:.1}s", elapsed.as_secs_f64()));
        let message = format!(
            "Job execution timed out{}; its handler is told to stop",
            after.unwrap_or_default()
        );
        let fields = Fields::of_job(job, Some("active")).with_any("duration_ms", elapsed.map(milliseconds));
        Note::new(Level::Error, message).about(fields)
    }

    /// It is acked without its result.
    pub fn result_dropped(job: &Subject) -> Note {
        let message = "Job's result is not taken by the backend: ACK without it";
        note(Level::Warn, job, None, message)
    }

    /// Nobody here takes it.
    pub fn no_handler(job: &Subject) -> Note {
        let message = "Job has a type that no worker takes: failing it, retryable";
        note(Level::Warn, job, None, message)
    }
}

/// What the number of attempts says of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Another {
    /// There is one.
    Left,
    /// This was the last.
    UsedUp,
    /// That depends on whether the backend counts from 0 or from 1 (requirements C-27), or it did not say.
    Unknown,
}

fn another(job: &Subject) -> Another {
    match (job.attempt, job.max_attempts) {
        (Some(attempt), Some(most)) if attempt >= most => Another::UsedUp,
        (Some(0), Some(1)) => Another::UsedUp,
        (Some(0), Some(_)) => Another::Left,
        (Some(attempt), Some(most)) if attempt.saturating_add(1) < most => Another::Left,
        (Some(_) | None, _) => Another::Unknown,
    }
}

/// What the backend does with it is its own business: this is what the error and the number of attempts ask for.
fn failed(job: &Subject, failing: Option<Failing>) -> Note {
    let Some(failing) = failing else {
        return note(Level::Warn, job, None, "Job failed");
    };
    let note = match another(job) {
        Another::Left if failing.is_retryable => note(Level::Warn, job, Some("retryable"), "Job failed, will retry"),
        Another::Unknown if failing.is_retryable => note(Level::Warn, job, None, "Job failed"),
        Another::Left | Another::UsedUp | Another::Unknown => discarded(job),
    };
    note.and(|fields| fields.error(&failing.kind, &failing.message))
}

fn discarded(job: &Subject) -> Note {
    // How many there were is certain only where none is left, and of the first.
    let attempts = match (job.attempt, job.max_attempts) {
        (Some(0), _) => Some(1),
        (Some(attempt), Some(most)) if attempt == most => Some(most),
        (Some(_) | None, _) => None,
    };
    let after = match attempts {
        None => String::new(),
        Some(1) => " after 1 attempt".to_owned(),
        Some(attempts) => format!(" after {attempts} attempts"),
    };
    note(Level::Error, job, Some("discarded"), &format!("Job discarded{after}"))
}

fn note(level: Level, job: &Subject, state: Option<&'static str>, message: &str) -> Note {
    Note::new(level, message).about(Fields::of_job(job, state))
}

/// Whole ones.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
