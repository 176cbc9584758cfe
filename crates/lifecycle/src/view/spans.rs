//! The spans of one job, as they wait for their way to the collector.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{CancelReason, Failure, JobEnd, JobError, Moment, Subject, Text, WorkerId};
use ojs_values::text::beginning;

/// Most bytes of a name, or of the message of an error, in a span. The rest of a longer one is cut.
pub const MOST_TEXT_BYTES: usize = 1024;

/// The date of a point on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// A point on the monotonic clock,
    pub at: Moment,
    /// and its date: the time since the beginning of 1970.
    pub since_1970: Duration,
}

impl WallClock {
    /// Time from the beginning of 1970 to this point.
    pub fn date(&self, moment: Moment) -> Duration {
        let later = self.since_1970.saturating_add(self.at.elapsed(moment));
        later.saturating_sub(self.at.remaining(moment))
    }
}

/// The FETCH that returned a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSpan {
    /// The span of this job; another job of the FETCH has another one.
    pub span: u64,
    /// The request was sent.
    pub began: Moment,
    /// The answer was received.
    pub ended: Moment,
    /// Jobs in the answer.
    pub jobs: usize,
}

/// A request with the outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportSpan {
    pub span: u64,
    /// An ACK, or else a FAIL or requeue.
    pub is_ack: bool,
    pub began: Moment,
    pub ended: Moment,
    /// The status of the answer; none: there was no answer.
    pub status: Option<u16>,
    pub failure: Option<Failure>,
}

/// An event within the span of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanEvent {
    /// A FETCH returned the job.
    Fetched,
    /// A worker was given the job.
    HandedOver,
    /// The first progress of the handler went to the backend.
    Progress,
    /// The handler was asked to stop, for this reason.
    Cancel(CancelReason),
    /// The job's own timeout expired.
    TimedOut,
    /// The outcome was sent to the backend for the first time.
    Outcome(JobEnd),
}

/// Most events of one job; all kinds of them once, and cancels for different reasons.
const MOST_EVENTS: usize = 12;

/// The spans of one reservation of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedJob {
    pub subject: Arc<Subject>,
    /// The worker's name for the backend.
    pub worker: Option<WorkerId>,
    /// The trace of these spans. It is linked to that in which the job was enqueued.
    pub trace: u128,
    /// The span of the job itself.
    pub span: u64,
    pub began: Moment,
    pub ended: Moment,
    pub fetch: Option<FetchSpan>,
    pub reports: Vec<ReportSpan>,
    pub events: Vec<(Moment, SpanEvent)>,
    /// Bytes of its envelope, once a worker was given the job.
    pub bytes: Option<usize>,
    /// None: nothing is known of its end.
    pub end: Option<JobEnd>,
    /// Its error, if it failed, without details and with short texts.
    pub error: Option<JobError>,
}

impl TracedJob {
    /// The number of its spans.
    pub fn spans(&self) -> usize {
        1 + usize::from(self.fetch.is_some()) + self.reports.len()
    }

    /// Bytes of what others wrote: the backend, and the worker.
    pub(super) fn text_bytes(&self) -> usize {
        let Subject { id, kind, queue, .. } = &*self.subject;
        let error = self.error.iter().flat_map(|error| {
            let JobError {
                code, kind, backtrace, ..
            } = error;
            let texts = [code, kind, backtrace].into_iter().flatten();
            texts.chain([&error.message])
        });
        error.chain([&id.0, kind, queue]).map(|text| text.len()).sum()
    }

    pub(super) fn sent_outcome(&self) -> Option<JobEnd> {
        self.events.iter().find_map(|(_, event)| match event {
            SpanEvent::Outcome(end) => Some(*end),
            SpanEvent::Fetched
            | SpanEvent::HandedOver
            | SpanEvent::Progress
            | SpanEvent::Cancel(_)
            | SpanEvent::TimedOut => None,
        })
    }

    pub(super) fn note(&mut self, event: SpanEvent, now: Moment) {
        let is_known = self.events.iter().any(|(_, other)| *other == event);
        if !is_known && self.events.len() < MOST_EVENTS {
            self.events.push((now, event));
        }
    }
}

/// The parts of an error that a span shows. A worker may write megabytes, which would wait with it.
pub(super) fn shown(error: &JobError) -> JobError {
    let cut = |text: &Text| Text::from(beginning(text, MOST_TEXT_BYTES));
    JobError {
        code: error.code.as_ref().map(cut),
        kind: error.kind.as_ref().map(cut),
        message: cut(&error.message),
        details: None,
        ..error.clone()
    }
}
