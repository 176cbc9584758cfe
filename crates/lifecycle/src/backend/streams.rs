//! Streams of events: the topic and stage of each, and when its events last had a consequence.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Failure, FailureClass, MOST_STREAMS, Moment, StreamTopic, Text, doubled};
use crate::retry::jitter::Jitter;
use crate::retry::state::asked_for;

/// A stream that was open for this long worked, however it ends. Public backends end each stream at
/// its first write after 30 s.
const STEADY_AFTER: Duration = Duration::from_secs(20);

/// After a steady stream was cut, ojs-init asks for it again within this time, or within the window
/// of a wake-up if that is longer. The window grows with the number of workers, because a backend
/// may cut all their streams at once.
const REOPEN_WITHIN: Duration = Duration::from_millis(100);

/// Longest time until that request, however wide the window is.
const REOPEN_AT_LATEST: Duration = Duration::from_secs(5);

/// After this many server errors (500) in a row the backend counts as one without streams.
const SERVER_ERRORS_OF_NO_STREAMS: u32 = 5;

/// First and longest pause before ojs-init asks again for a missing queue. A queue is created with
/// its first job.
const QUEUE_MAY_COME: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5 * 60));

/// First and longest pause after a stream that sent more events than ojs-init reads. With that many
/// events a poll finds jobs as well.
const FLOODED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10 * 60));

/// Pause before ojs-init asks again a backend that has no streams, or refuses them to this worker.
pub(super) const NOT_OFFERED: Duration = Duration::from_secs(10 * 60);

/// Pauses that double begin with this many doublings of the shortest. They may be long because a
/// worker without a stream polls meanwhile.
const FEWEST_DOUBLINGS: u32 = 2;

/// The stage of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum StreamStage {
    #[default]
    Closed,
    /// The request is in flight.
    Asked(CallId),
    /// The stream is open since this moment.
    Open(CallId, Moment),
}

/// The state of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct StreamState {
    stage: StreamStage,
    /// How often in a row the request failed or the stream ended soon.
    failures: u32,
    /// Server errors (500) in a row.
    server_errors: u32,
    /// The stream ended because the backend was unreachable or answered with an error of an outage.
    pub(super) awaits_backend: bool,
    /// The backend has no such stream, answered only server errors, or the stream is deaf.
    pub(super) is_missing: bool,
    /// The stream was steady and was cut, and ojs-init asks for it again. This state lasts for
    /// `REOPEN_AT_LATEST` and one request at most.
    pub(super) was_cut: bool,
    /// Whether the stream has ever sent an event.
    has_told: bool,
    /// When the stream last reported that a worker fetched a job.
    taken_at: Option<Moment>,
    /// Polls that found new jobs which the stream did not report.
    missed: u8,
    /// The stream was closed because it sent no events.
    pub(super) is_deaf: bool,
    /// The queue was missing. Its first job shows that it exists.
    awaits_job: bool,
    /// A job of the queue has arrived since, and ojs-init asked for the stream because of it.
    had_job: bool,
}

/// All streams. A stream's number is its index: one for each queue, and a last one for all queues
/// together, which ojs-init asks for if the others are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Streams {
    /// The subject of each stream.
    topics: Vec<StreamTopic>,
    all: Vec<StreamState>,
    /// Whether ojs-init wants streams at the moment.
    pub(super) is_listening: bool,
    /// Whether the backend reports new jobs, as last logged.
    is_offered: Option<bool>,
    /// When the last FETCH was sent, if it returned no job.
    idle_since: Option<Moment>,
}

impl Streams {
    /// Creates the streams of these queues.
    pub(crate) fn new(queues: &[Text]) -> Self {
        let queues = queues.get(..queues.len().min(MOST_STREAMS)).unwrap_or_default();
        let each = queues.iter().map(|queue| StreamTopic::Queue(queue.clone()));
        let together = (!queues.is_empty()).then(|| StreamTopic::Queues(queues.to_vec()));
        let topics: Vec<StreamTopic> = each.chain(together).collect();
        Self {
            all: vec![StreamState::default(); topics.len()],
            topics,
            ..Self::default()
        }
    }

    /// Sets whether ojs-init wants streams. Returns whether that changed.
    pub(super) fn are_wanted(&mut self, are_wanted: bool) -> bool {
        std::mem::replace(&mut self.is_listening, are_wanted) != are_wanted
    }

