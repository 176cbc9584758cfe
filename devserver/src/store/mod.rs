//! The jobs, and every rule about them. No clock and no socket: each call is told what time it is, as the time since the
//! start of the server, and gives what there is to answer.

mod checkpoint;
mod dead_letter;
mod envelope;
mod index;
pub mod job;
pub mod new_job;
mod outcome;
mod queues;
mod recovery;
mod retry;
pub mod snapshot;
pub mod worker;
mod workers;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workers_tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use index::Index;
use job::{Job, JobId, JobState, Reservation, WorkerId};
use new_job::NewJob;
use worker::Worker;

use crate::moment::Moment;
use crate::refusal::{Kind, Refusal};

pub use envelope::Envelope;

/// Most queues; each is a name that somebody made up.
const MAX_QUEUES: usize = 1_000;

/// Most jobs that one FETCH gets.
const MAX_FETCH: u64 = 1_000;

/// Longest time that anything is put off: about 30 years.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// What can be chosen about a store.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a job is reserved when neither it nor the worker says so.
    pub visibility_timeout: Duration,
    /// How long a worker may be silent.
    pub heartbeat_timeout: Duration,
    /// Most jobs.
    pub max_jobs: usize,
}

/// Everything that the backend knows.
#[derive(Debug)]
pub struct Store {
    settings: Settings,
    /// What the wall clock said at the start.
    epoch: Timestamp,
    random: fastrand::Rng,
    jobs: BTreeMap<JobId, Job>,
    by_number: BTreeMap<u64, JobId>,
    index: Index,
    workers: BTreeMap<WorkerId, Worker>,
    /// Last heartbeats, the longest ago first.
    beats: BTreeSet<(Moment, WorkerId)>,
    next_number: u64,
}

/// What a FETCH asks for.
#[derive(Debug, Clone, Default)]
pub struct Fetch {
    /// In the order in which they are looked through.
    pub queues: Vec<String>,
    /// Most jobs.
    pub count: u64,
    /// Who asks.
    pub worker: Option<String>,
    /// How long the jobs are to be reserved.
    pub visibility: Option<Duration>,
    /// How long, when neither the request nor the job says so.
    pub default_visibility: Option<Duration>,
    /// Whether a worker that was told to be quiet, or says that it is, gets jobs all the same.
    pub ignores_quiet: bool,
}

impl Store {
    /// An empty one. `epoch` is what the wall clock says at the start; `seed` decides the jitter of retries.
    pub fn new(settings: Settings, epoch: Timestamp, seed: u64) -> Self {
        Self {
            settings,
            epoch,
            random: fastrand::Rng::with_seed(seed),
            jobs: BTreeMap::new(),
            by_number: BTreeMap::new(),
            index: Index::default(),
            workers: BTreeMap::new(),
            beats: BTreeSet::new(),
            next_number: 0,
        }
    }

