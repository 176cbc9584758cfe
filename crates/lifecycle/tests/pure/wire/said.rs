//! The meaning of each valid vector of a worker.

use std::time::Duration;

use ojs_lifecycle::api::{FromWorker, JobError, JobId, Progress, Ready, Text};
use ojs_wire::worker::decode;

pub fn job() -> JobId {
    JobId("job-1".into())
}

pub fn ack(result: Option<&str>) -> FromWorker {
    let result = result.map(Text::from);
    FromWorker::Ack { job: job(), result }
}

fn named(id: &str) -> FromWorker {
    let job = JobId(id.into());
    FromWorker::Ack { job, result: None }
}

pub fn ready() -> Ready {
    Ready {
        concurrency: 1,
        types: None,
        ping: false,
        ok: true,
        cancel_signal: false,
        client: None,
    }
}

fn concurrent(concurrency: u32) -> FromWorker {
    FromWorker::Ready(Ready { concurrency, ..ready() })
}

pub fn error(message: &str) -> JobError {
    JobError::new(message)
}

pub fn fail(error: JobError) -> FromWorker {
    FromWorker::Fail { job: job(), error }
}

fn coded(code: &str, message: &str, retryable: bool) -> FromWorker {
    fail(JobError {
        code: Some(code.into()),
        retryable,
        ..error(message)
    })
}

fn kinded(kind: &str, code: Option<&str>, message: &str) -> FromWorker {
    fail(JobError {
        kind: Some(kind.into()),
        code: code.map(Text::from),
        ..error(message)
    })
}

fn traced(backtrace: String) -> FromWorker {
    fail(JobError {
        backtrace: Some(backtrace.into()),
        ..error("m")
    })
}

fn frames(separator: &str) -> String {
    let frames: Vec<String> = (0..50).map(|number| format!("\"f{number}\"")).collect();
    format!("[{}]", frames.join(separator))
}

fn progress(fraction: &str, message: Option<&str>, data: Option<&str>) -> FromWorker {
    FromWorker::Progress {
        job: job(),
        progress: Progress {
            fraction: fraction.into(),
            message: message.map(Text::from),
            data: data.map(Text::from),
        },
    }
}

fn release(reason: Option<&str>, after_ms: u64) -> FromWorker {
    let reason = reason.map(Text::from);
    FromWorker::Release {
        job: job(),
        reason,
        after: Duration::from_millis(after_ms),
    }
}

