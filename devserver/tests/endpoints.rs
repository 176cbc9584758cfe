//! Every endpoint, once through the wire. The rules behind them are tested at the store.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use common::{bench, plain};
use ojs_devserver::{JobState, Options, Server};

#[test]
fn an_enqueued_job_comes_back_as_it_was_spelled() {
    let bench = plain();
    let answer = bench.post(
        "/ojs/v1/jobs",
        r#"{"type":"email.send","args":[1.50,1e2,12345678901234567890],"x_own":{"b":1.0,"a":2},"options":{"timeout_ms":5000}}"#,
    );
    assert_eq!(answer.status, 201);
    let id = answer.json["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("/ojs/v1/jobs/{id}").as_str()));
    let fetched = bench.fetch("w").text;
    for part in [
        r#""args":[1.50,1e2,12345678901234567890]"#,
        r#""x_own":{"b":1.0,"a":2}"#,
        r#""timeout_ms":5000"#,
        r#""state":"active""#,
        r#""attempt":1"#,
        r#""specversion":"1.0""#,
    ] {
        assert!(fetched.contains(part), "{part} in {fetched}");
    }
}

#[test]
fn every_answer_has_the_headers_of_the_specification() {
    let mut bench = plain();
    bench.headers.push(("x-request-id", "mine"));
    let answer = bench.get("/ojs/v1/health");
    assert_eq!((answer.status, answer.json["status"].as_str()), (200, Some("ok")));
    assert_eq!(answer.header("ojs-version"), Some("1.0"));
    assert_eq!(answer.header("content-type"), Some("application/openjobspec+json"));
    assert_eq!(answer.header("x-request-id"), Some("mine"));
    let refused = bench.get("/ojs/v1/nothing");
    assert_eq!(
        (refused.status, refused.json["error"]["request_id"].as_str()),
        (404, Some("mine"))
    );
}

#[test]
fn a_batch_is_taken_as_a_whole_or_not_at_all() {
    let bench = plain();
    let answer = bench.post(
        "/ojs/v1/jobs/batch",
        r#"{"jobs":[{"type":"a","args":[]},{"type":"b","args":[]}]}"#,
    );
    assert_eq!((answer.status, answer.json["count"].as_u64()), (201, Some(2)));
    let answer = bench.post(
        "/ojs/v1/jobs/batch",
        r#"{"jobs":[{"type":"a","args":[]},{"type":"b"}]}"#,
    );
    assert_eq!(answer.status, 400);
    assert_eq!(bench.server.jobs().len(), 2);
}

#[test]
fn a_request_that_makes_no_sense_is_answered_with_what_would() {
    let mut bench = plain();
    for (path, body, part) in [
        ("jobs", "no json", "not a JSON object"),
        ("jobs", "[]", "not a JSON object"),
        ("jobs", r#"{"type":"a"}"#, "'args'"),
        ("workers/fetch", r#"{"queues":[]}"#, "'queues'"),
        ("workers/fetch", r#"{"queues":["a"],"count":"b"}"#, "'count'"),
        ("workers/ack", r#"{}"#, "'job_id'"),
        ("workers/nack", r#"{"job_id":"j"}"#, "'error'"),
        ("workers/heartbeat", r#"{}"#, "'worker_id'"),
        ("workers/heartbeat", r#"{"worker_id":"w","state":"dancing"}"#, "'state'"),
        ("workers/register", r#"{}"#, "'worker_id'"),
    ] {
        let answer = bench.post(&format!("/ojs/v1/{path}"), body);
        let code = if part == "not a JSON object" {
            "invalid_payload"
        } else {
            "invalid_request"
        };
        assert_eq!(
            (answer.status, answer.json["error"]["code"].as_str()),
            (400, Some(code)),
            "{path}"
        );
        let message = answer.json["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{path}: {message}");
    }
    bench.headers = vec![("content-type", "text/plain")];
    assert_eq!(bench.post("/ojs/v1/jobs", r#"{"type":"a","args":[]}"#).status, 400);
    bench.headers = vec![("content-type", "application/json; charset=utf-8")];
    assert_eq!(bench.post("/ojs/v1/jobs", r#"{"type":"a","args":[]}"#).status, 201);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let bench = plain();
    let large = format!(r#"{{"type":"a","args":["{}"]}}"#, "x".repeat(1 << 20));
    assert_eq!(bench.post("/ojs/v1/jobs", &large).status, 413);
    bench.put_job("j", "");
    bench.fetch("w");
    let state = format!(r#"{{"state":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(bench.post("/ojs/v1/jobs/j/checkpoint", &state).status, 413);
}

#[test]
fn a_cancelled_job_is_over_at_once() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    let answer = bench.delete("/ojs/v1/jobs/j");
    assert_eq!(
        (
            answer.json["job"]["state"].as_str(),
            answer.json["job"]["previous_state"].as_str()
        ),
        (Some("cancelled"), Some("active"))
    );
    assert_eq!(bench.delete("/ojs/v1/jobs/j").status, 409);
    let late = bench.worker("ack", r#"{"job_id":"j","worker_id":"w"}"#);
    assert_eq!(late.json["error"]["details"]["current_state"], "cancelled");
}

#[test]
fn a_pending_job_can_be_activated() {
    let bench = plain();
    bench.put_job("j", r#","pending":true"#);
    assert_eq!(
        bench.post("/ojs/v1/jobs/j/activate", "").json["job"]["state"],
        "available"
    );
    assert_eq!(bench.post("/ojs/v1/jobs/j/activate", "").status, 409);
}

#[test]
fn dead_letters_are_listed_revived_and_deleted() {
    let bench = plain();
    for id in ["a", "b"] {
        bench.put_job(id, r#","retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#);
        bench.fetch("w");
        bench.worker(
            "nack",
            &format!(r#"{{"job_id":"{id}","error":{{"code":"x","message":"m"}}}}"#),
        );
    }
    assert_eq!(
        bench.get("/ojs/v1/dead-letter?queue=default&limit=1").json["pagination"],
        serde_json::json!({"total":2,"limit":1,"offset":0,"has_more":true})
    );
    assert_eq!(
        bench.post("/ojs/v1/dead-letter/a/retry", "").json["job"]["state"],
        "available"
    );
    assert_eq!(bench.delete("/ojs/v1/dead-letter/b").json["deleted"], true);
    assert_eq!(bench.delete("/ojs/v1/dead-letter/b").status, 404);
}

#[test]
fn queues_are_listed_counted_paused_and_resumed() {
    let bench = plain();
    bench.put_job("j", "");
    assert_eq!(bench.get("/ojs/v1/queues").json["queues"][0]["name"], "default");
    assert_eq!(bench.get("/ojs/v1/queues/default/stats").json["stats"]["available"], 1);
    assert_eq!(bench.get("/ojs/v1/queues/unknown/stats").status, 404);
    assert_eq!(bench.post("/ojs/v1/queues/default/pause", "").json["status"], "paused");
    assert_eq!(bench.fetch("w").json["jobs"], serde_json::json!([]));
    assert_eq!(bench.post("/ojs/v1/jobs", r#"{"type":"a","args":[]}"#).status, 422);
    assert_eq!(bench.post("/ojs/v1/queues/default/resume", "").json["status"], "active");
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "j");
}

#[test]
fn jobs_are_listed_by_state_and_queue_newest_first() {
    let bench = plain();
    for id in ["a", "b", "c"] {
        bench.put_job(id, "");
    }
    bench.put_job("d", r#","queue":"other""#);
    bench.fetch("w");
    let list = bench.get("/ojs/v1/jobs?state=available&queue=default&limit=5").json;
    let ids: Vec<_> = list["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["c", "b"]);
    assert_eq!(
        (list["counts"]["available"].as_u64(), list["counts"]["active"].as_u64()),
        (Some(3), Some(1))
    );
    assert_eq!(bench.get("/ojs/v1/jobs?state=dancing").status, 400);
}

#[test]
fn the_manifest_says_what_this_is() {
    let manifest = plain().get("/ojs/manifest").json;
    assert_eq!(
        (manifest["backend"].as_str(), manifest["conformance_level"].as_u64()),
        (Some("devserver"), Some(1))
    );
    assert_eq!(manifest["development_tool"], true);
}

#[test]
fn a_token_is_asked_for_everywhere_but_at_the_health_check() {
    let mut bench = bench(Options {
        token: Some("secret".into()),
        ..Options::default()
    });
    for path in ["/ojs/v1/queues", "/ojs/manifest", "/dev/events", "/nothing"] {
        assert_eq!(bench.get(path).status, 401, "{path}");
    }
    assert_eq!(bench.get("/ojs/v1/health").status, 200);
    bench.headers.push(("authorization", "Bearer wrong"));
    let refused = bench.get("/ojs/v1/queues");
    assert_eq!(
        (refused.status, refused.json["error"]["code"].as_str()),
        (403, Some("forbidden"))
    );
    bench.headers.pop();
    bench.headers.push(("authorization", "Bearer secret"));
    assert_eq!(bench.get("/ojs/v1/queues").status, 200);
}

#[test]
fn a_full_store_asks_to_come_again() {
    let bench = bench(Options {
        max_jobs: 1,
        ..Options::default()
    });
    bench.put_job("j", "");
    let refused = bench.post("/ojs/v1/jobs", r#"{"type":"a","args":[]}"#);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
}

#[test]
fn the_library_shows_what_became_of_a_job() {
    let bench = plain();
    bench.put_job("j", "");
    bench.put_job("k", "");
    bench.worker("fetch", r#"{"queues":["default"],"worker_id":"w","count":2}"#);
    bench.worker("nack", r#"{"job_id":"j","worker_id":"w","requeue":true}"#);
    bench.fetch("v");
    bench.worker("ack", r#"{"job_id":"j","worker_id":"v","result":7}"#);
    let job = bench.server.job("j").unwrap();
    assert_eq!(
        (job.state, job.times_delivered, job.times_acked, job.result.as_deref()),
        (JobState::Completed, 2, 1, Some("7"))
    );
    let ends: Vec<_> = job
        .deliveries
        .iter()
        .map(|delivery| (delivery.worker.as_deref(), delivery.end.unwrap().1))
        .collect();
    assert_eq!(
        ends,
        [
            (Some("w"), ojs_devserver::End::Requeued),
            (Some("v"), ojs_devserver::End::Acked)
        ]
    );
    assert_eq!(
        bench.server.most_active(),
        [("v".to_owned(), 1), ("w".to_owned(), 2)].into()
    );
    assert_eq!(bench.server.count(JobState::Active), 1);
}

#[test]
fn an_address_that_others_reach_must_be_allowed() {
    let remote = Options {
        listen: "0.0.0.0:0".parse().unwrap(),
        ..Options::default()
    };
    assert!(
        Server::start(remote)
            .unwrap_err()
            .to_string()
            .contains("--allow-remote")
    );
}

#[test]
fn a_port_that_somebody_has_is_named() {
    let first = Server::start(Options::default()).unwrap();
    let second = Server::start(Options {
        listen: first.address(),
        ..Options::default()
    })
    .unwrap_err();
    assert!(second.to_string().contains(&first.address().to_string()), "{second}");
}
