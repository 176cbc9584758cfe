//! The counts behind `/metrics`. They decide nothing, and the machine does not know them. Their
//! size is bounded: job types, errors and statuses beyond a bound are counted under one name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    CallId, CancelReason, DropCause, Effect, Endpoint, JobEnd, JobNotice, LinkNotice, Moment, Notice, Outcome,
    RecycleReason, Reply, Subject, Text, WorkerNotice,
};
use ojs_values::text::beginning;

/// Most pairs of queue and job type with a separate count; further pairs count as [`OTHER`], both
/// of them.
pub const MOST_KINDS: usize = 64;

/// Most bytes of the name of a queue or of a job type. A longer name is cut, and counts with the
/// names that begin alike.
pub const MOST_NAME_BYTES: usize = 64;

/// Ends a name that was cut.
const CUT: &str = "...";

/// Most types of errors with a separate count; FAILs with further ones count as [`OTHER`].
pub const MOST_ERRORS: usize = 32;

/// Most statuses of one endpoint with a separate count; further ones count as
/// [`StatusLabel::Other`].
pub const MOST_STATUSES: usize = 16;

/// Queue and type of everything beyond [`MOST_KINDS`].
pub const OTHER: &str = "other";

/// Upper bounds of the classes of a job's duration: those that the observability document
/// recommends (its section 8.2), and two for jobs whose duration decides the grace period.
pub const BUCKETS: [Duration; 17] = [
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
    Duration::from_secs(600),
    Duration::from_secs(3600),
];

/// The type and the queue of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobKind {
    /// The queue of the job; empty if the backend does not name it.
    pub queue: Text,
    /// Its type.
    pub kind: Text,
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusLabel {
    /// Not at all.
    None,
    /// With this HTTP status.
    Http(u16),
    /// With one beyond [`MOST_STATUSES`].
    Other,
}

/// Durations of the jobs of one kind with one outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Jobs by the number of their bucket in [`BUCKETS`]; each job counts in one.
    buckets: [u64; BUCKETS.len()],
    /// Jobs in all buckets.
    pub count: u64,
    /// All of their durations.
    pub sum: Duration,
}

impl Histogram {
    fn observe(&mut self, duration: Duration) {
        let fits = BUCKETS.iter().position(|most| duration <= *most);
        if let Some(bucket) = fits.and_then(|index| self.buckets.get_mut(index)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// Each upper bound with the number of jobs that lasted at most that long.
    pub fn cumulated(&self) -> impl Iterator<Item = (Duration, u64)> {
        let sums = self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BUCKETS.into_iter().zip(sums)
    }
}

/// The counts of one type of job in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerKind {
    ends: BTreeMap<JobEnd, u64>,
    /// Jobs whose own timeout expired.
    pub timed_out: u64,
    /// From the hand-over to the first request that reports the outcome to the backend.
    pub durations: BTreeMap<JobEnd, Histogram>,
}

impl PerKind {
    /// Reservations that ended like this.
    pub fn ends(&self, end: JobEnd) -> u64 {
        self.ends.get(&end).copied().unwrap_or_default()
    }
}

/// Everything that is counted since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    kinds: BTreeMap<JobKind, PerKind>,
    /// FAILs that the backend has, by the type of their error.
    errors: BTreeMap<Text, u64>,
    /// Requests on their way; each is answered.
    calls: BTreeMap<CallId, Endpoint>,
    requests: BTreeMap<(Endpoint, StatusLabel), u64>,
    /// When the backend last accepted a heartbeat. Before the first one, the start.
    heartbeat_at: Moment,
    pub heartbeats_failed: u64,
    /// Finished jobs whose ACK was sent without its result, because the backend did not accept it.
    pub results_dropped: u64,
    /// FETCHes that a stream of events brought forward.
    pub wakeups: u64,
    /// Jobs that were dropped because nothing showed that their holders still had them.
    pub jobs_dropped: u64,
    /// How often a type, or a job, began to be given back again and again.
    pub give_back_loops: u64,
    workers_started: u64,
    /// Recyclings of the worker, by the word for their reason.
    pub recycles: BTreeMap<&'static str, u64>,
    /// When the last worker was started.
    worker_started_at: Option<Moment>,
    /// Jobs that were given to it.
    worker_jobs: u64,
    /// Processes that were reaped and are not the worker.
    pub orphans_reaped: u64,
    /// The start, since the beginning of 1970.
    pub started_at: Duration,
}

