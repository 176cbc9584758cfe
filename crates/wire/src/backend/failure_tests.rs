use serde_json::{Value, json};

use super::*;

/// The smallest limit of the public backends, in bytes.
const BACKENDS_TAKE: usize = 1 << 20;

fn error() -> JobError {
    JobError {
        code: Some("handler_error".into()),
        kind: Some("ValueError".into()),
        backtrace: Some(r#"["a.py:1 in f","b.py:2 in g"]"#.into()),
        ..JobError::new("bad")
    }
}

fn sent(error: &JobError, is_bare: bool) -> Value {
    let text = serde_json::to_string(&ErrorBody::of(error, is_bare)).unwrap();
    assert!(text.len() < BACKENDS_TAKE / 2, "{} bytes", text.len());
    serde_json::from_str(&text).unwrap()
}

fn with_details(details: &str) -> JobError {
    JobError {
        details: Some(details.into()),
        ..error()
    }
}

#[test]
fn the_backtrace_is_in_the_details_as_well_where_backends_keep_it() {
    let frames = json!(["a.py:1 in f", "b.py:2 in g"]);
    let full = sent(&error(), false);
    assert_eq!((&full["backtrace"], &full["details"]["backtrace"]), (&frames, &frames));
    let bare = sent(&error(), true);
    assert_eq!((bare.get("backtrace"), &bare["details"]["backtrace"]), (None, &frames));
    for empty in ["{}", "{ }", "{\t} "] {
        assert_eq!(
            sent(&with_details(empty), false)["details"],
            json!({"backtrace": frames}),
            "{empty:?}"
        );
    }
    let beside = sent(&with_details(r#"{"n": 1.0e+2 } "#), false);
    assert_eq!(beside["details"], json!({"n": 100.0, "backtrace": frames}));
}

#[test]
fn details_that_the_worker_has_given_stay_as_they_are() {
    for own in [
        r#"{"backtrace":"mine"}"#,
        r#"{"back\u0074race":null}"#,
        r#"["no object"]"#,
    ] {
        let expected: Value = serde_json::from_str(own).unwrap();
        assert_eq!(sent(&with_details(own), false)["details"], expected);
    }
    let without = JobError {
        backtrace: None,
        ..with_details(r#"{"a":1}"#)
    };
    assert_eq!(sent(&without, false)["details"], json!({"a": 1}));
    let broken = JobError {
        backtrace: Some("no JSON".into()),
        ..with_details(r#"{"a":1}"#)
    };
    let broken = sent(&broken, false);
    assert_eq!(
        (&broken["details"], &broken["backtrace"]),
        (&json!({"a": 1}), &json!("no JSON"))
    );
}

#[test]
fn no_failure_is_longer_than_backends_take() {
    for piece in ["x", "\u{1}", "\u{1f600}", "\"", "\\"] {
        let long = piece.repeat((4 << 20) / piece.len());
        let error = JobError {
            code: Some(long.as_str().into()),
            kind: Some(long.as_str().into()),
            message: long.as_str().into(),
            details: Some(json!({"first": 1, "long": long, "last": 2}).to_string().into()),
            ..error()
        };
        let sent = sent(&error, false);
        let text = |name: &str| sent[name].as_str().unwrap();
        for name in ["code", "type", "message"] {
            assert!(!text(name).is_empty() && long.starts_with(text(name)), "{name}");
        }
        let details = &sent["details"];
        assert_eq!((&details["first"], &details["truncated"]), (&json!(1), &json!(true)));
        assert!(long.starts_with(details["long"].as_str().unwrap()));
        assert!(details["long"].as_str().unwrap().len() > 1_000);
        assert!(details["backtrace"].is_array());
    }
}

#[test]
fn of_long_details_what_does_not_fit_is_left_out_and_nothing_else() {
    let numbers: Vec<u32> = (0..50_000).collect();
    let details = json!({"a": numbers, "b": {"c": 1}, "d": "x".repeat(MOST_DETAILS_BYTES)}).to_string();
    let sent = sent(&with_details(&details), false);
    let names: Vec<&String> = sent["details"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["b", "backtrace", "d", "truncated"]);
    let no_object = with_details(&format!("{{{}", "x".repeat(MOST_DETAILS_BYTES)));
    assert_eq!(
        super::details(&no_object).unwrap(),
        r#"{"truncated":true,"backtrace":["a.py:1 in f","b.py:2 in g"]}"#
    );
}
