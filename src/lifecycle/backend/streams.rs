//! Streams of events: what each is about and how far it is, and when what they told last had a consequence.

use std::time::Duration;

use crate::lifecycle::api::ids::CallId;
use crate::lifecycle::api::{Failure, MOST_STREAMS, Moment, StreamTopic, Text};
use crate::lifecycle::backend::backoff::Jitter;
use crate::lifecycle::backend::retry_state::asked_for;

/// A stream that was there for so long had nothing wrong with it, however it ends.
const STEADY_AFTER: Duration = Duration::from_secs(30);

/// First and longest pause before a queue is asked for again that is not there: it comes with its first job.
const QUEUE_MAY_COME: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5 * 60));

/// First and longest pause after a stream that told more than we listen to. Where so much happens a poll finds jobs as well.
const FLOODED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10 * 60));

/// Pause before a backend is asked again that has no streams, or none for us.
const NOT_OFFERED: Duration = Duration::from_secs(10 * 60);

/// Pauses that double begin with this many doublings of the shortest: whoever lost a stream polls meanwhile.
const FEWEST_DOUBLINGS: u32 = 2;

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum StreamStage {
    Closed,
    /// The request is on its way.
    Asked(CallId),
    /// It tells, since then.
    Open(CallId, Moment),
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stream {
    topic: StreamTopic,
    stage: StreamStage,
    /// How often in a row it was not to be had, or ended soon.
    failures: u32,
    /// The backend has said that there is no such stream.
    is_missing: bool,
    /// The queue was not there: its first job says that it is.
    awaits_job: bool,
    /// A job of it has come since, and the stream was asked for because of that.
    had_job: bool,
}

/// All of them. A stream's number is its place: one for each queue, and the last one, which is asked for where these are
/// missing, for all queues together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct Streams {
    all: Vec<Stream>,
    /// Whether they are wanted at the moment.
    is_listening: bool,
    /// What the reader of the log knows: whether the backend tells of new jobs.
    is_offered: Option<bool>,
    /// When a FETCH was last brought forward to.
    woken_for: Option<Moment>,
    /// Until then nothing is brought forward.
    held_until: Option<Moment>,
    /// A job became available while a FETCH was on its way, which may have missed it.
    told_meanwhile: bool,
}

impl Streams {
    /// Of these queues.
    pub(in crate::lifecycle) fn new(queues: &[Text]) -> Self {
        let queues = queues.get(..queues.len().min(MOST_STREAMS)).unwrap_or_default();
        let each = queues.iter().map(|queue| StreamTopic::Queue(queue.clone()));
        let together = (!queues.is_empty()).then(|| StreamTopic::Queues(queues.to_vec()));
        let stream = |topic| Stream {
            topic,
            stage: StreamStage::Closed,
            failures: 0,
            is_missing: false,
            awaits_job: false,
            had_job: false,
        };
        Self {
            all: each.chain(together).map(stream).collect(),
            ..Self::default()
        }
    }

    /// Whether they are wanted by now: whether that is news.
    pub(super) fn are_wanted(&mut self, are_wanted: bool) -> bool {
        std::mem::replace(&mut self.is_listening, are_wanted) != are_wanted
    }