impl Metrics {
    /// Metrics without a count. `now` is `since_1970` after the beginning of 1970.
    pub fn new(now: Moment, since_1970: Duration) -> Self {
        Self {
            heartbeat_at: now,
            recycles: RecycleReason::WORDS.map(|word| (word, 0)).into(),
            started_at: since_1970,
            ..Self::default()
        }
    }

    /// The machine orders this.
    pub fn observe(&mut self, effect: &Effect) {
        if let Effect::CallBackend { id, call, .. } = effect {
            self.calls.insert(*id, call.endpoint());
        } else if let Effect::Notify(notice) = effect {
            self.noticed(notice);
        }
    }

    fn noticed(&mut self, notice: &Notice) {
        if let Notice::Job(notice) = notice {
            self.job_noticed(notice);
        } else if let Notice::Worker(WorkerNotice::Recycling { reason, .. }) = notice {
            *self.recycles.entry(reason.word()).or_default() += 1;
        } else if let Notice::Link(LinkNotice::WokenUp) = notice {
            self.wakeups += 1;
        }
    }

    fn job_noticed(&mut self, notice: &JobNotice) {
        if let JobNotice::Claimed(job) | JobNotice::HandedOver(job, _) = notice {
            // Shows the job's kind from here on, so a watcher of a figure sees it leave zero.
            self.of(job);
            self.worker_jobs += u64::from(matches!(notice, JobNotice::HandedOver(..)));
        } else if let JobNotice::OutcomeSent { job, end, took } = notice {
            self.of(job).durations.entry(*end).or_default().observe(*took);
        } else if let JobNotice::TimedOut(job, _) | JobNotice::TimeoutPassed(job, _) = notice {
            self.of(job).timed_out += 1;
        } else if let JobNotice::GivenBackAgain { .. } = notice {
            self.give_back_loops += 1;
        } else if let JobNotice::ResultDropped(_) = notice {
            self.results_dropped += 1;
        } else if let Some((job, end)) = end(notice) {
            self.count_error(notice);
            self.jobs_dropped += u64::from(matches!(notice, JobNotice::Dropped(..)));
            *self.of(job).ends.entry(end).or_default() += 1;
        }
    }

    fn count_error(&mut self, notice: &JobNotice) {
        let JobNotice::Settled {
            outcome: Outcome::Failed { error },
            ..
        } = notice
        else {
            return;
        };
        let name = error.kind.as_ref().or(error.code.as_ref()).map_or("".into(), cut);
        let is_told_apart = self.errors.contains_key(&name) || self.errors.len() < MOST_ERRORS;
        let name = if is_told_apart { name } else { OTHER.into() };
        *self.errors.entry(name).or_default() += 1;
    }

    /// FAILs by the type of their error.
    pub fn errors(&self) -> impl Iterator<Item = (&Text, u64)> {
        self.errors.iter().map(|(error, count)| (error, *count))
    }

    /// Counts an answered request, with its HTTP status if there was an answer.
    pub fn answered(&mut self, call: CallId, reply: &Reply, status: Option<u16>, now: Moment) {
        let Some(endpoint) = self.calls.remove(&call) else {
            return;
        };
        let status = self.status(endpoint, status);
        *self.requests.entry((endpoint, status)).or_default() += 1;
        if endpoint == Endpoint::Heartbeat {
            if matches!(reply, Reply::HeartbeatOk { .. }) {
                self.heartbeat_at = now;
            } else {
                self.heartbeats_failed += 1;
            }
        }
    }

