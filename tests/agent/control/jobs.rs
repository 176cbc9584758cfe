//! `jobs` and `cancel`: the view of an operator, and the fate of a job that is cancelled.

use serde_json::{Value, json};

use crate::backend::Outcome;
use crate::operator::{Came, OBEYS, Place, run, start};
use crate::stage::{Init, PATIENCE, Stage, job, root};
use crate::support::wait::wait_until;

/// A worker that takes two jobs, answers nothing, and ends at its SIGTERM.
const GOES_ON: &str = "
link = Link()
link.ready(2)
link.note_all()";

/// Times short enough for a test.
const SHORT: [(&str, &str); 2] = [("OJS_TIMEOUT_GRACE", "200ms"), ("OJS_CANCEL_GRACE", "200ms")];

/// The jobs as JSON.
fn jobs(stage: &Stage, init: &Init) -> Value {
    let came = run(stage, init, &["jobs", "--json"]);
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    serde_json::from_str(&came.stdout).unwrap()
}

/// The command was taken, and says this, whatever else is on standard output.
#[track_caller]
fn shows(came: &Came, words: &str) {
    assert_eq!((came.status, came.stderr.as_str()), (Some(0), ""), "{came:?}");
    assert!(came.stdout.contains(words), "{words:?}: {came:?}");
}

#[test]
fn each_job_is_listed_with_its_handler_its_progress_and_its_timeout_and_without_its_arguments() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).start();
    // An instance that starts has no socket yet.
    init.notes_line("ready");
    shows(&run(&stage, &init, &["jobs"]), "no job is active\n");
    let stage = Stage::new();
    let more = r#","timeout_ms":600000,"max_attempts":3,"args":["secret-argument"]"#;
    stage.backend.enqueue(&job(1, more));
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    init.order(r#"progress j1 {"progress": 0.42, "message": "page 42"}"#);
    let mut shown = Value::Null;
    assert!(wait_until(PATIENCE, || {
        shown = jobs(&stage, &init);
        shown["jobs"][0]["progress"] == 0.42
    }));
    let listed = &shown["jobs"][0];
    for (name, value) in [
        ("id", json!("j1")),
        ("type", json!("t")),
        ("queue", json!("default")),
        ("state", json!("runs")),
        ("max_attempts", json!(3)),
        ("connection", json!(1)),
        ("progress", json!(0.42)),
        ("progress_message", json!("page 42")),
    ] {
        assert_eq!(listed[name], value, "{name}: {shown}");
    }
    for name in ["age_ms", "held_ms", "progress_age_ms", "timeout_in_ms", "pid"] {
        assert!(listed[name].is_u64(), "{name}: {shown}");
    }
    assert_eq!(
        (&shown["jobs_not_shown"], &shown["mode"]),
        (&json!(0), &json!("socket"))
    );
    for place in [Place::Inside, Place::Outside] {
        let came = start(&stage, &init, place, &["jobs"]).ends();
        shows(&came, "42% page 42, ");
        shows(&came, "runs\n");
        assert!(!came.stdout.contains("secret-argument"), "{came:?}");
    }
    assert!(!shown.to_string().contains("secret-argument"), "{shown}");
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn an_id_that_would_act_on_a_terminal_is_escaped() {
    let stage = Stage::new();
    stage
        .backend
        .enqueue(r#"{"id":"a\u001b[2Jb","type":"t\u0007","queue":"default","args":[]}"#);
    let mut init = stage.worker(OBEYS).start();
    init.noted("job");
    for words in [&["jobs"][..], &["jobs", "--json"], &["cancel", "a"]] {
        let came = run(&stage, &init, words);
        assert_eq!(came.status, Some(0), "{came:?}");
        let is_safe = |character: char| character == '\n' || !character.is_control();
        assert!(came.stdout.chars().all(is_safe), "{came:?}");
    }
}

#[test]
fn a_cancelled_job_is_told_so_and_its_answer_counts() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    init.notes_line("job j2");
    let came = run(&stage, &init, &["cancel", "j1"]);
    came.says("job j1 (t): its handler is told to stop; its process is ended in 30 s unless the job is answered");
    assert!(came.stdout.contains("its process has 1 other job, which"), "{came:?}");
    init.notes_line("cancel cancelled j1");
    run(&stage, &init, &["cancel", "j1"]).says("job j1 (t) is told to stop already (operator)");
    let shown = jobs(&stage, &init);
    let of_j1 = shown["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["id"] == "j1")
        .unwrap();
    assert_eq!(
        (&of_j1["state"], &of_j1["cancel_reason"]),
        (&json!("is told to stop"), &json!("operator"))
    );
    shows(&run(&stage, &init, &["status"]), "cancelled, process ends in ");
    init.order("ack j1");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.logs("Job cancelled by an operator; its handler is told to stop");
    init.order("ack j2");
    init.stops();
}

#[test]
fn a_handler_that_goes_on_is_ended_and_its_job_fails_as_cancelled_by_an_operator() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(GOES_ON).with_all(&SHORT).start();
    init.notes_line("job j1");
    run(&stage, &init, &["cancel", "j1"]).says("without an answer it fails, retryable (cancelled_by_operator)");
    let error = stage.failure("j1");
    assert_eq!(
        (&error["type"], &error["code"], &error["retryable"]),
        (
            &json!("cancelled_by_operator"),
            &json!("cancelled_by_operator"),
            &json!(true)
        )
    );
    assert!(init.is_running());
    init.stops();
}

#[test]
fn with_leftovers_requeue_a_job_that_is_not_answered_goes_back() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","max_attempts":3"#));
    let mut init = stage
        .worker(GOES_ON)
        .with_all(&SHORT)
        .with("OJS_LEFTOVERS", "requeue")
        .start();
    init.notes_line("job j1");
    run(&stage, &init, &["quiet"]);
    run(&stage, &init, &["cancel", "j1"]).says("without an answer it is given back");
    stage.becomes("j1", &[Outcome::Requeued]);
    init.stops();
}

