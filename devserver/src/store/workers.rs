//! Workers register, send heartbeats, receive directives, and deregister.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::job::{Directive, Job, JobState, WorkerId};
use super::worker::{Heartbeat, HeartbeatAnswer, Worker};
use super::{LONGEST, Store};
use crate::json::Object;
use crate::moment::Moment;
use crate::refusal::{Refusal, RefusalKind};

/// Most workers at a time.
const MAX_WORKERS: usize = 10_000;

impl Store {
    /// The worker of that id; created if there is none.
    pub(super) fn worker_or_new(&mut self, now: Moment, id: &WorkerId) -> Result<&mut Worker, Refusal> {
        if !self.workers.contains_key(id) {
            if self.workers.len() >= MAX_WORKERS {
                return Err(Refusal::new(
                    RefusalKind::Full,
                    format!("there are {MAX_WORKERS} workers already"),
                ));
            }
            self.heartbeats.insert((now, Arc::clone(id)));
        }
        Ok(self.workers.entry(Arc::clone(id)).or_insert_with(|| Worker {
            info: Object::default(),
            is_registered: false,
            directive: Directive::Run,
            reported: Directive::Run,
            since: now,
            last_heartbeat: now,
        }))
    }

    /// Adds a worker that a request names before it has registered.
    ///
    /// # Errors
    ///
    /// There are too many workers.
    pub fn ensure_worker(&mut self, now: Moment, id: &str) -> Result<(), Refusal> {
        self.worker_or_new(now, &Arc::from(id)).map(|_| ())
    }

    fn mark_alive(&mut self, now: Moment, id: &WorkerId) {
        if let Some(worker) = self.workers.get_mut(id) {
            self.heartbeats.remove(&(worker.last_heartbeat, Arc::clone(id)));
            worker.last_heartbeat = now;
            self.heartbeats.insert((now, Arc::clone(id)));
        }
    }

    /// Registers a worker.
    ///
    /// # Errors
    ///
    /// There are too many workers.
    pub fn register(&mut self, now: Moment, id: &str, info: Object) -> Result<(), Refusal> {
        let id: WorkerId = id.into();
        let worker = self.worker_or_new(now, &id)?;
        worker.info = info;
        worker.is_registered = true;
        self.mark_alive(now, &id);
        Ok(())
    }

    /// Whether the timeouts of jobs of this worker are kept here. A worker that has registered
    /// keeps them itself, with a grace of which the server knows nothing.
    pub(super) fn ends_executions_of(&self, worker: Option<&WorkerId>) -> bool {
        let known = worker.and_then(|id| self.workers.get(id));
        self.settings.enforces_timeouts && !known.is_some_and(|worker| worker.is_registered)
    }

    /// Deregisters a worker. Jobs that it still has stay reserved until their visibility timeout.
    ///
    /// # Errors
    ///
    /// There is no such worker.
    pub fn deregister(&mut self, id: &str) -> Result<(), Refusal> {
        let id: WorkerId = id.into();
        if self.drop_worker(&id) {
            Ok(())
        } else {
            Err(Refusal::no_worker(&id))
        }
    }

    pub(super) fn drop_worker(&mut self, id: &WorkerId) -> bool {
        let gone = self.workers.remove(id);
        if let Some(worker) = &gone {
            self.heartbeats.remove(&(worker.last_heartbeat, Arc::clone(id)));
        }
        gone.is_some()
    }

    /// Records a heartbeat: the reservations of the named jobs last their full length from now on.
    ///
    /// # Errors
    ///
    /// There are too many workers.
    pub fn heartbeat(&mut self, now: Moment, beat: &Heartbeat) -> Result<HeartbeatAnswer, Refusal> {
        let id: WorkerId = beat.worker.as_str().into();
        let worker = self.worker_or_new(now, &id)?;
        worker.reported = beat.reported.unwrap_or(worker.reported);
        for (name, value) in beat.info.fields() {
            worker.info.set(name, value.to_owned());
        }
        let mut directive = worker.directive;
        self.mark_alive(now, &id);
        let mut extended = Vec::new();
        for job in &beat.jobs {
            if self.extend(now, job, &id, beat.extension) {
                extended.push(Arc::from(job.as_str()));
                let told = self.jobs.get(job.as_str()).and_then(|job| job.test_directive);
                directive = directive.max(told.unwrap_or_default());
            }
        }
        Ok(HeartbeatAnswer { directive, extended })
    }

    /// Whether the worker still has the job, the reservation of which begins anew if so.
    fn extend(&mut self, now: Moment, job: &str, worker: &WorkerId, extension: Option<Duration>) -> bool {
        let has = |job: &Job| job.state == JobState::Active && job.is_held_by(Some(worker));
        if !self.jobs.get(job).is_some_and(has) {
            return false;
        }
        self.change(job, |job| {
            let length = job.reservation.as_ref().map(|reservation| reservation.length);
            let length = extension.or(length).unwrap_or_default().min(LONGEST);
            job.due_at = Some((now + length).min(job.times_out_at.unwrap_or(now + length)));
        });
        true
    }

    /// Counts a report about a job as a heartbeat of its worker (progress 6.3).
    pub(super) fn count_as_heartbeat(&mut self, now: Moment, job: &str) {
        let Some(worker) = self.jobs.get(job).and_then(|job| job.worker()).cloned() else {
            return;
        };
        self.mark_alive(now, &worker);
        self.extend(now, job, &worker, None);
    }

    /// Sets the directive that a worker receives from its next heartbeat on.
    ///
    /// # Errors
    ///
    /// There is no such worker, or its directive is already to terminate and this one is another.
    pub fn direct(&mut self, id: &str, directive: Directive) -> Result<(), Refusal> {
        let worker = self.workers.get_mut(id).ok_or_else(|| Refusal::no_worker(id))?;
        if worker.directive == Directive::Terminate && directive < Directive::Terminate {
            let message = format!("the worker '{id}' was told to terminate: there is no way back from that");
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        worker.directive = directive;
        Ok(())
    }

    /// All known workers, registered or not: those that have neither deregistered nor been declared
    /// dead.
    pub fn workers(&self) -> &BTreeMap<WorkerId, Worker> {
        &self.workers
    }

    /// How many jobs a worker has.
    pub fn held_by(&self, worker: &str) -> usize {
        self.index.held.get(worker).map_or(0, |held| held.len())
    }

    /// Most jobs that each worker ever had at once, including former workers.
    pub fn peaks(&self) -> &BTreeMap<WorkerId, usize> {
        &self.index.peaks
    }
}
