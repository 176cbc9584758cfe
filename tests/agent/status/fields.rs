//! Fields of the status, in each phase.

use serde_json::json;

use super::{STUCK, screen, shown, shows};
use crate::backend::{Behaviour, Endpoint};
use crate::operator::{OBEYS, run};
use crate::probe_client::Probes;
use crate::stage::{Init, Stage, job};

/// The port that the kernel gives.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// With a job that never ends, and a drain of 22 s.
fn with_a_job(stage: &Stage) -> Init {
    stage.enqueue([1]);
    let times = [
        ("OJS_CANCEL_GRACE", "7s"),
        ("OJS_STOP_MARGIN", "18s"),
        ("OJS_LABELS", "blue"),
    ];
    let mut init = stage.worker(STUCK).with_all(&times).start();
    init.notes_line("job j1");
    init
}

#[test]
fn who_runs_shows_its_jobs_its_worker_and_its_backend() {
    let stage = Stage::new();
    let init = with_a_job(&stage);
    let running = shows(&stage, &init, "running", |shown| {
        !shown["backend"]["heartbeat_age_ms"].is_null()
    });
    assert_eq!(
        (&running["state"], &running["phase"]),
        (&json!("running"), &json!("running"))
    );
    assert_eq!((&running["reasons"], &running["left_ms"]), (&json!([]), &json!(null)));
    assert_eq!(
        (&running["active"], &running["held"], &running["concurrency"]),
        (&json!(1), &json!(1), &json!(10))
    );
    let expected =
        json!({"id": "j1", "type": "t", "queue": "default", "place": "held", "connection": 1, "cancelled": false});
    let held = running["jobs"][0].as_object().unwrap();
    assert!(
        expected
            .as_object()
            .unwrap()
            .iter()
            .all(|(name, value)| held[name] == *value),
        "{held:?}"
    );
    assert_eq!(
        (&running["pid"], &running["version"]),
        (&json!(1), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(
        (&running["queues"], &running["labels"]),
        (&json!(["default"]), &json!(["blue"]))
    );
    assert_eq!(running["worker"]["program"], "python3");
    assert_eq!(
        (&running["worker"]["connections"], &running["worker"]["ready"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&running["backend"]["url"], &running["backend"]["reachable"]),
        (&json!(stage.backend.url()), &json!(true))
    );
    let came = run(&stage, &init, &["status"]);
    let lines = screen(&came);
    assert!(lines.contains(&"state     running"), "{came:?}");
    assert!(
        !came.stdout.contains("CONN "),
        "one connection needs no table: {came:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("j1 ") && line.ends_with("conn 1")),
        "{came:?}"
    );
}

#[test]
fn quiet_drain_and_stop_phase_each_show_their_reason_and_their_time() {
    let stage = Stage::new();
    let mut init = with_a_job(&stage);
    run(&stage, &init, &["quiet"]);
    let quiet = shown(&stage, &init);
    assert_eq!(
        (&quiet["phase"], &quiet["reasons"]),
        (&json!("quiet"), &json!(["operator"]))
    );

    init.signal(libc::SIGTERM);
    let draining = shows(&stage, &init, "drain", |shown| shown["phase"] == "drain");
    assert_eq!(
        (&draining["state"], &draining["reasons"]),
        (&json!("terminate"), &json!(["sigterm"]))
    );
    let (left, whole) = (
        draining["left_ms"].as_u64().unwrap(),
        draining["left_of_ms"].as_u64().unwrap(),
    );
    assert!(left <= whole && whole == 22_000 && left > 15_000, "{draining:#}");
    let came = run(&stage, &init, &["status"]);
    assert!(
        screen(&came).iter().any(|line| line.starts_with("left      [#")),
        "{came:?}"
    );

    run(&stage, &init, &["stop"]);
    init.ends_with(0);
}

#[test]
fn the_stop_phase_shows_the_jobs_as_cancelled_and_the_time_until_the_exit() {
    let stage = Stage::new();
    let mut init = with_a_job(&stage);
    run(&stage, &init, &["stop"]);
    let stopping = shows(&stage, &init, "stop", |shown| shown["phase"] == "stop");
    assert_eq!(stopping["jobs"][0]["cancelled"], true);
    assert!(stopping["left_ms"].as_u64().unwrap() <= 18_000, "{stopping:#}");
    run(&stage, &init, &["stop"]);
    init.ends_with(0);
}

#[test]
fn of_two_hundred_jobs_the_hundred_oldest_are_shown_and_all_are_counted() {
    let stage = Stage::new();
    let long = "x".repeat(200);
    for number in 0..200 {
        let id = format!("{number:03}-{long}");
        stage
            .backend
            .enqueue(&job(number, "").replace(&format!("j{number}"), &id));
    }
    let mut init = stage.worker(STUCK).with("OJS_CONCURRENCY", "200").start();
    let seen = shows(&stage, &init, "200 jobs", |shown| shown["held"] == 200);
    assert_eq!(
        (seen["jobs"].as_array().unwrap().len(), &seen["jobs_not_shown"]),
        (100, &json!(100))
    );
    for job in seen["jobs"].as_array().unwrap() {
        let id = job["id"].as_str().unwrap();
        assert!(id.len() == 80 && id.contains("x...x"), "{id}");
    }
    let came = run(&stage, &init, &["status"]);
    let lines = screen(&came);
    let rows = lines.iter().filter(|line| line.contains("x...x")).count();
    assert_eq!((rows, lines.last()), (100, Some(&"... and 100 more")), "{came:?}");
    init.signal(libc::SIGTERM);
    init.signal(libc::SIGQUIT);
    init.ends_with(0);
}

#[test]
fn of_a_prefork_worker_each_connection_is_shown_with_its_process_and_its_jobs() {
    let stage = Stage::new();
    stage.enqueue(1..6);
    let prefork = "
def takes(name, concurrency):
    link = Link()
    link.ready(concurrency)
    note(name, os.getpid())
    link.note_all()
for number in range(3):
    child(lambda: takes(f'child{number}', number + 1))
link = Link()
link.ready(0)
note('parent', os.getpid())
rest()";
    let mut init = stage.worker(prefork).start();
    let names = ["child0", "child1", "child2", "parent"];
    let pids = names.map(|name| init.noted(name).parse::<u64>().unwrap());
    let seen = shows(&stage, &init, "5 jobs", |shown| shown["held"] == 5);
    let connections = seen["connections"].as_array().unwrap();
    let of = |pid: u64| {
        let of = connections.iter().find(|connection| connection["pid"] == pid);
        let of = of.unwrap_or_else(|| panic!("{pid}: {seen:#}"));
        (of["concurrency"].as_u64().unwrap(), of["state"].as_str().unwrap())
    };
    assert_eq!(pids.map(of), [(1, "ready"), (2, "ready"), (3, "ready"), (0, "paused")]);
    let jobs: Vec<u64> = connections.iter().map(|of| of["jobs"].as_u64().unwrap()).collect();
    assert!(jobs.is_sorted_by(|one, next| one >= next), "{seen:#}");
    assert_eq!((jobs.len(), jobs.iter().sum::<u64>()), (4, 5), "{seen:#}");
    for job in seen["jobs"].as_array().unwrap() {
        assert!(
            connections.iter().any(|of| of["connection"] == job["connection"]),
            "{seen:#}"
        );
    }
    let came = run(&stage, &init, &["status"]);
    let lines = screen(&came);
    assert!(lines.iter().any(|line| line.starts_with("CONN ")), "{came:?}");
    let paused = format!("{:>7}      0 of 0  paused", pids[3]);
    assert!(lines.iter().any(|line| line.contains(&paused)), "{came:?}");
    init.signal(libc::SIGTERM);
    init.signal(libc::SIGQUIT);
    init.ends_with(0);
}

#[test]
fn over_http_nobody_learns_an_id_a_label_a_queue_or_a_url() {
    let stage = Stage::new();
    stage
        .backend
        .enqueue(r#"{"id":"secret-id","type":"secret.type","queue":"secret-queue","args":["secret"],"attempt":0}"#);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[ANY_PORT, ("OJS_LABELS", "secret-label"), ("OJS_QUEUES", "secret-queue")])
        .start();
    let probes = Probes::of(&mut init);
    init.notes_line("job secret-id");
    let told = shown(&stage, &init).to_string();
    for name in ["secret-id", "secret.type", "secret-queue", "secret-label"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    let answer = probes.get("/status");
    assert_eq!(
        (answer.status, answer.json()["active"].as_u64()),
        (200, Some(1)),
        "{answer:?}"
    );
    assert!(answer.json()["oldest_job_age_ms"].is_u64(), "{answer:?}");
    let url = stage.backend.url();
    let (_, host) = url.split_once("//").unwrap();
    let id = shown(&stage, &init)["backend"]["worker_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let probes_too = ["/livez", "/readyz", "/healthz"].map(|path| probes.get(path));
    for answer in probes_too.iter().chain([&answer]) {
        for name in ["secret", "python", host, id.as_str()] {
            assert!(!answer.body.contains(name), "{name}: {answer:?}");
        }
    }
    let head = probes.ask("HEAD /status HTTP/1.1\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(probes.ask("POST /status HTTP/1.1\r\n\r\n").status, 405);
    init.order("ack secret-id");
    init.stops();
}

#[test]
fn a_worker_that_died_shows_how_and_when_the_next_one_starts() {
    let stage = Stage::new();
    let dies = "
link = Link()
link.ready()
die()";
    let mut init = stage.worker(dies).with("OJS_RESTART", "always").start();
    let seen = shows(&stage, &init, "a restart that is due", |shown| {
        shown["worker"]["pid"].is_null() && shown["worker"]["starts_in_ms"].is_u64()
    });
    assert_eq!(seen["worker"]["last_end"], "killed by SIGKILL", "{seen:#}");
    let seen = shows(&stage, &init, "two restarts", |shown| {
        shown["worker"]["restarts"].as_u64() >= Some(2)
    });
    assert_eq!(seen["state"], "running", "{seen:#}");
    init.stops();
}

#[test]
fn a_backend_that_is_gone_is_shown_as_unreachable_and_its_jobs_as_reporting() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(OBEYS).with("OJS_HEARTBEAT_INTERVAL", "200ms").start();
    init.notes_line("job j1");
    stage.backend.always(Endpoint::Ack, Behaviour::Close);
    stage.backend.refuse_connections();
    init.order("ack j1");
    // A request that was on its way when the backend went has another kind of trouble.
    shows(&stage, &init, "unreachable", |shown| {
        let backend = &shown["backend"];
        let is_gone = backend["reachable"] == false && backend["trouble"]["kind"] == "not_sent";
        is_gone && shown["reporting"] == 1 && shown["jobs"][0]["place"] == "reporting"
    });
    let came = run(&stage, &init, &["status"]);
    for line in ["\nbackend   is unreachable for ", "; reservations lapse in "] {
        assert!(came.stdout.contains(line), "{line:?}: {came:?}");
    }
    let shown = shown(&stage, &init);
    let trouble = &shown["backend"]["trouble"];
    assert_eq!(trouble["kind"], "not_sent", "{shown:#}");
    assert!(
        trouble["error"].is_string() && trouble["lapses_ms"].is_u64(),
        "{shown:#}"
    );
}
