//! The log of a whole life, from outside: the real binary as PID 1 of its own PID namespace, and
//! each of its records against the shape of the OJS logging extension.
//!
//! Needs root (PID namespaces) and python3 with its library jsonschema.
#![allow(
    clippy::disallowed_methods,
    reason = "the test is the outside world: it starts and waits for processes"
)]

mod last_line;
mod outage;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage, root};
use crate::support::wait::wait_until;

/// Texts that must never be seen, each in a place of its own.
const SECRETS: [(&str, &str); 8] = [
    ("the token", "hush-token-4711"),
    ("an argument", "hush-argument"),
    ("a result", "hush-result"),
    ("a progress message", "hush-progress"),
    ("progress data", "hush-data"),
    ("a checkpoint", "hush-checkpoint"),
    ("meta", "hush-meta"),
    ("details of an error", "hush-details"),
];

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Records as they were written, one a line.
struct Records(Vec<Value>);

impl Records {
    /// Every line of it, which must be a record each.
    fn of(log: &str) -> Self {
        assert!(log.ends_with('\n'), "{log}");
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self(log.lines().map(read).collect())
    }

    /// The first one whose message begins so, about this job if one is named.
    #[track_caller]
    fn find(&self, message: &str, job: &str) -> &Value {
        let is_it = |record: &&Value| {
            let about = record
                .pointer("/ojs/job_id")
                .and_then(Value::as_str)
                .unwrap_or_default();
            about == job && record["message"].as_str().unwrap().starts_with(message)
        };
        let found = self.0.iter().find(is_it);
        found.unwrap_or_else(|| {
            let all: Vec<String> = self.0.iter().map(Value::to_string).collect();
            panic!("{message:?} about {job:?} is not among:\n{}", all.join("\n"))
        })
    }
}

fn envelope(name: &str, more: &str) -> String {
    let [_, argument, .., meta, _] = SECRETS.map(|(_, secret)| secret);
    format!(
        r#"{{"id":"{name}","type":"email.send","queue":"default","args":["{argument}"],"attempt":1,"max_attempts":3,
        "meta":{{"traceparent":"00-{TRACE_ID}-00f067aa0ba902b7-01","other":"{meta}"}}{more}}}"#
    )
    .replace('\n', "")
}

/// Orders a frame, and waits for the outcome of the job.
fn settles(stage: &Stage, init: &Init, order: &str, job: &str) {
    init.order(order);
    assert!(
        wait_until(PATIENCE, || !stage.outcomes(job).is_empty()),
        "{order}: {}",
        init.story()
    );
}

