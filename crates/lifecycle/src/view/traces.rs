//! The traces of jobs: spans for an OpenTelemetry collector. They decide nothing, and the machine
//! does not know them. Their number is bounded, and what is too much is dropped and counted.
//!
//! The names and kinds of the spans are those of the OJS observability document (its section 6) and
//! of the distributed tracing document. `wire` spells them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::api::ids::CallId;
use crate::api::{
    Call, Effect, GivenJob, JobEnd, JobError, JobId, JobNotice, Moment, Notice, Outcome, Reply, Subject, ToWorker,
    Trace, WorkerId,
};
use crate::view::metrics;
use crate::view::spans::{FetchSpan, ReportSpan, SpanEvent, TracedJob, shown};

/// Most jobs whose spans are not finished. A further job takes the place of the oldest one.
pub const MOST_OPEN_JOBS: usize = 4096;

/// Most finished spans that wait for their way to the collector: as many as the batch processor of
/// the OpenTelemetry SDKs holds.
pub const MOST_WAITING_SPANS: usize = 2048;

/// Most bytes that the finished jobs keep for their spans, as in names, errors and backtraces.
pub const MOST_WAITING_BYTES: usize = 4 << 20;

/// The spans of most jobs: FETCH, job and one request with its outcome.
const USUAL_SPANS: usize = 3;

/// Most requests with the outcome of one job that are recorded. A backend that is away gets more.
const MOST_REPORTS: usize = 8;

/// Ids of traces and spans. They need not be secret, only different from those of other processes.
#[derive(Debug, Default)]
struct SpanIds(u64);

impl SpanIds {
    /// The next number of the generator *SplitMix64*; never 0, which is no id.
    fn next(&mut self) -> u64 {
        loop {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            if mixed != 0 {
                return mixed;
            }
        }
    }
}

/// A request that is on its way, and of which there will be a span.
#[derive(Debug)]
enum OpenCall {
    Fetch { worker: WorkerId, began: Moment },
    Report { job: JobId, is_ack: bool, began: Moment },
}

/// A FETCH with jobs that the machine has not handled yet, or handles now.
#[derive(Debug)]
struct Fetched {
    worker: WorkerId,
    began: Moment,
    ended: Moment,
    jobs: usize,
}

/// Records the spans of jobs.
#[derive(Debug, Default)]
pub struct Traces {
    ids: SpanIds,
    open: BTreeMap<JobId, TracedJob>,
    /// Each is answered.
    calls: BTreeMap<CallId, OpenCall>,
    /// FETCHes whose answers the machine has not handled yet.
    fetched: BTreeMap<CallId, Fetched>,
    /// The FETCH whose answer the machine handles now.
    handled: Option<Fetched>,
    finished: VecDeque<TracedJob>,
    /// Spans of the finished jobs.
    waiting: usize,
    /// Bytes that the finished jobs keep.
    waiting_bytes: usize,
    dropped: u64,
}

impl Traces {
    /// A recorder without a span. `seed` is random: the ids of all spans follow from it.
    pub fn new(seed: u64) -> Self {
        Self {
            ids: SpanIds(seed),
            ..Self::default()
        }
    }

    /// The machine orders this. `now` is asked only if the order matters to a span.
    pub fn observe(&mut self, effect: &Effect, now: impl Fn() -> Moment) {
        if let Effect::CallBackend { id, call, .. } = effect {
            self.called(*id, call, now);
        } else if let Effect::Tell(_, word) = effect {
            self.told(word, now);
        } else if let Effect::AnswerPull { jobs, .. } = effect
            && !self.open.is_empty()
        {
            let now = now();
            for GivenJob { subject, envelope, .. } in jobs {
                self.handed_over(&subject.id, envelope.len(), || now);
            }
        } else if let Effect::Notify(Notice::Job(notice)) = effect {
            self.noticed(notice, now);
        }
    }

