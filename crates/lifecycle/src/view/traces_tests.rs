#![allow(clippy::unwrap_used, clippy::panic, reason = "a test without its spans has failed")]

use super::*;
use crate::api::{CancelReason, Delivery, Envelope, Failure, FetchForm, HolderId, Reservation, Text};
use crate::view::spans::{MOST_TEXT_BYTES, WallClock};
use std::time::Duration;

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn traces() -> Traces {
    Traces::new(7)
}

fn subject(id: &str, trace: Option<Trace>) -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId(id.into()),
        kind: "email.send".into(),
        queue: "email".into(),
        attempt: Some(1),
        max_attempts: None,
        trace,
    })
}

fn producer(is_sampled: bool) -> Option<Trace> {
    Some(Trace {
        trace: 0xaa,
        span: 0xbb,
        is_sampled,
    })
}

fn delivery(subject: &Arc<Subject>) -> Delivery {
    Delivery {
        subject: Arc::clone(subject),
        envelope: Envelope::default(),
        checkpoint: None,
        timeout: None,
        reservation: Reservation::default(),
        has_crashed: false,
        visibility: None,
        waited: None,
    }
}

fn call(traces: &mut Traces, id: u64, call: Call, millis: u64) {
    let effect = Effect::CallBackend {
        id: CallId(id),
        call,
        give_up: at(millis + 10_000),
        is_again: false,
    };
    traces.observe(&effect, || at(millis));
}

fn notice(traces: &mut Traces, notice: JobNotice, millis: u64) {
    traces.observe(&Effect::Notify(notice.into()), || at(millis));
}

/// A FETCH from 10 to 20 ms that returns these jobs, all of which are claimed.
fn fetch(traces: &mut Traces, jobs: &[Arc<Subject>]) {
    let fetch = Call::Fetch {
        worker: WorkerId("w".into()),
        count: 2,
        queues: None,
        visibility: Duration::from_secs(30),
        form: FetchForm::Full,
    };
    call(traces, 1, fetch, 10);
    let reply = Reply::Fetched(jobs.iter().map(delivery).collect());
    traces.answered(CallId(1), &reply, Some(200), at(20));
    traces.handles(Some(CallId(1)));
    for job in jobs {
        notice(traces, JobNotice::Claimed(Arc::clone(job)), 21);
    }
    traces.handles(None);
}

fn give(traces: &mut Traces, job: &Arc<Subject>, millis: u64) {
    let word = ToWorker::Job(GivenJob {
        subject: Arc::clone(job),
        envelope: "{\"id\":1}".into(),
        checkpoint: None,
    });
    traces.observe(&Effect::Tell(HolderId(1), word), || at(millis));
}

/// A report from 50 to 60 ms, with the end of the job.
fn report(traces: &mut Traces, job: &Arc<Subject>, outcome: Outcome, reply: &Reply) {
    let end = outcome.end();
    let took = Duration::from_millis(1);
    let sent = JobNotice::OutcomeSent {
        job: Arc::clone(job),
        end,
        took,
    };
    notice(traces, sent, 50);
    let report = Call::Report {
        worker: WorkerId("w".into()),
        job: job.id.clone(),
        outcome: outcome.clone(),
        is_bare: false,
    };
    call(traces, 2, report, 50);
    traces.answered(CallId(2), reply, Some(200), at(60));
    let settled = JobNotice::Settled {
        job: Arc::clone(job),
        outcome,
        took: Some(took),
    };
    notice(traces, settled, 61);
}

fn acked() -> Outcome {
    Outcome::Acked { result: None }
}

fn all(traces: &mut Traces) -> Vec<TracedJob> {
    traces.take(usize::MAX)
}

#[test]
fn a_job_has_a_span_of_its_own_one_of_its_fetch_and_one_of_its_report() {
    let (mut traces, job) = (traces(), subject("a", producer(true)));
    fetch(&mut traces, &[Arc::clone(&job)]);
    give(&mut traces, &job, 30);
    let context = traces.context_of(&job.id).unwrap();
    report(&mut traces, &job, acked(), &Reply::Accepted);
    assert_eq!(traces.waiting(), 3);
    let [traced] = all(&mut traces).try_into().unwrap();
    assert_eq!((context.trace, context.span), (traced.trace, traced.span));
    let fetch = traced.fetch.as_ref().unwrap();
    assert_eq!((fetch.began, fetch.ended, fetch.jobs), (at(10), at(20), 1));
    assert_eq!(
        (traced.began, traced.ended, traced.end),
        (at(20), at(61), Some(JobEnd::Acked))
    );
    assert_eq!(traced.worker, Some(WorkerId("w".into())));
    assert_eq!(traced.bytes, Some(8));
    let [ack] = traced.reports.as_slice() else { panic!() };
    assert_eq!((ack.is_ack, ack.began, ack.ended), (true, at(50), at(60)));
    let expected = [
        (at(20), SpanEvent::Fetched),
        (at(30), SpanEvent::HandedOver),
        (at(50), SpanEvent::Outcome(JobEnd::Acked)),
    ];
    assert_eq!(traced.events, expected);
    let mut ids = [fetch.span, traced.span, ack.span];
    ids.sort_unstable();
    assert!(ids[0] != 0 && ids[0] != ids[1] && ids[1] != ids[2]);
    assert_eq!((traces.waiting(), traces.dropped()), (0, 0));
}

