//! Demands of the official conformance suite for levels 0 and 1, and what public backends do
//! otherwise: each test names the ids.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the test is the client")]

mod common;

use common::{Answer, Bench, bench, plain};
use ojs_devserver::{Dialect, Options};
use serde_json::{Value, json};

/// Enqueues over HTTP, as producers do.
fn enqueue(bench: &Bench, job: &Value) -> Answer {
    bench.post("/ojs/v1/jobs", &job.to_string())
}

/// Enqueues a job in the queue default and fetches it as a worker that never registers; gives its
/// id.
fn active(bench: &Bench, job: &Value) -> String {
    let answer = enqueue(bench, job);
    assert_eq!(answer.status, 201, "{}", answer.text);
    let id = answer.json["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], id.as_str());
    id
}

fn fail(bench: &Bench, id: &str) -> Value {
    let error = json!({"code": "handler_error", "message": "no"});
    let body = json!({"job_id": id, "worker_id": "w", "error": error});
    bench.worker("nack", &body.to_string()).json
}

/// A time as RFC 3339 has it.
fn is_time(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.contains('T') && text.ends_with('Z'))
}

#[test]
fn a_type_may_have_hyphens_and_nothing_else_is_new_l0_env_005_l1_rtr_002() {
    let bench = plain();
    for (kind, status) in [
        ("retry.test.max-attempts", 201),
        ("Email.Send", 400),
        ("email send", 400),
        ("1email.send", 400),
        ("", 400),
        ("email@send!", 400),
        ("email.-send", 400),
    ] {
        let answer = enqueue(&bench, &json!({"type": kind, "args": []}));
        assert_eq!(answer.status, status, "{kind}: {}", answer.text);
    }
}

#[test]
fn an_id_is_a_uuid_of_version_7_where_the_dialect_is_the_specification_l0_env_010_011() {
    let job = |id: &str| json!({"type": "t", "args": [], "id": id});
    let given = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
    let plain = plain();
    assert_eq!(enqueue(&plain, &job(given)).json["job"]["id"], given);
    let duplicate = enqueue(&plain, &job(given));
    assert_eq!(
        (duplicate.status, &duplicate.json["error"]["code"]),
        (409, &json!("duplicate"))
    );
    for id in [
        "550e8400-e29b-41d4-a716-446655440000",
        "not-a-uuid",
        "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
        "",
    ] {
        assert_eq!(enqueue(&plain, &job(id)).status, 400, "{id}");
        let batch = json!({"jobs": [job(id)]}).to_string();
        assert_eq!(plain.post("/ojs/v1/jobs/batch", &batch).status, 400, "{id}");
    }
    let go = bench(Options {
        dialect: Dialect::Go,
        ..Options::default()
    });
    assert_eq!(enqueue(&go, &job("j1")).status, 201);
}

#[test]
fn a_priority_is_from_minus_100_to_100_l0_env_017() {
    let bench = plain();
    for (priority, status) in [(-100, 201), (100, 201), (101, 400), (-101, 400), (999_999, 400)] {
        let answer = enqueue(
            &bench,
            &json!({"type": "t", "args": [], "options": {"priority": priority}}),
        );
        assert_eq!(answer.status, status, "{priority}");
    }
}

#[test]
fn every_answer_and_the_manifest_name_the_version_l0_env_001_013_l0_ops_019() {
    for (dialect, version) in [(Dialect::Spec, "1.0"), (Dialect::Go, "1.0.0-rc.1")] {
        let bench = bench(Options {
            dialect,
            ..Options::default()
        });
        let manifest = bench.get("/ojs/manifest");
        assert_eq!(manifest.header("ojs-version"), Some(version));
        assert_eq!(manifest.json["specversion"], version);
        assert_eq!(bench.get("/nothing").header("ojs-version"), Some(version));
    }
}

#[test]
fn an_error_says_what_to_do_and_where_to_read_on_l0_ops_015_030_031() {
    let bench = plain();
    let broken = bench.post("/ojs/v1/jobs", "{ invalid json }");
    assert_eq!(
        (broken.status, &broken.json["error"]["code"]),
        (400, &json!("invalid_payload"))
    );
    let missing = bench.get("/ojs/v1/jobs/019539a4-0000-7000-8000-ffffffffffff");
    assert_eq!(
        (missing.status, &missing.json["error"]["code"]),
        (404, &json!("not_found"))
    );
    for error in [&broken.json["error"], &missing.json["error"]] {
        assert_eq!(error["retryable"], false);
        assert!(error["hint"].is_string() && error["docs_url"].is_string(), "{error}");
    }
}

