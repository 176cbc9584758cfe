//! The worker socket's frames: received ones are understood or answered, sent ones are as clients
//! expect.
#![allow(clippy::wildcard_enum_match_arm, reason = "a test panics where it fails")]

mod said;
mod stream;
mod vectors;
mod words;

use std::sync::Arc;

use ojs_lifecycle::api::{
    Envelope, ErrorCode, FromWorker, GivenJob, JobError, JobId, MAX_CONCURRENCY, Ready, Subject, Text, ToWorker,
    WorkerId,
};
use ojs_wire::names;
use ojs_wire::worker::{self, decode, encode, encode_around};
use proptest::prelude::*;
use serde_json::{Value, json};
use vectors::{From, Vector};

/// The error of this line, and which job the answer names.
fn refusal(line: &[u8]) -> (ErrorCode, Option<JobId>) {
    match decode(line) {
        FromWorker::Garbage { code, job, message, .. } => {
            assert!(!message.is_empty() && !message.contains('\n') && message.len() < 400);
            (code, job)
        }
        said => panic!("{said:?}"),
    }
}

#[test]
fn every_valid_frame_of_a_worker_is_understood() {
    for Vector { name, line, .. } in vectors::from(From::Worker)
        .into_iter()
        .filter(|vector| vector.refused.is_none())
    {
        let meaning = said::meaning(&name).unwrap_or_else(|| panic!("{name} has no meaning here"));
        assert_eq!(decode(line.as_bytes()), meaning, "{name}");
    }
}

#[test]
fn every_invalid_frame_of_a_worker_is_answered_with_its_code_and_job() {
    for Vector {
        name, line, refused, ..
    } in vectors::from(From::Worker)
    {
        let Some((code, job)) = refused else { continue };
        let (found, about) = refusal(line.as_bytes());
        assert_eq!(names::error_code(found), code, "{name}");
        assert_eq!(about.map(|job| job.0.to_string()), job, "{name}");
    }
}

#[test]
fn every_frame_of_ojs_init_is_spelled_as_clients_expect() {
    for Vector { name, line, .. } in vectors::from(From::OjsInit) {
        if name.starts_with("newer: ") {
            assert!(serde_json::from_str::<Value>(&line).unwrap().is_object());
            continue;
        }
        let word = words::word(&name).unwrap_or_else(|| panic!("{name} has no word here"));
        let encoded = encode(&word, &words::context_of(&name));
        assert_eq!(String::from_utf8(encoded).unwrap(), line + "\n", "{name}");
    }
}

