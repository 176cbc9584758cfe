//! Streams of events: what each is about and how far it is, and when what they told last had a
//! consequence.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Failure, FailureClass, MOST_STREAMS, Moment, StreamTopic, Text};
use crate::retry::jitter::Jitter;
use crate::retry::state::asked_for;

/// A stream that was there for so long had nothing wrong with it, however it ends.
/// Public backends end each stream at its first write after 30 s.
const STEADY_AFTER: Duration = Duration::from_secs(20);

/// A steady stream that was cut is asked for again within this time, or within the window of a
/// wake-up. That grows with the number of workers, and a backend may cut all their streams at once.
const REOPEN_WITHIN: Duration = Duration::from_millis(100);

/// And within this time, however wide the window is.
const REOPEN_AT_LATEST: Duration = Duration::from_secs(5);

/// So many answers in a row that something went wrong there (500) say that the backend has no
/// streams.
const SERVER_ERRORS_OF_NO_STREAMS: u32 = 5;

/// First and longest pause before a queue is asked for again that is not there: it comes with its
/// first job.
const QUEUE_MAY_COME: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5 * 60));

/// First and longest pause after a stream that told more than we listen to. Where so much happens a
/// poll finds jobs as well.
const FLOODED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10 * 60));

/// Pause before a backend is asked again that has no streams, or none for us.
pub(super) const NOT_OFFERED: Duration = Duration::from_secs(10 * 60);

/// Pauses that double begin with this many doublings of the shortest: whoever lost a stream polls
/// meanwhile.
const FEWEST_DOUBLINGS: u32 = 2;

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum StreamStage {
    Closed,
    /// The request is on its way.
    Asked(CallId),
    /// The stream is open, since then.
    Open(CallId, Moment),
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stream {
    topic: StreamTopic,
    stage: StreamStage,
    /// How often in a row it was not to be had, or ended soon.
    failures: u32,
    /// Answers in a row that something went wrong there, and nothing else.
    server_errors: u32,
    /// The stream ended because the backend could not be reached, or did not answer well.
    awaits_backend: bool,
    /// The backend has said that there is no such stream, or the stream is deaf.
    is_missing: bool,
    /// The stream was steady and was cut, and it is asked for again. That lasts for
    /// `REOPEN_AT_LATEST` and one request at most.
    was_cut: bool,
    /// The stream has told something, at any time.
    has_told: bool,
    /// When it last told that somebody has taken a job.
    taken_at: Option<Moment>,
    /// Polls that found new jobs which it did not tell of.
    missed: u8,
    /// The stream was closed because it told nothing.
    is_deaf: bool,
    /// The queue was not there: its first job says that it is.
    awaits_job: bool,
    /// A job of it has come since, and the stream was asked for because of that.
    had_job: bool,
}

/// All of them. A stream's number is its place: one for each queue, and the last one, which is
/// asked for where these are missing, for all queues together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    /// Whether they are wanted at the moment.
    is_listening: bool,
    /// The log's knowledge: whether the backend tells of new jobs.
    is_offered: Option<bool>,
    /// When the last FETCH went out, if it brought no job.
    idle_since: Option<Moment>,
}