#[test]
fn a_job_whose_producer_has_not_sampled_its_trace_has_no_span() {
    let (mut traces, job) = (traces(), subject("a", producer(false)));
    fetch(&mut traces, &[Arc::clone(&job)]);
    give(&mut traces, &job, 30);
    assert_eq!(traces.context_of(&job.id), None);
    report(&mut traces, &job, acked(), &Reply::Accepted);
    assert_eq!((traces.waiting(), traces.dropped()), (0, 0));
}

#[test]
fn a_job_without_a_context_begins_a_trace() {
    let (mut traces, job) = (traces(), subject("a", None));
    fetch(&mut traces, &[Arc::clone(&job)]);
    report(&mut traces, &job, acked(), &Reply::Accepted);
    assert_eq!(all(&mut traces).len(), 1);
}

#[test]
fn jobs_of_one_fetch_have_traces_of_their_own() {
    let (mut traces, one, two) = (traces(), subject("a", None), subject("b", None));
    fetch(&mut traces, &[Arc::clone(&one), Arc::clone(&two)]);
    for job in [&one, &two] {
        report(&mut traces, job, acked(), &Reply::Accepted);
    }
    let [first, second] = all(&mut traces).try_into().unwrap();
    assert_ne!(first.trace, second.trace);
    assert_eq!(first.fetch.unwrap().jobs, 2);
}

#[test]
fn progress_cancel_and_timeout_are_events_and_each_kind_counts_once() {
    let (mut traces, job) = (traces(), subject("a", None));
    fetch(&mut traces, &[Arc::clone(&job)]);
    for millis in [31, 32] {
        let progress = Call::Progress {
            job: job.id.clone(),
            progress: crate::api::Progress {
                fraction: "0.5".into(),
                message: None,
                data: None,
            },
        };
        call(&mut traces, millis, progress, millis);
    }
    notice(&mut traces, JobNotice::TimedOut(Arc::clone(&job), None), 40);
    let cancel = ToWorker::Cancel {
        job: job.id.clone(),
        reason: CancelReason::Timeout,
        grace: Duration::ZERO,
    };
    traces.observe(&Effect::Tell(HolderId(1), cancel), || at(41));
    notice(
        &mut traces,
        JobNotice::ReservationLost(Arc::clone(&job), CancelReason::Cancelled),
        42,
    );
    let [traced] = all(&mut traces).try_into().unwrap();
    let expected = [
        (at(20), SpanEvent::Fetched),
        (at(31), SpanEvent::Progress),
        (at(40), SpanEvent::TimedOut),
        (at(41), SpanEvent::Cancel(CancelReason::Timeout)),
        (at(42), SpanEvent::Cancel(CancelReason::Cancelled)),
    ];
    assert_eq!(traced.events, expected);
    assert_eq!(traced.end, Some(JobEnd::Cancelled));
}

#[test]
fn a_later_delivery_of_a_job_has_spans_of_its_own() {
    let (mut traces, first) = (traces(), subject("a", None));
    fetch(&mut traces, &[Arc::clone(&first)]);
    let sent = JobNotice::OutcomeSent {
        job: Arc::clone(&first),
        end: JobEnd::Acked,
        took: Duration::ZERO,
    };
    notice(&mut traces, sent, 30);
    let second = subject("a", None);
    fetch(&mut traces, &[Arc::clone(&second)]);
    // The answer to the first outcome comes now.
    let settled = JobNotice::Settled {
        job: Arc::clone(&first),
        outcome: acked(),
        took: None,
    };
    notice(&mut traces, settled, 40);
    assert!(traces.context_of(&second.id).is_some());
    let [traced] = all(&mut traces).try_into().unwrap();
    assert_eq!((traced.subject, traced.end), (first, Some(JobEnd::Acked)));
    notice(&mut traces, JobNotice::Void(Arc::clone(&second), "so"), 41);
    assert_eq!((traces.context_of(&second.id), traces.waiting()), (None, 0));
}

#[test]
fn a_failure_has_its_error_and_a_report_that_failed_its_cause() {
    let (mut traces, job) = (traces(), subject("a", None));
    fetch(&mut traces, &[Arc::clone(&job)]);
    let error = JobError::new("broken");
    let failed = Outcome::Failed { error: error.clone() };
    report(&mut traces, &job, failed, &Reply::Failed(Failure::ServerError));
    let [traced] = all(&mut traces).try_into().unwrap();
    assert_eq!(traced.error, Some(error));
    let [nack] = traced.reports.as_slice() else { panic!() };
    assert_eq!((nack.is_ack, nack.failure), (false, Some(Failure::ServerError)));
}

