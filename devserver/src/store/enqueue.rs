//! Adds jobs to the store.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::job::{Job, JobId, JobState};
use super::new_job::{self, NewJob};
use super::{LONGEST, Store};
use crate::moment::Moment;
use crate::refusal::{Refusal, RefusalKind};

/// Most queues; a producer may name any queue.
const MAX_QUEUES: usize = 1_000;

impl Store {
    /// Adds jobs, all or none; `ids` names those without an id.
    ///
    /// # Errors
    ///
    /// An id is already in use, a queue is paused, or there is no room.
    pub fn enqueue(
        &mut self,
        now: Moment,
        jobs: Vec<NewJob>,
        mut ids: impl FnMut() -> String,
    ) -> Result<Vec<JobId>, Refusal> {
        if self.index.unfinished() + jobs.len() > self.settings.max_jobs {
            let message = format!(
                "{} jobs are unfinished, {} would join them, and --max-jobs is {}: try again when some are done",
                self.index.unfinished(),
                jobs.len(),
                self.settings.max_jobs
            );
            return Err(Refusal::new(RefusalKind::Full, message));
        }
        let mut named = BTreeSet::new();
        for job in &jobs {
            if let Some(id) = &job.id
                && (self.jobs.contains_key(id.as_str()) || !named.insert(id.clone()))
            {
                return Err(new_job::duplicate(id));
            }
            self.check_queue_takes(&job.queue)?;
        }
        Ok(jobs.into_iter().map(|job| self.admit(now, job, &mut ids)).collect())
    }

    /// Refuses a job for a queue that accepts none.
    pub(super) fn check_queue_takes(&self, name: &str) -> Result<(), Refusal> {
        match self.index.queues.get(name) {
            Some(queue) if queue.paused_at.is_some() => {
                let message = format!("the queue '{name}' is paused: resume it, or use another one");
                Err(Refusal::new(RefusalKind::QueuePaused, message).with(&serde_json::json!({"queue": name})))
            }
            None if self.index.queues.len() >= MAX_QUEUES => {
                let message =
                    format!("there are {MAX_QUEUES} queues already, and the queue '{name}' would be another one");
                Err(Refusal::new(RefusalKind::Full, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn admit(&mut self, now: Moment, new: NewJob, ids: &mut impl FnMut() -> String) -> JobId {
        let id: JobId = new.id.unwrap_or_else(ids).into();
        let scheduled_at = new.scheduled_at.map(|at| self.moment(at)).filter(|at| *at > now);
        let expires_at = new.expires_at.map(|at| self.moment(at));
        let state = match scheduled_at {
            _ if new.is_pending => JobState::Pending,
            Some(_) => JobState::Scheduled,
            None => JobState::Available,
        };
        let queue: Arc<str> = new.queue.into();
        self.index.queue(&queue, now);
        let starts_at = scheduled_at.filter(|_| state == JobState::Scheduled);
        let job = Job {
            id: Arc::clone(&id),
            kind: new.kind,
            queue,
            priority: new.priority,
            number: self.next_number,
            policy: new.policy,
            visibility: new.visibility,
            expires_at,
            timeout: new.timeout,
            times_out_at: None,
            test_directive: new.test_directive,
            producer_fields: new.producer_fields,
            state,
            attempt: 0,
            attempts_used: 0,
            due_at: [starts_at, expires_at].into_iter().flatten().min(),
            reservation: None,
            is_dead_letter: false,
            created_at: now,
            enqueued_at: (state == JobState::Available).then_some(now),
            started_at: None,
            ended_at: None,
            retry_delay: None,
            error: None,
            errors: VecDeque::new(),
            result: None,
            checkpoint: None,
            last_sequence: None,
            progress: None,
            deliveries: VecDeque::new(),
            times_delivered: 0,
            times_acked: 0,
        };
        self.next_number += 1;
        self.index.insert(&job);
        self.changes.note(&job, JobState::Pending);
        self.by_number.insert(job.number, Arc::clone(&id));
        self.jobs.insert(Arc::clone(&id), job);
        self.forget_the_oldest();
        id
    }

    /// A wall-clock time as a moment; a time in the past becomes the start.
    fn moment(&self, at: Timestamp) -> Moment {
        Duration::try_from(at.duration_since(self.epoch))
            .unwrap_or_default()
            .min(LONGEST)
    }
}