    /// The numbers of all streams.
    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.all.len()
    }

    /// The number of the stream for all queues together.
    pub(super) fn together(&self) -> Option<usize> {
        self.all.len().checked_sub(1)
    }

    /// The subject of a stream.
    pub(super) fn topic(&self, index: usize) -> Option<&StreamTopic> {
        self.topics.get(index)
    }

    /// The stream with this number.
    pub(crate) fn at(&self, index: usize) -> StreamState {
        self.all.get(index).copied().unwrap_or_default()
    }

    /// The stream of this request.
    pub(crate) fn find(&self, call: CallId) -> Option<usize> {
        let is_it = |stream: &StreamState| stream.call() == Some(call);
        self.all.iter().position(is_it)
    }

    /// How many streams are open.
    pub(crate) fn open(&self) -> usize {
        self.all.iter().filter(|stream| stream.is_open()).count()
    }

    /// Whether each queue has an open stream, or the stream for all queues together is open.
    pub(super) fn are_all_open(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        let (each, together) = self.all.split_at(queues);
        together.iter().any(StreamState::is_open) || (queues > 0 && each.iter().all(StreamState::is_open))
    }

    /// Whether every stream is closed.
    pub(super) fn are_closed(&self) -> bool {
        self.all.iter().all(StreamState::is_closed)
    }

    /// Whether each queue's own stream is missing.
    pub(super) fn are_all_missing(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        self.all.iter().take(queues).all(|stream| stream.is_missing)
    }

    /// ojs-init has asked for the stream.
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

    /// ojs-init closes the stream. Returns the request to give up.
    pub(super) fn close(&mut self, index: usize) -> Option<CallId> {
        let stream = self.all.get_mut(index)?;
        let call = stream.call();
        stream.stage = StreamStage::Closed;
        stream.was_cut = false;
        call
    }

    /// The stream ended, or its request failed. Returns the time until ojs-init asks for it again.
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
        let pause = |(first, longest)| doubled(first, before, longest);
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
            Failure::NotFound => jitter.poll_pause(pause(QUEUE_MAY_COME)),
            Failure::Overloaded => jitter.poll_pause(pause(FLOODED)),
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

    /// Whether a missing queue waits for its first job.
    pub(super) fn await_jobs(&self) -> bool {
        self.all.iter().any(|stream| stream.awaits_job)
    }

    /// A job of this queue arrived. Returns the stream that may exist now.
    pub(super) fn job_came(&mut self, queue: &Text) -> Option<usize> {
        let topic = StreamTopic::Queue(queue.clone());
        let mut streams = self.all.iter_mut().zip(&self.topics).enumerate();
        let (index, (stream, _)) = streams.find(|(_, (stream, of))| stream.awaits_job && **of == topic)?;
        stream.awaits_job = false;
        stream.had_job = true;
        Some(index)
    }

    /// Notes whether the backend reports new jobs. Returns whether that changed.
    pub(super) fn are_offered(&mut self, are_offered: bool) -> bool {
        self.is_offered.replace(are_offered) != Some(are_offered)
    }
}

/// Consequences of events.
impl Streams {
    /// The FETCH that was sent at `sent_at` was answered. Returns when the FETCH before it was
    /// sent, if that one returned no job.
    pub(super) fn fetch_answered(&mut self, sent_at: Moment, brought_jobs: bool) -> Option<Moment> {
        std::mem::replace(&mut self.idle_since, (!brought_jobs).then_some(sent_at))
    }

    /// A stream reports that a worker fetched a job.
    pub(super) fn taken(&mut self, index: usize, now: Moment) {
        self.told(index);
        if let Some(stream) = self.all.get_mut(index) {
            stream.taken_at = Some(now);
        }
    }

    /// The moment since which workers have fetched a job of each queue.
    pub(super) fn taken_everywhere_since(&self) -> Option<Moment> {
        let queues = self.together().unwrap_or_default();
        let taken = self.all.iter().take(queues).map(|stream| stream.taken_at);
        taken.min().flatten()
    }
}

/// Deaf streams.
impl Streams {
    /// How many streams are open and have ever sent an event.
    pub(crate) fn telling(&self) -> usize {
        let tells = |stream: &&StreamState| stream.is_open() && stream.has_told;
        self.all.iter().filter(tells).count()
    }

    /// How many streams were closed because they send no events.
    pub(crate) fn deaf(&self) -> usize {
        self.all.iter().filter(|stream| stream.is_deaf).count()
    }

    /// Whether the streams of all single queues are deaf.
    pub(super) fn are_all_deaf(&self) -> bool {
        let queues = self.together().unwrap_or_default();
        queues > 0 && self.all.iter().take(queues).all(|stream| stream.is_deaf)
    }

    /// The stream has sent an event.
    pub(super) fn told(&mut self, index: usize) {
        if let Some(stream) = self.all.get_mut(index) {
            stream.has_told = true;
        }
    }

    /// Polls have found new jobs of these queues that became available after `since`. Returns a
    /// stream that was open all the time, has never sent an event and has missed such jobs at least
    /// `most` times.
    pub(super) fn missed(&mut self, queues: &BTreeSet<&Text>, since: Moment, most: u8) -> Option<usize> {
        let mut deaf = None;
        for (index, (stream, topic)) in self.all.iter_mut().zip(&self.topics).enumerate() {
            let is_about_them = match topic {
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

    /// Marks the stream as deaf. So are the other open streams of single queues that have sent no
    /// event, because one backend serves all of them. Returns the requests to give up.
    pub(super) fn are_deaf(&mut self, index: usize) -> Vec<CallId> {
        let together = self.together();
        let is_single = |other: usize| Some(other) != together;
        let mut calls = Vec::new();
        for (other, stream) in self.all.iter_mut().enumerate() {
            let is_like_it = is_single(other) && is_single(index) && stream.is_open() && !stream.has_told;
            if other == index || is_like_it {
                calls.extend(stream.call());
                stream.stage = StreamStage::Closed;
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

impl StreamState {
    fn call(&self) -> Option<CallId> {
        match self.stage {
            StreamStage::Closed => None,
            StreamStage::Asked(call) | StreamStage::Open(call, _) => Some(call),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage == StreamStage::Closed
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, StreamStage::Open(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_that_was_cut_is_asked_for_again_within_the_window_and_within_five_seconds() {
        let mut jitter = Jitter::new(7);
        let windows = [(10, 100), (2_000, 2_000), (600_000, 5_000)];
        for (window, latest) in windows.map(|(window, latest)| (Duration::from_millis(window), latest)) {
            let mut streams = Streams::new(&["default".into()]);
            let pauses = (0..200).map(|_| {
                streams.opened(0, CallId(1), Moment::new(Duration::ZERO));
                let now = Moment::new(STEADY_AFTER);
                streams
                    .ended(0, Failure::Unanswered, window, &mut jitter, now)
                    .as_millis()
            });
            let longest = pauses.max().unwrap_or_default();
            assert!(
                (latest * 9 / 10..=latest).contains(&longest),
                "{window:?}: {longest} ms"
            );
        }
    }
}
