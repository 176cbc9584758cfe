//! Queues: listed, counted, paused.

use std::sync::Arc;

use super::job::JobState;
use super::{Store, index, new_job};
use crate::moment::Moment;
use crate::refusal::Refusal;

/// Facts about a queue.
#[derive(Debug)]
pub struct QueueStats {
    /// When the queue was paused; `None`: it is not paused.
    pub paused_at: Option<Moment>,
    /// How many of its jobs are in each state.
    pub counts: Vec<(JobState, usize)>,
}

impl Store {
    /// All queues, by name.
    pub fn queues(&self) -> impl Iterator<Item = (&str, &index::Queue)> {
        self.index.queues.iter().map(|(name, queue)| (&**name, queue))
    }

    /// Facts about a queue.
    ///
    /// # Errors
    ///
    /// There is no such queue.
    pub fn queue_stats(&self, name: &str) -> Result<QueueStats, Refusal> {
        let queue = self.index.queues.get(name).ok_or_else(|| no_queue(name))?;
        let counts = JobState::ALL
            .into_iter()
            .map(|state| (state, queue.counts.of(state)))
            .collect();
        Ok(QueueStats {
            paused_at: queue.paused_at,
            counts,
        })
    }

    /// Stops or resumes a queue. A queue that no job has named yet can be paused, too.
    ///
    /// # Errors
    ///
    /// The name is no valid queue name, or there are too many queues.
    pub fn pause(&mut self, now: Moment, name: &str, is_paused: bool) -> Result<(), Refusal> {
        new_job::check_queue(name)?;
        if !self.index.queues.contains_key(name) {
            self.check_queue_takes(name)?;
        }
        let queue = self.index.queue(&Arc::from(name), now);
        queue.paused_at = is_paused.then_some(queue.paused_at.unwrap_or(now));
        Ok(())
    }
}

fn no_queue(name: &str) -> Refusal {
    let message = format!("there is no queue '{name}'; it comes with its first job");
    Refusal::not_found("queue", name, message)
}
