#![allow(clippy::unwrap_used, clippy::panic, reason = "a test without its spans has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use ojs_lifecycle::api::{CancelReason, Failure, JobId, Subject, WorkerId};
use proptest::prelude::*;
use serde_json::Value;

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn source() -> SpanSource {
    SpanSource {
        resource: vec![("service.name".to_owned(), "mailer".to_owned())],
        server: "backend".to_owned(),
        port: 8080,
        clock: WallClock {
            at: at(0),
            since_1970: Duration::from_secs(1_800_000_000),
        },
    }
}

fn job(end: JobEnd) -> TracedJob {
    TracedJob {
        subject: Arc::new(Subject {
            id: JobId("j1".into()),
            kind: "email.send".into(),
            queue: "email".into(),
            attempt: Some(2),
            max_attempts: None,
            trace: Some(Trace {
                trace: 0xaa,
                span: 0xbb,
                is_sampled: true,
            }),
        }),
        worker: Some(WorkerId("w1".into())),
        trace: 0x0102,
        span: 0x03,
        began: at(20),
        ended: at(70),
        fetch: Some(FetchSpan {
            span: 0x04,
            began: at(10),
            ended: at(20),
            jobs: 2,
        }),
        reports: vec![ReportSpan {
            span: 0x05,
            is_ack: end == JobEnd::Acked,
            began: at(50),
            ended: at(60),
            status: Some(200),
            failure: None,
        }],
        events: vec![
            (at(20), SpanEvent::Fetched),
            (at(30), SpanEvent::HandedOver),
            (at(50), SpanEvent::Outcome(end)),
        ],
        bytes: Some(342),
        end: Some(end),
        error: None,
    }
}

/// The spans of a request with this job.
fn spans(job: TracedJob) -> Vec<Value> {
    let body: Value = serde_json::from_str(&request(&[job], &source())).unwrap();
    body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap()
        .clone()
}

/// The attributes of a span, an event or a resource.
fn attributes(of: &Value) -> BTreeMap<String, String> {
    let attributes = of["attributes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |attribute: &Value| {
        let value = &attribute["value"];
        let value = value.get("stringValue").or(value.get("intValue")).unwrap();
        (text(&attribute["key"]), text(value))
    };
    attributes.map(pair).collect()
}

