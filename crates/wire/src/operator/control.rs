//! The control socket: one line of JSON for each request, one line for its answer.
//! `docs/control-protocol.md` is its page.
//!
//! ```
//! use ojs_lifecycle::api::OperatorRequest;
//! use ojs_wire::operator::control::{decode_request, encode_request};
//!
//! assert_eq!(decode_request(br#"{"request":"quiet"}"#), Ok(OperatorRequest::Quiet));
//! assert_eq!(encode_request(&OperatorRequest::Quiet), b"{\"request\":\"quiet\"}\n");
//! ```

use std::time::Duration;

use serde_json::{Value, json};

use crate::json::object::Object;
use crate::json::values;
use crate::names;
use crate::text::{is_terminal_control, milliseconds};
use ojs_lifecycle::api::{Disposition, OperatorAnswer, OperatorRequest, Probe};

/// Longest request, and longest answer that shows neither status, health nor jobs, in bytes, the
/// `\n` not counted. These have [`MAX_ANSWER`](crate::operator::status_line::MAX_ANSWER).
pub const MAX_LINE: usize = 4096;

/// Most characters of a text that an answer shows.
const MOST_SHOWN: usize = 200;

/// Longest wait that can be asked for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Why a line is no request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoRequest {
    /// The reason as a word that never changes.
    pub code: &'static str,
    pub message: String,
}

impl NoRequest {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// A line is longer than [`MAX_LINE`].
    pub fn too_long() -> Self {
        Self::new("too_long", format!("a request has at most {MAX_LINE} bytes"))
    }
}

/// Reads an operator's request from a line without its `\n`. Unknown fields are ignored.
///
/// # Errors
///
/// The line is no JSON object (`not_json`), a request that this version does not know
/// (`unknown_request`), or one with a field that is missing or wrong (`invalid_request`).
pub fn decode_request(line: &[u8]) -> Result<OperatorRequest, NoRequest> {
    let not_json = || NoRequest::new("not_json", "a request is one JSON object on one line");
    let text = std::str::from_utf8(line).map_err(|_| not_json())?;
    let fields = Object::read_some(text, &["request", "until_idle", "most_ms", "watch", "probe", "job"])
        .map_err(|_| not_json())?;
    let invalid = |message: &str| NoRequest::new("invalid_request", message);
    let name = fields.text("request");
    let name = name.ok_or_else(|| invalid("request is missing or no string"))?;
    Ok(match &*name {
        "quiet" => OperatorRequest::Quiet,
        "resume" => OperatorRequest::Resume,
        "terminate" => OperatorRequest::Terminate,
        "stop" => OperatorRequest::Stop,
        "recycle" => OperatorRequest::Recycle,
        "prestop" => OperatorRequest::Prestop,
        "wait" => {
            let until_idle =
                switch(fields.raw("until_idle")).ok_or_else(|| invalid("until_idle is neither true nor false"))?;
            let most = fields.whole("most_ms");
            let most = most.ok_or_else(|| invalid("most_ms is missing or no whole number of milliseconds"))?;
            let most = LONGEST_WAIT.min(Duration::from_millis(most));
            OperatorRequest::Wait { until_idle, most }
        }
        "status" => OperatorRequest::Status {
            until_end: switch(fields.raw("watch")).ok_or_else(|| invalid("watch is neither true nor false"))?,
        },
        "health" => {
            let probe = match fields.text("probe").as_deref() {
                Some("live") => Probe::Live,
                Some("ready") => Probe::Ready,
                Some("healthy") => Probe::Healthy,
                Some(_) | None => return Err(invalid("probe is none of live, ready, healthy")),
            };
            OperatorRequest::Health(probe)
        }
        "jobs" => OperatorRequest::Jobs,
        "cancel" => {
            let job = fields.text("job").filter(|job| !job.is_empty());
            OperatorRequest::Cancel(job.ok_or_else(|| invalid("job is missing or no id"))?.into())
        }
        _ => {
            let known = "quiet, resume, terminate, stop, recycle, prestop, wait, status, health, jobs, cancel";
            let message = format!("unknown request; this version knows {known}");
            return Err(NoRequest::new("unknown_request", message));
        }
    })
}

/// `None` if the value is no switch.
fn switch(value: Option<&str>) -> Option<bool> {
    match value {
        None | Some("false") => Some(false),
        Some("true") => Some(true),
        Some(_) => None,
    }
}