#[test]
fn the_vectors_have_names_of_their_own_and_cover_every_type_and_code() {
    let vectors = vectors::all();
    let mut names: Vec<&str> = vectors.iter().map(|vector| vector.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    let of = |kind: &str| {
        vectors
            .iter()
            .any(|vector| vector.line.contains(&format!("\"type\":\"{kind}\"")))
    };
    let kinds = "ready ack fail release progress checkpoint heartbeat pong hello job lifecycle cancel ok error ping";
    assert!(kinds.split(' ').all(of));
    let refused = |code: &str| {
        vectors
            .iter()
            .any(|vector| vector.refused.as_ref().is_some_and(|(found, _)| found == code))
    };
    assert!(
        "not_json invalid_frame unknown_type unsupported_protocol"
            .split(' ')
            .all(refused)
    );
}

#[test]
fn bytes_that_are_no_utf_8_are_not_json() {
    let job = || Some(JobId("a".into()));
    for (line, about) in [
        (&b"{\"type\":\"pong\",\"id\":1,\"x\":\"\xff\"}"[..], None),
        (b"{\"type\":\"ack\",\"job_id\":\"a\",\"result\":\"\xc3\"}", job()),
        (
            b"{\"type\":\"ack\",\"job_id\":\"a\",\"result\":\"\xed\xa0\x80\"}",
            job(),
        ),
        (b"\xff\xfe{", None),
    ] {
        assert_eq!(refusal(line), (ErrorCode::NotJson, about));
    }
}

#[test]
fn what_is_kept_as_text_is_on_one_line() {
    // A reader of lines never returns a line like this one; a value that is passed on must not
    // depend on that.
    assert_eq!(
        refusal(b"{\"type\":\"ack\",\"job_id\":\"a\",\"result\":[1,\n2]}"),
        (ErrorCode::NotJson, Some(JobId("a".into())))
    );
}

#[test]
fn no_depth_of_nesting_overflows_the_stack() {
    const DEEP: usize = 200_000;
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let deep = format!("{}1{}", open.repeat(DEEP), close.repeat(DEEP));
        for field in ["result", "error", "types", "job_id", "type", "unknown"] {
            for kind in ["ack", "fail", "ready"] {
                let line = format!(r#"{{"type":"{kind}","job_id":"job-1","protocol":1,"{field}":{deep}}}"#);
                assert_eq!(refusal(line.as_bytes()).0, ErrorCode::InvalidFrame, "{kind} {field}");
            }
        }
        let error = format!(r#"{{"type":"fail","job_id":"job-1","error":{{"message":"m","details":{deep}}}}}"#);
        assert_eq!(refusal(error.as_bytes()), (ErrorCode::InvalidFrame, Some(said::job())));
        let (unclosed, bare) = (open.repeat(DEEP), deep);
        assert_eq!(refusal(unclosed.as_bytes()).0, ErrorCode::NotJson);
        assert!(matches!(decode(bare.as_bytes()), FromWorker::Garbage { .. }));
    }
}

#[test]
fn a_connection_can_name_many_types_but_not_any_number() {
    let ready = |count: usize| {
        let types: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
        json!({"type": "ready", "protocol": 1, "types": types}).to_string()
    };
    let taken = match decode(ready(worker::MAX_TYPES).as_bytes()) {
        FromWorker::Ready(Ready { types, .. }) => types.unwrap().len(),
        said => panic!("{said:?}"),
    };
    assert_eq!(taken, worker::MAX_TYPES);
    assert_eq!(
        refusal(ready(worker::MAX_TYPES + 1).as_bytes()),
        (ErrorCode::InvalidFrame, None)
    );
}

#[test]
fn as_much_concurrency_can_be_asked_for_as_can_be_configured() {
    let most = MAX_CONCURRENCY;
    let ready = |concurrency: u32| json!({"type": "ready", "protocol": 1, "concurrency": concurrency}).to_string();
    assert!(
        matches!(decode(ready(most).as_bytes()), FromWorker::Ready(Ready { concurrency, .. }) if concurrency == most)
    );
    assert_eq!(refusal(ready(most + 1).as_bytes()), (ErrorCode::InvalidFrame, None));
}

#[test]
fn a_backtrace_over_its_limit_is_cut_within_a_frame_if_need_be() {
    let fail = |frames: &[String]| {
        let line = json!({"type": "fail", "job_id": "job-1", "error": {"message": "m", "backtrace": frames}});
        decode(line.to_string().as_bytes())
    };
    let traced = |frames: &[String]| {
        said::fail(JobError {
            backtrace: Some(json!(frames).to_string().into()),
            ..said::error("m")
        })
    };
    let (whole, exact) = ("é".repeat(9_000), "ü".repeat(1_000));
    let fitting = [whole.clone(), exact.clone()];
    assert_eq!(fail(&fitting), traced(&fitting));
    let one_more = [whole.clone(), exact.clone() + "x", "y".to_owned()];
    assert_eq!(fail(&one_more), traced(&fitting));
    let frame_after = [whole, exact, "z".to_owned()];
    assert_eq!(fail(&frame_after), traced(&fitting));
    let cut = ["a".repeat(10_000)];
    assert_eq!(fail(&["a".repeat(1_000_000), String::new()]), traced(&cut));
}

#[test]
fn a_backtrace_of_exactly_the_limit_stays_as_it_is_spelled() {
    let backtrace = format!(r#"[ "{}" , "a" ]"#, "x".repeat(worker::MAX_BACKTRACE_CHARS - 1));
    let line = format!(r#"{{"type":"fail","job_id":"job-1","error":{{"message":"m","backtrace":{backtrace}}}}}"#);
    let expected = said::fail(JobError {
        backtrace: Some(backtrace.into()),
        ..said::error("m")
    });
    assert_eq!(decode(line.as_bytes()), expected);
}

#[test]
fn a_refusal_quotes_neither_values_nor_more_than_the_beginning_of_a_type() {
    let message = |line: &str| match decode(line.as_bytes()) {
        FromWorker::Garbage { message, .. } => message.to_string(),
        said => panic!("{said:?}"),
    };
    for line in [
        r#""hunter2""#,
        r#"{"type":"ack","job_id":["hunter2"]}"#,
        r#"{"type":"fail","job_id":"a","error":{"message":{"hunter2":1}}}"#,
        r#"{"type":"fail","job_id":"a","error":{"message":"m","retryable":"hunter2"}}"#,
        r#"{"type":"ready","protocol":"hunter2"}"#,
        r#"{"type":"ready","protocol":1,"types":[["hunter2"]]}"#,
        r#"{"type":"ack","job_id":"a","result":"hunter2"#,
    ] {
        assert!(!message(line).contains("hunter2"), "{line}");
    }
    let long = format!(r#"{{"type":"{}\n"}}"#, "x".repeat(100_000));
    assert!(message(&long).len() < 200);
    assert!(
        message(&format!(
            r#"{{"type":"{}","x":{}}}"#,
            "x".repeat(100_000),
            "[".repeat(200) + &"]".repeat(200)
        ))
        .len()
            < 200
    );
    assert_eq!(
        message(r#"{"type":"ack","job_id":""}"#),
        "ack: job_id must be a string of 1 to 1024 bytes"
    );
    assert_eq!(
        message(r#"{"type":"fail","job_id":"a","error":{"code":1}}"#),
        "fail: error.code must be a string"
    );
}

#[test]
fn an_envelope_over_several_lines_is_sent_on_one() {
    let word = ToWorker::Job(GivenJob {
        subject: words::subject(),
        envelope: "{\r\n \"id\": \"a\\nb\",\n \"n\": 1e400\n}".into(),
        checkpoint: Some("[1,\r2]\n".into()),
    });
    let line = String::from_utf8(encode(&word, &words::context(1, &[], 1))).unwrap();
    assert_eq!(
        line,
        "{\"type\":\"job\",\"job\":{   \"id\": \"a\\nb\",  \"n\": 1e400 },\"checkpoint\":[1, 2] }\n"
    );
}

#[test]
fn the_length_of_a_job_frame_is_known_before_it_is_written() {
    let (envelope, checkpoint) = (Envelope::from(r#"{"id":"job-1"}"#), Text::from("[1]"));
    let length = envelope.len() + checkpoint.len() + worker::JOB_OVERHEAD;
    let word = words::job(&envelope, Some(&checkpoint));
    let frame = encode(&word, &words::context(1, &[], 1));
    assert_eq!(frame.len(), length + "\n".len());
}

#[test]
fn the_id_and_then_the_context_are_left_out_of_a_job_frame_where_they_do_not_fit() {
    let job = GivenJob {
        subject: Arc::new(Subject {
            id: JobId("a\"\u{1} and more".into()),
            ..(*words::subject()).clone()
        }),
        envelope: r#"{"x":1}"#.into(),
        checkpoint: Some("[1]".into()),
    };
    let frame = |most| {
        let (head, tail) = encode_around(&job, Some("00-1"), most);
        String::from_utf8([&head, job.envelope.as_bytes(), &tail].concat()).unwrap()
    };
    let id = r#","job_id":"a\"\u0001 and more""#;
    let context = r#","traceparent":"00-1""#;
    let around = |id, context| format!("{{\"type\":\"job\"{id},\"job\":{{\"x\":1}},\"checkpoint\":[1]{context}}}\n");
    let length = around("", "").len() - 1;
    assert_eq!(frame(0), around("", ""));
    assert_eq!(frame(length + id.len() - 1), around("", context));
    assert_eq!(frame(length + id.len()), around(id, ""));
    assert_eq!(frame(length + id.len() + context.len() - 1), around(id, ""));
    assert_eq!(frame(length + id.len() + context.len()), around(id, context));
}

#[test]
fn a_frame_that_is_too_long_counts_as_malformed() {
    match worker::too_long(&[b'x'; 4096]) {
        FromWorker::Garbage { code, message, job, .. } => {
            assert_eq!((code, job), (ErrorCode::FrameTooLong, None));
            assert!(code.is_malformed() && message.contains("4096"));
        }
        said => panic!("{said:?}"),
    }
}

/// JSON in any spelling that the grammar allows.
fn spelled() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?";
    let character = prop_oneof!["[^\"\\\\\0-\x1f]", "\\\\[\"\\\\/bfnrt]", "\\\\u[0-9a-fA-F]{4}"];
    let string = proptest::collection::vec(character, 0..8).prop_map(|chars| format!("\"{}\"", chars.concat()));
    let scalar = prop_oneof![number, string.clone(), "true|false|null"];
    let space = "[ \t\r]{0,2}";
    scalar.prop_recursive(5, 40, 5, move |inner| {
        let element = (space, inner.clone(), space).prop_map(|(left, value, right)| left + &value + &right);
        let entry =
            (string.clone(), space, inner).prop_map(|(key, space, value)| format!("{key}{space}:{space}{value}"));
        prop_oneof![
            proptest::collection::vec(element, 0..5).prop_map(|all| format!("[{}]", all.join(","))),
            proptest::collection::vec(entry, 0..5).prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_decoder_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&line);
    }

    #[test]
    fn no_damage_to_a_frame_makes_the_decoder_panic(
        which in any::<prop::sample::Index>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let vectors = vectors::from(From::Worker);
        let mut line = which.get(&vectors).line.clone().into_bytes();
        line.push(b' ');
        for (place, byte) in damage {
            let place = place.index(line.len());
            line[place] = byte;
        }
        let _ = decode(&line);
        let _ = decode(&line[..end.index(line.len())]);
    }

    #[test]
    fn a_value_arrives_byte_for_byte_however_it_is_spelled(value in spelled()) {
        let line = format!(r#"{{"result": {value} ,"job_id":"job-1","state": {value} ,"type":"ack"}}"#);
        prop_assert_eq!(decode(line.as_bytes()), said::ack(Some(&value)));
        let line = line.replace(r#""type":"ack""#, r#""type":"checkpoint""#);
        prop_assert_eq!(decode(line.as_bytes()), FromWorker::Checkpoint { job: said::job(), state: value.into() });
    }

    #[test]
    fn an_unknown_field_changes_nothing(value in spelled(), name in "[a-z]{1,3}_[a-z]") {
        let line = format!(r#"{{"{name}":{value},"type":"ack","{name}":{value},"job_id":"job-1"}}"#);
        prop_assert_eq!(decode(line.as_bytes()), said::ack(None));
    }

    #[test]
    fn any_text_in_a_word_reaches_a_client_as_it_is(message in any::<String>(), job in any::<String>()) {
        let word = ToWorker::Error { code: ErrorCode::Refused, message: message.as_str().into(), job: Some(JobId(job.as_str().into())) };
        let line = encode(&word, &words::context(1, &[], 1));
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let read: Value = serde_json::from_slice(&line).unwrap();
        prop_assert_eq!(read, json!({"type": "error", "code": "refused", "message": message, "job_id": job}));
    }

    #[test]
    fn any_name_in_a_hello_reaches_a_client_as_it_is(worker in any::<String>(), queues in proptest::collection::vec(any::<String>(), 0..3)) {
        let names: Vec<&str> = queues.iter().map(String::as_str).collect();
        let state = ojs_lifecycle::api::WorkerState::Quiet;
        let word = ToWorker::Hello { worker: WorkerId(worker.as_str().into()), state };
        let line = encode(&word, &words::context(3, &names, 5000));
        let read: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({
            "type": "hello", "protocol": 1, "worker_id": worker, "state": "quiet", "concurrency": 3,
            "queues": queues, "max_frame": 5000,
        });
        prop_assert_eq!(read, expected);
    }
}
