use proptest::prelude::*;

use super::*;
use crate::test_support::*;

/// The request's line and body.
fn sent(call: &Call) -> (String, String) {
    let request = request(call, &us());
    let body = String::from_utf8(request.body.unwrap_or_default()).unwrap();
    (format!("{} {}", request.method, request.path), body)
}

#[test]
fn each_call_has_the_path_and_the_body_of_the_binding() {
    let who = r#""worker_id":"w-1","hostname":"host","pid":7,"queues":["high","low"],"concurrency":3,"labels":["gpu"],"started_at":"2026-01-02T03:04:05Z""#;
    let expected = [
        (register(), "POST /ojs/v1/workers/register", format!("{{{who}}}")),
        (
            beat(),
            "POST /ojs/v1/workers/heartbeat",
            format!(
                r#"{{"active_jobs":["a","b"],"visibility_timeout_ms":120000,"state":"quiet","active_job_ids":["a","b"],{who}}}"#
            ),
        ),
        (
            fetch(2),
            "POST /ojs/v1/workers/fetch",
            r#"{"worker_id":"w-1","queues":["high","low"],"count":2,"visibility_timeout_ms":120000}"#.to_owned(),
        ),
        (
            ack(),
            "POST /ojs/v1/workers/ack",
            r#"{"worker_id":"w-1","job_id":"j"}"#.to_owned(),
        ),
        (
            fail(false),
            "POST /ojs/v1/workers/nack",
            r#"{"worker_id":"w-1","job_id":"j","error":{"code":"shutdown","type":"ShutdownError","message":"cut off","retryable":true,"details":{"reason":"shutdown","backtrace":["a"]},"backtrace":["a"]}}"#.to_owned(),
        ),
        (
            fail(true),
            "POST /ojs/v1/workers/nack",
            r#"{"job_id":"j","error":{"code":"handler_error","message":"cut off","retryable":true,"details":{"reason":"shutdown","backtrace":["a"]}}}"#.to_owned(),
        ),
        (
            requeue_call(),
            "POST /ojs/v1/workers/nack",
            r#"{"worker_id":"w-1","job_id":"j","error":{"code":"cancelled","message":"surplus","retryable":true},"requeue":true}"#.to_owned(),
        ),
        (look(), "GET /ojs/v1/jobs/j", String::new()),
        (
            progress(),
            "PUT /ojs/v1/jobs/j/progress",
            r#"{"progress":0.50,"message":"half","data":[1]}"#.to_owned(),
        ),
        (
            checkpoint(),
            "POST /ojs/v1/jobs/j/checkpoint",
            r#"{"state":{"page": 3}}"#.to_owned(),
        ),
        (Call::Manifest, "GET /ojs/manifest", String::new()),
    ];
    for (call, line, body) in expected {
        assert_eq!(sent(&call), (line.to_owned(), body));
    }
}

#[test]
fn each_way_to_deregister_has_its_path_and_its_body() {
    let expected = [
        (
            deregister(),
            "POST /ojs/v1/workers/deregister",
            r#"{"worker_id":"w-1","state":"terminated"}"#.to_owned(),
        ),
        (
            Call::Deregister {
                worker: worker(),
                way: Farewell::Bare,
            },
            "POST /ojs/v1/workers/deregister",
            r#"{"worker_id":"w-1"}"#.to_owned(),
        ),
        (
            Call::Deregister {
                worker: worker(),
                way: Farewell::Delete,
            },
            "DELETE /ojs/v1/workers/w-1",
            String::new(),
        ),
    ];
    for (call, line, body) in expected {
        assert_eq!(sent(&call), (line.to_owned(), body));
    }
}

#[test]
fn an_idle_heartbeat_names_its_active_jobs_with_two_empty_arrays() {
    let idle = Call::Heartbeat {
        worker: worker(),
        state: WorkerState::Terminate,
        active: Vec::new(),
        visibility: Duration::from_secs(120),
        takes: Takes::default(),
        form: HeartbeatForm::Full,
    };
    let (_, body) = sent(&idle);
    assert!(
        body.starts_with(
            r#"{"active_jobs":[],"visibility_timeout_ms":120000,"state":"terminate","active_job_ids":[],"#
        ),
        "{body}"
    );
}

#[test]
fn a_counted_heartbeat_has_the_number_of_active_jobs_and_their_ids() {
    let (_, body) = sent(&spelled(HeartbeatForm::Counted, Duration::from_secs(120)));
    assert!(
        body.starts_with(
            r#"{"active_jobs":2,"visibility_timeout_ms":120000,"state":"running","active_job_ids":["a","b"],"worker_id":"w-1","hostname":"#
        ),
        "{body}"
    );
}

