//! Dead letters: jobs that failed for good and asked to be kept for a person to read.

use super::Store;
use super::job::Job;
use super::outcome::make_available;
use crate::moment::Moment;
use crate::refusal::Refusal;

impl Store {
    /// All dead letters, the oldest end first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &Job> + Clone {
        let ended = self
            .index
            .ended
            .iter()
            .filter_map(|(_, number)| self.by_number.get(number));
        ended
            .filter_map(|id| self.jobs.get(id))
            .filter(|job| job.is_dead_letter)
    }

    /// Starts a dead letter again with all of its attempts; its errors are kept.
    ///
    /// # Errors
    ///
    /// There is no such dead letter.
    pub fn retry_dead_letter(&mut self, now: Moment, id: &str) -> Result<&Job, Refusal> {
        self.dead_letter_number(id)?;
        self.change(id, |job| {
            job.is_dead_letter = false;
            job.attempt = 0;
            job.attempts_used = 0;
            job.ended_at = None;
            make_available(job, now);
        });
        self.existing_job(id)
    }

    /// Removes a dead letter.
    ///
    /// # Errors
    ///
    /// There is no such dead letter.
    pub fn delete_dead_letter(&mut self, id: &str) -> Result<(), Refusal> {
        let number = self.dead_letter_number(id)?;
        self.forget(number);
        Ok(())
    }

    /// The number of a job that must be a dead letter.
    fn dead_letter_number(&self, id: &str) -> Result<u64, Refusal> {
        let found = self.jobs.get(id).filter(|job| job.is_dead_letter);
        found.map(|job| job.number).ok_or_else(|| {
            let message =
                format!("there is no dead letter '{id}'; only jobs with retry.on_exhaustion dead_letter become one");
            Refusal::not_found("dead_letter_job", id, message)
        })
    }
}
