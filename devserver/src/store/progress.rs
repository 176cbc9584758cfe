//! Progress and checkpoints of active jobs.

use serde_json::value::RawValue;

use super::Store;
use super::job::{Checkpoint, JobState, Progress};
use super::outcome::wrong_state;
use crate::moment::Moment;
use crate::refusal::{Refusal, RefusalKind};

/// The largest checkpoint, in bytes (durable execution 9.1).
pub const MAX_CHECKPOINT_BYTES: usize = 1 << 20;

impl Store {
    /// Records the progress of a job; a job that is not active is left unchanged (progress 6.1).
    /// Progress never decreases within an attempt.
    ///
    /// # Errors
    ///
    /// There is no such job.
    pub fn report_progress(
        &mut self,
        now: Moment,
        id: &str,
        fraction: Option<f64>,
        data: Option<Box<RawValue>>,
    ) -> Result<(), Refusal> {
        if self.existing_job(id)?.state != JobState::Active {
            return Ok(());
        }
        self.count_as_heartbeat(now, id);
        self.change(id, |job| {
            let old = job.progress.take();
            let (old_fraction, old_data) = old.map_or((None, None), |old| (old.fraction, old.data));
            let fraction = fraction.map(|fraction| fraction.clamp(0.0, 1.0));
            let is_back = matches!((fraction, old_fraction), (Some(new), Some(old)) if new < old);
            job.progress = Some(Progress {
                fraction: if is_back {
                    old_fraction
                } else {
                    fraction.or(old_fraction)
                },
                data: if is_back { old_data } else { data.or(old_data) },
                at: now,
            });
        });
        Ok(())
    }

    /// Saves a checkpoint; returns its number.
    ///
    /// # Errors
    ///
    /// There is no such job, it is not active, the checkpoint is too large, or its number is not
    /// higher than the last.
    pub fn save_checkpoint(
        &mut self,
        now: Moment,
        id: &str,
        state: Box<RawValue>,
        sequence: Option<u64>,
    ) -> Result<u64, Refusal> {
        let job = self.existing_job(id)?;
        if job.state != JobState::Active {
            let message = format!(
                "the job '{id}' is {}: only an active one can save a checkpoint",
                job.state
            );
            return Err(wrong_state(job, JobState::Active, message));
        }
        if state.get().len() > MAX_CHECKPOINT_BYTES {
            let message = format!(
                "a checkpoint has at most {MAX_CHECKPOINT_BYTES} bytes, and this one has {}",
                state.get().len()
            );
            return Err(Refusal::new(RefusalKind::TooLarge, message));
        }
        let last = job.last_sequence;
        let sequence = sequence.unwrap_or_else(|| last.map_or(1, |last| last.saturating_add(1)));
        if last.is_some_and(|last| sequence <= last) {
            let message = format!("the sequence {sequence} is not higher than that of the checkpoint before it");
            let details = serde_json::json!({"job_id": id, "sequence": sequence, "current_sequence": last});
            return Err(Refusal::new(RefusalKind::Conflict, message).with(&details));
        }
        self.change(id, |job| {
            job.last_sequence = Some(sequence);
            job.checkpoint = Some(Checkpoint {
                state,
                sequence,
                at: now,
            });
        });
        Ok(sequence)
    }

    /// Removes a checkpoint; a missing one is no error.
    ///
    /// # Errors
    ///
    /// There is no such job.
    pub fn delete_checkpoint(&mut self, id: &str) -> Result<(), Refusal> {
        self.change(id, |job| job.checkpoint = None)
            .ok_or_else(|| Refusal::no_job(id))
    }
}