#[test]
fn a_heartbeat_in_the_form_of_the_worker_protocol_has_the_fields_of_its_table_and_no_others() {
    let (_, body) = sent(&spelled(HeartbeatForm::Protocol, Duration::from_secs(120)));
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&body).unwrap();
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    let table = [
        "active_job_ids",
        "active_jobs",
        "concurrency",
        "hostname",
        "labels",
        "pid",
        "queues",
        "started_at",
        "state",
        "worker_id",
    ];
    assert_eq!(names, table, "worker protocol 4.2");
    assert_eq!(fields["active_jobs"], 2);
    assert_eq!(fields["active_job_ids"], serde_json::json!(["a", "b"]));
}

#[test]
fn a_fetch_names_its_visibility_timeout_unless_the_backend_refuses_that() {
    let fetch = |form, visibility| {
        let call = Call::Fetch {
            worker: worker(),
            count: 2,
            queues: None,
            visibility,
            form,
        };
        sent(&call).1
    };
    let two_minutes = Duration::from_secs(120);
    let of_all = r#"{"worker_id":"w-1","queues":["high","low"],"count":2"#;
    assert_eq!(
        fetch(FetchForm::Full, two_minutes),
        format!(r#"{of_all},"visibility_timeout_ms":120000}}"#)
    );
    assert_eq!(fetch(FetchForm::WithoutVisibility, two_minutes), format!("{of_all}}}"));
    assert_eq!(
        fetch(FetchForm::Bare, two_minutes),
        r#"{"queues":["high","low"],"count":2}"#
    );
    // The schema's least.
    assert!(fetch(FetchForm::Full, Duration::from_millis(300)).contains(r#""visibility_timeout_ms":1000"#));
}

#[test]
fn a_bare_heartbeat_has_the_fields_of_the_json_schema_and_no_others() {
    let bare = |visibility| sent(&spelled(HeartbeatForm::Bare, visibility)).1;
    assert_eq!(
        bare(Duration::from_secs(120)),
        r#"{"active_jobs":["a","b"],"visibility_timeout_ms":120000,"worker_id":"w-1"}"#
    );
    // The schema's least.
    assert!(bare(Duration::from_millis(300)).contains(r#""visibility_timeout_ms":1000"#));
}

fn spelled(form: HeartbeatForm, visibility: Duration) -> Call {
    Call::Heartbeat {
        worker: worker(),
        state: WorkerState::Running,
        active: vec![job("a"), job("b")],
        visibility,
        takes: Takes::default(),
        form,
    }
}

#[test]
fn a_result_is_passed_on_exactly_as_it_is_spelled() {
    let call = Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Acked {
            result: Some("{\"n\": 1.0e+2, \"n\": 12345678901234567890123}".into()),
        },
        is_bare: false,
    };
    let (_, body) = sent(&call);
    assert!(
        body.ends_with(r#""result":{"n": 1.0e+2, "n": 12345678901234567890123}}"#),
        "{body}"
    );
}

#[test]
fn a_result_that_is_no_json_does_not_break_the_request() {
    let call = Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Acked {
            result: Some(r#"}, "requeue": true"#.into()),
        },
        is_bare: false,
    };
    let (_, body) = sent(&call);
    assert!(body.ends_with(r#""result":"}, \"requeue\": true"}"#), "{body}");
}

#[test]
fn a_failure_without_a_code_gets_the_usual_one() {
    let call = Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Failed {
            error: JobError { code: None, ..error() },
        },
        is_bare: false,
    };
    assert!(
        sent(&call)
            .1
            .contains(r#""code":"handler_error","type":"ShutdownError""#)
    );
}

#[test]
fn an_id_cannot_leave_its_place_in_a_path() {
    let cases = [
        ("a-B_0~.x", "a-B_0~.x"),
        ("../../health?x#y", "..%2F..%2Fhealth%3Fx%23y"),
        ("..", "%2E%2E"),
        ("a b\r\n%", "a%20b%0D%0A%25"),
        ("\u{fc}", "%C3%BC"),
    ];
    for (id, path) in cases {
        let request = request(&Call::GetJob { job: job(id) }, &us());
        assert_eq!(request.path, format!("/ojs/v1/jobs/{path}"));
    }
}

proptest! {
    #[test]
    fn every_request_is_one_json_object_on_a_clean_path(id in ".{1,20}", text in ".{0,20}", is_bare in any::<bool>()) {
        let text: ojs_lifecycle::api::Text = text.into();
        let calls = [
            Call::Report { worker: worker(), job: job(&id), outcome: Outcome::Acked { result: Some(text.clone()) }, is_bare },
            Call::Checkpoint { job: job(&id), state: text.clone() },
            Call::Report { worker: worker(), job: job(&id), outcome: Outcome::Failed { error: JobError { details: Some(text.clone()), message: text.clone(), ..error() } }, is_bare },
        ];
        for call in calls {
            let request = request(&call, &us());
            prop_assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic()));
            let body = request.body.unwrap();
            let object = serde_json::from_slice::<std::collections::BTreeMap<String, serde_json::Value>>(&body);
            prop_assert!(object.is_ok());
        }
    }
}