    /// Whether they are wanted.
    pub(super) fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// Their numbers.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.all.len()
    }

    /// The stream of all queues together.
    pub(super) fn together(&self) -> Option<usize> {
        self.all.len().checked_sub(1)
    }

    /// What a stream is about.
    pub(super) fn topic(&self, index: usize) -> Option<&StreamTopic> {
        self.all.get(index).map(|stream| &stream.topic)
    }

    /// Whether it is not asked for and not there.
    pub(in crate::lifecycle) fn is_closed(&self, index: usize) -> bool {
        let stream = self.all.get(index);
        stream.is_some_and(|stream| stream.stage == StreamStage::Closed)
    }

    /// The stream of this request.
    pub(in crate::lifecycle) fn find(&self, call: CallId) -> Option<usize> {
        let is_it = |stream: &Stream| stream.call() == Some(call);
        self.all.iter().position(is_it)
    }

    /// How many tell us something.
    pub(in crate::lifecycle) fn open(&self) -> usize {
        self.all.iter().filter(|stream| stream.is_open()).count()
    }

    /// Whether none is there and none is on its way.
    pub(super) fn are_closed(&self) -> bool {
        self.all.iter().all(|stream| stream.stage == StreamStage::Closed)
    }

    /// Whether the backend has said of each queue that it has no stream.
    pub(super) fn are_all_missing(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        self.all.iter().take(queues).all(|stream| stream.is_missing)
    }

    /// It is asked for.
    pub(super) fn asked(&mut self, index: usize, call: CallId) {
        if let Some(stream) = self.all.get_mut(index) {
            stream.stage = StreamStage::Asked(call);
        }
    }

    /// It is there.
    pub(super) fn opened(&mut self, index: usize, call: CallId, now: Moment) {
        if let Some(stream) = self.all.get_mut(index) {
            stream.stage = StreamStage::Open(call, now);
            stream.is_missing = false;
            stream.had_job = false;
        }
    }

    /// It is not wanted any more: the request to give up.
    pub(super) fn close(&mut self, index: usize) -> Option<CallId> {
        let stream = self.all.get_mut(index)?;
        let call = stream.call();
        stream.stage = StreamStage::Closed;
        call
    }

    /// It is over, or was not to be had: how long to wait before it is asked for again.
    pub(super) fn ended(&mut self, index: usize, failure: Failure, jitter: &mut Jitter, now: Moment) -> Duration {
        let Some(stream) = self.all.get_mut(index) else {
            return NOT_OFFERED;
        };
        if let StreamStage::Open(_, since) = stream.stage
            && since.elapsed(now) >= STEADY_AFTER
        {
            stream.failures = 0;
        }
        stream.stage = StreamStage::Closed;
        stream.is_missing = matches!(failure, Failure::NotFound | Failure::Unsupported);
        stream.awaits_job = failure == Failure::NotFound && !stream.had_job;
        let before = stream.failures;
        stream.failures = before.saturating_add(1);
        let doubled = |(first, longest): (Duration, Duration)| {
            let factor = 1_u32.checked_shl(before).unwrap_or(u32::MAX);
            first.saturating_mul(factor).min(longest)
        };
        match failure {
            Failure::NotSent
            | Failure::NoCredentials
            | Failure::Unanswered
            | Failure::ServerError
            | Failure::RetryLater { .. } => {
                jitter.retry_pause(before.saturating_add(FEWEST_DOUBLINGS), asked_for(failure))
            }
            Failure::NotFound => jitter.poll_pause(doubled(QUEUE_MAY_COME)),
            Failure::Overloaded => jitter.poll_pause(doubled(FLOODED)),
            Failure::Redirected
            | Failure::Unauthorized
            | Failure::Unsupported
            | Failure::NotFromBackend
            | Failure::Unregistered
            | Failure::Lost
            | Failure::Conflict { .. }
            | Failure::AlreadyCompleted
            | Failure::Refused => jitter.poll_pause(NOT_OFFERED),
        }
    }

    /// Whether the first job of a queue would be news.
    pub(super) fn await_jobs(&self) -> bool {
        self.all.iter().any(|stream| stream.awaits_job)
    }

    /// A job of this queue came: the stream that may be there by now.
    pub(super) fn job_came(&mut self, queue: &Text) -> Option<usize> {
        let is_it = |stream: &Stream| stream.awaits_job && stream.topic == StreamTopic::Queue(queue.clone());
        let index = self.all.iter().position(is_it)?;
        if let Some(stream) = self.all.get_mut(index) {
            stream.awaits_job = false;
            stream.had_job = true;
        }
        Some(index)
    }

    /// The backend tells of new jobs, or does not: whether that is news.
    pub(super) fn are_offered(&mut self, are_offered: bool) -> bool {
        self.is_offered.replace(are_offered) != Some(are_offered)
    }
}

/// What comes of what they tell.
impl Streams {
    /// A job that was given back would be told of: until then nothing is brought forward.
    pub(in crate::lifecycle) fn hold_until(&mut self, until: Moment) {
        self.held_until = self.held_until.max(Some(until));
    }

    /// A FETCH is to go out sooner: when, with so much between two of these.
    pub(super) fn next_wake(&self, wanted: Moment, between: Duration) -> Moment {
        let earliest = self.woken_for.map(|last| last.after(between));
        wanted
            .max(earliest.unwrap_or(wanted))
            .max(self.held_until.unwrap_or(wanted))
    }

    /// One goes out sooner, at this moment.
    pub(super) fn wakes(&mut self, at: Moment) {
        self.woken_for = Some(at);
    }

    /// A job became available while a FETCH is on its way.
    pub(super) fn tells_meanwhile(&mut self) {
        self.told_meanwhile = true;
    }

    /// The FETCH is answered, or the next one goes out: whether a job became available meanwhile.
    pub(super) fn takes_told_meanwhile(&mut self) -> bool {
        std::mem::take(&mut self.told_meanwhile)
    }
}

impl Stream {
    fn call(&self) -> Option<CallId> {
        match self.stage {
            StreamStage::Closed => None,
            StreamStage::Asked(call) | StreamStage::Open(call, _) => Some(call),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, StreamStage::Open(..))
    }
}
