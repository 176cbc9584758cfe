//! The view of operators, orchestrators and Prometheus.

use crate::backend::{Behaviour, Endpoint};
use crate::gateway::worker;
use crate::operator::run;
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_for;

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Waits until `status --json` says something. An instance that starts has no socket yet.
fn shows(stage: &Stage, init: &Init, is_it: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let ask = || run(stage, init, &["status", "--json"]);
    let seen = wait_for(PATIENCE, || {
        let came = Some(ask()).filter(|came| came.status == Some(0))?;
        Some(serde_json::from_str::<serde_json::Value>(&came.stdout).unwrap()).filter(&is_it)
    });
    seen.unwrap_or_else(|| panic!("{:?}", ask()))
}

#[test]
fn it_is_not_ready_before_the_worker_has_asked_for_jobs() {
    let stage = Stage::new();
    let script = r#"
note("runs", "yes")
Link().ask(post("heartbeat", worker_id="w", active_jobs=[]))
note("beaten", "yes")
orders("fetch")
link = Link()
while True:
    link.ask(fetch())
    time.sleep(0.02)
"#;
    let mut init = worker(&stage, script).with_all(&[ANY_PORT]).start();
    let probes = Probes::of(&mut init);
    init.noted("beaten");
    let answer = probes.get("/readyz");
    assert_eq!(answer.status, 503);
    assert!(answer.reasons().contains(&"worker_not_ready".to_owned()), "{answer:?}");
    probes.become_([200, 503, 200]);
    let came = run(&stage, &init, &["health", "ready"]);
    assert!(
        came.stdout.starts_with(
            "not ready: the worker has not asked the gateway for jobs: it has to take its address from OJS_URL"
        ),
        "{came:?}"
    );
    assert!(came.stdout.contains("the worker is not registered"), "{came:?}");
    let came = run(&stage, &init, &["status"]);
    for words in [
        "\nbackend   not asked yet: the worker registers at its first request for jobs\n",
        ", no jobs asked for yet\n",
    ] {
        assert!(came.stdout.contains(words), "{words}: {came:?}");
    }
    init.order("fetch");
    probes.become_([200, 200, 200]);
    init.stops();
}

#[test]
fn the_status_shows_which_program_has_which_job_and_the_queues_that_were_asked_for() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"
def takes(name):
    link = Link()
    while not (jobs := json.loads(link.ask(fetch(worker_id=name))[2])["jobs"]):
        time.sleep(0.02)
    note(name, jobs[0]["id"])
    orders("ack")
    link.ask(post("ack", job_id=jobs[0]["id"], worker_id=name))