#[test]
fn finished_spans_beyond_the_bound_are_dropped_and_counted() {
    let mut traces = traces();
    let fits = MOST_WAITING_SPANS / 3;
    let jobs: Vec<_> = (0..fits + 2).map(|number| subject(&number.to_string(), None)).collect();
    fetch(&mut traces, &jobs);
    for job in &jobs {
        report(&mut traces, job, acked(), &Reply::Accepted);
    }
    assert_eq!((traces.waiting(), traces.dropped()), (3 * fits, 6));
    assert_eq!(traces.take(9).len(), 3);
    assert_eq!(traces.take(1).len(), 1);
    assert_eq!(traces.waiting(), 3 * (fits - 4));
}

#[test]
fn a_span_keeps_the_beginning_of_a_long_error_and_none_of_its_details() {
    let (mut traces, job) = (traces(), subject("a", None));
    fetch(&mut traces, &[Arc::clone(&job)]);
    let long: Text = "e".repeat(4 << 20).into();
    let error = JobError {
        code: Some(long.clone()),
        kind: Some(long.clone()),
        details: Some(long.clone()),
        ..JobError::new(long)
    };
    report(&mut traces, &job, Outcome::Failed { error }, &Reply::Accepted);
    let [traced] = all(&mut traces).try_into().unwrap();
    let short: Text = "e".repeat(MOST_TEXT_BYTES).into();
    let expected = JobError {
        code: Some(short.clone()),
        kind: Some(short.clone()),
        ..JobError::new(short)
    };
    assert_eq!(traced.error, Some(expected));
}

/// Names and backtraces, which are shortened only when they are sent.
#[test]
fn finished_jobs_keep_a_bounded_number_of_bytes_and_the_rest_is_dropped_and_counted() {
    let long: Text = "x".repeat(100 << 10).into();
    let fits = (MOST_WAITING_BYTES / long.len()) as u64;
    let named = |number: u64| {
        let mut subject = Arc::unwrap_or_clone(subject(&number.to_string(), None));
        subject.queue = long.clone();
        (Arc::new(subject), acked())
    };
    let failing = |number: u64| {
        let mut error = JobError::new("broken");
        error.backtrace = Some(long.clone());
        (subject(&number.to_string(), None), Outcome::Failed { error })
    };
    for kind in [&named as &dyn Fn(u64) -> _, &failing] {
        let mut traces = traces();
        for number in 0..fits + 1 {
            let (job, outcome) = kind(number);
            fetch(&mut traces, &[Arc::clone(&job)]);
            report(&mut traces, &job, outcome, &Reply::Accepted);
        }
        let kept = (traces.waiting() / 3) as u64;
        assert!(kept == fits || kept == fits - 1, "{kept} of {fits}");
        assert_eq!(traces.dropped(), 3 * (fits + 1 - kept));
        assert_eq!(all(&mut traces).len() as u64, kept);
        let (job, outcome) = kind(fits + 1);
        fetch(&mut traces, &[Arc::clone(&job)]);
        report(&mut traces, &job, outcome, &Reply::Accepted);
        assert_eq!(traces.waiting(), 3);
    }
}

#[test]
fn a_job_that_begins_while_there_is_no_place_is_not_recorded_and_later_ones_are() {
    let mut traces = traces();
    let fits = MOST_WAITING_SPANS / 3;
    let done = |traces: &mut Traces, name: &str| {
        let job = subject(name, None);
        fetch(traces, &[Arc::clone(&job)]);
        let is_recorded = traces.context_of(&job.id).is_some();
        report(traces, &job, acked(), &Reply::Accepted);
        is_recorded
    };
    assert!((0..fits).all(|number| done(&mut traces, &number.to_string())));
    assert!(!done(&mut traces, "late"));
    assert_eq!((traces.waiting(), traces.dropped()), (3 * fits, 3));
    assert_eq!(traces.take(3).len(), 1);
    assert!(done(&mut traces, "later"));
    assert_eq!((traces.waiting(), traces.dropped()), (3 * fits, 3));
}

#[test]
fn a_job_beyond_the_bound_takes_the_place_of_the_oldest_one() {
    let mut traces = traces();
    for number in 0..=MOST_OPEN_JOBS {
        fetch(&mut traces, &[subject(&format!("{number:05}"), None)]);
    }
    assert_eq!(traces.context_of(&JobId("00000".into())), None);
    assert!(traces.context_of(&JobId("00001".into())).is_some());
    assert_eq!(traces.dropped(), 2);
}

#[test]
fn a_moment_has_the_date_that_the_clock_had_at_the_start() {
    let clock = WallClock {
        at: at(1000),
        since_1970: Duration::from_secs(50),
    };
    assert_eq!(clock.date(at(1500)), Duration::from_millis(50_500));
    assert_eq!(clock.date(at(400)), Duration::from_millis(49_400));
}
