//! Requests of workers, through the wire; the names end with the backend obligations that they
//! play.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use std::time::Duration;

use common::{PATIENCE, bench, plain};
use ojs_devserver::{JobState, Options};

#[test]
fn an_ack_completes_and_a_second_one_is_told_so() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    let ack = || bench.worker("ack", r#"{"job_id":"j","worker_id":"w","result":{"n":1.50}}"#);
    let done = ack();
    assert_eq!((done.status, done.json["acknowledged"].as_bool()), (200, Some(true)));
    assert_eq!(
        (done.json["id"].as_str(), done.json["job_id"].as_str()),
        (Some("j"), Some("j"))
    );
    assert!(done.json["completed_at"].is_string());
    assert!(bench.get("/ojs/v1/jobs/j").text.contains(r#""result":{"n":1.50}"#));
    let again = ack();
    assert_eq!(
        (again.status, again.json["error"]["code"].as_str()),
        (409, Some("conflict"))
    );
    assert_eq!(again.json["error"]["details"]["current_state"], "completed");
    assert_eq!(bench.worker("ack", r#"{"job_id":"unknown"}"#).status, 404);
}

#[test]
fn only_the_holder_may_speak_for_a_job_b_06() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("a");
    let refused = bench.worker("ack", r#"{"job_id":"j","worker_id":"b"}"#);
    assert_eq!(
        (refused.status, refused.json["error"]["details"]["reserved_by"].as_str()),
        (409, Some("a"))
    );
    let refused = bench.worker(
        "nack",
        r#"{"job_id":"j","worker_id":"b","error":{"code":"x"},"requeue":true}"#,
    );
    assert_eq!((refused.status, bench.state("j").as_str()), (409, "active"));
}

#[test]
fn a_fail_says_what_becomes_of_the_job_b_09() {
    let bench = plain();
    for id in ["a", "b", "c"] {
        bench.put_job(id, "");
        bench.fetch("w");
    }
    let nack = |id: &str, rest: &str| {
        bench
            .worker("nack", &format!(r#"{{"job_id":"{id}","worker_id":"w",{rest}}}"#))
            .json
    };
    let retried = nack(
        "a",
        r#""error":{"type":"ShutdownError","code":"shutdown","message":"m","retryable":true}"#,
    );
    assert_eq!(
        (retried["state"].as_str(), retried["attempt"].as_u64()),
        (Some("retryable"), Some(1))
    );
    assert!(retried["next_attempt_at"].is_string());
    let over = nack("b", r#""error":{"code":"x","message":"m","retryable":false}"#);
    assert_eq!(over["state"], "discarded");
    assert!(over["discarded_at"].is_string());
    let back = nack("c", r#""error":{"code":"cancelled","message":"m"},"requeue":true"#);
    assert_eq!(back["state"], "available");
}

#[test]
fn every_beat_is_answered_with_a_state_and_the_jobs_still_held_b_01_b_04() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    let beat = || {
        bench
            .worker(
                "heartbeat",
                r#"{"worker_id":"w","state":"running","active_jobs":1,"active_job_ids":["j","k"]}"#,
            )
            .json
    };
    let answer = beat();
    assert_eq!(
        (answer["state"].as_str(), &answer["jobs_extended"]),
        (Some("running"), &serde_json::json!(["j"]))
    );
    assert!(answer["server_time"].is_string());
    bench.server.cancel("j").unwrap();
    assert_eq!(beat()["jobs_extended"], serde_json::json!([]));
}

#[test]
fn a_registration_is_answered_with_the_times_to_keep_b_03() {
    let bench = plain();
    let answer = bench.worker(
        "register",
        r#"{"worker_id":"w","hostname":"h","pid":1,"queues":["default"],"concurrency":2,"labels":["x"]}"#,
    );
    let expected = [
        ("heartbeat_interval", 5),
        ("heartbeat_timeout", 30),
        ("visibility_timeout_default", 1800),
    ];
    for (name, seconds) in expected {
        assert_eq!(answer.json[name].as_u64(), Some(seconds), "{name}");
    }
    assert_eq!(answer.json["ok"], true);
    let listed = bench.get("/ojs/v1/admin/workers").json;
    assert_eq!(listed["workers"][0]["hostname"], "h");
    assert_eq!(listed["summary"]["running"], 1);
    assert_eq!(
        bench
            .worker("deregister", r#"{"worker_id":"w","state":"terminated"}"#)
            .status,
        200
    );
    assert_eq!(bench.worker("deregister", r#"{"worker_id":"w"}"#).status, 404);
    bench.worker("register", r#"{"worker_id":"v"}"#);
    assert_eq!(bench.delete("/ojs/v1/workers/v").status, 200);
    assert!(bench.server.workers().is_empty());
}

#[test]
fn a_worker_is_told_to_be_quiet_to_go_on_and_to_end_b_02() {
    let bench = plain();
    bench.put_job("j", "");
    let beat = || bench.worker("heartbeat", r#"{"worker_id":"w"}"#).json["state"].clone();
    beat();
    for (word, state) in [
        ("quiet", "quiet"),
        ("resume", "running"),
        ("quiet", "quiet"),
        ("terminate", "terminate"),
    ] {
        assert_eq!(bench.post(&format!("/ojs/v1/admin/workers/w/{word}"), "").status, 200);
        assert_eq!(beat(), state);
    }
    assert_eq!(bench.fetch("w").json["jobs"], serde_json::json!([]));
    assert_eq!(bench.post("/ojs/v1/admin/workers/w/resume", "").status, 409);
    assert_eq!(bench.post("/ojs/v1/admin/workers/nobody/quiet", "").status, 404);
}

#[test]
fn a_silent_worker_loses_its_jobs_by_itself_b_05_b_08() {
    let options = Options {
        heartbeat_timeout: Duration::from_millis(100),
        visibility_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let bench = bench(options);
    bench.put_job("dead", "");
    bench.fetch("w");
    bench.put_job("late", "");
    bench.worker("fetch", r#"{"queues":["default"]}"#);
    let is_back = |id: &str| bench.server.job(id).unwrap().state == JobState::Available;
    assert!(bench.server.wait(PATIENCE, |_| is_back("dead") && is_back("late")));
    let error = |id: &str| bench.server.job(id).unwrap().errors[0].clone();
    assert!(error("dead").contains("worker_death"), "{}", error("dead"));
    assert!(error("late").contains("visibility_timeout"), "{}", error("late"));
    let operations: Vec<_> = bench.server.events().iter().map(|event| event.operation).collect();
    assert!(
        operations.contains(&"worker_death") && operations.contains(&"visibility_timeout"),
        "{operations:?}"
    );
}

#[test]
fn the_next_delivery_carries_the_checkpoint() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    assert_eq!(bench.get("/ojs/v1/jobs/j/checkpoint").status, 404);
    let saved = bench.post("/ojs/v1/jobs/j/checkpoint", r#"{"state":{"at":1.50}}"#);
    assert_eq!(
        (saved.status, saved.json["checkpoint"]["sequence"].as_u64()),
        (200, Some(1))
    );
    bench.worker("nack", r#"{"job_id":"j","requeue":true}"#);
    let again = bench.fetch("w").text;
    assert!(
        again.contains(r#""checkpoint":{"state":{"at":1.50},"sequence":1}"#),
        "{again}"
    );
    assert_eq!(bench.delete("/ojs/v1/jobs/j/checkpoint").status, 200);
    assert_eq!(bench.get("/ojs/v1/jobs/j/checkpoint").status, 404);
}

#[test]
fn progress_can_be_told_and_read() {
    let bench = plain();
    bench.put_job("j", "");
    assert_eq!(
        bench.get("/ojs/v1/jobs/j/progress").json["progress"],
        serde_json::Value::Null
    );
    bench.fetch("w");
    assert_eq!(
        bench
            .put("/ojs/v1/jobs/j/progress", r#"{"progress":0.5,"data":{"row":7}}"#)
            .status,
        200
    );
    let told = bench.get("/ojs/v1/jobs/j/progress").json;
    assert_eq!(
        (told["progress"].as_f64(), told["data"]["row"].as_u64()),
        (Some(0.5), Some(7))
    );
    assert_eq!(bench.put("/ojs/v1/jobs/j/progress", "{}").status, 400);
    assert_eq!(
        bench.put("/ojs/v1/jobs/unknown/progress", r#"{"progress":1}"#).status,
        404
    );
}
