//! Words to the worker, and words of the worker.

use crate::backend::{Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_until;

/// Takes a job and notes each state that it is told, until it is ordered to answer.
const LISTENS: &str = r#"
link = Link()
job = link.job()["id"]
note("took", job)
def listens():
    beats, told, last = Link(), 0, None
    while True:
        answer = json.loads(beats.ask(post("heartbeat", worker_id="w", active_jobs=[job]))[2])
        told += 1
        if answer["state"] != last:
            last = answer["state"]
            note("told", last, answer["directive"])
        if told % 20 == 0:
            note("still", last)
        time.sleep(0.01)
threading.Thread(target=listens, daemon=True).start()
orders("answer")
link.ask(post("ack", job_id=job))
rest()
"#;

/// Waits for so many further notes that twenty more heartbeats were answered.
fn is_told_more(init: &mut Init) {
    let count = |init: &Init| init.notes().iter().filter(|line| line.starts_with("still ")).count();
    let before = count(init);
    assert!(wait_until(PATIENCE, || count(init) > before + 1), "{}", init.story());
}

fn told(init: &Init) -> Vec<String> {
    let notes = init.notes();
    let told = notes.iter().filter_map(|line| line.strip_prefix("told "));
    told.map(str::to_owned).collect()
}

#[test]
fn a_worker_that_is_to_be_told_hears_quiet_running_and_terminate_in_the_answers_to_its_heartbeats() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = worker(&stage, LISTENS).with("OJS_GATEWAY_TELL_WORKER", "true").start();
    init.notes_line("told running continue");
    init.signal(libc::SIGTSTP);
    init.notes_line("told quiet quiet");
    init.signal(libc::SIGCONT);
    init.notes_times("told running continue", 2);
    init.signal(libc::SIGTERM);
    init.notes_line("told terminate terminate");
    init.order("answer");
    init.ends_with(0);
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn a_worker_that_is_not_to_be_told_hears_running_until_its_end() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = worker(&stage, LISTENS).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    init.notes_line("told running continue");
    init.signal(libc::SIGTSTP);
    stage.states_become(&["running", "quiet"]);
    is_told_more(&mut init);
    init.signal(libc::SIGTERM);
    stage.states_become(&["running", "quiet", "terminate"]);
    is_told_more(&mut init);
    assert_eq!(told(&init), ["running continue"]);
    init.order("answer");
    init.ends_with(0);
    stage.becomes("j1", &[Outcome::Acked(None)]);
}

#[test]
fn a_heartbeat_is_answered_with_those_of_its_jobs_that_are_kept_and_an_unknown_one_is_left_out() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"
link = Link()
has = [link.job()["id"], link.job()["id"]]
def extended(**fields):
    status, headers, body = link.ask(post("heartbeat", worker_id="w", **fields))
    return status, *sorted(json.loads(body)["jobs_extended"])
note("unknown", *extended(active_jobs=["unknown", has[0]]))
note("unknown_alone", *extended(job_id="unknown"))
note("unsaid", *extended())
note("none", *extended(active_jobs=[]))
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("unknown"), "200 j1");
    assert_eq!(init.noted("unknown_alone"), "200");
    assert_eq!(init.noted("unsaid"), "200 j1 j2");
    assert_eq!(init.noted("none"), "200");
    init.signal(libc::SIGTERM);
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
}

/// Takes two jobs, of which its heartbeats name the first alone.
const DROPS: &str = r#"
link = Link()
has = []
while len(has) < 2:
    has += [job["id"] for job in json.loads(link.ask(fetch(count=2 - len(has)))[2])["jobs"]]
note("took", *has)
orders("drop")
while True:
    link.ask(post("heartbeat", worker_id="w", active_jobs=has[:1]))
    note("beaten", "yes")
    time.sleep(0.05)
"#;

/// The jobs that the last of our heartbeats named.
fn named(stage: &Stage) -> serde_json::Value {
    let beats = stage.backend.records_of(Endpoint::Heartbeat);
    beats
        .last()
        .map(|beat| beat.json()["active_jobs"].clone())
        .unwrap_or_default()
}

#[test]
fn a_handler_that_beats_for_its_own_job_says_nothing_of_others_where_no_process_is_known() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    // A process that may not look into those of another user finds none.
    let mut init = worker(&stage, DROPS)
        .through(&["setpriv", "--bounding-set=-sys_ptrace"])
        .with_all(&[("OJS_USER", "12345:12345"), ("OJS_HEARTBEAT_INTERVAL", "100ms")])
        .start();
    init.noted("took");
    init.order("drop");
    init.notes_times("beaten yes", 6);
    let (both, terminate) = (serde_json::json!(["j1", "j2"]), serde_json::json!("terminate"));
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(named(&stage), both, "{}", init.story());
    init.signal(libc::SIGTERM);
    // The drain waits for both.
    let is_told = || {
        let beats = stage.backend.records_of(Endpoint::Heartbeat);
        beats.last().is_some_and(|beat| beat.json()["state"] == terminate)
    };
    assert!(wait_until(PATIENCE, is_told), "{}", init.story());
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(named(&stage), both, "{}", init.story());
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
}

#[test]
fn a_job_that_heartbeats_no_longer_name_is_kept_where_its_process_lives() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = worker(&stage, DROPS).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    init.noted("took");
    init.order("drop");
    init.notes_times("beaten yes", 6);
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    assert_eq!(named(&stage), serde_json::json!(["j1", "j2"]));
    init.signal(libc::SIGTERM);
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
}