one = child(lambda: takes("one"))
two = child(lambda: takes("two"))
os.waitpid(one, 0)
os.waitpid(two, 0)
note("both", "done")
rest()
"#;
    let mut init = worker(&stage, script)
        .with_all(&[ANY_PORT, ("OJS_QUEUES", "default,mail")])
        .start();
    let probes = Probes::of(&mut init);
    init.noted("one");
    init.noted("two");
    let status = shows(&stage, &init, |status| status["held"] == 2);
    assert_eq!(
        (&status["mode"], &status["caller_proof"]),
        (&"gateway".into(), &"process".into())
    );
    assert_eq!(status["worker"]["connections"], 2);
    assert_eq!(status["worker"]["ready"], 2);
    let jobs = status["jobs"].as_array().unwrap();
    let places: Vec<_> = jobs.iter().map(|job| job["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["held", "held"]);
    assert_ne!(jobs[0]["connection"], jobs[1]["connection"]);
    probes.counts("ojs_worker_active_jobs", 2.0);
    probes.counts("ojs_init_connections_ready", 2.0);
    init.order("ack");
    init.noted("both");
    shows(&stage, &init, |status| {
        status["active"] == 0 && status["worker"]["connections"] == 0
    });
    probes.counts("ojs_worker_active_jobs", 0.0);
    probes.counts("ojs_job_completed_total{queue=\"default\",type=\"t\"}", 2.0);
    init.stops();
}

/// A parent with four children: two have jobs, one waits for its answer, and one has not asked.
const FAMILY: &str = r#"
def takes(name, count):
    link, ids = Link(), []
    while len(ids) < count:
        ids += json.loads(link.ask(fetch(worker_id=name, count=count - len(ids)))[2])["jobs"]
        time.sleep(0.02)
    note(name, os.getpid())
    rest()
def asks():
    orders("ask")
    note("asks", os.getpid())
    link = Link()
    while True:
        link.ask(fetch(worker_id="asks"))
def beats():
    Link().ask(post("heartbeat", worker_id="beats", active_jobs=[]))
    note("beats", os.getpid())
    rest()
for body in (lambda: takes("one", 1), lambda: takes("three", 3), asks, beats):
    child(body)
rest()
"#;

#[test]
fn the_status_shows_how_many_jobs_each_process_has_and_which_one_waits_for_some() {
    let stage = Stage::new();
    stage.enqueue([1, 2, 3, 4]);
    let mut init = worker(&stage, FAMILY).start();
    let names = ["one", "three", "beats"];
    let mut pids = names.map(|name| (name, init.noted(name))).to_vec();
    stage.backend.always(Endpoint::Fetch, Behaviour::Hang);
    init.order("ask");
    pids.push(("asks", init.noted("asks")));
    let pid = |name: &str| -> u64 {
        let (_, pid) = pids.iter().find(|(of, _)| *of == name).unwrap();
        pid.parse().unwrap()
    };
    let status = shows(&stage, &init, |status| {
        let connections = status["connections"].as_array().unwrap();
        connections.iter().any(|connection| connection["state"] == "asking")
    });
    let connections = status["connections"].as_array().unwrap();
    let find = |name: &str| {
        let of = connections.iter().find(|connection| connection["pid"] == pid(name));
        of.unwrap_or_else(|| panic!("{name}: {status:#}"))
    };
    assert_eq!(
        (&connections[0]["pid"], &connections[0]["jobs"]),
        (&pid("three").into(), &3.into())
    );
    assert_eq!(
        (&connections[1]["pid"], &connections[1]["jobs"]),
        (&pid("one").into(), &1.into())
    );
    let states = ["three", "one", "asks", "beats"].map(|name| find(name)["state"].as_str().unwrap());
    assert_eq!(states, ["ready", "ready", "asking", "not ready"]);
    // Nobody has said one.
    assert!(
        connections.iter().all(|connection| connection["concurrency"].is_null()),
        "{status:#}"
    );
    assert_eq!((connections.len(), &status["connections_not_shown"]), (4, &0.into()));
    assert_eq!((&status["uncapped"], &status["active"]), (&true.into(), &4.into()));

    let came = run(&stage, &init, &["status"]);
    let lines: Vec<&str> = came.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{came:?}");
    let jobs = "jobs      4 active, no limit set: 4 with the worker, 0 waiting, 0 reporting";
    assert!(lines.contains(&jobs), "{came:?}");
    let cells = |name: &str, jobs: u64, state: &str| format!("{:>7}  {jobs:>10}  {state}", pid(name));
    for cell in [
        cells("three", 3, "ready"),
        cells("asks", 0, "asking"),
        cells("beats", 0, "not ready"),
    ] {
        assert!(lines.iter().any(|line| line.contains(&cell)), "{cell}: {came:?}");
    }
    init.signal(libc::SIGTERM);
    init.signal(libc::SIGQUIT);
    init.ends_with(0);
}

#[test]
fn a_concurrency_that_is_set_is_shown_as_the_limit() {
    let stage = Stage::new();
    let mut init = worker(&stage, "note(\"runs\", \"yes\")\nrest()")
        .with("OJS_CONCURRENCY", "3")
        .start();
    init.noted("runs");
    let status = shows(&stage, &init, |_| true);
    assert_eq!(
        (&status["uncapped"], &status["concurrency"]),
        (&false.into(), &3.into())
    );
    let came = run(&stage, &init, &["status"]);
    assert!(came.stdout.contains("\njobs      0 of 3 active: "), "{came:?}");
    init.stops();
}

#[test]
fn a_worker_that_asks_for_more_jobs_than_are_allowed_is_told_of_once() {
    let stage = Stage::new();
    let script = r#"
link = Link()
link.ask(fetch(count=3))
while True:
    link.ask(fetch(count=25))
    time.sleep(0.02)
"#;
    let mut init = worker(&stage, script).with("OJS_CONCURRENCY", "2").start();
    let status = shows(&stage, &init, |status| status["most_asked"] == 25);
    assert_eq!(
        (&status["uncapped"], &status["concurrency"]),
        (&false.into(), &2.into())
    );
    let came = run(&stage, &init, &["status"]);
    assert!(came.stdout.contains(", most jobs asked for at once: 25\n"), "{came:?}");
    let line = "the worker asks for 25 jobs at once, worker.concurrency (OJS_CONCURRENCY) allows 2 and it gets no more";
    init.logs(line);
    assert!(!init.log().contains("asks for 3 jobs"), "{}", init.log());
    init.stops();
}

#[test]
fn queues_that_the_worker_asks_for_and_that_are_not_configured_are_in_the_log_once_and_in_the_status() {
    let stage = Stage::new();
    let script = r#"
link = Link()
while True:
    link.ask(fetch(queues=["emails", "reports"]))
    link.ask(fetch(queues=["default", "reports", "faxes"]))
    time.sleep(0.02)
"#;
    let mut init = worker(&stage, script).with("OJS_QUEUES", "default").start();
    let status = shows(&stage, &init, |status| {
        status["queues_refused"]
            .as_array()
            .is_some_and(|refused| refused.len() == 3)
    });
    let expected = serde_json::json!(["emails", "reports", "faxes"]);
    assert_eq!(
        (&status["queues"], &status["queues_refused"]),
        (&serde_json::json!(["default"]), &expected)
    );
    let came = run(&stage, &init, &["status"]);
    let line = "\nrefused   not in OJS_QUEUES, and asked for: emails, reports, faxes\n";
    assert!(came.stdout.contains(line), "{came:?}");
    let line = "the worker asks for queues that worker.queues (OJS_QUEUES) does not have, and gets no jobs of them: emails, reports, faxes; \
                add them, or leave it out";
    init.logs(line);
    assert_eq!(
        init.log().matches("worker.queues (OJS_QUEUES)").count(),
        1,
        "{}",
        init.log()
    );
    init.stops();
}

#[test]
fn the_status_names_the_queues_and_the_number_of_jobs_that_the_worker_asks_for() {
    let stage = Stage::new();
    let script = r#"
link = Link()
while True:
    link.ask(fetch(queues=["mail"], count=3))
    time.sleep(0.02)
"#;
    let mut init = worker(&stage, script).with_all(&[ANY_PORT]).start();
    let probes = Probes::of(&mut init);
    let status = shows(&stage, &init, |status| status["queues"] == serde_json::json!(["mail"]));
    assert_eq!(status["concurrency"], 3);
    probes.counts("ojs_init_concurrency", 3.0);
    init.stops();
}
