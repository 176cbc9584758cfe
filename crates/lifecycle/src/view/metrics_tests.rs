#![allow(clippy::unwrap_used, clippy::panic, reason = "a test without its figures has failed")]

use std::sync::Arc;

use super::*;
use crate::api::{Call, Failure, HolderId, JobError, JobId, Outcome, WorkerId};

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn metrics() -> Metrics {
    Metrics::new(at(0), Duration::from_secs(1_800_000_000))
}

fn job(id: &str, queue: &str, kind: &str) -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId(id.into()),
        kind: kind.into(),
        queue: queue.into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    })
}

fn kind(queue: &str, kind: &str) -> JobKind {
    JobKind {
        queue: queue.into(),
        kind: kind.into(),
    }
}

fn say(metrics: &mut Metrics, notice: Notice) {
    metrics.observe(&Effect::Notify(notice));
}

fn sent(job: &Arc<Subject>, end: JobEnd, millis: u64) -> Notice {
    let (job, took) = (Arc::clone(job), Duration::from_millis(millis));
    Notice::Job(JobNotice::OutcomeSent { job, end, took })
}

fn settled(job: &Arc<Subject>, outcome: Outcome) -> Notice {
    let (job, took) = (Arc::clone(job), None);
    Notice::Job(JobNotice::Settled { job, outcome, took })
}

fn acked(job: &Arc<Subject>) -> Notice {
    settled(job, Outcome::Acked { result: None })
}

fn requeued(job: &Arc<Subject>) -> Notice {
    settled(
        job,
        Outcome::Requeued {
            reason: "so".into(),
            after: Duration::ZERO,
        },
    )
}

fn failed(job: &Arc<Subject>) -> Notice {
    let error = JobError::new("no");
    settled(job, Outcome::Failed { error })
}

fn call(metrics: &mut Metrics, id: u64, call: Call, millis: u64) {
    let order = Effect::CallBackend {
        id: CallId(id),
        call,
        give_up: at(millis + 1000),
        is_again: false,
    };
    metrics.observe(&order);
}

fn worker() -> WorkerId {
    WorkerId("w".into())
}

fn of(metrics: &Metrics, queue: &str, name: &str) -> PerKind {
    let wanted = kind(queue, name);
    metrics.kinds().find(|(kind, _)| **kind == wanted).unwrap().1.clone()
}

