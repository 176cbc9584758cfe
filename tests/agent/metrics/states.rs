//! Gauges show the present moment, in each state.

use std::time::Duration;

use super::scrape::{families, value};
use super::{ANY_PORT, OBEYS, OFTEN};
use crate::backend::{Behaviour, Endpoint};
use crate::operator::{Place, start};
use crate::probe_client::Probes;
use crate::stage::{PATIENCE, Stage};
use crate::support::wait::{now, wait_until};

fn state(name: &str) -> String {
    format!("ojs_init_state{{state=\"{name}\"}}")
}

#[test]
fn the_state_follows_quiet_resume_and_terminate_and_the_drain_has_its_times() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    probes.counts(&state("running"), 1.0);
    init.signal(libc::SIGTSTP);
    probes.counts(&state("quiet"), 1.0);
    let text = probes.scrape();
    assert_eq!(value(&text, &state("running")), Some(0.0));
    assert_eq!(value(&text, "ojs_init_free_credit"), Some(0.0));
    assert_eq!(value(&text, "ojs_init_drain_seconds"), Some(0.0));
    assert_eq!(value(&text, "ojs_init_drain_left_seconds"), None);
    init.signal(libc::SIGCONT);
    probes.counts(&state("running"), 1.0);
    init.signal(libc::SIGTERM);
    probes.counts(&state("terminate"), 1.0);
    probes.shows("ojs_init_drain_seconds", |since| since > 0.5);
    let text = probes.scrape();
    let left = |name: &str| value(&text, name).unwrap();
    let (drain, exit) = (left("ojs_init_drain_left_seconds"), left("ojs_init_exit_left_seconds"));
    // By default 30 s to drain and 5 s for the stop phase.
    let stop_phase = exit - drain;
    assert!(
        drain > 5.0 && drain < 30.0 && (stop_phase - 5.0).abs() < 0.1,
        "{drain} {exit}"
    );
    init.order("ack j1");
    init.ends_with(0);
}

#[test]
fn a_pre_stop_hook_counts_as_the_beginning_of_the_drain() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let limit = ("OJS_TERMINATION_GRACE_PERIOD", "20s");
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN, limit]).start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    let hook = start(&stage, &init, Place::Inside, &["prestop", "--until-idle"]);
    probes.counts(&state("quiet"), 1.0);
    probes.shows("ojs_init_drain_seconds", |since| since > 0.5);
    let text = probes.scrape();
    let (since, left) = (
        value(&text, "ojs_init_drain_seconds").unwrap(),
        value(&text, "ojs_init_drain_left_seconds").unwrap(),
    );
    // Of the limit of 20 s, 5 s are for the stop phase.
    assert!((since + left - 15.0).abs() < 0.1, "{since} {left}");
    init.signal(libc::SIGTERM);
    probes.counts(&state("terminate"), 1.0);
    let text = probes.scrape();
    let later = value(&text, "ojs_init_drain_seconds").unwrap();
    let rest = value(&text, "ojs_init_drain_left_seconds").unwrap();
    assert!(later > since && rest < left, "{since} {later}, {left} {rest}");
    init.order("ack j1");
    hook.ends();
    init.ends_with(0);
}

#[test]
fn jobs_connections_and_credit_are_shown_as_they_are() {
    let stage = Stage::new();
    stage.enqueue([1, 2, 3]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, OFTEN, ("OJS_CONCURRENCY", "7")])
        .start();
    let probes = Probes::of(&mut init);
    probes.counts("ojs_worker_active_jobs", 3.0);
    probes.counts("ojs_init_free_credit", 4.0);
    probes.counts("ojs_init_concurrency", 7.0);
    probes.counts("ojs_init_connections_ready", 1.0);
    probes.counts("ojs_init_worker_running", 1.0);
    for job in ["j1", "j2", "j3"] {
        init.order(&format!("ack {job}"));
    }
    probes.counts("ojs_worker_active_jobs", 0.0);
    probes.counts("ojs_init_free_credit", 7.0);
    init.stops();
}

#[test]
fn a_heartbeat_is_young_while_the_backend_accepts_them_and_grows_old_when_it_does_not() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    stage.wait_for_more(Endpoint::Heartbeat, 20);
    let text = probes.scrape();
    let age = value(&text, "ojs_init_heartbeat_age_seconds").unwrap();
    assert!(age < 1.5, "{age}");
    assert_eq!(value(&text, "ojs_init_heartbeat_interval_seconds"), Some(0.1));
    stage.backend.always(Endpoint::Heartbeat, Behaviour::status(503));
    probes.shows("ojs_init_heartbeat_age_seconds", |age| age > 2.0);
    stage.backend.always(Endpoint::Heartbeat, Behaviour::Normal);
    probes.shows("ojs_init_heartbeat_age_seconds", |age| age < 0.5);
    init.stops();
}

#[test]
fn a_job_that_the_shutdown_cuts_off_is_counted_while_its_fail_is_on_its_way() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, OFTEN, ("OJS_SHUTDOWN_GRACE_PERIOD", "500ms")])
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    assert_eq!(value(&probes.scrape(), "ojs_init_jobs_cut_off_total"), Some(0.0));
    stage.backend.always(Endpoint::Nack, Behaviour::Hang);
    init.signal(libc::SIGTERM);
    let mut is_counted = false;
    let is_gone = wait_until(PATIENCE, || {
        let answer = probes.try_get("/metrics");
        let count = answer
            .as_ref()
            .and_then(|answer| value(&answer.body, "ojs_init_jobs_cut_off_total"));
        is_counted |= count.is_some_and(|count| count > 0.5);
        answer.is_none()
    });
    assert!(is_gone && is_counted, "{}", init.story());
    init.ends_with(0);
}

#[test]
fn the_start_and_the_version_are_shown() {
    let stage = Stage::new();
    let before = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    let text = probes.scrape();
    let started_at = value(&text, "process_start_time_seconds").unwrap();
    let after = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(
        before <= started_at && started_at <= after,
        "{before} {started_at} {after}"
    );
    let build = concat!("ojs_init_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    assert_eq!(value(&text, build), Some(1.0));
    init.stops();
}

#[test]
fn nothing_that_names_a_job_a_worker_or_the_backend_is_shown() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let secrets = [
        ("OJS_AUTH_TOKEN", "hunter2-token"),
        ("OJS_LABELS", "hunter2-label"),
        ("OJS_HEADERS", "X-Api-Key: hunter2-key"),
    ];
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, OFTEN])
        .with_all(&secrets)
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    init.order("ack j1");
    probes.counts(&format!("ojs_job_completed_total{{{}}}", super::OF_JOB), 1.0);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    let worker = stage.backend.records_of(Endpoint::Heartbeat)[0]
        .text("worker_id")
        .unwrap();
    let text = probes.scrape();
    let port = stage.backend.address().port().to_string();
    for hidden in ["hunter2", "j1", &worker, "127.0.0.1", "http", &port] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    init.stops();
}

#[test]
fn a_scrape_is_declared_as_prometheus_text_and_head_gets_its_head() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    let began = now();
    let get = probes.get("/metrics");
    let head = probes.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    // The two are of the same moment unless the machine is very busy.
    assert!(
        head.head == get.head || began.elapsed() > Duration::from_secs(1),
        "{head:?}"
    );
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(
        get.head
            .contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    );
    assert!(
        get.head
            .contains(&format!("\r\nContent-Length: {}\r\n", get.body.len()))
    );
    assert!(families(&get.body).len() > 15);
    init.stops();
}