    fn called(&mut self, id: CallId, call: &Call, now: impl FnOnce() -> Moment) {
        let open = if let Call::Fetch { worker, .. } = call {
            if self.is_full() {
                return;
            }
            OpenCall::Fetch {
                worker: worker.clone(),
                began: now(),
            }
        } else if let Call::Report { job, outcome, .. } = call
            && self.open.contains_key(job)
        {
            OpenCall::Report {
                job: job.clone(),
                is_ack: outcome.is_ack(),
                began: now(),
            }
        } else if let Call::Progress { job, .. } = call {
            return self.note(job, SpanEvent::Progress, now);
        } else {
            return;
        };
        self.calls.insert(id, open);
    }

    fn told(&mut self, word: &ToWorker, now: impl FnOnce() -> Moment) {
        if let ToWorker::Job(GivenJob { subject, envelope, .. }) = word {
            self.handed_over(&subject.id, envelope.len(), now);
        } else if let ToWorker::Cancel { job, reason, .. } = word {
            self.note(job, SpanEvent::Cancel(*reason), now);
        }
    }

    fn handed_over(&mut self, job: &JobId, bytes: usize, now: impl FnOnce() -> Moment) {
        if let Some(job) = self.open.get_mut(job) {
            job.bytes = Some(bytes);
            job.note(SpanEvent::HandedOver, now());
        }
    }

    fn noticed(&mut self, notice: &JobNotice, now: impl Fn() -> Moment) {
        if let JobNotice::Claimed(job) = notice {
            self.claimed(job, now);
        } else if let JobNotice::TimedOut(job, _) | JobNotice::TimeoutPassed(job, _) = notice {
            self.note(&job.id, SpanEvent::TimedOut, now);
        } else if let JobNotice::OutcomeSent { job, end, .. } = notice {
            self.note(&job.id, SpanEvent::Outcome(*end), now);
        } else if let JobNotice::Adopted(job) | JobNotice::Replaced(job) = notice {
            // The spans go on with the new reservation.
            if let Some(open) = self.open.get_mut(&job.id) {
                open.subject = Arc::clone(job);
            }
        } else if let JobNotice::Void(job, _) = notice {
            if self.is_open(job) {
                self.open.remove(&job.id);
            }
        } else if let Some((job, end)) = metrics::end(notice)
            && self.is_open(job)
        {
            let now = now();
            if let JobNotice::ReservationLost(job, reason) = notice {
                self.note(&job.id, SpanEvent::Cancel(*reason), || now);
            }
            self.ended(&job.id, Some(end), error(notice), now);
        }
    }

    /// Whether the spans of this very delivery are open, and not those of another one of its job.
    fn is_open(&self, job: &Arc<Subject>) -> bool {
        self.open
            .get(&job.id)
            .is_some_and(|open| Arc::ptr_eq(&open.subject, job))
    }

    fn note(&mut self, job: &JobId, event: SpanEvent, now: impl FnOnce() -> Moment) {
        if let Some(job) = self.open.get_mut(job) {
            job.note(event, now());
        }
    }

    fn claimed(&mut self, subject: &Arc<Subject>, now: impl Fn() -> Moment) {
        // The outcome of the delivery before it may still be on its way.
        if self.open.contains_key(&subject.id) {
            self.ended(&subject.id, None, None, now());
        }
        if subject.trace.is_some_and(|context| !context.is_sampled) {
            return;
        }
        if self.is_full() {
            self.dropped += USUAL_SPANS as u64;
            return;
        }
        let now = now();
        if self.open.len() >= MOST_OPEN_JOBS {
            // Ids of jobs are in the order of their creation.
            let oldest = self.open.pop_first();
            self.dropped += oldest.map_or(0, |(_, job)| job.spans() as u64);
        }
        let fetch = self.handled.as_ref().map(|fetched| FetchSpan {
            span: self.ids.next(),
            began: fetched.began,
            ended: fetched.ended,
            jobs: fetched.jobs,
        });
        let began = fetch.as_ref().map_or(now, |fetch| fetch.ended);
        let job = TracedJob {
            subject: Arc::clone(subject),
            worker: self.handled.as_ref().map(|fetched| fetched.worker.clone()),
            trace: u128::from(self.ids.next()) << 64 | u128::from(self.ids.next()),
            span: self.ids.next(),
            began,
            ended: began,
            fetch,
            reports: Vec::new(),
            events: vec![(began, SpanEvent::Fetched)],
            bytes: None,
            end: None,
            error: None,
        };
        self.open.insert(subject.id.clone(), job);
    }