impl Streams {
    /// Of these queues.
    pub(crate) fn new(queues: &[Text]) -> Self {
        let queues = queues.get(..queues.len().min(MOST_STREAMS)).unwrap_or_default();
        let each = queues.iter().map(|queue| StreamTopic::Queue(queue.clone()));
        let together = (!queues.is_empty()).then(|| StreamTopic::Queues(queues.to_vec()));
        let stream = |topic| Stream {
            topic,
            stage: StreamStage::Closed,
            failures: 0,
            server_errors: 0,
            awaits_backend: false,
            is_missing: false,
            was_cut: false,
            has_told: false,
            taken_at: None,
            missed: 0,
            is_deaf: false,
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

    /// The subject of a stream.
    pub(super) fn topic(&self, index: usize) -> Option<&StreamTopic> {
        self.all.get(index).map(|stream| &stream.topic)
    }

    /// Whether it is not asked for and not there.
    pub(crate) fn is_closed(&self, index: usize) -> bool {
        let stream = self.all.get(index);
        stream.is_some_and(|stream| stream.stage == StreamStage::Closed)
    }

    /// The stream of this request.
    pub(crate) fn find(&self, call: CallId) -> Option<usize> {
        let is_it = |stream: &Stream| stream.call() == Some(call);
        self.all.iter().position(is_it)
    }

    /// How many tell us something.
    pub(crate) fn open(&self) -> usize {
        self.all.iter().filter(|stream| stream.is_open()).count()
    }

    /// Whether each queue has one, or there is one of all queues together.
    pub(super) fn are_all_open(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        let (each, together) = self.all.split_at(queues);
        together.iter().any(Stream::is_open) || (queues > 0 && each.iter().all(Stream::is_open))
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

    /// The stream is asked for.
    pub(super) fn asked(&mut self, index: usize, call: CallId) {
        if let Some(stream) = self.all.get_mut(index) {
            stream.stage = StreamStage::Asked(call);
            stream.is_deaf = false;
        }
    }

    /// The stream is open. Returns whether that ends the gap of a steady stream that was cut.
    pub(super) fn opened(&mut self, index: usize, call: CallId, now: Moment) -> bool {
        let Some(stream) = self.all.get_mut(index) else {
            return false;
        };
        stream.stage = StreamStage::Open(call, now);
        stream.is_missing = false;
        stream.had_job = false;
        stream.server_errors = 0;
        std::mem::take(&mut stream.was_cut)
    }

    /// The stream is not wanted any more. Returns the request to give up.
    pub(super) fn close(&mut self, index: usize) -> Option<CallId> {
        let stream = self.all.get_mut(index)?;
        let call = stream.call();
        stream.stage = StreamStage::Closed;
        stream.was_cut = false;
        call
    }

    /// The stream is over, or was not to be had. Returns the time until it is asked for again.
    /// `window` is that of a wake-up.
    pub(super) fn ended(
        &mut self,
        index: usize,
        failure: Failure,
        window: Duration,
        jitter: &mut Jitter,
        now: Moment,
    ) -> Duration {
        let Some(stream) = self.all.get_mut(index) else {
            return NOT_OFFERED;
        };
        let was_steady = matches!(stream.stage, StreamStage::Open(_, since) if since.elapsed(now) >= STEADY_AFTER);
        if was_steady {
            stream.failures = 0;
        }
        stream.was_cut = was_steady && failure == Failure::Unanswered;
        stream.stage = StreamStage::Closed;
        let is_server_error = failure == Failure::ServerError;
        stream.server_errors = if is_server_error {
            stream.server_errors.saturating_add(1)
        } else {
            0
        };
        let is_always_error = stream.server_errors >= SERVER_ERRORS_OF_NO_STREAMS;
        stream.awaits_backend = failure.class() == FailureClass::Outage;
        stream.is_missing = is_always_error || matches!(failure, Failure::NotFound | Failure::Unsupported);
        stream.awaits_job = failure == Failure::NotFound && !stream.had_job;
        let before = stream.failures;
        stream.failures = before.saturating_add(1);
        let doubled = |(first, longest): (Duration, Duration)| {
            let factor = 1_u32.checked_shl(before).unwrap_or(u32::MAX);
            first.saturating_mul(factor).min(longest)
        };
        match failure {
            Failure::ServerError if is_always_error => jitter.poll_pause(NOT_OFFERED),
            Failure::Unanswered if was_steady => jitter.up_to(window.clamp(REOPEN_WITHIN, REOPEN_AT_LATEST)),
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

    /// Whether it was steady and was cut, and is not open again.
    pub(super) fn was_cut(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|stream| stream.was_cut)
    }

    /// Whether an outage has ended it.
    pub(super) fn awaits_backend(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|stream| stream.awaits_backend)
    }

    /// Whether the backend has said that there is no such stream.
    pub(super) fn is_missing(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|stream| stream.is_missing)
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

/// Consequences of events.
impl Streams {
    /// The FETCH of this moment was answered: when the one before it went out, if that one brought
    /// no job.
    pub(super) fn fetch_answered(&mut self, sent_at: Moment, brought_jobs: bool) -> Option<Moment> {
        std::mem::replace(&mut self.idle_since, (!brought_jobs).then_some(sent_at))
    }

    /// A stream tells that somebody has taken a job.
    pub(super) fn taken(&mut self, index: usize, now: Moment) {
        self.told(index);
        if let Some(stream) = self.all.get_mut(index) {
            stream.taken_at = Some(now);
        }
    }

    /// Somebody has taken a job of each queue at this moment or later.
    pub(super) fn taken_everywhere_since(&self) -> Option<Moment> {
        let queues = self.together().unwrap_or_default();
        let taken = self.all.iter().take(queues).map(|stream| stream.taken_at);
        taken.min().flatten()
    }
}

/// Whether they tell anything.
impl Streams {
    /// How many are open and have told something at some time.
    pub(crate) fn telling(&self) -> usize {
        let tells = |stream: &&Stream| stream.is_open() && stream.has_told;
        self.all.iter().filter(tells).count()
    }

    /// How many were closed because they tell nothing.
    pub(crate) fn deaf(&self) -> usize {
        self.all.iter().filter(|stream| stream.is_deaf).count()
    }

    /// Whether this one was closed because it tells nothing.
    pub(super) fn is_deaf(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|stream| stream.is_deaf)
    }

    /// Whether all streams of single queues were.
    pub(super) fn are_all_deaf(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        queues > 0 && self.all.iter().take(queues).all(|stream| stream.is_deaf)
    }

    /// The stream has told something.
    pub(super) fn told(&mut self, index: usize) {
        if let Some(stream) = self.all.get_mut(index) {
            stream.has_told = true;
        }
    }

    /// Polls have found new jobs of these queues that became available after `since`. Returns a
    /// stream that was open all the time and has missed such jobs as often as it may, if it has
    /// never told anything.
    pub(super) fn missed(&mut self, queues: &BTreeSet<&Text>, since: Moment, most: u8) -> Option<usize> {
        let mut deaf = None;
        for (index, stream) in self.all.iter_mut().enumerate() {
            let is_about_them = match &stream.topic {
                StreamTopic::Queue(queue) => queues.contains(queue),
                StreamTopic::Queues(all) => all.iter().any(|queue| queues.contains(queue)),
            };
            let was_open = matches!(stream.stage, StreamStage::Open(_, opened) if opened <= since);
            if is_about_them && was_open && !stream.has_told {
                stream.missed = stream.missed.saturating_add(1);
                deaf = deaf.or((stream.missed >= most).then_some(index));
            }
        }
        deaf
    }

    /// The stream is deaf, and so are the other streams of single queues that have told nothing,
    /// because one backend serves all of them. Returns the requests to give up.
    pub(super) fn are_deaf(&mut self, index: usize) -> Vec<CallId> {
        let together = self.together();
        let is_single = |other: usize| Some(other) != together;
        let mut calls = Vec::new();
        for (other, stream) in self.all.iter_mut().enumerate() {
            let is_like_it = is_single(other) && is_single(index) && stream.is_open() && !stream.has_told;
            if other == index || is_like_it {
                calls.extend(stream.call());
                stream.stage = StreamStage::Closed;
                stream.was_cut = false;
                stream.missed = 0;
                stream.is_deaf = true;
                stream.is_missing = true;
            }
        }
        calls
    }

    /// Forgets the backend, because the streams of the next one may differ.
    pub(super) fn forget_backend(&mut self) {
        for stream in &mut self.all {
            stream.has_told = false;
            stream.missed = 0;
        }
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