    fn status(&self, endpoint: Endpoint, status: Option<u16>) -> StatusLabel {
        let status = status.map_or(StatusLabel::None, StatusLabel::Http);
        let of_endpoint = (endpoint, StatusLabel::None)..=(endpoint, StatusLabel::Other);
        let is_known = status == StatusLabel::None || self.requests.contains_key(&(endpoint, status));
        if is_known || self.requests.range(of_endpoint).count() < MOST_STATUSES {
            status
        } else {
            StatusLabel::Other
        }
    }

    /// A worker was started; after a recycling, that is no restart.
    pub fn worker_started(&mut self, now: Moment, is_recycled: bool) {
        self.workers_started += u64::from(!is_recycled);
        self.worker_started_at = Some(now);
        self.worker_jobs = 0;
    }

    /// Since the last worker was started. `None`: there was none yet.
    pub fn worker_age(&self, now: Moment) -> Option<Duration> {
        self.worker_started_at.map(|at| at.elapsed(now))
    }

    /// Jobs that were given to the last worker. One that it gets a second time counts twice.
    pub fn worker_jobs(&self) -> u64 {
        self.worker_jobs
    }

    /// Workers that were started after the first one.
    pub fn restarts(&self) -> u64 {
        self.workers_started.saturating_sub(1)
    }

    /// Since the backend last accepted a heartbeat, or since the start.
    pub fn heartbeat_age(&self, now: Moment) -> Duration {
        self.heartbeat_at.elapsed(now)
    }

    /// Each kind of work that was seen.
    pub fn kinds(&self) -> impl Iterator<Item = (&JobKind, &PerKind)> {
        self.kinds.iter()
    }

    /// How often each endpoint was answered with each status.
    pub fn requests(&self) -> impl Iterator<Item = (Endpoint, StatusLabel, u64)> {
        self.requests
            .iter()
            .map(|((endpoint, status), count)| (*endpoint, *status, *count))
    }

    fn of(&mut self, job: &Subject) -> &mut PerKind {
        let kind = self.kind(job);
        self.kinds.entry(kind).or_default()
    }

    fn kind(&self, job: &Subject) -> JobKind {
        let kind = JobKind {
            queue: cut(&job.queue),
            kind: cut(&job.kind),
        };
        if self.kinds.contains_key(&kind) || self.kinds.len() < MOST_KINDS {
            return kind;
        }
        JobKind {
            queue: OTHER.into(),
            kind: OTHER.into(),
        }
    }
}

/// The reservation that ended with this.
pub(super) fn end(notice: &JobNotice) -> Option<(&Arc<Subject>, JobEnd)> {
    if let JobNotice::Settled { job, outcome, .. } = notice {
        Some((job, outcome.end()))
    } else if let JobNotice::Abandoned(job, _) | JobNotice::Dropped(job, DropCause::NotNamed | DropCause::Silent) =
        notice
    {
        Some((job, JobEnd::Left))
    } else if let JobNotice::DoneTwice(job) = notice {
        Some((job, JobEnd::Lost))
    } else if let JobNotice::ReservationLost(job, reason) = notice {
        let end = match reason {
            CancelReason::Cancelled => JobEnd::Cancelled,
            CancelReason::Operator | CancelReason::Lost | CancelReason::Shutdown | CancelReason::Timeout => {
                JobEnd::Lost
            }
        };
        Some((job, end))
    } else {
        None
    }
}

/// A name of at most [`MOST_NAME_BYTES`].
fn cut(name: &Text) -> Text {
    if name.len() <= MOST_NAME_BYTES {
        return name.clone();
    }
    format!("{}{CUT}", beginning(name, MOST_NAME_BYTES - CUT.len())).into()
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
