//! How jobs, processes and workers come to an end.

use std::time::Duration;

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::gateway::worker;
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage, job};

/// A child takes a job and says nothing of it until it is ordered to; its parent tells how it
/// ended.
const HANGS: &str = r#"
def takes():
    link = Link()
    job = link.job()["id"]
    note("took", job)
    orders("answer")
    link.ask(post("ack", job_id=job))
    note("answered", job)
status = os.waitstatus_to_exitcode(os.waitpid(child(takes), 0)[1])
note("ended", status)
rest()
"#;

#[test]
fn a_process_whose_handler_passes_its_timeout_is_ended_where_timeouts_are_enforced() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":300"#));
    let mut init = worker(&stage, HANGS)
        .with_all(&[("OJS_GATEWAY_ENFORCE_TIMEOUTS", "true"), ("OJS_TIMEOUT_GRACE", "200ms")])
        .start();
    init.noted("took");
    let status = init.noted("ended");
    assert!(["-15", "-9"].contains(&status.as_str()), "{status}");
    assert_eq!(stage.failure("j1")["code"], "timeout");
    assert!(init.is_running());
    init.stops();
}

#[test]
fn a_handler_that_passes_its_timeout_goes_on_with_a_warning_where_they_are_not_enforced() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":300"#));
    let mut init = worker(&stage, HANGS)
        .with_all(&[("OJS_TIMEOUT_GRACE", "100ms"), ("OJS_HEALTH_LISTEN", "127.0.0.1:0")])
        .start();
    let probes = Probes::of(&mut init);
    init.noted("took");
    probes.counts("ojs_init_jobs_past_timeout", 1.0);
    probes.counts("ojs_init_job_timeouts_total{queue=\"default\",type=\"t\"}", 1.0);
    let complaints = init.complaints();
    assert!(complaints.iter().any(|line| line.contains("j1")), "{complaints:?}");
    init.order("answer");
    assert_eq!(init.noted("ended"), "0");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    probes.counts("ojs_init_jobs_past_timeout", 0.0);
    init.stops();
}

#[test]
fn a_worker_that_exits_with_130_after_our_sigterm_has_ended_well() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
signal.signal(signal.SIGTERM, lambda *_: os._exit(130))
link = Link()
link.ask(post("ack", job_id=link.job()["id"]))
note("answered", "j1")
rest()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("answered");
    init.stops();
    assert_eq!(stage.count(Endpoint::Deregister), 1);
}

#[test]
fn a_worker_that_exits_in_the_drain_has_its_jobs_failed_at_once_and_we_end_with_it() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
note("took", link.job()["id"])
orders("exit")
os._exit(0)
"#;
    let mut init = worker(&stage, script).start();
    init.noted("took");
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    assert!(stage.outcomes("j1").is_empty());
    init.order("exit");
    // The drain alone would last 30 s.
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    assert_eq!(stage.count(Endpoint::Deregister), 1);
}

#[test]
fn a_worker_that_crashes_is_started_again_and_fetches_under_another_name() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
job = link.job()["id"]
if job == "j1":
    os._exit(3)
link.ask(post("ack", job_id=job))
note("answered", job)
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_RESTART", "on-failure").start();
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    let first = stage.backend.records_of(Endpoint::Fetch)[0].text("worker_id");
    stage.enqueue([2]);
    init.noted("answered");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    let ack = &stage.backend.records_of(Endpoint::Ack)[0];
    assert!(ack.text("worker_id").is_some() && ack.text("worker_id") != first);
    stage.backend.wait_for("the first one leaves", PATIENCE, |records| {
        let mut gone = records.iter().filter(|record| record.endpoint == Endpoint::Deregister);
        gone.any(|record| record.text("worker_id") == first)
    });
    init.stops();
}

