//! A job on the wire: the producer's fields, as they were spelled, and the backend's fields.

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::Store;
use super::job::{Job, JobId, JobState};
use crate::moment::{Moment, wall};

impl Job {
    /// Its envelope, with times that count from `epoch`.
    pub fn envelope(&self, epoch: Timestamp) -> Envelope<'_> {
        Envelope { job: self, epoch }
    }
}

impl Store {
    /// The envelopes of the existing jobs among these.
    pub fn envelopes(&self, ids: &[JobId]) -> Vec<Envelope<'_>> {
        let jobs = ids.iter().filter_map(|id| self.job(id));
        jobs.map(|job| job.envelope(self.epoch())).collect()
    }
}

/// The envelope of a job, written from the job itself.
pub struct Envelope<'a> {
    job: &'a Job,
    epoch: Timestamp,
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let job = self.job;
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in job.producer_fields.fields() {
            map.serialize_entry(name, value)?;
        }
        if job.producer_fields.raw("id").is_none() {
            map.serialize_entry("id", &*job.id)?;
        }
        map.serialize_entry("state", job.state.name())?;
        map.serialize_entry("attempt", &job.attempt)?;
        map.serialize_entry("max_attempts", &job.policy.max_attempts)?;
        let mut at = |name: &str, moment: Option<Moment>| match moment {
            Some(moment) => map.serialize_entry(name, &wall(self.epoch, moment)),
            None => Ok(()),
        };
        at("created_at", Some(job.created_at))?;
        at("enqueued_at", job.enqueued_at)?;
        at("started_at", job.started_at)?;
        match job.state {
            JobState::Completed => at("completed_at", job.ended_at)?,
            JobState::Cancelled => at("cancelled_at", job.ended_at)?,
            JobState::Discarded => {
                at("discarded_at", job.ended_at)?;
                // The conformance suite's name of the end of every life.
                at("completed_at", job.ended_at)?;
            }
            JobState::Retryable => at("next_attempt_at", job.due_at)?,
            JobState::Scheduled | JobState::Available | JobState::Pending | JobState::Active => {}
        }
        if let Some(delay) = job.retry_delay {
            map.serialize_entry("retry_delay_ms", &(delay.as_millis() as u64))?;
        }
        if let Some(worker) = job.worker() {
            map.serialize_entry("worker_id", &**worker)?;
        }
        if let Some(error) = &job.error {
            map.serialize_entry("error", error)?;
        }
        if !job.errors.is_empty() {
            map.serialize_entry("errors", &job.errors)?;
        }
        if let Some(result) = &job.result {
            map.serialize_entry("result", result)?;
        }
        if let Some(checkpoint) = &job.checkpoint {
            map.serialize_entry(
                "checkpoint",
                &CheckpointField {
                    state: &checkpoint.state,
                    sequence: checkpoint.sequence,
                },
            )?;
        }
        if let Some(progress) = job.progress.as_ref().and_then(|progress| progress.fraction) {
            map.serialize_entry("progress", &progress)?;
        }
        map.end()
    }
}

/// The checkpoint in the next delivery.
#[derive(serde::Serialize)]
struct CheckpointField<'a> {
    state: &'a RawValue,
    sequence: u64,
}
