use super::*;

use crate::test_support::subject;
use crate::worker::{self, HelloContext, encode_around};
use ojs_lifecycle::api::{FromWorker, GivenJob, JobId, Ready, Reason, Text, ToWorker, WorkerId, WorkerState};

fn context() -> HelloContext {
    HelloContext {
        concurrency: 3,
        queues: vec!["default".into()],
        max_frame: 1000,
    }
}

fn line(word: &ToWorker) -> Vec<u8> {
    let mut line = worker::encode(word, &context());
    assert_eq!(line.pop(), Some(b'\n'));
    line
}

fn said(mut frame: Vec<u8>) -> FromWorker {
    assert_eq!(frame.pop(), Some(b'\n'));
    worker::decode(&frame)
}

fn id() -> JobId {
    JobId("j\"1".into())
}

#[test]
fn what_pid_1_tells_is_understood() {
    let hello = ToWorker::Hello {
        worker: WorkerId("w".into()),
        state: WorkerState::Running,
    };
    assert_eq!(decode(&line(&hello)), None);
    let cancel = ToWorker::Cancel {
        job: id(),
        reason: CancelReason::Timeout,
        grace: Duration::from_millis(1500),
    };
    let expected = Told::Cancel {
        job: "j\"1".to_owned(),
        reason: CancelReason::Timeout,
        grace: Duration::from_millis(1500),
    };
    assert_eq!(decode(&line(&cancel)), Some(expected));
    let ok = ToWorker::Ok {
        job: id(),
        about: About::Checkpoint,
        is_settled: true,
    };
    let expected = Told::Saved { job: "j\"1".to_owned() };
    assert_eq!(decode(&line(&ok)), Some(expected));
    assert_eq!(decode(&line(&ToWorker::Ping { id: 7 })), Some(Told::Ping { id: 7 }));
    let lifecycle = ToWorker::Lifecycle {
        state: WorkerState::Terminate,
        reason: Reason::Sigterm,
        remaining: None,
    };
    assert_eq!(decode(&line(&lifecycle)), None);
    let error = ToWorker::Error {
        code: ojs_lifecycle::api::ErrorCode::NotHeld,
        message: "no".into(),
        job: Some(id()),
    };
    let expected = Told::Refused {
        job: Some("j\"1".to_owned()),
        why: "not_held: no".to_owned(),
    };
    assert_eq!(decode(&line(&error)), Some(expected));
}

#[test]
fn an_envelope_and_a_checkpoint_arrive_as_they_are_spelled() {
    let envelope = r#"{"id":"a","args":[1.0e400, 12345678901234567890],"x":1,"x":2}"#;
    let checkpoint = r#"{ "at":1E2 }"#;
    let job = ToWorker::Job(GivenJob {
        subject: subject(),
        envelope: envelope.into(),
        checkpoint: Some(checkpoint.into()),
    });
    let expected = JobOrder {
        envelope: envelope.to_owned(),
        checkpoint: Some(checkpoint.to_owned()),
        traceparent: None,
    };
    assert_eq!(decode(&line(&job)), Some(Told::Job(expected)));
}

#[test]
fn the_span_of_pid_1_goes_before_the_one_that_the_job_was_enqueued_in() {
    let envelope = r#"{"id":"a","meta":{"traceparent":"00-1"}}"#;
    let traceparent = |context: Option<&str>| {
        let job = GivenJob {
            subject: subject(),
            envelope: envelope.into(),
            checkpoint: Some("7".into()),
        };
        let (head, tail) = encode_around(&job, context, 4096);
        let frame = [&head, envelope.as_bytes(), &tail].concat();
        let Some(Told::Job(order)) = decode(&frame) else {
            panic!()
        };
        assert_eq!(
            (order.envelope.as_str(), order.checkpoint.as_deref()),
            (envelope, Some("7"))
        );
        order.facts().unwrap().traceparent
    };
    assert_eq!(traceparent(None).as_deref(), Some("00-1"));
    assert_eq!(traceparent(Some("00-2")).as_deref(), Some("00-2"));
}

