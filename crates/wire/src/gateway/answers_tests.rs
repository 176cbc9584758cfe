#![allow(clippy::unwrap_used, reason = "a test without its answer has failed")]

use serde_json::{Value, json};

use super::*;
use crate::http::answer_head;
use crate::test_support::subject;

const KEPT: AnswerForm = AnswerForm {
    wants_body: true,
    is_kept: true,
    is_kept_by_itself: true,
};

fn parts(answer: Vec<u8>) -> (String, String) {
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn job(envelope: &str) -> GivenJob {
    GivenJob {
        subject: subject(),
        envelope: envelope.into(),
        checkpoint: None,
    }
}

#[test]
fn the_context_of_a_span_is_a_header_where_there_is_one_job() {
    let context = Trace {
        trace: 0xab,
        span: 0xcd,
        is_sampled: true,
    };
    let line = "traceparent: 00-000000000000000000000000000000ab-00000000000000cd-01";
    let head = |jobs: &[GivenJob]| parts(fetched(jobs, Some(&context), KEPT)).0;
    assert!(head(&[job("{}")]).contains(line));
    assert!(!head(&[job("{}"), job("{}")]).contains("traceparent"));
    assert!(!parts(fetched(&[job("{}")], None, KEPT)).0.contains("traceparent"));
}

#[test]
fn envelopes_are_in_the_answer_byte_for_byte_and_the_first_one_twice() {
    let jobs = [job("{\"a\" :1e400}"), job("{\"b\":\"\\u00e4\"}")];
    let (_, body) = parts(fetched(&jobs, None, KEPT));
    assert_eq!(
        body,
        "{\"jobs\":[{\"a\" :1e400},{\"b\":\"\\u00e4\"}],\"job\":{\"a\" :1e400}}"
    );
    assert_eq!(parts(fetched(&[], None, KEPT)).1, "{\"jobs\":[]}");
}

#[test]
fn every_answer_says_that_it_is_ours_in_a_type_that_every_sdk_takes() {
    let error = GatewayError::of_message(BadMessage::HeadTooLarge);
    for answer in [
        fetched(&[], None, KEPT),
        failed(&error, KEPT),
        beat(WorkerState::Running, &[], "", KEPT),
    ] {
        let (head, body) = parts(answer);
        assert!(
            head.contains(concat!("\r\nServer: ojs-init/", env!("CARGO_PKG_VERSION"), "\r\n")),
            "{head}"
        );
        assert!(
            head.contains("\r\nContent-Type: application/openjobspec+json; alias=\"application/json\"\r\n"),
            "{head}"
        );
        let length = format!("\r\nContent-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head}");
    }
}

#[test]
fn the_type_of_an_ojs_body_that_passes_through_is_one_that_every_sdk_takes() {
    let passed = |line: &str| {
        let head = format!("HTTP/1.1 404 Not Found\r\nX-A: application/openjobspec+json\r\n{line}\r\nX-B:  b\r\n\r\n");
        let read = answer_head::read(head.as_bytes(), false, |head, _, _| {
            TunnelHead::of(head, TunnelBody::Length(2))
        });
        let head = read.unwrap().unwrap();
        String::from_utf8(passed_head(&head, true, KEPT)).unwrap()
    };
    let untouched = |line: &str| {
        format!(
            "HTTP/1.1 404 Not Found\r\nX-A: application/openjobspec+json\r\n{line}\r\nX-B: b\r\nContent-Length: 2\r\n\r\n"
        )
    };
    for line in [
        "Content-Type: application/openjobspec+json",
        "content-type: Application/OpenJobSpec+JSON",
        "CONTENT-TYPE: application/openjobspec+json ; charset=utf-8",
    ] {
        assert_eq!(passed(line), untouched(&format!("{line}; alias=\"application/json\"")));
    }
    for line in [
        "Content-Type: application/json",
        "Content-Type: application/problem+json",
        "Content-Type: application/openjobspec+json; alias=\"application/json\"",
        "Content-Type: application/openjobspec+jsonl",
        "Content-Type: text/event-stream",
        "Content-Type: \u{e4}",
        "Accept: application/openjobspec+json",
    ] {
        assert_eq!(passed(line), untouched(line));
    }
}

#[test]
fn what_becomes_of_the_connection_is_said_where_it_has_to_be() {
    let of = |is_kept, is_kept_by_itself| {
        AnswerForm {
            wants_body: true,
            is_kept,
            is_kept_by_itself,
        }
        .connection()
    };
    assert_eq!(
        [of(true, true), of(true, false), of(false, true), of(false, false)],
        [
            "",
            "Connection: keep-alive\r\n",
            "Connection: close\r\n",
            "Connection: close\r\n"
        ]
    );
}

#[test]
fn head_gets_the_head_that_get_would_get() {
    let without = AnswerForm {
        wants_body: false,
        ..KEPT
    };
    assert_eq!(parts(fetched(&[], None, KEPT)).0, parts(fetched(&[], None, without)).0);
    assert_eq!(parts(fetched(&[], None, without)).1, "");
}

#[test]
fn an_outcome_and_a_heartbeat_are_answered_in_both_vocabularies() {
    let (_, body) = parts(outcome(&JobId("j\"1".into()), Some("completed"), KEPT));
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"acknowledged": true, "id": "j\"1", "job_id": "j\"1", "state": "completed"})
    );
    let (_, body) = parts(beat(
        WorkerState::Running,
        &[JobId("a".into())],
        "2026-01-01T00:00:00Z",
        KEPT,
    ));
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"state": "running", "directive": "continue", "jobs_extended": ["a"], "server_time": "2026-01-01T00:00:00Z"})
    );
    assert!(
        parts(beat(WorkerState::Quiet, &[], "", KEPT))
            .1
            .contains("\"directive\":\"quiet\"")
    );
}

#[test]
fn an_answer_to_an_outcome_says_what_is_known_and_no_more() {
    let (_, body) = parts(outcome(&JobId("j".into()), None, KEPT));
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"acknowledged": true, "id": "j", "job_id": "j"})
    );
    let (head, body) = parts(handed_on(200, b"{\"state\":\"discarded\" }", KEPT));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(body, "{\"state\":\"discarded\" }");
}

#[test]
fn an_outcome_that_is_not_taken_says_why() {
    for (code, status, name, retryable) in [
        (ErrorCode::Lost, "409 ", "gateway_lost", false),
        (ErrorCode::Refused, "422 ", "gateway_refused", false),
        (ErrorCode::Unavailable, "503 ", "gateway_unavailable", true),
    ] {
        let (head, body) = parts(outcome_not_taken(code, "why", KEPT));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert_eq!(
            serde_json::from_str::<Value>(&body).unwrap(),
            json!({"error": {"code": name, "message": "why", "retryable": retryable}})
        );
    }
}

#[test]
fn an_error_says_that_a_repetition_may_help_only_where_it_may() {
    for (status, retryable) in [
        (200, false),
        (400, false),
        (403, false),
        (408, true),
        (409, false),
        (413, false),
        (415, false),
        (417, false),
        (422, false),
        (431, false),
        (501, false),
        (502, true),
        (503, true),
        (504, true),
    ] {
        let error = GatewayError {
            status,
            code: "gateway_x",
            message: "why",
        };
        let (head, body) = parts(failed(&error, KEPT));
        assert!(
            head.starts_with(&format!("HTTP/1.1 {}\r\n", status_line(status))),
            "{head}"
        );
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["error"]["retryable"], json!(retryable), "{status:?}");
    }
}