/// A request as a line, with its `\n`.
pub fn encode_request(request: &OperatorRequest) -> Vec<u8> {
    line(&match request {
        OperatorRequest::Quiet => json!({"request": "quiet"}),
        OperatorRequest::Resume => json!({"request": "resume"}),
        OperatorRequest::Terminate => json!({"request": "terminate"}),
        OperatorRequest::Stop => json!({"request": "stop"}),
        OperatorRequest::Recycle => json!({"request": "recycle"}),
        OperatorRequest::Prestop => json!({"request": "prestop"}),
        OperatorRequest::Wait { until_idle, most } => {
            json!({"request": "wait", "until_idle": until_idle, "most_ms": milliseconds(*most)})
        }
        OperatorRequest::Status { until_end } => json!({"request": "status", "watch": until_end}),
        OperatorRequest::Health(probe) => json!({"request": "health", "probe": names::probe(*probe)}),
        OperatorRequest::Jobs => json!({"request": "jobs"}),
        OperatorRequest::Cancel(job) => json!({"request": "cancel", "job": &**job}),
    })
}

/// An answer as a line, with its `\n`.
pub fn encode_answer(answer: &OperatorAnswer) -> Vec<u8> {
    let mut object = json!({
        "ok": matches!(answer.taken, Disposition::Done | Disposition::Already),
        "changed": answer.taken == Disposition::Done,
        "state": names::worker_state(answer.state),
        "phase": names::phase(answer.phase),
        "active": answer.active,
    });
    if let Some(left) = answer.left {
        object["left_ms"] = milliseconds(left).into();
    }
    let refusal = match answer.taken {
        Disposition::Done | Disposition::Already => None,
        Disposition::Refused(why) => Some(("impossible", why)),
        Disposition::Busy(why) => Some(("busy", why)),
    };
    if let Some((code, why)) = refusal {
        object["code"] = code.into();
        object["message"] = why.into();
    }
    line(&object)
}

/// The answer to a line that is no request.
pub fn encode_refusal(refusal: &NoRequest) -> Vec<u8> {
    line(&json!({"ok": false, "code": refusal.code, "message": refusal.message}))
}

/// An answer as the subcommands read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlReply {
    /// Whether the request was accepted, or its state was already set.
    pub is_ok: bool,
    pub has_changed: bool,
    /// The phase of the instance by its name.
    pub phase: String,
    pub active: u64,
    /// See [`OperatorAnswer::left`].
    pub left: Option<Duration>,
    pub message: String,
}

/// Reads an instance's answer from a line without its `\n`; `None` if it is no answer.
pub fn decode_answer(line: &[u8]) -> Option<ControlReply> {
    let text = std::str::from_utf8(line).ok()?;
    let names = ["ok", "changed", "phase", "active", "left_ms", "message"];
    let fields = Object::read_some(text, &names).ok()?;
    let words = |name| shown(&fields.raw(name).and_then(values::text).unwrap_or_default());
    Some(ControlReply {
        is_ok: fields.raw("ok")? == "true",
        has_changed: fields.raw("changed") == Some("true"),
        phase: words("phase"),
        active: fields.whole("active").unwrap_or(0),
        left: fields.whole("left_ms").map(Duration::from_millis),
        message: words("message"),
    })
}

/// The text without characters that a terminal acts on, because another user's program may have
/// written it.
fn shown(text: &str) -> String {
    let is_plain = |character: &char| !is_terminal_control(*character);
    text.chars().filter(is_plain).take(MOST_SHOWN).collect()
}