    /// No place for the spans of another job. A job that begins now is not recorded, so that it
    /// costs nothing for as long as the collector is away.
    fn is_full(&self) -> bool {
        self.waiting + USUAL_SPANS > MOST_WAITING_SPANS
    }

    fn ended(&mut self, job: &JobId, end: Option<JobEnd>, error: Option<&JobError>, now: Moment) {
        let Some(mut job) = self.open.remove(job) else { return };
        job.ended = now;
        job.end = end.or_else(|| job.sent_outcome());
        job.error = error.map(shown);
        let (spans, bytes) = (job.spans(), job.text_bytes());
        if self.waiting + spans > MOST_WAITING_SPANS || self.waiting_bytes + bytes > MOST_WAITING_BYTES {
            self.dropped += spans as u64;
            return;
        }
        self.waiting += spans;
        self.waiting_bytes += bytes;
        self.finished.push_back(job);
    }

    /// A request was answered, with this HTTP status if there was an answer.
    pub fn answered(&mut self, call: CallId, reply: &Reply, status: Option<u16>, now: Moment) {
        match self.calls.remove(&call) {
            Some(OpenCall::Fetch { worker, began }) => {
                if let Reply::Fetched(jobs) = reply
                    && !jobs.is_empty()
                {
                    let fetched = Fetched {
                        worker,
                        began,
                        ended: now,
                        jobs: jobs.len(),
                    };
                    self.fetched.insert(call, fetched);
                }
            }
            Some(OpenCall::Report { job, is_ack, began }) => {
                if let Some(job) = self.open.get_mut(&job)
                    && job.reports.len() < MOST_REPORTS
                {
                    job.reports.push(ReportSpan {
                        span: self.ids.next(),
                        is_ack,
                        began,
                        ended: now,
                        status,
                        failure: reply.failed(),
                    });
                }
            }
            None => {}
        }
    }

    /// The machine handles the answer to this request now, or something else.
    pub fn handles(&mut self, call: Option<CallId>) {
        self.handled = call.and_then(|call| self.fetched.remove(&call));
    }

    /// The context for the spans of a job's handler; none if the job is not recorded.
    pub fn context_of(&self, job: &JobId) -> Option<Trace> {
        let job = self.open.get(job)?;
        Some(Trace {
            trace: job.trace,
            span: job.span,
            is_sampled: true,
        })
    }

    /// Finished spans that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes the oldest finished jobs: as many as have `most` spans together, and at least one.
    pub fn take(&mut self, most: usize) -> Vec<TracedJob> {
        let (mut jobs, mut spans) = (Vec::new(), 0);
        while let Some(next) = self.finished.front() {
            spans += next.spans();
            if spans > most && !jobs.is_empty() {
                break;
            }
            jobs.extend(self.finished.pop_front());
        }
        self.waiting -= jobs.iter().map(TracedJob::spans).sum::<usize>();
        self.waiting_bytes -= jobs.iter().map(TracedJob::text_bytes).sum::<usize>();
        jobs
    }

    /// Spans that were dropped because too many waited, or too many jobs were open.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn error(notice: &JobNotice) -> Option<&JobError> {
    if let JobNotice::Settled {
        outcome: Outcome::Failed { error },
        ..
    } = notice
    {
        Some(error)
    } else {
        None
    }
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
