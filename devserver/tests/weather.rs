//! Faults of proxies and of the stores of real backends, on demand.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use std::time::Duration;

use common::{Bench, PATIENCE, bench, plain};
use ojs_devserver::{Backend, Dialect, End, Fault, FaultRule, Operation, Options};
use serde_json::json;

/// Long enough to be sure that nothing comes, short enough to wait for it.
const NOTHING: Duration = Duration::from_millis(300);

const ACK: &str = r#"{"job_id":"j","worker_id":"w"}"#;
const FAIL: &str = r#"{"job_id":"j","worker_id":"w","error":{"code":"c","message":"m"}}"#;

/// A backend like those in Go, with a job in the hands of `w`.
fn with_a_job() -> Bench {
    let bench = bench(Options {
        dialect: Dialect::Go,
        ..Options::default()
    });
    bench.put_job("j", r#","retry":{"initial_interval":"PT0.001S","jitter":false}"#);
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "j");
    bench
}

/// The statuses of an ACK, a FAIL, a look, a FETCH and a heartbeat while the store of that backend
/// is away.
fn while_away(backend: Backend) -> [u16; 5] {
    let bench = with_a_job();
    let delay = Duration::ZERO;
    bench
        .server
        .fault(FaultRule::on_all(Fault::StoreAway { backend, delay }))
        .unwrap();
    let ack = bench.worker("ack", ACK);
    let fail = bench.worker("nack", FAIL);
    let look = bench.get("/ojs/v1/jobs/j");
    for answer in [&ack, &fail, &look] {
        let said = &answer.json["error"];
        match answer.status {
            404 => assert_eq!(
                (&said["code"], &said["message"], &said["details"]["resource_id"]),
                (&json!("not_found"), &json!("Job 'j' not found."), &json!("j"))
            ),
            status => assert_eq!((status, &said["code"]), (500, &json!("internal_error"))),
        }
    }
    let fetch = bench.fetch("w");
    if fetch.status == 200 {
        assert_eq!(fetch.json["jobs"], json!([]));
    }
    let beat = bench.worker("heartbeat", r#"{"worker_id":"w","active_jobs":["j"]}"#);
    assert!(beat.json.get("jobs_extended").is_none(), "{beat:?}");
    assert_eq!(beat.json["directive"], "continue");
    assert_eq!(
        bench.worker("heartbeat", r#"{"worker_id":"w","active_jobs":1}"#).status,
        400
    );
    assert_eq!(bench.get("/ojs/v1/health").status, 503);
    assert_eq!(bench.post("/ojs/v1/jobs", r#"{"type":"t","args":[]}"#).status, 500);
    bench.server.clear_faults();
    assert_eq!(bench.state("j"), "active", "nothing of it was carried out");
    assert_eq!(bench.worker("ack", ACK).status, 200);
    [ack, fail, look, fetch, beat].map(|answer| answer.status)
}

#[test]
fn postgres_says_of_every_job_that_it_is_not_there_while_its_store_is_away() {
    assert_eq!(while_away(Backend::Postgres), [404, 404, 404, 500, 200]);
}

#[test]
fn redis_says_so_of_a_fail_alone_and_finds_no_jobs_while_its_store_is_away() {
    assert_eq!(while_away(Backend::Redis), [500, 404, 500, 200, 200]);
}

#[test]
fn nats_says_so_too_but_late_and_later_still_to_a_heartbeat() {
    assert_eq!(while_away(Backend::Nats), [404, 404, 404, 200, 200]);
    let mut bench = with_a_job();
    let order = r#"{"fault":"store_away","backend":"nats","delay_ms":100,"for_ms":60000}"#;
    assert_eq!(bench.post("/dev/faults", order).status, 201);
    let before = bench.server.now();
    assert_eq!(bench.worker("ack", ACK).status, 404);
    assert!(bench.server.now() - before >= Duration::from_millis(100));
    let beat = r#"{"worker_id":"w","active_jobs":["j"]}"#;
    bench.patience = Duration::from_millis(400);
    assert!(bench.ask("POST", "/ojs/v1/workers/heartbeat", beat).is_err());
    bench.patience = PATIENCE;
    assert_eq!(bench.worker("heartbeat", beat).status, 200);
}

#[test]
fn an_ack_that_is_too_large_together_with_its_job_is_refused_each_time_and_a_smaller_one_is_taken() {
    for (order, status, code) in [
        (r#"{"fault":"limit","bytes":2000}"#, 500, "internal_error"),
        (r#"{"fault":"limit","bytes":2000,"status":400}"#, 400, "invalid_request"),
    ] {
        let bench = with_a_job();
        let large = format!(r#"{{"job_id":"j","worker_id":"w","result":"{}"}}"#, "x".repeat(2000));
        assert_eq!(bench.post("/dev/faults", order).status, 201);
        for _ in 0..2 {
            let refused = bench.worker("ack", &large);
            assert_eq!((refused.status, &refused.json["error"]["code"]), (status, &json!(code)));
        }
        assert_eq!(bench.state("j"), "active");
        assert_eq!(bench.worker("ack", ACK).status, 200);
    }
    let bench = plain();
    bench
        .server
        .fault(FaultRule::on_all(Fault::Limit {
            bytes: 2000,
            status: 500,
        }))
        .unwrap();
    bench.put_job("large", &format!(r#","meta":{{"x":"{}"}}"#, "x".repeat(1800)));
    bench.fetch("w");
    let result = "x".repeat(200);
    let answer = bench.worker(
        "ack",
        &format!(r#"{{"job_id":"large","worker_id":"w","result":"{result}"}}"#),
    );
    assert!(answer.text.contains("maximum payload exceeded"), "{}", answer.text);
}

#[test]
fn what_is_answered_late_was_carried_out_at_once_and_the_job_is_delivered_again_before_the_answer() {
    for nack in [FAIL, r#"{"job_id":"j","worker_id":"w","requeue":true}"#] {
        let bench = with_a_job();
        let late = Fault::LateReply(Duration::from_millis(500));
        bench.server.fault(FaultRule::on(Operation::Nack, late)).unwrap();
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| bench.worker("nack", nack));
            assert!(bench.server.wait(PATIENCE, |_| bench.state("j") == "available"));
            assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "j");
            assert!(!answer.is_finished());
            assert_eq!(answer.join().unwrap().status, 200);
        });
        let events = bench.server.events();
        let last = events.last().unwrap();
        assert_eq!((last.operation, last.fault), ("nack", Some("late_reply")));
        assert!(last.took_ms.unwrap() >= 500.0, "{last:?}");
    }
}

#[test]
fn whoever_does_not_wait_for_a_late_answer_is_told_of_without_one() {
    let mut bench = with_a_job();
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::LateReply(PATIENCE * 9)))
        .unwrap();
    bench.patience = NOTHING;
    assert!(bench.ask("POST", "/ojs/v1/workers/ack", ACK).is_err());
    assert!(bench.server.wait(PATIENCE, |server| server.events().len() == 2));
    let event = &bench.server.events()[1];
    assert_eq!(
        (event.status, event.took_ms, event.state.as_deref()),
        (None, None, Some("completed"))
    );
}

#[test]
fn a_page_of_html_is_answered_instead_of_what_was_asked() {
    let bench = with_a_job();
    assert_eq!(
        bench
            .post("/dev/faults", r#"{"fault":"page","operation":"ack"}"#)
            .status,
        201
    );
    let answer = bench.worker("ack", ACK);
    let kind = answer.header("content-type").unwrap();
    assert_eq!((answer.status, kind), (200, "text/html; charset=utf-8"));
    assert!(answer.text.starts_with("<!doctype html>") && answer.header("ojs-version").is_none());
    assert_eq!(bench.state("j"), "active");
    assert_eq!(
        bench.worker("heartbeat", r#"{"worker_id":"w"}"#).json["state"],
        "active"
    );
}

#[test]
fn a_redirect_names_another_place_and_carries_nothing_out() {
    for (given, status) in [("", 301), (r#","status":307"#, 307)] {
        let bench = with_a_job();
        let order = format!(r#"{{"fault":"redirect","times":1{given}}}"#);
        assert_eq!(bench.post("/dev/faults", &order).status, 201);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        let url = format!("{}/ojs/v1/workers/ack", bench.server.url());
        let answer = ureq::Agent::new_with_config(config).post(url).send(ACK).unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()),
            (status, "/login")
        );
        assert_eq!(bench.state("j"), "active");
    }
}

#[test]
fn an_ack_that_comes_too_late_finds_the_job_done_by_somebody_else() {
    for tells_state in [true, false] {
        let bench = with_a_job();
        let rule = FaultRule::on(Operation::Ack, Fault::Overtaken { tells_state }).times(1);
        bench.server.fault(rule).unwrap();
        let answer = bench.worker("ack", ACK);
        let state = answer.json["error"]["details"]["current_state"].as_str();
        assert_eq!((answer.status, state), (409, tells_state.then_some("completed")));
        assert_eq!(bench.get("/ojs/v1/jobs/j").json["job"]["state"], "completed");
        let ends: Vec<_> = bench.server.job("j").unwrap().deliveries;
        let ends: Vec<_> = ends
            .iter()
            .map(|one| (one.worker.as_deref().unwrap(), one.end.unwrap().1))
            .collect();
        assert_eq!(ends, [("w", End::VisibilityTimeout), ("rival", End::Acked)]);
    }
}