#[test]
fn a_retry_policy_that_cannot_be_followed_is_422_l1_rtr_011_012() {
    for (retry, named) in [
        (json!({"backoff_coefficient": 0.5}), "backoff_coefficient"),
        (json!({"max_attempts": -1}), "max_attempts"),
    ] {
        let answer = enqueue(&plain(), &json!({"type": "t", "args": [], "options": {"retry": retry}}));
        let error = &answer.json["error"];
        assert_eq!((answer.status, &error["type"]), (422, &json!("validation_error")));
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
}

#[test]
fn a_discarded_job_has_the_time_of_its_end_l0_lc_010_014_l0_ops_014() {
    let bench = plain();
    let id = active(
        &bench,
        &json!({"type": "t", "args": [], "options": {"retry": {"max_attempts": 1}}}),
    );
    let failed = fail(&bench, &id);
    assert_eq!(failed["state"], "discarded");
    let looked = bench.get(&format!("/ojs/v1/jobs/{id}")).json;
    for at in [
        &failed["discarded_at"],
        &failed["completed_at"],
        &failed["job"]["completed_at"],
        &looked["job"]["completed_at"],
    ] {
        assert!(is_time(at), "{failed}\n{looked}");
    }
}

#[test]
fn the_delay_of_a_retry_is_told_at_once_and_with_the_next_delivery_l1_rtr_001_009_010() {
    let bench = plain();
    let retry = json!({"max_attempts": 4, "initial_interval": "PT0.05S", "jitter": false});
    let id = active(
        &bench,
        &json!({"type": "t", "args": [], "options": {"retry_policy": retry}}),
    );
    let failed = fail(&bench, &id);
    assert_eq!(
        (&failed["retry_delay_ms"], &failed["job"]["retry_delay_ms"]),
        (&json!(50), &json!(50))
    );
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |server| server.job(&id).unwrap().state.name()
                == "available")
    );
    assert_eq!(bench.fetch("w").json["jobs"][0]["retry_delay_ms"], 50);
}

#[test]
fn an_execution_that_takes_too_long_fails_unless_its_worker_keeps_the_time_itself_l1_tmo_001() {
    let bench = plain();
    let retry = json!({"max_attempts": 2, "initial_interval": "PT1H"});
    let job = json!({"type": "t", "args": [], "options": {"timeout_ms": 50, "retry": retry}});
    let id = active(&bench, &job);
    // A heartbeat keeps the reservation, and gives the execution no more time.
    let beat = json!({"worker_id": "w", "active_jobs": [id], "visibility_timeout_ms": 60_000});
    bench.worker("heartbeat", &beat.to_string());
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |server| server.job(&id).unwrap().state.name()
                == "retryable")
    );
    let looked = bench.get(&format!("/ojs/v1/jobs/{id}")).json;
    assert_eq!(
        (&looked["job"]["error"]["code"], &looked["job"]["attempt"]),
        (&json!("timeout"), &json!(1))
    );

    bench.worker("register", r#"{"worker_id":"w"}"#);
    let id = active(&bench, &job);
    let other = active(
        &bench,
        &json!({"type": "t", "args": [], "options": {"visibility_timeout_ms": 100}}),
    );
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |server| server.job(&other).unwrap().state.name()
                == "available")
    );
    assert_eq!(bench.state(&id), "active");
}

#[test]
fn the_last_events_of_jobs_are_listed_by_type_and_queue_l0_evt_001_002() {
    let bench = plain();
    enqueue(
        &bench,
        &json!({"type": "other", "args": [], "options": {"queue": "another"}}),
    );
    let id = active(&bench, &json!({"type": "test.echo", "args": []}));
    bench.worker("ack", &json!({"job_id": id, "worker_id": "w"}).to_string());
    let listed = bench
        .get("/ojs/v1/events?types=job.completed,job.enqueued&queues=default&limit=10")
        .json;
    let kinds: Vec<&Value> = listed["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["type"])
        .collect();
    assert_eq!(kinds, ["job.completed", "job.enqueued"], "newest first");
    let data = &listed["events"][0]["data"];
    assert_eq!((&data["job_id"], &data["job_type"]), (&json!(id), &json!("test.echo")));
    assert_eq!((&data["queue"], &data["attempt"]), (&json!("default"), &json!(1)));
    assert!(data["duration_ms"].is_u64(), "{data}");
    assert_eq!(
        bench.get("/ojs/v1/events?limit=1").json["events"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_directive_of_a_test_stands_in_meta_or_metadata_l1_wrk_002_003() {
    for name in ["meta", "metadata"] {
        let bench = plain();
        let id = active(
            &bench,
            &json!({"type": "t", "args": [], "options": {name: {"test_directive": "terminate"}}}),
        );
        let beat = json!({"worker_id": "w", "active_jobs": [id]});
        assert_eq!(
            bench.worker("heartbeat", &beat.to_string()).json["state"],
            "terminate",
            "{name}"
        );
    }
}

#[test]
fn a_visibility_timeout_may_be_an_iso_8601_duration_l1_vis_001() {
    let bench = plain();
    let id = active(
        &bench,
        &json!({"type": "t", "args": [], "options": {"visibility_timeout": "PT0.05S"}}),
    );
    assert!(
        bench
            .server
            .wait(common::PATIENCE, |server| server.job(&id).unwrap().state.name()
                == "available")
    );
    let wrong = enqueue(
        &bench,
        &json!({"type": "t", "args": [], "options": {"visibility_timeout": "soon"}}),
    );
    assert_eq!(wrong.status, 400);
    assert!(wrong.text.contains("'visibility_timeout'"), "{}", wrong.text);
}

#[test]
fn workflows_and_cron_are_501_and_say_which_levels_there_are() {
    for dialect in [Dialect::Spec, Dialect::Go] {
        let bench = bench(Options {
            dialect,
            ..Options::default()
        });
        for answer in [
            bench.post("/ojs/v1/workflows", "{}"),
            bench.get("/ojs/v1/workflows/x"),
            bench.post("/ojs/v1/cron", "{}"),
            bench.delete("/ojs/v1/cron/x"),
        ] {
            assert_eq!(
                (answer.status, &answer.json["error"]["code"]),
                (501, &json!("unsupported"))
            );
            assert_eq!(answer.json["error"]["retryable"], false);
            assert!(answer.text.contains("levels 0 and 1"), "{}", answer.text);
        }
    }
}