/// A life with everything in it that can be had in a few seconds; its log.
fn life() -> String {
    let [token, _, result, progress, data, checkpoint, _, details] = SECRETS.map(|(_, secret)| secret);
    let stage = Stage::new();
    stage.backend.once(Endpoint::Register, Behaviour::status(503));
    stage.backend.once(Endpoint::Heartbeat, Behaviour::status(500));
    stage.backend.once(Endpoint::Fetch, Behaviour::status(500));
    stage.backend.once(Endpoint::Ack, Behaviour::status(503));
    let mut init = stage
        .worker("link = Link(); link.ready(10, client='raw\\n1.0'); link.obey()")
        .with_all(&[
            ("OJS_LOG_FORMAT", "json"),
            ("OJS_LOG_LEVEL", "trace"),
            ("OJS_AUTH_TOKEN", token),
            ("OJS_HEARTBEAT_INTERVAL", "200ms"),
            ("OJS_GRACE_PERIOD", "500ms"),
            ("OJS_CANCEL_GRACE", "200ms"),
        ])
        .start();
    init.notes_line("ready");
    for name in ["acked", "failed", "discarded", "released", "cancelled", "held"] {
        stage.backend.enqueue(&envelope(name, ""));
    }
    stage.backend.enqueue(&envelope("late", r#","timeout_ms":100"#));
    let long = "x".repeat(100_000);
    stage.backend.enqueue(&format!(
        r#"{{"id":"long","type":"{long}","queue":"{long}","args":[],"attempt":1}}"#
    ));
    for name in [
        "acked",
        "failed",
        "discarded",
        "released",
        "cancelled",
        "held",
        "late",
        "long",
    ] {
        init.notes_line(&format!("job {name}"));
    }
    init.order(&format!(
        r#"progress held {{"progress":0.5,"message":"{progress}","data":{{"a":"{data}"}}}}"#
    ));
    init.order(&format!(r#"checkpoint held {{"state":"{checkpoint}"}}"#));
    init.order(r#"ack unknown {"result":1}"#);
    settles(&stage, &init, &format!(r#"ack acked {{"result":"{result}"}}"#), "acked");
    let error = format!(r#"{{"error":{{"type":"ValueError","message":"no","details":{{"a":"{details}"}}}}}}"#);
    settles(&stage, &init, &format!("fail failed {error}"), "failed");
    let error = r#"{"error":{"code":"bad_input","message":"never","retryable":false}}"#;
    settles(&stage, &init, &format!("fail discarded {error}"), "discarded");
    settles(&stage, &init, "ack long", "long");
    init.logs("Job execution timed out");
    settles(&stage, &init, "fail late {\"error\":{\"message\":\"\"}}", "late");
    stage.backend.cancel("cancelled");
    init.notes_line("cancel cancelled cancelled");
    init.order("release cancelled");
    init.notes_line("error lost cancelled");
    init.signal(libc::SIGTSTP);
    init.notes_line("lifecycle quiet sigtstp");
    init.signal(libc::SIGCONT);
    init.notes_line("lifecycle running sigcont");
    stage.backend.once(Endpoint::Deregister, Behaviour::status(500));
    init.signal(libc::SIGTERM);
    init.notes_line("lifecycle terminate sigterm");
    settles(&stage, &init, "release released", "released");
    init.ends_with(0);
    assert!(matches!(stage.outcomes("held")[..], [Outcome::Failed(_)]));
    init.log()
}

/// The Python that has the library: the first one of PATH need not be Debian's.
fn python() -> &'static str {
    let has_it = |python: &&str| {
        let mut asked = Command::new(python);
        asked.args(["-c", "import jsonschema"]).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let pythons = ["python3", "/usr/bin/python3"];
    pythons.into_iter().find(has_it).unwrap_or("python3")
}

#[test]
fn every_record_of_a_whole_life_is_one_of_the_extension_and_none_tells_what_it_must_not() {
    let log = life();
    let schema = root().join("tests/agent/logging/record.schema.json");
    let mut validator = Command::new(python())
        .arg(root().join("tests/agent/logging/validate.py"))
        .arg(schema)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    validator.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let found = validator.wait_with_output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));

    for (what, secret) in SECRETS {
        assert!(!log.contains(secret), "{what} is in the log: {log}");
    }
    assert!(log.lines().all(|line| line.len() < 4096));
    assert_says_what_happened(&Records::of(&log));
}

/// The records that a life of this kind must have, with their fields.
#[track_caller]
fn assert_says_what_happened(records: &Records) {
    let worker = &records.find("Worker started with pid", "")["ojs"]["worker_id"];
    assert!(worker.is_string());
    let started = records.0.iter().position(|record| record.get("ojs").is_some()).unwrap();
    assert!(
        records.0[started..]
            .iter()
            .all(|record| record["ojs"]["worker_id"] == *worker)
    );
    assert_eq!(
        records.find("Worker registered: ", "")["message"],
        format!("Worker registered: {}", worker.as_str().unwrap())
    );
    assert_eq!(records.find("Worker heartbeat sent", "")["severity"], "DEBUG");

    let expected = [
        ("Job fetched by worker", "acked", "DEBUG", "active"),
        ("Job completed successfully", "acked", "INFO", "completed"),
        ("Job failed, will retry", "failed", "WARN", "retryable"),
        ("Job discarded", "discarded", "ERROR", "discarded"),
        ("Job given back to its queue", "released", "INFO", "available"),
        ("Job cancelled", "cancelled", "INFO", "cancelled"),
        ("Job execution timed out after 0.", "late", "ERROR", "active"),
        ("Job failed, will retry", "late", "WARN", "retryable"),
        ("Job failed, will retry", "held", "WARN", "retryable"),
    ];
    for (message, job, severity, state) in expected {
        let record = records.find(message, job);
        assert_eq!(record["severity"], severity, "{record}");
        assert_eq!(record["category"], "lifecycle", "{record}");
        assert_eq!(record["ojs"]["state"], state, "{record}");
        assert_eq!(record["ojs"]["job_type"], "email.send", "{record}");
        assert_eq!(record["ojs"]["queue"], "default", "{record}");
        assert_eq!(record["ojs"]["attempt"], 1, "{record}");
        assert_eq!(record["trace"]["trace_id"], TRACE_ID, "{record}");
        assert_eq!(record["trace"]["span_id"], "00f067aa0ba902b7", "{record}");
    }
    let error = |message, job| records.find(message, job)["error"].clone();
    assert_eq!(
        error("Job failed, will retry", "failed"),
        serde_json::json!({"type": "ValueError", "message": "no"})
    );
    assert_eq!(error("Job discarded", "discarded")["type"], "bad_input");
    assert_eq!(error("Job failed, will retry", "held")["type"], "ShutdownError");

    for (what, job) in [
        ("registration failed", ""),
        ("heartbeat failed", ""),
        ("FETCH failed", ""),
        ("ACK failed", "acked"),
        ("deregistration failed", ""),
    ] {
        let record = records.find(what, job);
        assert_eq!(record["category"], "error", "{record}");
        assert!(record["error"]["type"].is_string(), "{record}");
    }
    for (message, signal) in [
        ("SIGTSTP: quiet", "SIGTSTP"),
        ("Worker draining, 2 jobs in progress", "SIGTERM"),
    ] {
        assert_eq!(records.find(message, "")["attributes"]["signal"], signal);
    }
    assert_eq!(records.find("Worker draining", "")["attributes"]["active_jobs"], 2);
    assert_eq!(records.find("stop phase: ", "")["attributes"]["active_jobs"], 1);
    assert_eq!(
        records.find("Worker stopped; 1 job cut off", "")["attributes"]["total_processed"],
        2
    );
}

#[test]
fn a_fatal_error_is_a_record_too() {
    let stage = Stage::new();
    let mut init = stage
        .command(&["no-such-command-anywhere"])
        .with("OJS_LOG_FORMAT", "json")
        .start();
    init.ends_with(127);
    let log = init.log();
    let record = Records::of(&log)
        .find("cannot execute \"no-such-command-anywhere\"", "")
        .clone();
    assert_eq!(record["severity"], "FATAL", "{log}");
    assert_eq!(record["severity_number"], 21, "{log}");
    assert_eq!(record["category"], "error", "{log}");
}

#[test]
fn for_a_person_a_line_has_the_time_and_the_job() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker("link = Link(); link.ready(1); link.work()").start();
    init.logs("Job completed successfully");
    init.stops();
    let log = init.log();
    let line = log.lines().find(|line| line.contains("Job completed")).unwrap();
    let (time, said) = line.split_once(' ').unwrap();
    let took = said.strip_prefix("ojs-init: info: Job completed successfully [job j1, t, attempt 0, took ");
    let seconds = took.and_then(|took| took.strip_suffix(" s]")).unwrap();
    assert!(seconds.parse::<f64>().is_ok(), "{said}");
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "00:00:00.000Z");
}