    /// What the wall clock said at the start.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// A job.
    pub fn job(&self, id: &str) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// Takes jobs in, all or none; `ids` names those that came without an id.
    ///
    /// # Errors
    ///
    /// An id is taken, a queue is paused, or there is no room.
    pub fn enqueue(
        &mut self,
        now: Moment,
        jobs: Vec<NewJob>,
        mut ids: impl FnMut() -> String,
    ) -> Result<Vec<JobId>, Refusal> {
        if self.index.live() + jobs.len() > self.settings.max_jobs {
            let message = format!(
                "{} jobs are unfinished, {} would join them, and --max-jobs is {}: try again when some are done",
                self.index.live(),
                jobs.len(),
                self.settings.max_jobs
            );
            return Err(Refusal::new(Kind::Full, message));
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

    fn check_queue_takes(&self, name: &str) -> Result<(), Refusal> {
        match self.index.queues.get(name) {
            Some(queue) if queue.paused_at.is_some() => {
                let message = format!("the queue '{name}' is paused: resume it, or use another one");
                Err(Refusal::new(Kind::QueuePaused, message).with(&serde_json::json!({"queue": name})))
            }
            None if self.index.queues.len() >= MAX_QUEUES => {
                let message =
                    format!("there are {MAX_QUEUES} queues already, and the queue '{name}' would be another one");
                Err(Refusal::new(Kind::Full, message))
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
            test_directive: new.test_directive,
            given: new.given,
            state,
            attempt: 0,
            used: 0,
            due: [starts_at, expires_at].into_iter().flatten().min(),
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
        self.by_number.insert(job.number, Arc::clone(&id));
        self.jobs.insert(Arc::clone(&id), job);
        self.forget_the_oldest();
        id
    }

    /// A wall-clock time as a moment; what is past is the start.
    fn moment(&self, at: Timestamp) -> Moment {
        Duration::try_from(at.duration_since(self.epoch))
            .unwrap_or_default()
            .min(LONGEST)
    }

    fn forget_the_oldest(&mut self) {
        while self.jobs.len() > self.settings.max_jobs {
            let Some((_, number)) = self.index.ended.first().cloned() else {
                return;
            };
            self.forget(number);
        }
    }

    /// Takes a job out of the store.
    fn forget(&mut self, number: u64) {
        let id = self.by_number.remove(&number);
        if let Some(job) = id.and_then(|id| self.jobs.remove(&id)) {
            self.index.remove(&job);
        }
    }

    /// The only way to change a job: every look-up follows.
    fn change<T>(&mut self, id: &str, edit: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let job = self.jobs.get_mut(id)?;
        self.index.remove(job);
        let result = edit(job);
        self.index.insert(job);
        Some(result)
    }

    /// Hands out jobs: in the order of the queues, in each by priority and age.
    ///
    /// # Errors
    ///
    /// There are too many workers.
    pub fn fetch(&mut self, now: Moment, fetch: &Fetch) -> Result<Vec<JobId>, Refusal> {
        let worker: Option<WorkerId> = fetch.worker.as_deref().map(Arc::from);
        if let Some(worker) = &worker
            && !self.meet(now, worker)?.is_running()
            && !fetch.ignores_quiet
        {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for _ in 0..fetch.count.min(MAX_FETCH) {
            let Some(id) = self.best_of(&fetch.queues) else { break };
            let default = fetch.default_visibility.unwrap_or(self.settings.visibility_timeout);
            self.reserve(now, &id, worker.clone(), fetch.visibility, default);
            found.push(id);
        }
        Ok(found)
    }

    /// Hands out what can be fetched and was handed out before, whatever queue it is in.
    pub fn take_over(&mut self, now: Moment, worker: &str) -> Vec<JobId> {
        let ready = self.index.queues.values().flat_map(|queue| queue.ready.values());
        let had = |id: &&JobId| self.jobs.get(*id).is_some_and(|job| job.times_delivered > 0);
        let found: Vec<JobId> = ready.filter(had).cloned().collect();
        for id in &found {
            self.reserve(now, id, Some(Arc::from(worker)), None, self.settings.visibility_timeout);
        }
        found
    }

    fn reserve(
        &mut self,
        now: Moment,
        id: &JobId,
        worker: Option<WorkerId>,
        visibility: Option<Duration>,
        default: Duration,
    ) {
        self.change(id, |job| {
            let length = visibility.or(job.visibility).unwrap_or(default);
            let length = length.min(LONGEST);
            job.state = JobState::Active;
            job.attempt = job.used + 1;
            job.started_at = Some(now);
            job.due = Some(now + length);
            job.reservation = Some(Reservation { worker, length });
            job.progress = None;
            job.retry_delay = None;
            job.deliver(now);
        });
    }

    fn best_of(&self, queues: &[String]) -> Option<JobId> {
        let open = queues.iter().filter_map(|name| self.index.queues.get(name.as_str()));
        let mut ready = open
            .filter(|queue| queue.paused_at.is_none())
            .map(|queue| queue.ready.first_key_value());
        ready.find_map(|first| first.map(|(_, id)| Arc::clone(id)))
    }
}
