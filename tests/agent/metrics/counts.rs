//! Events of jobs, requests and processes are counted.

use super::scrape::value;
use super::{ANY_PORT, OBEYS, OF_JOB, OFTEN, WORKS};
use crate::backend::{Behaviour, Endpoint};
use crate::network::in_own_network;
use crate::probe_client::Probes;
use crate::stage::{Init, Stage, job};
use crate::support::proc;
use crate::support::sys::send;

fn started(stage: &Stage, script: &str) -> (Init, Probes) {
    let mut init = stage.worker(script).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    (init, probes)
}

fn outcome(name: &str) -> String {
    format!("ojs_init_jobs_total{{outcome=\"{name}\",{OF_JOB}}}")
}

#[test]
fn an_ack_counts_as_completed_and_its_job_took_some_time() {
    let stage = Stage::new();
    stage.enqueue([1, 2, 3]);
    let (mut init, probes) = started(&stage, WORKS);
    probes.counts(&format!("ojs_job_completed_total{{{OF_JOB}}}"), 3.0);
    probes.counts(&outcome("acked"), 3.0);
    let text = probes.scrape();
    let took = |what: &str| {
        let series = format!("ojs_job_duration_seconds_{what}{{{OF_JOB},state=\"completed\"}}");
        value(&text, &series).unwrap()
    };
    assert!((took("count") - 3.0).abs() < 0.5 && took("sum") > 0.0, "{text}");
    assert_eq!(value(&text, &outcome("failed")), Some(0.0));
    init.stops();
}

#[test]
fn a_fail_counts_as_failed_and_a_release_as_requeued() {
    let stage = Stage::new();
    let envelope = |number| job(number, ",\"max_attempts\":3");
    (1..=2).for_each(|number| stage.backend.enqueue(&envelope(number)));
    let (mut init, probes) = started(&stage, OBEYS);
    init.notes_line("job j1");
    init.notes_line("job j2");
    init.order(r#"fail j1 {"error": {"message": "no"}}"#);
    probes.counts(&outcome("failed"), 1.0);
    probes.counts(
        &format!("ojs_job_duration_seconds_count{{{OF_JOB},state=\"failed\"}}"),
        1.0,
    );
    init.order("release j2");
    probes.counts(&outcome("requeued"), 1.0);
    let text = probes.scrape();
    assert_eq!(value(&text, &format!("ojs_job_completed_total{{{OF_JOB}}}")), Some(0.0));
    init.notes_times("job j2", 2);
    init.order("ack j2");
    init.stops();
}

#[test]
fn a_cancelled_job_and_one_whose_time_is_over_are_counted() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, ""));
    stage.backend.enqueue(&job(2, ",\"timeout\":1"));
    let (mut init, probes) = started(&stage, OBEYS);
    init.notes_line("job j1");
    init.notes_line("job j2");
    stage.backend.cancel("j1");
    probes.counts(&outcome("cancelled"), 1.0);
    probes.counts(&format!("ojs_init_job_timeouts_total{{{OF_JOB}}}"), 1.0);
    init.signal(libc::SIGKILL);
}

#[test]
fn a_lost_job_counts_as_lost_and_one_that_nobody_was_told_about_as_left() {
    let stage = Stage::new();
    // Its attempts are used up: a requeue would discard it.
    let last = r#"{"id":"j2","type":"t","queue":"default","args":[],"attempt":1,"max_attempts":1}"#;
    stage.enqueue([1]);
    stage.backend.enqueue(last);
    let (mut init, probes) = started(&stage, OBEYS);
    init.notes_line("job j1");
    init.notes_line("job j2");
    // Somebody else has it by now; a 404 may only mean that the store is away.
    let gone = r#"{"error":{"code":"conflict","message":"not active","details":{"current_state":"available"}}}"#;
    stage
        .backend
        .once(Endpoint::Ack, Behaviour::Answer(409, gone.to_owned(), Vec::new()));
    init.order("ack j1");
    probes.counts(&outcome("lost"), 1.0);
    init.order("release j2");
    probes.counts(&outcome("left"), 1.0);
    init.stops();
}

#[test]
fn each_request_is_counted_with_the_status_of_its_answer() {
    let stage = Stage::new();
    stage.backend.once(Endpoint::Ack, Behaviour::status(503));
    stage.enqueue([1]);
    let (mut init, probes) = started(&stage, WORKS);
    let series = |endpoint: &str, status: &str| {
        format!("ojs_init_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}}")
    };
    probes.counts(&series("ack", "503"), 1.0);
    probes.shows(&series("ack", "200"), |count| count > 0.5);
    probes.shows(&series("register", "200"), |count| count > 0.5);
    probes.shows(&series("heartbeat", "200"), |count| count > 0.5);
    probes.shows(&series("fetch", "200"), |count| count > 0.5);
    stage.backend.refuse_connections();
    probes.shows(&series("heartbeat", "none"), |count| count > 1.5);
    probes.shows("ojs_init_heartbeats_failed_total", |count| count > 1.5);
    stage.backend.accept_connections();
    init.stops();
}

#[test]
fn a_worker_that_is_started_again_is_a_restart_and_is_no_orphan() {
    let stage = Stage::new();
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, OFTEN, ("OJS_RESTART", "always")])
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("ready");
    probes.counts("ojs_init_worker_restarts_total", 0.0);
    send(proc::children(init.pid)[0], libc::SIGKILL).unwrap();
    init.notes_times("ready", 2);
    probes.counts("ojs_init_worker_restarts_total", 1.0);
    assert_eq!(value(&probes.scrape(), "ojs_init_reaped_orphans_total"), Some(0.0));
    init.stops();
}

#[test]
fn an_orphan_is_counted_when_it_is_reaped() {
    let stage = Stage::new();
    let script = "
link = Link()
link.ready()
for _ in range(3):
    os.waitpid(child(lambda: child(lambda: time.sleep(0.2))), 0)
link.work()";
    let (mut init, probes) = started(&stage, script);
    probes.counts("ojs_init_reaped_orphans_total", 3.0);
    init.stops();
}

#[test]
fn records_that_nobody_reads_are_dropped_and_counted() {
    in_own_network(|| {
        let stage = Stage::new();
        // Nobody reads what is behind its standard error.
        let deaf = "exec \"$@\" 2> >(exec sleep 1000)";
        let mut init = stage
            .worker("signal.signal(signal.SIGUSR1, signal.SIG_IGN); link = Link(); link.ready(); link.work()")
            .with_all(&[("OJS_HEALTH_LISTEN", "127.0.0.1:8081"), ("OJS_LOG_LEVEL", "trace")])
            .through(&["bash", "-c", deaf, "bash"])
            .start();
        let probes = Probes("127.0.0.1:8081".parse().unwrap());
        init.notes_line("ready");
        let name = "ojs_init_log_records_dropped_total";
        assert_eq!(value(&probes.scrape(), name), Some(0.0));
        probes.shows(name, |count| {
            for _ in 0..100 {
                init.signal(libc::SIGUSR1);
            }
            count > 0.5
        });
        init.signal(libc::SIGKILL);
    });
}
