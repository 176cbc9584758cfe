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

#[test]
fn protocol_takes_no_field_that_the_worker_protocol_lacks_in_a_heartbeat_or_a_fetch() {
    let bench = speaking(Dialect::Protocol);
    bench.put_job("j", "");
    let refused = |operation: &str, body: &str| {
        let answer = bench.worker(operation, body);
        (answer.status, answer.json["error"]["details"]["field"].clone())
    };
    let fetch = r#"{"queues":["default"],"worker_id":"w","visibility_timeout_ms":2000}"#;
    assert_eq!(refused("fetch", fetch), (400, "visibility_timeout_ms".into()));
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "j");
    let written = r#"{"worker_id":"w","state":"running","active_jobs":1,"active_job_ids":["j"],"hostname":"h"}"#;
    assert_eq!(bench.worker("heartbeat", written).json["jobs_extended"], json!(["j"]));
    let more = written.replace("hostname", "visibility_timeout_ms");
    assert_eq!(refused("heartbeat", &more), (400, "visibility_timeout_ms".into()));
    let array = written.replace(r#""active_jobs":1"#, r#""active_jobs":["j"]"#);
    assert_eq!(bench.worker("heartbeat", &array).status, 400);
}

#[test]
fn strict_lets_a_worker_go_that_gives_its_id_and_nothing_else() {
    let bench = speaking(Dialect::Strict);
    bench.worker("heartbeat", r#"{"worker_id":"w","active_jobs":[]}"#);
    let bye = |body: &str| bench.worker("deregister", body).status;
    assert_eq!(bye(r#"{"worker_id":"w","state":"terminated"}"#), 400);
    assert_eq!(bench.server.workers(), ["w"]);
    assert_eq!(bye(r#"{"worker_id":"w"}"#), 200);
}

#[test]
fn go_keeps_a_quiet_that_nothing_takes_back_and_gives_jobs_all_the_same() {
    let bench = speaking(Dialect::Go);
    bench.put_job("j", "");
    let quiet = bench.post("/ojs/v1/admin/workers/w/quiet", "");
    assert_eq!(quiet.status, 200, "also of a worker that has not come yet");
    assert_eq!(bench.post("/ojs/v1/admin/workers/w/resume", "").status, 404);
    let beat = || bench.worker("heartbeat", r#"{"worker_id":"w","state":"running"}"#).json["directive"].clone();
    assert_eq!((beat(), beat()), (json!("quiet"), json!("quiet")));
    assert_eq!(
        bench.fetch("w").json["jobs"][0]["id"],
        "j",
        "it does not ask who is quiet"
    );
}

#[test]
fn go_reserves_for_what_a_fetch_says_and_else_for_what_the_job_says_until_the_first_heartbeat() {
    let bench = speaking(Dialect::Go);
    bench.put_job("said", "");
    let fetch = r#"{"queues":["default"],"worker_id":"w","visibility_timeout_ms":1}"#;
    assert_eq!(bench.worker("fetch", fetch).json["jobs"][0]["id"], "said");
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |_| bench.state("said") == "available")
    );
    bench.server.cancel("said").unwrap();
    bench.put_job("own", r#","visibility_timeout":1"#);
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "own");
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |_| bench.state("own") == "available")
    );
}
