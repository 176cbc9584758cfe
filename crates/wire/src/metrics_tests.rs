#![allow(clippy::unwrap_used, reason = "a test without its text has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use ojs_lifecycle::api::{Call, CallId, Effect, JobId, JobNotice, Notice, Outcome, Phase, Reply, Subject, WorkerId};
use ojs_lifecycle::view::metrics::{BUCKETS, MOST_KINDS, MOST_NAME_BYTES, MOST_STATUSES};

fn at(seconds: u64) -> Moment {
    Moment::new(Duration::from_secs(seconds))
}

fn running() -> Snapshot {
    Snapshot {
        phase: Phase::Running,
        state: WorkerState::Running,
        concurrency: 10,
        active: 3,
        waiting: 0,
        held_back: 5,
        held: 2,
        unanswered: 1,
        dropped: 0,
        past_their_time: 0,
        reporting: 1,
        oldest_since: Some(at(0)),
        ready_holders: 4,
        capacity: 8,
        free_credit: 7,
        memory_taken: Some(73),
        memory_gate_is_closed: true,
        streams: 2,
        telling_streams: 1,
        deaf_streams: 3,
        worker_is_alive: true,
        heartbeat_interval: Duration::from_millis(2500),
        drain_since: None,
        cut_off: 0,
        exit_by: None,
        deadlines: 0,
    }
}

fn draining() -> Snapshot {
    Snapshot {
        phase: Phase::Drain,
        state: WorkerState::Terminate,
        drain_since: Some(at(100)),
        cut_off: 0,
        exit_by: Some(at(130)),
        ..running()
    }
}

/// With a worker that was started after 5 s.
fn metrics() -> Metrics {
    let mut metrics = Metrics::new(at(0), Duration::from_millis(1_800_000_000_250));
    metrics.worker_started(at(5), false);
    metrics
}

fn shown(metrics: &Metrics, snapshot: &Snapshot, now: Moment) -> String {
    shown_with(None, metrics, snapshot, now)
}

fn shown_with(drain_left: Option<u64>, metrics: &Metrics, snapshot: &Snapshot, now: Moment) -> String {
    text(&Observed {
        spans_sent: 5,
        spans_dropped: 6,
        metrics,
        snapshot,
        drain_left: drain_left.map(Duration::from_secs),
        usage: Some(WorkerUsage {
            memory_bytes: 50_000_000,
            cpu: Duration::from_millis(12_340),
            processes: 3,
        }),
        log_records_dropped: 5,
        now,
    })
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|other| other == line), "{line} is not in:\n{text}");
}

fn job(queue: &str, kind: &str) -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId("the-id".into()),
        kind: kind.into(),
        queue: queue.into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    })
}

fn call(metrics: &mut Metrics, id: CallId, call: Call, now: Moment) {
    let give_up = now;
    let is_again = false;
    metrics.observe(&Effect::CallBackend {
        id,
        call,
        give_up,
        is_again,
    });
}

/// Works on one job, with this outcome.
fn work(metrics: &mut Metrics, job: &Arc<Subject>, outcome: Outcome, took: u64) {
    let (end, took) = (outcome.end(), Duration::from_secs(took));
    let ack = Call::Report {
        worker: WorkerId("the-worker".into()),
        job: job.id.clone(),
        outcome: Outcome::Acked { result: None },
        is_bare: false,
    };
    call(metrics, CallId(1), ack, at(0));
    metrics.answered(CallId(1), &Reply::Accepted, Some(200), at(0));
    let job = || Arc::clone(job);
    for notice in [
        Notice::Job(JobNotice::OutcomeSent { job: job(), end, took }),
        Notice::Job(JobNotice::Settled {
            job: job(),
            outcome,
            took: Some(took),
        }),
    ] {
        metrics.observe(&Effect::Notify(notice));
    }
}

/// One outcome of each kind.
fn outcomes() -> [Outcome; 3] {
    let error = ojs_lifecycle::api::JobError::new("no");
    [
        Outcome::Acked { result: None },
        Outcome::Failed { error },
        Outcome::Requeued {
            reason: "so".into(),
            after: Duration::ZERO,
        },
    ]
}

