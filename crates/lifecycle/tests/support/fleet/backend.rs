//! The backend of a fleet: one queue, one request after the other, and event streams.

use std::collections::VecDeque;
use std::time::Duration;

use ojs_lifecycle::api::ids::{CallId, JobId};
use ojs_lifecycle::api::{
    BackendTraits, Call, Delivery, Failure, Reply, Reservation, StreamNews, StreamTopic, Subject, Text,
};

use super::conditions::{Conditions, Streams};

/// The only queue.
pub const QUEUE: &str = "default";

/// A change of a job, which an event stream may announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Available,
    Active,
    Completed,
}

/// A job.
#[derive(Debug)]
pub struct Job {
    pub id: JobId,
    pub enqueued: Duration,
    /// The last change.
    pub state: Change,
    /// Reservations that it has had.
    pub attempts: u64,
    /// How often a handler has begun it.
    pub runs: u32,
}

/// A stream that is open.
#[derive(Debug)]
pub struct Stream {
    pub worker: usize,
    pub call: CallId,
    pub opened: Duration,
    /// When the last event reaches the worker.
    pub told_until: Duration,
}

/// The result of a request.
#[derive(Debug)]
pub struct Done {
    pub reply: Reply,
    /// The changes of jobs that it has made.
    pub changes: Vec<(usize, Change)>,
}

/// The backend.
#[derive(Debug)]
pub struct Backend {
    pub jobs: Vec<Job>,
    pub streams: Vec<Stream>,
    kind: Streams,
    streams_last: Option<Duration>,
    service: Duration,
    /// When it has carried out all requests that have arrived.
    free_at: Duration,
    available: VecDeque<usize>,
    done: usize,
    mail: Text,
    queue: Text,
}

impl Backend {
    pub fn new(conditions: &Conditions) -> Self {
        Self {
            jobs: Vec::new(),
            streams: Vec::new(),
            kind: conditions.streams,
            streams_last: conditions.streams_last,
            service: conditions.service,
            free_at: Duration::ZERO,
            available: VecDeque::new(),
            done: 0,
            mail: "mail".into(),
            queue: QUEUE.into(),
        }
    }

    /// The news of a change on the streams of this backend. `None`: the streams send none that the
    /// machine understands. Only this function knows how a change is announced.
    pub fn news(&self, job: usize, change: Change) -> Option<StreamNews> {
        let id = || self.jobs[job].id.clone();
        match (self.kind, change) {
            (Streams::OfEachQueue, Change::Available) => Some(StreamNews::JobAvailable {
                job: Some(id()),
                came_due: false,
            }),
            (Streams::OfEachQueue, Change::Active) => Some(StreamNews::JobTaken(id())),
            (Streams::OfAllTogether, Change::Available) => Some(StreamNews::JobAvailable {
                job: None,
                came_due: false,
            }),
            (Streams::OfEachQueue, Change::Completed)
            | (Streams::OfAllTogether, Change::Active | Change::Completed)
            | (Streams::Missing, _) => None,
        }
    }

    pub fn are_all_done(&self) -> bool {
        self.done == self.jobs.len()
    }

    /// A new job is available.
    pub fn enqueue(&mut self, now: Duration) -> usize {
        let number = self.jobs.len();
        // As long as the names that backends give, and as alike.
        let id: Text = format!("019aab00-0000-7000-8000-{number:012}").into();
        self.jobs.push(Job {
            id: JobId(id),
            enqueued: now,
            state: Change::Available,
            attempts: 0,
            runs: 0,
        });
        self.available.push_back(number);
        number
    }

    /// The place of a job, from the end of its name.
    pub fn place(id: &str) -> usize {
        let number = id.rsplit('-').next().and_then(|number| number.parse().ok());
        number.unwrap_or(usize::MAX)
    }

    /// A request has arrived. Returns when it is carried out.
    pub fn arrives(&mut self, now: Duration) -> Duration {
        self.free_at = self.free_at.max(now) + self.service;
        self.free_at
    }