#[test]
fn the_spans_of_a_job_are_a_chain_that_is_linked_to_its_producer() {
    let [fetch, process, ack] = spans(job(JobEnd::Acked)).try_into().unwrap();
    for span in [&fetch, &process, &ack] {
        assert_eq!(span["traceId"], "00000000000000000000000000000102");
        assert_eq!(span["status"], serde_json::json!({"code": 1}));
    }
    let link = serde_json::json!([{
        "traceId": "000000000000000000000000000000aa", "spanId": "00000000000000bb", "flags": 0x301
    }]);
    assert_eq!(
        (&fetch["links"], &process["links"], &ack["links"]),
        (&link, &link, &Value::Null)
    );
    assert_eq!((&fetch["name"], &fetch["kind"]), (&"email fetch".into(), &3.into()));
    assert_eq!(
        (&process["name"], &process["kind"]),
        (&"email process".into(), &5.into())
    );
    assert_eq!((&ack["name"], &ack["kind"]), (&"ojs.ack".into(), &3.into()));
    assert_eq!(fetch.get("parentSpanId"), None);
    assert_eq!(process["parentSpanId"], fetch["spanId"]);
    assert_eq!(ack["parentSpanId"], process["spanId"]);
    assert_eq!(process["startTimeUnixNano"], "1800000000020000000");
    assert_eq!(process["endTimeUnixNano"], "1800000000070000000");
    let names: Vec<&Value> = process["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["name"])
        .collect();
    assert_eq!(names, ["ojs_init.fetched", "job.started", "job.completed"]);
}

#[test]
fn a_span_has_the_attributes_of_the_documents() {
    let [fetch, process, ack] = spans(job(JobEnd::Acked)).try_into().unwrap();
    for (span, kind) in [(&fetch, "receive"), (&process, "process"), (&ack, "settle")] {
        let found = attributes(span);
        for (name, value) in [
            ("messaging.system", "ojs"),
            ("messaging.operation.type", kind),
            ("messaging.destination.name", "email"),
            ("messaging.message.id", "j1"),
            ("ojs.job.id", "j1"),
            ("ojs.job.type", "email.send"),
            ("ojs.job.queue", "email"),
            ("ojs.job.attempt", "2"),
            ("ojs.worker.id", "w1"),
        ] {
            assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
        }
    }
    let process = attributes(&process);
    assert_eq!(process["messaging.message.body.size"], "342");
    assert_eq!(
        (&*process["ojs.job.state"], &*process["ojs_init.outcome"]),
        ("completed", "acked")
    );
    assert_eq!(attributes(&fetch)["messaging.batch.message_count"], "2");
    let ack = attributes(&ack);
    assert_eq!((&*ack["server.address"], &*ack["server.port"]), ("backend", "8080"));
    assert_eq!(ack["http.response.status_code"], "200");
}

#[test]
fn a_failed_job_has_its_error_and_an_exception() {
    let error = JobError {
        kind: Some("ValueError".into()),
        backtrace: Some(r#"["a.py:1","b.py:2"]"#.into()),
        ..JobError::new("no \"such\" thing")
    };
    let failed = TracedJob {
        error: Some(error),
        ..job(JobEnd::Failed)
    };
    let [_, process, nack] = spans(failed).try_into().unwrap();
    assert_eq!(nack["name"], "ojs.nack");
    let message = "no \"such\" thing";
    assert_eq!(process["status"], serde_json::json!({"code": 2, "message": message}));
    let found = attributes(&process);
    assert_eq!(
        (&*found["error.type"], &*found["error.message"]),
        ("ValueError", message)
    );
    assert_eq!(found["ojs.job.error.attempt"], "2");
    assert_eq!(found.get("ojs.job.state"), None);
    let exception = process["events"].as_array().unwrap().last().unwrap();
    assert_eq!(exception["name"], "exception");
    let exception = attributes(exception);
    assert_eq!(exception["exception.type"], "ValueError");
    assert_eq!(exception["exception.stacktrace"], "a.py:1\nb.py:2");
}

#[test]
fn each_end_has_the_status_of_the_distributed_tracing_document() {
    for (end, code) in [
        (JobEnd::Acked, Some(1)),
        (JobEnd::Cancelled, Some(1)),
        (JobEnd::Requeued, None),
        (JobEnd::Left, Some(2)),
        (JobEnd::Lost, Some(2)),
    ] {
        let [_, process, _] = spans(job(end)).try_into().unwrap();
        let status = process.get("status").map(|status| status["code"].as_u64().unwrap());
        assert_eq!(status, code, "{end:?}");
    }
}

#[test]
fn a_report_without_an_answer_is_an_error() {
    let mut away = job(JobEnd::Left);
    away.reports[0].status = None;
    away.reports[0].failure = Some(Failure::Unanswered);
    let [_, _, report] = spans(away).try_into().unwrap();
    assert_eq!(attributes(&report)["error.type"], "no_answer");
    assert_eq!(report["status"]["code"], 2);
}

#[test]
fn a_cancel_has_its_reason() {
    let mut cancelled = job(JobEnd::Failed);
    cancelled.events = vec![(at(30), SpanEvent::Cancel(CancelReason::Shutdown))];
    let [_, process, _] = spans(cancelled).try_into().unwrap();
    assert_eq!(attributes(&process["events"][0])["ojs_init.cancel.reason"], "shutdown");
}

#[test]
fn what_the_collector_rejects_is_read_however_it_spells_it() {
    for (body, count) in [
        (r#"{"partialSuccess":{"rejectedSpans":"5","errorMessage":"x"}}"#, 5),
        (r#"{"partialSuccess":{"rejectedSpans":7}}"#, 7),
        (r#"{"partialSuccess":{}}"#, 0),
        ("{}", 0),
        ("", 0),
        ("<html>", 0),
    ] {
        assert_eq!(rejected(body.as_bytes()), count, "{body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_valid_json_and_no_longer_than_its_bound(text in "\\PC{0,600}|[\\x00-\\x7f]{0,3000}") {
        let mut odd = job(JobEnd::Failed);
        odd.error = Some(JobError { kind: Some(text.as_str().into()), ..JobError::new(text.as_str()) });
        odd.subject = Arc::new(Subject { queue: text.as_str().into(), ..(*odd.subject).clone() });
        let [_, process, _] = spans(odd).try_into().unwrap();
        for value in attributes(&process).values() {
            prop_assert!(value.len() <= MOST_TEXT_BYTES);
        }
    }
}