#[test]
fn each_gauge_shows_what_is_so_now() {
    let text = shown(&metrics(), &running(), at(20));
    for line in [
        "ojs_worker_active_jobs 3",
        "ojs_init_concurrency 10",
        "ojs_init_free_credit 7",
        "ojs_init_memory_taken_ratio 0.73",
        "ojs_init_memory_gate_closed 1",
        "ojs_init_connections_ready 4",
        "ojs_init_event_streams 2",
        "ojs_init_wakeups_total 0",
        "ojs_init_worker_capacity 8",
        "ojs_init_worker_running 1",
        "ojs_init_worker_age_seconds 15",
        "ojs_init_worker_jobs 0",
        "ojs_init_worker_memory_bytes 50000000",
        "ojs_init_worker_processes 3",
        "ojs_init_worker_cpu_seconds_total 12.34",
        "ojs_init_state{state=\"running\"} 1",
        "ojs_init_state{state=\"quiet\"} 0",
        "ojs_init_state{state=\"terminate\"} 0",
        "ojs_init_drain_seconds 0",
        "ojs_init_jobs_cut_off_total 0",
        "ojs_init_heartbeat_age_seconds 20",
        "ojs_init_heartbeat_interval_seconds 2.5",
        "ojs_init_log_records_dropped_total 5",
        concat!("ojs_init_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "process_start_time_seconds 1800000000.25",
    ] {
        has(&text, line);
    }
    for name in ["ojs_init_drain_left_seconds", "ojs_init_exit_left_seconds"] {
        assert!(!text.contains(&format!("\n{name} ")), "{name} means nothing yet");
    }
}

#[test]
fn a_worker_that_does_not_run_has_no_age() {
    let stopped = Snapshot {
        worker_is_alive: false,
        ..running()
    };
    let text = shown(&metrics(), &stopped, at(20));
    has(&text, "ojs_init_worker_running 0");
    assert!(!text.contains("\nojs_init_worker_age_seconds "), "{text}");
}

#[test]
fn in_terminate_the_time_that_went_by_and_the_time_that_is_left_are_shown() {
    let text = shown_with(Some(15), &metrics(), &draining(), at(110));
    for line in [
        "ojs_init_state{state=\"terminate\"} 1",
        "ojs_init_drain_seconds 10",
        "ojs_init_drain_left_seconds 15",
        "ojs_init_exit_left_seconds 20",
    ] {
        has(&text, line);
    }
    let stop = Snapshot {
        phase: Phase::Stop,
        cut_off: 2,
        ..draining()
    };
    let text = shown_with(Some(0), &metrics(), &stop, at(127));
    has(&text, "ojs_init_drain_left_seconds 0");
    has(&text, "ojs_init_exit_left_seconds 3");
    has(&text, "ojs_init_jobs_cut_off_total 2");
}

#[test]
fn a_finished_job_is_in_every_metric_of_jobs() {
    let mut metrics = metrics();
    work(
        &mut metrics,
        &job("mail", "email.send"),
        Outcome::Acked { result: None },
        2,
    );
    let text = shown(&metrics, &running(), at(3));
    for line in [
        "ojs_job_completed_total{queue=\"mail\",type=\"email.send\"} 1",
        "ojs_job_duration_seconds_bucket{queue=\"mail\",type=\"email.send\",state=\"completed\",le=\"0.005\"} 0",
        "ojs_job_duration_seconds_bucket{queue=\"mail\",type=\"email.send\",state=\"completed\",le=\"1\"} 0",
        "ojs_job_duration_seconds_bucket{queue=\"mail\",type=\"email.send\",state=\"completed\",le=\"2.5\"} 1",
        "ojs_job_duration_seconds_bucket{queue=\"mail\",type=\"email.send\",state=\"completed\",le=\"+Inf\"} 1",
        "ojs_job_duration_seconds_sum{queue=\"mail\",type=\"email.send\",state=\"completed\"} 2",
        "ojs_job_duration_seconds_count{queue=\"mail\",type=\"email.send\",state=\"completed\"} 1",
        "ojs_init_jobs_total{outcome=\"acked\",queue=\"mail\",type=\"email.send\"} 1",
        "ojs_init_jobs_total{outcome=\"failed\",queue=\"mail\",type=\"email.send\"} 0",
        "ojs_init_job_timeouts_total{queue=\"mail\",type=\"email.send\"} 0",
        "ojs_init_requests_total{endpoint=\"ack\",status=\"200\"} 1",
    ] {
        has(&text, line);
    }
    assert!(!text.contains("the-id") && !text.contains("the-worker"), "{text}");
}

#[test]
fn a_request_without_an_answer_has_the_status_none() {
    let mut metrics = metrics();
    call(&mut metrics, CallId(7), Call::Manifest, at(0));
    metrics.answered(CallId(7), &Reply::Accepted, None, at(0));
    let text = shown(&metrics, &running(), at(3));
    has(
        &text,
        "ojs_init_requests_total{endpoint=\"manifest\",status=\"none\"} 1",
    );
}

#[test]
fn a_name_cannot_end_its_label_nor_its_line() {
    let mut metrics = metrics();
    work(
        &mut metrics,
        &job("a\"} 1\n# b", "c\\"),
        Outcome::Acked { result: None },
        0,
    );
    let text = shown(&metrics, &running(), at(3));
    has(
        &text,
        "ojs_job_completed_total{queue=\"a\\\"} 1\\n# b\",type=\"c\\\\\"} 1",
    );
}

#[test]
fn every_sample_follows_the_help_and_the_type_of_its_family_and_none_comes_twice() {
    let mut metrics = metrics();
    for outcome in outcomes() {
        work(&mut metrics, &job("q", "t"), outcome, 1);
    }
    let text = shown_with(Some(15), &metrics, &draining(), at(110));
    let mut family = String::new();
    let mut series = BTreeSet::new();
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().unwrap().to_owned();
            assert_eq!(families.insert(family.clone(), 0), None, "{line}");
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            assert_eq!(of.split(' ').next(), Some(family.as_str()));
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"].map(|end| name.strip_suffix(end));
            let is_of_family = name == family || of_histogram.contains(&Some(family.as_str()));
            assert!(is_of_family, "{line} in {family}");
            assert!(series.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line}");
            *families.get_mut(&family).unwrap() += 1;
        }
    }
    assert!(families.values().all(|samples| *samples > 0), "{families:?}");
}