#[test]
fn what_is_no_frame_or_a_new_one_is_none() {
    for line in [&b""[..], b"{", b"[]", b"\xff", b"{\"type\":1}", b"{\"type\":\"job\"}"] {
        assert_eq!(decode(line), None, "{line:?}");
    }
    assert_eq!(decode(b"{\"type\":\"new\"}"), None);
}

#[test]
fn of_an_envelope_the_jobs_own_facts_are_read() {
    let envelope = r#"{"id":"a","type":"t","queue":"q","attempt":2,"max_attempts":5,"timeout":1.5,
        "args":[ 1 ],"meta":{"traceparent":"00-1"}}"#;
    let expected = JobFacts {
        id: "a".to_owned(),
        kind: "t".to_owned(),
        queue: "q".to_owned(),
        attempt: Some(2),
        max_attempts: Some(5),
        timeout: Some(Duration::from_millis(1500)),
        args: Some("[ 1 ]"),
        traceparent: Some("00-1".to_owned()),
    };
    assert_eq!(JobFacts::read(envelope), Some(expected));
    assert_eq!(JobFacts::read(r#"{"type":"t"}"#), None);
}

#[test]
fn pid_1_understands_what_the_runner_says() {
    let ready_said = Ready {
        concurrency: 4,
        types: None,
        ping: true,
        ok: true,
        cancel_signal: false,
        client: Some("c".into()),
    };
    assert_eq!(said(ready(4, "c")), FromWorker::Ready(ready_said));
    let result: Option<Text> = Some("{\"a\": 1}".into());
    assert_eq!(
        said(ack("j\"1", Some("{\"a\":\n1}"))),
        FromWorker::Ack { job: id(), result }
    );
    assert_eq!(
        said(ack("j\"1", None)),
        FromWorker::Ack {
            job: id(),
            result: None
        }
    );
    let error = JobError {
        code: Some("exit_status".into()),
        kind: Some("ExitStatus".into()),
        retryable: false,
        details: Some("{\"exit_status\":3}".into()),
        ..JobError::new("exit \"status\" 3")
    };
    assert_eq!(said(fail("j\"1", &error)), FromWorker::Fail { job: id(), error });
    assert_eq!(
        said(release("j\"1", "why", 1_500)),
        FromWorker::Release {
            job: id(),
            reason: Some("why".into()),
            after: Duration::from_millis(1_500),
        }
    );
    assert!(matches!(
        said(progress("j\"1", "0.5", Some("half"))),
        FromWorker::Progress { .. }
    ));
    assert!(matches!(said(checkpoint("j\"1", "[1]")), FromWorker::Checkpoint { .. }));
    assert_eq!(said(heartbeat("j\"1")), FromWorker::Heartbeat { job: id() });
    assert_eq!(said(pong(9)), FromWorker::Pong { id: 9 });
}

#[test]
fn json_on_standard_output_is_the_result_and_anything_else_a_string() {
    assert_eq!(result(b"\n {\"a\":1}\n"), Some("{\"a\":1}".to_owned()));
    assert_eq!(result(b"17\n"), Some("17".to_owned()));
    assert_eq!(result(b"null"), Some("null".to_owned()));
    assert_eq!(result(b" two words\n\n"), Some("\" two words\"".to_owned()));
    assert_eq!(result(b"{\"half\":"), Some("\"{\\\"half\\\":\"".to_owned()));
    assert_eq!(result(b"{} {}"), Some("\"{} {}\"".to_owned()));
    assert_eq!(result(b"a\xffb"), Some("\"a\u{fffd}b\"".to_owned()));
    for nothing in [&b""[..], b"\n", b" \t\r\n"] {
        assert_eq!(result(nothing), None);
    }
}

#[test]
fn json_too_deep_for_a_frame_is_a_string() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let most = deep(MAX_DEPTH - 1);
    assert_eq!(result(most.as_bytes()), Some(most.clone()));
    assert!(matches!(said(ack("a", Some(&most))), FromWorker::Ack { .. }));
    assert!(result(deep(MAX_DEPTH).as_bytes()).is_some_and(|text| text.starts_with('"')));
}