#[test]
fn a_release_for_later_says_when_in_milliseconds() {
    let said = |after: &str| decode(format!(r#"{{"type":"release","job_id":"1","after_ms":{after}}}"#).as_bytes());
    for (spelled, milliseconds) in [("0", 0), ("1500", 1500), ("18446744073709551615", u64::MAX)] {
        let FromWorker::Release { after, .. } = said(spelled) else {
            panic!("{:?}", said(spelled))
        };
        assert_eq!(after, Duration::from_millis(milliseconds));
    }
    for wrong in ["-1", "1.5", "\"30s\"", "true", "18446744073709551616"] {
        assert!(matches!(said(wrong), FromWorker::Garbage { .. }), "{wrong}");
    }
}

fn checkpoint(state: &str) -> FromWorker {
    let state = state.into();
    FromWorker::Checkpoint { job: job(), state }
}

fn full_ready() -> FromWorker {
    FromWorker::Ready(Ready {
        concurrency: 4,
        types: Some(vec!["mail.send".into(), "image.resize".into()]),
        ping: true,
        ok: true,
        cancel_signal: true,
        client: Some("ojs-python 0.1.0".into()),
    })
}

fn full_fail() -> FromWorker {
    fail(JobError {
        code: Some("timeout".into()),
        kind: Some("net.TimeoutError".into()),
        message: "no answer".into(),
        retryable: false,
        details: Some(r#"{"host":"db","port":9007199254740993}"#.into()),
        backtrace: Some(r#"["a.py:1 in f","b.py:2 in g"]"#.into()),
    })
}

/// The meaning of the vector with this name.
pub fn meaning(name: &str) -> Option<FromWorker> {
    let (kind, _) = name.split_once(',').unwrap_or((name, ""));
    match kind {
        "ready" => meaning_of_ready(name),
        "ack" => meaning_of_ack(name),
        "fail" => meaning_of_fail(name),
        _ => meaning_of_other(name),
    }
}

fn meaning_of_ready(name: &str) -> Option<FromWorker> {
    Some(match name {
        "ready, minimal"
        | "ready, null for what is optional"
        | "ready, unknown fields"
        | "ready, whitespace everywhere"
        | "ready, escaped names" => concurrent(1),
        "ready, full" => full_ready(),
        "ready, a pause" => concurrent(0),
        "ready, as many as there can be" => concurrent(10_000),
        "ready, a field twice" => concurrent(3),
        "ready, no ok" => FromWorker::Ready(Ready { ok: false, ..ready() }),
        "ready, a signal with each cancel" => FromWorker::Ready(Ready {
            cancel_signal: true,
            ..ready()
        }),
        "ready, no type at all" => FromWorker::Ready(Ready {
            types: Some(Vec::new()),
            ..ready()
        }),
        _ => return None,
    })
}

fn meaning_of_ack(name: &str) -> Option<FromWorker> {
    const NUMBERS: &str = r#"{"big":9007199254740993,"huge":1e400,"tiny":1E-400,"zero":-0.0,"exact":0.10,"long":123456789012345678901234567890.5}"#;
    Some(match name {
        "ack, minimal" => ack(None),
        "ack, result null" => ack(Some("null")),
        "ack, result false" => ack(Some("false")),
        "ack, result with numbers that a float cannot hold" => ack(Some(NUMBERS)),
        "ack, result with escapes" => ack(Some("\"\\u00e9\\/\\ud83d\\ude00\\u0000 é😀\"")),
        "ack, result with key order and a key twice" => ack(Some(r#"{"z":1,"a":2,"z":3}"#)),
        "ack, result with spaces" => ack(Some("[ 1 ,\t2 ]")),
        "ack, result with half a surrogate pair" => ack(Some(r#""\ud800""#)),
        "ack, job_id with any character" => named("\0 \"\\\n\té😀\u{2028}"),
        "ack, the longest job_id" => named(&"x".repeat(1024)),
        "ack, nested as deep as can be" => ack(Some(&("[".repeat(99) + &"]".repeat(99)))),
        "ack, brackets in strings are no nesting" => ack(Some(&format!("\"\\\"{}\"", "[{".repeat(100)))),
        _ => return None,
    })
}

fn meaning_of_fail(name: &str) -> Option<FromWorker> {
    Some(match name {
        "fail, minimal" | "fail, error is a string" => fail(error("no such user")),
        "fail, full" => full_fail(),
        "fail, a type and no message" => kinded("ValueError", None, "ValueError"),
        "fail, a code and no message" => coded("handler_error", "handler_error", true),
        "fail, a type, a code and an empty message" => kinded("ValueError", Some("handler_error"), "ValueError"),
        "fail, an empty message alone" => fail(error("the job failed without a message")),
        "fail, code RETRY" => coded("RETRY", "later", true),
        "fail, code FAIL" => coded("FAIL", "broken", true),
        "fail, code DISCARD" => coded("DISCARD", "useless", false),
        "fail, code DEAD_LETTER" => coded("DEAD_LETTER", "poison", false),
        "fail, code DISCARD but retryable" => coded("DISCARD", "useless", true),
        "fail, code RETRY but not retryable" => coded("RETRY", "later", false),
        "fail, half surrogate pairs in texts" => kinded("\u{fffd}E", None, "caf\u{fffd}.txt \u{fffd}"),
        "fail, null for what is optional" | "fail, unknown fields" => fail(error("m")),
        "fail, details and backtrace as spelled" => fail(JobError {
            details: Some(r#"{ "b":1e400,"a":"\u00e9" }"#.into()),
            backtrace: Some(r#"[ "\u0061" , "\ud800" ]"#.into()),
            ..error("m")
        }),
        "fail, the longest backtrace" => traced(frames(", ")),
        "fail, a backtrace of too many frames" => traced(frames(",")),
        _ => return None,
    })
}

fn meaning_of_other(name: &str) -> Option<FromWorker> {
    Some(match name {
        "release, minimal" | "release, reason null" => release(None, 0),
        "release, full" => release(Some("no \"licence\" left"), 0),
        "release, later" => release(None, 1_500),
        "progress, none" => progress("0", None, None),
        "progress, all" => progress("1.0", None, None),
        "progress, full" => progress("0.50", Some("half"), Some(r#"{"rows":9007199254740993}"#)),
        "progress, an unusual spelling" => progress("25.000000000000000000001E-2", None, None),
        "checkpoint, an object" => checkpoint(r#"{"row":9007199254740993,"at":"\u00e9"}"#),
        "checkpoint, null" => checkpoint("null"),
        "heartbeat" => FromWorker::Heartbeat { job: job() },
        "pong" => FromWorker::Pong { id: 7 },
        "pong, the largest id" => FromWorker::Pong { id: (1 << 53) - 1 },
        _ => return None,
    })
}