#[test]
fn the_drain_is_over_when_the_job_that_blocks_it_is_cancelled() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(OBEYS)
        .with_all(&[
            ("OJS_SHUTDOWN_GRACE_PERIOD", "1h"),
            ("OJS_TERMINATION_GRACE_PERIOD", "2h"),
        ])
        .start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    shows(&run(&stage, &init, &["jobs"]), "runs\n");
    run(&stage, &init, &["cancel", "j1"]).says("its handler is told to stop");
    init.notes_line("cancel cancelled j1");
    init.order(r#"fail j1 {"error": {"message": "stopped"}}"#);
    init.ends_with(0);
    assert_eq!(stage.failure("j1")["message"], "stopped");
}

#[test]
fn what_cannot_be_cancelled_is_refused_with_the_next_step() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let mut init = stage.worker(OBEYS).start();
    init.notes_line("job j1");
    init.notes_line("job j2");
    run(&stage, &init, &["cancel", "j3"]).is_refused(1, &["no active job has this id", "ojs-init jobs"]);
    run(&stage, &init, &["cancel", "j"]).is_refused(1, &["several active jobs", "ojs-init jobs"]);
    run(&stage, &init, &["cancel"]).is_refused(2, &["JOB"]);
    run(&stage, &init, &["cancel", ""]).is_refused(2, &[]);
    let elsewhere = stage.at("elsewhere").display().to_string();
    for words in [&["jobs"][..], &["cancel", "j1"]] {
        let words = [words, &["--runtime-dir", &elsewhere]].concat();
        run(&stage, &init, &words).is_refused(1, &["no ojs-init", &elsewhere]);
    }
    assert!(stage.outcomes("j1").is_empty());
    init.order("ack j1");
    init.order("ack j2");
    init.stops();
}

#[test]
fn in_mode_exec_the_process_of_the_job_gets_sigterm_and_no_other_job_ends() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"trap 'echo "term $OJS_JOB_ID" >> "$NOTES"; exit 3' TERM
        echo "runs $OJS_JOB_ID" >> "$NOTES"; while :; do sleep 0.02; done"#;
    let mut init = stage.command(&["sh", "-c", script]).with("OJS_MODE", "exec").start();
    init.notes_line("runs j1");
    init.notes_line("runs j2");
    run(&stage, &init, &["cancel", "j1"]).says("its process gets SIGTERM now, and SIGKILL in 28 s if it does not end");
    init.notes_line("term j1");
    let error = stage.failure("j1");
    assert_eq!(
        (&error["type"], &error["retryable"]),
        (&json!("cancelled_by_operator"), &json!(true))
    );
    assert_eq!(error["details"]["exit_status"], 3, "{error}");
    let shown = jobs(&stage, &init);
    assert_eq!(
        (&shown["jobs"][0]["id"], &shown["mode"]),
        (&json!("j2"), &json!("exec"))
    );
    init.signal(libc::SIGTERM);
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
}

/// A worker that speaks HTTP: it takes a job, and answers it when it is ordered to.
const SDK: &str = r#"
def takes():
    link = Link()
    job = link.job()["id"]
    note("took", job)
    orders("answer")
    link.ask(post("ack", job_id=job))
    note("answered", job)
os.waitstatus_to_exitcode(os.waitpid(child(takes), 0)[1])
note("ended")
rest()
"#;

fn sdk(stage: &Stage) -> crate::stage::Start<'_> {
    let program = root().join("tests/support/gateway_worker.py").display().to_string();
    let words = ["python3", "-S", "-E", &program, SDK];
    stage.command(&words).with("OJS_MODE", "gateway")
}

#[test]
fn in_mode_gateway_a_job_goes_on_unless_timeouts_are_enforced() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = sdk(&stage).start();
    init.noted("took");
    run(&stage, &init, &["cancel", "j1"]).is_refused(1, &["gateway.enforce_timeouts", "ojs-init stop"]);
    init.order("answer");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn in_mode_gateway_with_enforced_timeouts_the_process_of_the_job_is_ended() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let enforced = [("OJS_GATEWAY_ENFORCE_TIMEOUTS", "true"), ("OJS_TIMEOUT_GRACE", "200ms")];
    let mut init = sdk(&stage).with_all(&enforced).start();
    init.noted("took");
    run(&stage, &init, &["cancel", "j1"]).says("its SDK gets no message; its process is ended in 0.2 s");
    init.notes_line("ended");
    assert_eq!(stage.failure("j1")["type"], "cancelled_by_operator");
    init.stops();
}