#[test]
fn a_batch_in_flight_at_the_sigterm_is_left_alone_where_a_requeue_could_discard_it() {
    let stage = Stage::new();
    let manifest = r#"{"specversion":"1.0","backend":"amqp"}"#;
    stage.backend.always(Endpoint::Other, Behaviour::body(manifest));
    stage.backend.enqueue(&job(1, ""));
    stage
        .backend
        .enqueue(&job(2, r#","max_attempts":1"#).replace(r#""attempt":0"#, r#""attempt":1"#));
    stage.backend.always(Endpoint::Fetch, Behaviour::body(r#"{"jobs":[]}"#));
    let script = r#"
link = Link()
link.ask(fetch())
note("asked", "once")
orders("fetch")
_, _, body = link.ask(fetch(count=5))
note("got", len(json.loads(body)["jobs"]))
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    init.noted("asked");
    stage.backend.wait_for("a look at the manifest", PATIENCE, |records| {
        records.iter().any(|record| record.request.path == "/ojs/manifest")
    });
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    stage.backend.always(Endpoint::Fetch, Behaviour::Held);
    init.order("fetch");
    stage.wait_for_more(Endpoint::Fetch, 1);
    init.signal(libc::SIGTERM);
    assert_eq!(init.noted("got"), "0");
    stage.backend.answer_held();
    init.ends_with(0);
    assert_eq!((stage.backend.handed_out("j1"), stage.backend.handed_out("j2")), (1, 1));
    assert_eq!((stage.outcomes("j1"), stage.outcomes("j2")), (vec![], vec![]));
    assert_eq!(stage.count(Endpoint::Nack), 0);
    for id in ["j1", "j2"] {
        let left = |line: &String| line.contains(id) && line.contains("visibility timeout");
        assert!(init.complaints().iter().any(left), "{:?}", init.complaints());
    }
}

#[test]
fn a_fetch_in_terminate_gets_an_empty_list_on_an_old_and_a_new_connection_while_a_job_runs() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
job = link.job()["id"]
note("took", job)
orders("fetch")
for it in [link, Link()]:
    status, headers, body = it.ask(fetch(queues=["default", "other"]))
    note("got", status, body.decode())
link.ask(post("ack", job_id=job))
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_QUEUES", "default").start();
    init.noted("took");
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    let before = stage.count(Endpoint::Fetch);
    init.order("fetch");
    init.notes_times(r#"got 200 {"jobs":[]}"#, 2);
    init.ends_with(0);
    assert_eq!(stage.count(Endpoint::Fetch), before);
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn the_same_worker_talks_to_the_backend_itself_in_mode_none() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
note("url", os.environ["OJS_URL"])
link = Link()
link.ask(post("ack", job_id=link.job()["id"], worker_id="w"))
note("answered", "j1")
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_MODE", "none").start();
    assert_eq!(init.noted("url"), stage.backend.url());
    init.noted("answered");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let fetches = stage.backend.records_of(Endpoint::Fetch);
    assert!(
        fetches
            .iter()
            .all(|fetch| fetch.text("worker_id").as_deref() == Some("w"))
    );
    assert_eq!(stage.count(Endpoint::Register) + stage.count(Endpoint::Heartbeat), 0);
    init.signal(libc::SIGTERM);
    init.ends_with(128 + libc::SIGTERM);
}

#[test]
fn copies_of_a_worker_each_do_jobs_and_none_is_started_again_in_a_shutdown() {
    let stage = Stage::new();
    let script = r#"
note("copy", os.environ["OJS_PROCESS_INDEX"])
link = Link()
job = link.job()["id"]
note("works", job)
link.ask(post("ack", job_id=job))
note("answered", job)
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_PROCESSES", "2").start();
    init.notes_line("copy 0");
    init.notes_line("copy 1");
    stage.enqueue([1, 2]);
    init.notes_line("answered j1");
    init.notes_line("answered j2");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    let started = init.notes().iter().filter(|line| line.starts_with("copy ")).count();
    assert_eq!(started, 2, "{}", init.story());
    for number in 1..=2 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
}

/// Two children take a job each. Another one waits, and notes its SIGTERM. They outlive the
/// worker's first process, and answer when they are ordered to: one on the connection that it has,
/// one on a new one. Each notes how often it was asked to end.
const OUTLIVE: &str = r#"
def takes(is_on_new):
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append("SIGTERM"))
    link = Link()
    job = link.job()["id"]
    note("took", job)
    orders("answer")
    if is_on_new:
        link.socket.close()
        link = Link()
    answer = link.ask(post("ack", job_id=job))
    note("answered", job, answer and answer[0], *asked)
def waits():
    signal.signal(signal.SIGTERM, lambda *_: (note("witness", "asked"), os._exit(0)))
    note("waits", "there")
    rest()
child(lambda: takes(False))
child(lambda: takes(True))
child(waits)
orders("die")
os._exit(3)
"#;

/// The children answer within their grace, when all of them were asked to end.
fn outlive(stage: &Stage, init: &mut Init) {
    for line in ["took j1", "took j2", "waits there"] {
        init.notes_line(line);
    }
    init.order("die");
    init.noted("witness");
    init.order("answer");
    for job in ["j1", "j2"] {
        init.notes_line(&format!("answered {job} 200 SIGTERM"));
        stage.becomes(job, &[Outcome::Acked(None)]);
    }
    init.ends_with(3);
}

#[test]
fn children_that_outlive_the_main_process_are_asked_to_end_once_and_answer_within_their_grace() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = worker(&stage, OUTLIVE).with("OJS_CANCEL_GRACE", "60s").start();
    outlive(&stage, &mut init);
}

#[test]
fn where_we_may_not_look_children_that_outlive_the_main_process_answer_within_their_grace() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = worker(&stage, OUTLIVE)
        .with_all(&[("OJS_CANCEL_GRACE", "60s"), ("OJS_USER", "12345:12345")])
        .through(&["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"])
        .start();
    outlive(&stage, &mut init);
}