#[test]
fn a_job_s_time_is_in_its_bucket_and_in_all_above_it() {
    let mut metrics = metrics();
    let one = job("1", "q", "t");
    say(&mut metrics, sent(&one, JobEnd::Acked, 40));
    let durations = of(&metrics, "q", "t").durations;
    let histogram = durations.get(&JobEnd::Acked).unwrap();
    assert_eq!((histogram.count, histogram.sum), (1, Duration::from_millis(40)));
    let counts: Vec<u64> = histogram.cumulated().map(|(_, count)| count).collect();
    assert_eq!(counts, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn what_takes_exactly_as_long_as_a_bucket_is_in_it_and_what_takes_longest_is_in_none() {
    let mut histogram = Histogram::default();
    for duration in BUCKETS {
        histogram.observe(duration);
    }
    histogram.observe(Duration::from_secs(3601));
    let counts: Vec<u64> = histogram.cumulated().map(|(_, count)| count).collect();
    assert_eq!(counts, (1..=17).collect::<Vec<u64>>());
    assert_eq!(histogram.count, 18);
}

#[test]
fn a_fail_counts_as_failed_and_its_duration_too() {
    let mut metrics = metrics();
    let one = job("1", "q", "t");
    say(&mut metrics, sent(&one, JobEnd::Failed, 7));
    say(&mut metrics, failed(&one));
    let of = of(&metrics, "q", "t");
    assert_eq!((of.ends(JobEnd::Failed), of.ends(JobEnd::Acked)), (1, 0));
    assert_eq!(of.durations.keys().copied().collect::<Vec<_>>(), [JobEnd::Failed]);
}

#[test]
fn each_way_that_a_reservation_ends_is_counted_as_itself_and_measures_nothing() {
    let one = job("1", "q", "t");
    let lost = |reason| Notice::Job(JobNotice::ReservationLost(Arc::clone(&one), reason));
    let ends = [
        (JobEnd::Acked, acked(&one)),
        (JobEnd::Failed, failed(&one)),
        (JobEnd::Requeued, requeued(&one)),
        (JobEnd::Left, Notice::Job(JobNotice::Abandoned(Arc::clone(&one), "so"))),
        (JobEnd::Lost, lost(CancelReason::Lost)),
        (JobEnd::Cancelled, lost(CancelReason::Cancelled)),
    ];
    for (end, notice) in ends {
        let mut metrics = metrics();
        say(&mut metrics, notice);
        let of = of(&metrics, "q", "t");
        let counted: Vec<u64> = JobEnd::ALL.map(|end| of.ends(end)).to_vec();
        let expected: Vec<u64> = JobEnd::ALL.map(|other| u64::from(other == end)).to_vec();
        assert_eq!(counted, expected, "{end:?}");
        assert!(of.durations.is_empty(), "{end:?}");
    }
}

#[test]
fn a_job_whose_time_is_over_counts_as_timed_out_before_it_ends() {
    let mut metrics = metrics();
    say(&mut metrics, Notice::Job(JobNotice::TimedOut(job("1", "q", "t"), None)));
    assert_eq!(of(&metrics, "q", "t").timed_out, 1);
}

#[test]
fn kinds_beyond_the_bound_are_counted_together_and_known_ones_as_ever() {
    let mut metrics = metrics();
    for number in 0..1000 {
        let name = format!("t{number}");
        let one = job("1", "q", &name);
        say(&mut metrics, Notice::Job(JobNotice::Claimed(Arc::clone(&one))));
        say(&mut metrics, sent(&one, JobEnd::Acked, 1));
        say(&mut metrics, acked(&one));
    }
    say(&mut metrics, acked(&job("1", "q", "t3")));
    assert_eq!(metrics.kinds().count(), MOST_KINDS + 1);
    let other = of(&metrics, OTHER, OTHER);
    let beyond = 1000 - u64::try_from(MOST_KINDS).unwrap();
    assert_eq!(other.ends(JobEnd::Acked), beyond);
    assert_eq!(other.durations.get(&JobEnd::Acked).unwrap().count, beyond);
    assert_eq!(of(&metrics, "q", "t3").ends(JobEnd::Acked), 2);
}

#[test]
fn a_long_name_is_cut_between_two_characters() {
    for (name, length) in [("a", 64), ("\u{20ac}", 63)] {
        let mut metrics = metrics();
        let long = name.repeat(100);
        say(&mut metrics, Notice::Job(JobNotice::Claimed(job("1", &long, &long))));
        say(
            &mut metrics,
            Notice::Job(JobNotice::Claimed(job("2", &long, &format!("{long}b")))),
        );
        let kinds: Vec<&JobKind> = metrics.kinds().map(|(kind, _)| kind).collect();
        let [only] = kinds.as_slice() else { panic!("{kinds:?}") };
        assert_eq!(only.queue.len(), length);
        assert!(only.kind.starts_with(name) && only.kind.ends_with("..."), "{only:?}");
    }
    let mut metrics = metrics();
    let just = "a".repeat(MOST_NAME_BYTES);
    say(&mut metrics, Notice::Job(JobNotice::Claimed(job("1", &just, "t"))));
    of(&metrics, &just, "t");
}

#[test]
fn requests_are_counted_by_endpoint_and_status_and_each_answer_once() {
    let mut metrics = metrics();
    let fetch = || Call::Fetch {
        worker: worker(),
        count: 1,
        queues: None,
        visibility: Duration::from_secs(120),
        form: crate::api::FetchForm::Full,
    };
    let answers = [Some(200), Some(503), None, Some(200)];
    for (id, status) in (1..).zip(answers) {
        call(&mut metrics, id, fetch(), 0);
        metrics.answered(CallId(id), &Reply::Fetched(Vec::new()), status, at(1));
        metrics.answered(CallId(id), &Reply::Fetched(Vec::new()), status, at(2));
    }
    let one = job("1", "q", "t");
    let requeue = Call::Report {
        worker: worker(),
        job: one.id.clone(),
        outcome: Outcome::Requeued {
            reason: "so".into(),
            after: Duration::ZERO,
        },
        is_bare: false,
    };
    call(&mut metrics, 9, requeue, 0);
    metrics.answered(CallId(9), &Reply::Accepted, Some(200), at(1));
    let counted: Vec<_> = metrics.requests().collect();
    let expected = [
        (Endpoint::Fetch, StatusLabel::None, 1),
        (Endpoint::Fetch, StatusLabel::Http(200), 2),
        (Endpoint::Fetch, StatusLabel::Http(503), 1),
        (Endpoint::Nack, StatusLabel::Http(200), 1),
    ];
    assert_eq!(counted, expected);
}

#[test]
fn statuses_beyond_the_bound_are_counted_together() {
    let mut metrics = metrics();
    for status in 200..600 {
        call(&mut metrics, u64::from(status), Call::Manifest, 0);
        metrics.answered(CallId(u64::from(status)), &Reply::Accepted, Some(status), at(1));
    }
    call(&mut metrics, 1, Call::Manifest, 0);
    metrics.answered(CallId(1), &Reply::Failed(Failure::NotSent), None, at(1));
    let counted: Vec<_> = metrics.requests().collect();
    // The first statuses, all the others, and no answer.
    assert_eq!(counted.len(), MOST_STATUSES + 2);
    assert_eq!(counted.first(), Some(&(Endpoint::Manifest, StatusLabel::None, 1)));
    let others = 400 - u64::try_from(MOST_STATUSES).unwrap();
    assert_eq!(counted.last(), Some(&(Endpoint::Manifest, StatusLabel::Other, others)));
}

#[test]
fn the_age_of_a_heartbeat_counts_from_the_last_accepted_one_and_before_it_from_the_start() {
    let mut metrics = metrics();
    let heartbeat = || Call::Heartbeat {
        worker: worker(),
        state: crate::api::WorkerState::Running,
        active: Vec::new(),
        visibility: Duration::from_secs(30),
        takes: crate::api::Takes::default(),
        form: crate::api::HeartbeatForm::Full,
    };
    let accepted = Reply::HeartbeatOk {
        directive: None,
        extended: None,
    };
    call(&mut metrics, 1, heartbeat(), 0);
    metrics.answered(CallId(1), &Reply::Failed(Failure::NotSent), None, at(10));
    assert_eq!(metrics.heartbeat_age(at(1000)), Duration::from_secs(1));
    assert_eq!(metrics.heartbeats_failed, 1);
    call(&mut metrics, 2, heartbeat(), 1000);
    metrics.answered(CallId(2), &accepted, Some(200), at(1100));
    assert_eq!(metrics.heartbeat_age(at(1600)), Duration::from_millis(500));
    assert_eq!(metrics.heartbeats_failed, 1);
}

#[test]
fn a_result_that_the_backend_did_not_take_is_counted() {
    let mut metrics = metrics();
    say(&mut metrics, Notice::Job(JobNotice::ResultDropped(job("a", "t", "q"))));
    assert_eq!(metrics.results_dropped, 1);
}

#[test]
fn the_first_worker_is_no_restart() {
    let mut metrics = metrics();
    let restarts: Vec<u64> = (0..3)
        .map(|_| {
            metrics.worker_started(at(0), false);
            metrics.restarts()
        })
        .collect();
    assert_eq!(restarts, [0, 1, 2]);
}

#[test]
fn a_new_worker_is_young_and_has_had_no_job() {
    let mut metrics = metrics();
    assert_eq!(metrics.worker_age(at(5)), None);
    metrics.worker_started(at(1_000), false);
    let given = || Notice::Job(JobNotice::HandedOver(job("a", "t", "q"), HolderId(1)));
    say(&mut metrics, Notice::Job(JobNotice::Claimed(job("a", "t", "q"))));
    say(&mut metrics, given());
    say(&mut metrics, given());
    assert_eq!(
        (metrics.worker_age(at(4_000)), metrics.worker_jobs()),
        (Some(Duration::from_secs(3)), 2)
    );
    metrics.worker_started(at(5_000), false);
    assert_eq!(
        (metrics.worker_age(at(5_500)), metrics.worker_jobs()),
        (Some(Duration::from_millis(500)), 0)
    );
}

#[test]
fn fails_are_counted_by_the_type_of_their_error_and_those_beyond_the_bound_together() {
    let mut metrics = metrics();
    let one = job("1", "q", "t");
    let fail = |kind: Option<&str>, code: Option<&str>| {
        let error = JobError {
            code: code.map(Text::from),
            kind: kind.map(Text::from),
            ..JobError::new("no")
        };
        settled(&one, Outcome::Failed { error })
    };
    say(&mut metrics, fail(Some("ValueError"), Some("handler_error")));
    say(&mut metrics, fail(Some("ValueError"), None));
    say(&mut metrics, fail(None, Some("timeout")));
    let of = |metrics: &Metrics, name: &str| {
        metrics
            .errors()
            .find(|(error, _)| &***error == name)
            .map(|(_, count)| count)
    };
    assert_eq!(
        (of(&metrics, "ValueError"), of(&metrics, "timeout")),
        (Some(2), Some(1))
    );
    for number in 0..2 * MOST_ERRORS {
        say(&mut metrics, fail(Some(&format!("{number}{}", "x".repeat(200))), None));
    }
    assert_eq!(metrics.errors().count(), MOST_ERRORS + 1);
    assert_eq!(of(&metrics, OTHER), Some(u64::try_from(MOST_ERRORS + 2).unwrap()));
    assert!(metrics.errors().all(|(error, _)| error.len() <= MOST_NAME_BYTES));
}
