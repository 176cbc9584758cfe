#![allow(clippy::wildcard_enum_match_arm, reason = "a test panics where it fails")]

use super::*;
use crate::worker::{MAX_DEPTH, decode, too_long};
use ojs_lifecycle::api::JobError;
use proptest::prelude::*;

const ACK: &str = r#"{"type":"ack","job_id":"j1","result":"#;

/// The answer in a complete line, and no other than one that [`decode`] refuses.
fn answer_in(line: &[u8]) -> Option<FromWorker> {
    match decode(line) {
        FromWorker::Garbage { answer, .. } => answer.map(|answer| *answer),
        said => panic!("valid: {said:?}"),
    }
}

fn ack(job: &str) -> Option<FromWorker> {
    let job = JobId(job.into());
    Some(FromWorker::Ack { job, result: None })
}

fn error_of(answer: Option<FromWorker>) -> JobError {
    match answer {
        Some(FromWorker::Fail { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

fn error_in(line: &str) -> JobError {
    error_of(answer_in(line.as_bytes()))
}

fn error_in_beginning(line: &str) -> JobError {
    match too_long(line.as_bytes()) {
        FromWorker::Garbage { answer, job, .. } => {
            assert_eq!(job, Some(JobId("j1".into())));
            error_of(answer.map(|answer| *answer))
        }
        said => panic!("{said:?}"),
    }
}

#[test]
fn a_result_that_cannot_be_read_is_dropped_and_the_job_is_done() {
    for result in [
        "}",
        "NaN}",
        "[1,2",
        "[1,]}",
        "[1,,2]}",
        "[1}",
        "1.}",
        "1e",
        "{\"a\":1,}}",
        "{\"a\":}}",
        "{\"a\":{\"b\":\"c",
        "\"long",
        "\"a\\q\"}",
        "\"x\"\"y\"}",
        "undefined}",
        "",
        "\u{1}",
        "1}}",
        "1}{\"type\":\"pong\",\"id\":1}",
        "1,\"x\"}",
    ] {
        assert_eq!(answer_in(format!("{ACK}{result}").as_bytes()), ack("j1"), "{result}");
    }
    assert_eq!(answer_in(&[ACK.as_bytes(), b"\"\xff\"}"].concat()), ack("j1"));
    for depth in [MAX_DEPTH, 100_000] {
        let deep = format!("{ACK}{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(answer_in(deep.as_bytes()), ack("j1"));
    }
}

#[test]
fn a_failure_keeps_what_stands_before_the_break() {
    let cut = error_in_beginning(r#"{"type":"fail","job_id":"j1","error":{"type":"E","message":"half a mess"#);
    assert_eq!((&*cut.message, cut.kind.as_deref()), ("half a mess", Some("E")));
    let escape = error_in_beginning(r#"{"type":"fail","job_id":"j1","error":{"message":"a\u00"#);
    assert_eq!(&*escape.message, "a");
    let text = error_in_beginning(r#"{"type":"fail","job_id":"j1","error":"half a mess"#);
    assert_eq!(&*text.message, "half a mess");
    let broken =
        error_in(r#"{"type":"fail","job_id":"j1","error":{"message":"m","retryable":false,"details":{"n":NaN}}}"#);
    assert_eq!((&*broken.message, broken.retryable), ("m", false));
    for nothing in ["\"err", "\"error\":}", "\"error\":{\"message\":}}", "\"error\":{"] {
        let error = error_in(&format!(r#"{{"type":"fail","job_id":"j1",{nothing}"#));
        assert!(!error.message.is_empty() && error.retryable, "{nothing}");
    }
}

#[test]
fn fields_of_a_wrong_type_are_mended() {
    let error = error_in(
        r#"{"type":"fail","job_id":"j1","error":{"message":7,"code":1,"type":{},"retryable":"no","details":[1],"backtrace":"a\nb"}}"#,
    );
    let expected = JobError {
        details: Some(r#"{"value":[1]}"#.into()),
        backtrace: Some(r#"["a","b"]"#.into()),
        ..JobError::new("7")
    };
    assert_eq!(error, expected);
    for none in ["1", "[]", "null", "{}"] {
        let line = format!(r#"{{"type":"fail","job_id":"j1","error":{none}}}"#);
        assert!(!error_in(&line).message.is_empty(), "{none}");
    }
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let line = format!(r#"{{"type":"fail","job_id":"j1","error":{{"message":"m","details":{deep}}}}}"#);
    assert_eq!(error_in(&line), JobError::new("m"));
    let release = answer_in(br#"{"type":"release","job_id":"j1","reason":"later","after_ms":"soon"}"#);
    let expected = FromWorker::Release {
        job: JobId("j1".into()),
        reason: Some("later".into()),
        after: Duration::ZERO,
    };
    assert_eq!(release, Some(expected));
}

#[test]
fn a_message_of_megabytes_is_not_kept_as_a_whole() {
    for message in ["\"".to_owned() + &"x".repeat(4 << 20), "[".repeat(4 << 20)] {
        let error = error_in_beginning(&format!(
            r#"{{"type":"fail","job_id":"j1","error":{{"message":{message}"#
        ));
        assert!(error.message.len() <= 32 << 10, "{}", error.message.len());
    }
    let spelled = format!("[{}1]", "1,".repeat(1 << 20));
    let error = error_in(&format!(
        r#"{{"type":"fail","job_id":"j1","error":{{"message":{spelled}}}}}"#
    ));
    assert!(error.message.len() <= 32 << 10, "{}", error.message.len());
}

#[test]
fn a_line_that_does_not_say_which_job_it_answers_answers_none() {
    for line in [
        &br#"{"type":"ack","job_"#[..],
        br#"{"type":"ack","job_id":"j1"#,
        b"{\"type\":\"ack\",\"job_id\":\"j1\x010\"}",
        b"{\"type\":\"ack\",\"job_id\":\"j1\xff0\"}",
        br#"{"type":"ack","job_id":"","result":NaN}"#,
        br#"{"type":"progress","job_id":"j1","progress":NaN}"#,
        br#"{"result":NaN,"type":"ack","job_id":"j1"}"#,
        b"[",
        b"",
    ] {
        assert_eq!(answer_in(line), None, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn a_broken_line_that_is_no_answer_is_about_its_job_if_that_stands_before_the_broken_part() {
    let about = |said| match said {
        FromWorker::Garbage { job, answer: None, .. } => job,
        said => panic!("{said:?}"),
    };
    let job = Some(JobId("j1".into()));
    let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
    for line in [
        r#"{"type":"progress","job_id":"j1","progress":NaN}"#.to_owned(),
        r#"{"type":"progress","job_id":"j1","progress":7}"#.to_owned(),
        r#"{"type":"checkpoint","job_id":"j1","state":"half"#.to_owned(),
        format!(r#"{{"type":"checkpoint","job_id":"j1","state":{deep}}}"#),
    ] {
        assert_eq!(about(decode(line.as_bytes())), job, "{line}");
    }
    let beginning = br#"{"type":"checkpoint","job_id":"j1","state":"half of a lon"#;
    assert_eq!(about(too_long(beginning)), job);
    for line in [
        r#"{"job_id":"j1","#,
        r#"{"type":"progress","job_"#,
        r#"{"progress":NaN,"type":"progress","job_id":"j1"}"#,
    ] {
        assert_eq!(about(decode(line.as_bytes())), None, "{line}");
    }
}

#[test]
fn an_answer_behind_one_that_was_given_up_counts_instead() {
    let fail = r#"{"type":"fail","job_id":"j1","error":{"message":"no JSON","retryable":false}}"#;
    let line = format!(r#"{ACK}{{"a":{fail}"#);
    assert_eq!(&*error_in(&line).message, "no JSON");
    // Data of the user's that looks like an answer is none.
    for data in [format!("[{fail},NaN]}}"), format!("{{\"a\":NaN,\"b\":{fail}}}}}")] {
        assert_eq!(answer_in(format!("{ACK}{data}").as_bytes()), ack("j1"), "{data}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_result_that_is_broken_in_one_place_is_a_job_that_is_done(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["1,", "\"a\\u00e4\",", "{\"b\":[null,true]},", "-1.5e3,", "\"\\\\\",", "[[]],"]),
            0..5,
        ),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        is_inserted in any::<bool>(),
    ) {
        let mut line = format!("{ACK}[{}0]}}", pieces.concat()).into_bytes();
        let place = ACK.len() + place.index(line.len() - ACK.len());
        if is_inserted {
            line.insert(place, byte);
        } else {
            line[place] = byte;
        }
        match decode(&line) {
            FromWorker::Garbage { answer, .. } => prop_assert_eq!(answer.map(|answer| *answer), ack("j1")),
            said => prop_assert!(matches!(said, FromWorker::Ack { .. }), "{said:?}"),
        }
    }
}