fn line(object: &Value) -> Vec<u8> {
    let mut line = object.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ojs_lifecycle::api::{Phase, WorkerState};

    fn code(line: &str) -> &'static str {
        decode_request(line.as_bytes()).unwrap_err().code
    }

    #[test]
    fn every_request_is_read_as_it_was_written() {
        let wait = |until_idle, ms| OperatorRequest::Wait {
            until_idle,
            most: Duration::from_millis(ms),
        };
        for request in [
            OperatorRequest::Quiet,
            OperatorRequest::Resume,
            OperatorRequest::Terminate,
            OperatorRequest::Stop,
            OperatorRequest::Recycle,
            OperatorRequest::Prestop,
            wait(true, 0),
            wait(false, 5_000),
            OperatorRequest::Status { until_end: false },
            OperatorRequest::Status { until_end: true },
            OperatorRequest::Health(Probe::Live),
            OperatorRequest::Health(Probe::Ready),
            OperatorRequest::Health(Probe::Healthy),
            OperatorRequest::Jobs,
            OperatorRequest::Cancel("job \"1\"".into()),
        ] {
            let line = encode_request(&request);
            let (last, rest) = line.split_last().unwrap();
            assert_eq!((*last, decode_request(rest)), (b'\n', Ok(request)));
        }
    }

    #[test]
    fn what_is_no_request_says_why() {
        for line in [
            "",
            "quiet",
            "[]",
            "\"quiet\"",
            "{\"request\":\"quiet\"} x",
            "{\"request\":",
        ] {
            assert_eq!(code(line), "not_json", "{line}");
        }
        assert_eq!(decode_request(b"\xff").unwrap_err().code, "not_json");
        for line in ["{}", r#"{"request":1}"#, r#"{"request":null}"#, r#"{"request":"wait"}"#] {
            assert_eq!(code(line), "invalid_request", "{line}");
        }
        assert_eq!(code(r#"{"request":"wait","most_ms":-1}"#), "invalid_request");
        assert_eq!(
            code(r#"{"request":"wait","most_ms":1,"until_idle":2}"#),
            "invalid_request"
        );
        for line in [
            r#"{"request":"status","watch":1}"#,
            r#"{"request":"health"}"#,
            r#"{"request":"health","probe":"dead"}"#,
            r#"{"request":"cancel"}"#,
            r#"{"request":"cancel","job":""}"#,
            r#"{"request":"cancel","job":7}"#,
        ] {
            assert_eq!(code(line), "invalid_request", "{line}");
        }
        assert_eq!(code(r#"{"request":"dance"}"#), "unknown_request");
    }

    #[test]
    fn unknown_fields_are_ignored_and_a_wait_has_a_bound() {
        assert_eq!(
            decode_request(br#"{"x":{"y":[1]},"request":"stop"}"#),
            Ok(OperatorRequest::Stop)
        );
        let long = br#"{"request":"wait","most_ms":18446744073709551615}"#;
        let most = LONGEST_WAIT;
        let until_idle = false;
        assert_eq!(decode_request(long), Ok(OperatorRequest::Wait { until_idle, most }));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answer = OperatorAnswer {
            taken: Disposition::Refused("terminate is irreversible"),
            state: WorkerState::Terminate,
            phase: Phase::Drain,
            active: 3,
            left: Some(Duration::from_millis(12_300)),
        };
        let line = encode_answer(&answer);
        let told = ControlReply {
            is_ok: false,
            has_changed: false,
            phase: "drain".to_owned(),
            active: 3,
            left: answer.left,
            message: "terminate is irreversible".to_owned(),
        };
        assert_eq!(decode_answer(line.trim_ascii_end()), Some(told));
        let quiet = OperatorAnswer {
            taken: Disposition::Done,
            state: WorkerState::Quiet,
            phase: Phase::Quiet,
            left: None,
            ..answer
        };
        let text = String::from_utf8(encode_answer(&quiet)).unwrap();
        let expected = r#"{"active":3,"changed":true,"ok":true,"phase":"quiet","state":"quiet"}"#;
        assert_eq!(text, format!("{expected}\n"));
        let refusal = encode_refusal(&NoRequest::too_long());
        assert!(!decode_answer(refusal.trim_ascii_end()).unwrap().is_ok);
    }

    #[test]
    fn an_answer_writes_nothing_to_a_terminal_but_text() {
        let message = format!(r"\u001b[31mred\u001b]0;title\u0007\nline\u009b2J{}", "x".repeat(3000));
        let line = format!(r#"{{"ok":false,"phase":"\r\u0000quiet","message":"{message}"}}"#);
        let told = decode_answer(line.as_bytes()).unwrap();
        assert_eq!(told.phase, "quiet");
        assert!(told.message.starts_with("[31mred]0;titleline2Jx"), "{told:?}");
        assert_eq!(told.message.chars().count(), MOST_SHOWN);
    }

    proptest! {
        #[test]
        fn no_line_makes_the_reader_panic(line in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (decode_request(&line), decode_answer(&line));
        }
    }
}