/// The most possible kinds of jobs and statuses, with the longest names.
fn worst() -> Metrics {
    let mut metrics = metrics();
    for number in 0..=MOST_KINDS {
        let name = format!("{number:02}{}", "\"".repeat(MOST_NAME_BYTES - 2));
        for outcome in outcomes() {
            work(&mut metrics, &job(&name, &name), outcome, 100);
        }
    }
    let worker = || WorkerId("w".into());
    let id = || JobId("j".into());
    let calls: [&dyn Fn() -> Call; 4] = [
        &|| Call::Manifest,
        &|| Call::Register {
            worker: worker(),
            takes: ojs_lifecycle::api::Takes::default(),
        },
        &|| Call::GetJob { job: id() },
        &|| Call::Fetch {
            worker: worker(),
            count: 1,
            queues: None,
            visibility: Duration::from_secs(120),
            form: ojs_lifecycle::api::FetchForm::Full,
        },
    ];
    for make in calls {
        for status in 100..=200 {
            call(&mut metrics, CallId(1), make(), at(0));
            metrics.answered(CallId(1), &Reply::Accepted, Some(status), at(0));
        }
    }
    metrics
}

#[test]
fn the_text_is_never_longer_than_its_bound() {
    /// Digits of the largest number.
    const MOST_DIGITS: usize = 20;
    let text = shown(&worst(), &draining(), at(u64::from(u32::MAX)));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let short = lines.clone().count() * MOST_DIGITS;
    // Six endpoints more have as many statuses each, in lines that are shorter than this.
    let requests = 6 * (MOST_STATUSES + 2) * 100;
    let most = text.len() + short + requests;
    let kinds = lines.filter(|line| line.starts_with("ojs_job_completed_total")).count();
    assert_eq!(kinds, MOST_KINDS + 1);
    let measured = text.matches("ojs_job_duration_seconds_bucket").count();
    // All kinds but the last (the one for all others) have the longest names; the last is added.
    assert_eq!(measured, (MOST_KINDS + 1) * 3 * (BUCKETS.len() + 1));
    assert!(most <= MOST_BYTES, "{most} bytes of {MOST_BYTES}");
    assert!(most > MOST_BYTES / 2, "{most} bytes: the bound is far too high");
}
