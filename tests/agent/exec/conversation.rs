//! Words of a running job: progress, checkpoints, heartbeats; and how it hears that it is to stop.

use super::{enqueue, handler, program, python};
use crate::backend::{Endpoint, Outcome};
use crate::operator;
use crate::stage::{Init, PATIENCE, Stage};
use serde_json::json;

/// Waits until the backend has this progress, with this message.
fn progresses(stage: &Stage, init: &Init, message: &str) {
    let said = |record: &crate::backend::Record| record.json().to_string().contains(message);
    let seen = crate::support::wait::wait_until(PATIENCE, || {
        let records = stage.backend.records();
        records
            .iter()
            .any(|record| record.endpoint != Endpoint::Fetch && said(record))
    });
    assert!(seen, "{}", init.story());
}

/// Says two things in the words of its language, then a checkpoint, and fails: who is done needs no
/// checkpoint.
fn says(stage: &Stage, mut init: Init) {
    let error = stage.failure("j1");
    assert_eq!(error["details"]["exit_status"], 7, "{error}: {}", init.story());
    let saved: Vec<_> = stage
        .backend
        .records_of(Endpoint::Checkpoint)
        .iter()
        .map(crate::backend::Record::json)
        .collect();
    assert!(
        saved.iter().any(|body| body.to_string().contains(r#""step":7"#)),
        "{saved:?}: {}",
        init.story()
    );
    init.stops();
}

const IN_A_SHELL: &str = r#"echo 'progress 0.5 half' >&3
printf 'checkpoint {"step":7}\nheartbeat\n' >&"$OJS_JOB_FD"
exit 7"#;

#[test]
fn dash_says_it_with_a_redirection() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = IN_A_SHELL.replace(">&\"$OJS_JOB_FD\"", ">&3");
    let init = program(&stage, &["dash", "-c", &script]).start();
    says(&stage, init);
}

#[test]
fn bash_says_it_with_a_redirection() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let init = program(&stage, &["bash", "-c", IN_A_SHELL]).start();
    says(&stage, init);
}

#[test]
fn a_last_line_without_a_line_break_counts_if_its_process_ended_by_itself() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"printf 'progress 0.5 half\ncheckpoint {"step":7}' >&3; exit 7"#;
    let init = handler(&stage, script).start();
    says(&stage, init);
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "printf 'checkpoint 71' >&3; kill -9 $$").start();
    stage.failure("j1");
    init.logs("it begins with \"checkpoint\", and it has no line break, as a signal ended the job");
    assert_eq!(stage.count(Endpoint::Checkpoint), 0);
    init.stops();
}

#[test]
fn python_says_it_with_a_file() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "import os
with open(int(os.environ['OJS_JOB_FD']), 'w', closefd=False) as job:
    print('progress 0.5 half', file=job, flush=True)
    print('checkpoint {\"step\":7}', file=job, flush=True)
os._exit(7)";
    let init = python(&stage, script).start();
    says(&stage, init);
}

#[test]
fn our_own_binary_says_it_too() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"set -e
"$OJS_INIT" job progress 0.5 "half of it"
"$OJS_INIT" job checkpoint '{"step":7}'
"$OJS_INIT" job heartbeat
if "$OJS_INIT" job cancelled; then exit 9; fi
exit 7"#;
    let init = handler(&stage, script).start();
    says(&stage, init);
}

#[test]
fn progress_reaches_the_backend_while_the_job_runs() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"echo 'progress 0.25 a-quarter-of-it' >&3; while ! [ -e "$NOTES.go" ]; do sleep 0.01; done"#;
    let mut init = handler(&stage, script).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    progresses(&stage, &init, "a-quarter-of-it");
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_job_that_is_cancelled_hears_it_on_its_descriptor_and_by_sigterm() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([]), r#","timeout_ms":2000"#);
    let script = r#"trap 'echo signal >> "$NOTES"' TERM
"$OJS_INIT" job cancelled && echo early >> "$NOTES"
until "$OJS_INIT" job cancelled; do sleep 0.02; done
echo descriptor >> "$NOTES"
while ! grep -q signal "$NOTES"; do sleep 0.02; done
exit 0"#;
    let mut init = handler(&stage, script).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let mut notes = init.notes();
    notes.sort();
    assert_eq!(notes, ["descriptor", "signal"]);
    init.stops();
}

#[test]
fn outside_of_a_job_there_is_nobody_to_tell() {
    let stage = Stage::new();
    let init = handler(&stage, "true").start();
    let came = crate::operator::run(&stage, &init, &["job", "cancelled"]);
    assert_eq!(came.status, Some(2), "{came:?}");
}

#[test]
fn a_wrong_word_of_a_job_is_the_message_of_its_failure() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, r#"set -e; "$OJS_INIT" job frobnicate; exit 0"#).start();
    let error = stage.failure("j1");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("exit status 2: ojs-init: unexpected word frobnicate; usage: "),
        "{error}"
    );
    init.stops();
}

#[test]
fn the_status_counts_to_the_sigkill_of_a_job_that_is_past_its_timeout() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([]), r#","timeout_ms":100"#);
    let script = r#"trap 'echo term >> "$NOTES"' TERM; while :; do sleep 0.02; done"#;
    let mut init = handler(&stage, script).with("OJS_TIMEOUT_GRACE", "5m").start();
    init.notes_line("term");
    let came = operator::run(&stage, &init, &["status", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&came.stdout).unwrap();
    // The runner kills the job 2 s before its own end.
    let left = shown["jobs"][0]["ends_in_ms"].as_u64();
    assert!(left.is_some_and(|left| left <= 298_000), "{shown}");
    let screen = operator::run(&stage, &init, &["status"]).stdout;
    assert!(screen.contains("timed out, SIGKILL in 4m"), "{screen}");
    init.signal(libc::SIGTERM);
    init.signal_again(libc::SIGTERM);
    init.ends_with(0);
}
