//! The ways of real backends, through the wire.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use common::{Bench, bench};
use ojs_devserver::{Dialect, Directive, Options};
use serde_json::json;

fn speaking(dialect: Dialect) -> Bench {
    bench(Options {
        dialect,
        ..Options::default()
    })
}

#[test]
fn go_says_active_and_puts_the_word_into_directive_b_01() {
    let bench = speaking(Dialect::Go);
    let beat = || bench.worker("heartbeat", r#"{"worker_id":"w","active_jobs":[]}"#).json;
    let answer = beat();
    assert_eq!(
        (&answer["state"], &answer["directive"]),
        (&json!("active"), &json!("continue"))
    );
    assert!(answer.get("jobs_extended").is_none());
    bench.server.direct("w", Directive::Quiet).unwrap();
    assert_eq!(beat()["directive"], "quiet");
    bench.server.direct("w", Directive::Terminate).unwrap();
    let answer = beat();
    assert_eq!(
        (&answer["state"], &answer["directive"]),
        (&json!("active"), &json!("terminate"))
    );
}

#[test]
fn go_refuses_an_integer_and_has_nothing_to_register_or_report_at() {
    let bench = speaking(Dialect::Go);
    bench.put_job("j", "");
    bench.fetch("w");
    let refused = bench.worker(
        "heartbeat",
        r#"{"worker_id":"w","active_jobs":1,"active_job_ids":["j"]}"#,
    );
    assert_eq!(
        (refused.status, refused.json["error"]["code"].as_str()),
        (400, Some("invalid_request"))
    );
    assert_eq!(bench.worker("register", r#"{"worker_id":"w"}"#).status, 404);
    assert_eq!(bench.worker("deregister", r#"{"worker_id":"w"}"#).status, 404);
    assert_eq!(bench.delete("/ojs/v1/workers/w").status, 404);
    assert_eq!(bench.put("/ojs/v1/jobs/j/progress", r#"{"progress":0.5}"#).status, 404);
    assert_eq!(bench.post("/ojs/v1/jobs/j/checkpoint", r#"{"state":1}"#).status, 404);
}

#[test]
fn integer_takes_the_worker_protocol_s_beat_and_no_other() {
    let bench = speaking(Dialect::Integer);
    bench.put_job("j", "");
    bench.fetch("w");
    assert_eq!(
        bench
            .worker(
                "heartbeat",
                r#"{"worker_id":"w","active_jobs":["j"],"active_job_ids":["j"]}"#
            )
            .status,
        400
    );
    let taken = bench.worker(
        "heartbeat",
        r#"{"worker_id":"w","state":"running","active_jobs":1,"active_job_ids":["j"]}"#,
    );
    assert_eq!((taken.status, &taken.json["jobs_extended"]), (200, &json!(["j"])));
}

#[test]
fn strict_takes_the_bare_schema_and_names_the_field_that_is_too_much() {
    let bench = speaking(Dialect::Strict);
    let id = bench.server.enqueue(r#"{"type":"t","args":[]}"#).unwrap();
    let named = |operation: &str, body: &str| {
        let answer = bench.worker(operation, body);
        (
            answer.status,
            answer.json["error"]["details"]["field"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    assert_eq!(
        named("fetch", r#"{"queues":["default"],"capabilities":[]}"#),
        (400, "capabilities".into())
    );
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], id.as_str());
    assert_eq!(
        named("heartbeat", r#"{"worker_id":"w","state":"running"}"#),
        (400, "state".into())
    );
    assert_eq!(
        named("heartbeat", &format!(r#"{{"worker_id":"w","active_jobs":["{id}"]}}"#)),
        (200, String::new())
    );
    assert_eq!(
        named("ack", &format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)),
        (400, "worker_id".into())
    );
    let bare = format!(r#"{{"job_id":"{id}","error":{{"code":"handler_error","message":"m","retryable":true}}}}"#);
    let wordy = bare.replace(r#""code""#, r#""type":"ShutdownError","code""#);
    assert_eq!(named("nack", &wordy), (400, "type".into()));
    assert_eq!(named("nack", &bare), (200, String::new()));
}
