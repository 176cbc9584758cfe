//! Probes: what is ready, what is healthy, what is alive.

use std::time::Duration;

use super::{OBEYS, OFTEN};
use crate::backend::Endpoint;
use crate::network::in_own_network;
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage, never};
use crate::support::wait::{Stopwatch, now, wait_until};

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Heartbeats of which three intervals are longer than a busy machine is away.
const SOMETIMES: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "1s");

/// Statuses of `/livez`, `/readyz` and `/healthz`.
const ALL_GOOD: [u16; 3] = [200, 200, 200];
const NOT_READY: [u16; 3] = [200, 503, 200];
const WITHDRAWN: [u16; 3] = [200, 503, 503];

fn started(stage: &Stage) -> (Init, Probes) {
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, SOMETIMES]).start();
    let probes = Probes::of(&mut init);
    probes.become_(ALL_GOOD);
    (init, probes)
}

#[test]
fn x_03_in_quiet_it_is_not_ready_within_a_second_and_ready_again_after_sigcont() {
    let stage = Stage::new();
    let (mut init, probes) = started(&stage);
    for (signal, expected) in [(libc::SIGTSTP, WITHDRAWN), (libc::SIGCONT, ALL_GOOD)] {
        let began = Stopwatch::start();
        init.signal(signal);
        probes.become_(expected);
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    init.stops();
}

#[test]
fn x_03_in_terminate_it_is_live_and_not_ready_until_the_very_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, SOMETIMES, ("OJS_SHUTDOWN_GRACE_PERIOD", "1s")])
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j1");
    probes.become_(ALL_GOOD);
    let began = Stopwatch::start();
    init.signal(libc::SIGTERM);
    probes.become_(WITHDRAWN);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // The job is never answered: the drain, then the stop phase with its cancel.
    let mut answers_in_the_stop_phase = 0;
    let is_gone = wait_until(PATIENCE, || {
        let is_stop_phase = init.notes().iter().any(|line| line.starts_with("cancel"));
        let answers = ["/livez", "/readyz", "/healthz"].map(|path| probes.try_get(path));
        for (answer, expected) in answers.iter().zip(WITHDRAWN) {
            assert!(
                answer.as_ref().is_none_or(|answer| answer.status == expected),
                "{answer:?}"
            );
        }
        let is_answered = answers.iter().all(Option::is_some);
        answers_in_the_stop_phase += usize::from(is_answered && is_stop_phase);
        !is_answered
    });
    init.ends_with(0);
    assert!(
        is_gone && answers_in_the_stop_phase > 0,
        "{answers_in_the_stop_phase} answers"
    );
}

#[test]
fn x_03_a_worker_is_ready_when_it_has_said_so_and_the_backend_has_accepted_a_heartbeat() {
    let stage = Stage::new();
    stage.backend.refuse_connections();
    let script = "
link = Link()
note('waits')
while not orders(): time.sleep(0.01)
link.ready()
link.obey()";
    let mut init = stage.worker(script).with_all(&[ANY_PORT, SOMETIMES]).start();
    let probes = Probes::of(&mut init);
    init.notes_line("waits");
    probes.become_(NOT_READY);
    assert_eq!(probes.get("/readyz").reasons(), ["worker_not_ready", "no_heartbeat"]);
    init.order("pong x");
    init.notes_line("ready");
    let is_said = wait_until(PATIENCE, || probes.get("/readyz").reasons() == ["no_heartbeat"]);
    assert!(is_said, "{:?}", probes.get("/readyz"));
    stage.backend.accept_connections();
    probes.become_(ALL_GOOD);
    init.stops();
}

#[test]
fn x_03_in_an_outage_of_the_backend_it_is_not_ready_after_three_intervals_and_nothing_else() {
    let stage = Stage::new();
    let (mut init, probes) = started(&stage);
    stage.wait_for_more(Endpoint::Heartbeat, 1);
    let began = now();
    stage.backend.refuse_connections();
    never("impatience", || probes.statuses() != ALL_GOOD);
    probes.become_(NOT_READY);
    // The last heartbeat was accepted shortly before the outage began, at most an interval of 1 s
    // and some noise.
    assert!(began.elapsed() > Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(probes.get("/readyz").reasons(), ["heartbeats_lost"]);
    stage.backend.accept_connections();
    probes.become_(ALL_GOOD);
    init.stops();
}

#[test]
fn gs_r004_a_quiet_worker_is_not_ready_whoever_asked_for_that_and_says_why() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with_all(&[ANY_PORT, OFTEN]).start();
    let probes = Probes::of(&mut init);
    probes.become_(ALL_GOOD);
    stage.backend.direct("quiet", "");
    probes.become_(WITHDRAWN);
    for path in ["/readyz", "/healthz"] {
        let answer = probes.get(path);
        assert_eq!(answer.json()["status"], "unavailable", "{answer:?}");
        assert_eq!(answer.json()["state"], "quiet", "{answer:?}");
        assert!(answer.reasons().contains(&"quiet".to_owned()), "{answer:?}");
    }
    init.stops();
}

#[test]
fn gs_r004_an_answer_names_no_job_no_label_and_no_url() {
    let stage = Stage::new();
    stage.enqueue([4711]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, SOMETIMES, ("OJS_LABELS", "swordfish")])
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("job j4711");
    init.signal(libc::SIGTERM);
    probes.become_(WITHDRAWN);
    for path in ["/livez", "/readyz", "/healthz", "/", "/j4711"] {
        let body = probes.get(path).body;
        for secret in ["j4711", "swordfish", &stage.backend.url()] {
            assert!(!body.contains(secret), "{path}: {body}");
        }
    }
    init.order("ack j4711");
    init.ends_with(0);
}

#[test]
fn x_04_the_probe_of_the_specification_s_example_finds_us_without_any_setting() {
    in_own_network(|| {
        let stage = Stage::new();
        let mut init = stage.worker(OBEYS).with("OJS_HEALTH_LISTEN", "").start();
        init.notes_line("ready");
        for address in ["127.0.0.1:8081", "[::1]:8081"] {
            let answer = Probes(address.parse().unwrap()).get("/healthz");
            assert_eq!(answer.status, 200, "{address}: {answer:?}");
        }
        assert!(init.complaints().is_empty(), "{:?}", init.complaints());
        init.stops();
    });
}