    /// Carries out the request.
    pub fn serve(&mut self, call: &Call, worker: usize, id: CallId, now: Duration) -> Done {
        let mut changes = Vec::new();
        let reply = match call {
            Call::Register { .. } => Reply::Registered {
                heartbeat_interval: None,
                longest_interval: None,
            },
            Call::Heartbeat { active, .. } => Reply::HeartbeatOk {
                directive: None,
                extended: Some(active.clone()),
            },
            Call::Fetch { count, .. } => {
                let count = self.available.len().min(usize::try_from(*count).unwrap_or(usize::MAX));
                let jobs: Vec<usize> = self.available.drain(..count).collect();
                changes.extend(jobs.iter().map(|job| (*job, Change::Active)));
                Reply::Fetched(jobs.into_iter().map(|job| self.deliver(job, now)).collect())
            }
            Call::Manifest => Reply::Manifest(BackendTraits::default()),
            Call::Report { job, outcome, .. } => self.report(job, outcome.is_ack(), &mut changes),
            Call::Listen { topic } => self.listen(topic, worker, id, now),
            Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => Reply::Accepted,
            Call::GetJob { .. } => Reply::Failed(Failure::Unsupported),
        };
        Done { reply, changes }
    }

    /// An ACK; in a fleet whose handlers all succeed any other outcome means that the job is
    /// delivered again.
    fn report(&mut self, id: &JobId, is_ack: bool, changes: &mut Vec<(usize, Change)>) -> Reply {
        let place = Self::place(&id.0);
        let job = &mut self.jobs[place];
        if job.state == Change::Completed {
            return Reply::Failed(Failure::AlreadyCompleted);
        }
        if is_ack {
            job.state = Change::Completed;
            self.done += 1;
        } else {
            job.state = Change::Available;
            self.available.push_back(place);
        }
        changes.push((place, job.state));
        Reply::Accepted
    }

    fn listen(&mut self, topic: &StreamTopic, worker: usize, call: CallId, now: Duration) -> Reply {
        let is_offered = match topic {
            StreamTopic::Queue(_) => self.kind == Streams::OfEachQueue,
            StreamTopic::Queues(_) => self.kind == Streams::OfAllTogether,
        };
        if !is_offered {
            return Reply::Failed(Failure::Unsupported);
        }
        self.streams.push(Stream {
            worker,
            call,
            opened: now,
            told_until: Duration::ZERO,
        });
        // The worker's shell makes `Opened` of it.
        Reply::Accepted
    }

    /// Before a write to all streams, ends those that are too old for it. These do not receive it.
    pub fn cut_old_streams(&mut self, now: Duration) -> Vec<(usize, CallId)> {
        let Some(last) = self.streams_last else {
            return Vec::new();
        };
        let cut = self.streams.extract_if(.., |stream| now - stream.opened >= last);
        cut.map(|stream| (stream.worker, stream.call)).collect()
    }

    /// The worker closes a stream.
    pub fn hangs_up(&mut self, worker: usize, call: CallId) {
        self.streams
            .retain(|stream| (stream.worker, stream.call) != (worker, call));
    }

    /// The reservation of a job expires. Returns whether that makes the job available.
    pub fn lapses(&mut self, place: usize) -> bool {
        let job = &mut self.jobs[place];
        let is_lost = job.state == Change::Active;
        if is_lost {
            job.state = Change::Available;
            self.available.push_back(place);
        }
        is_lost
    }

    fn deliver(&mut self, place: usize, now: Duration) -> Delivery {
        let job = &mut self.jobs[place];
        job.state = Change::Active;
        job.attempts += 1;
        Delivery {
            subject: Subject {
                id: job.id.clone(),
                kind: self.mail.clone(),
                queue: self.queue.clone(),
                attempt: Some(job.attempts),
                max_attempts: None,
                trace: None,
            }
            .into(),
            envelope: (&*job.id.0).into(),
            checkpoint: None,
            timeout: None,
            reservation: Reservation {
                attempt: Some(job.attempts),
                started_at: None,
            },
            has_crashed: false,
            visibility: None,
            waited: Some(now - job.enqueued),
        }
    }
}
