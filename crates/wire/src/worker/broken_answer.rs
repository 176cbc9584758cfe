//! The answer to a job in a line that is no valid frame.
//!
//! The line is longer than `worker.max_frame`, no JSON (`NaN` in a result), nested too deep, or a
//! field has a wrong type. The handler has finished its job all the same, so the job must not wait
//! for an answer that comes no more: `type` and `job_id` are enough to end it.

use std::borrow::Cow;
use std::str;
use std::time::Duration;

use crate::json::fields::{self, Fields};
use crate::worker::decode::name;
use crate::worker::error;
use crate::worker::limits::MAX_DEPTH;
use crate::worker::values::optional_text;
use ojs_lifecycle::api::{FromWorker, JobId};

/// Reads the answer in a line that [`decode`](crate::worker::decode) refuses, or in its beginning.
///
/// An `ack` loses its result. A `fail` keeps what can be read of its error. `None`: the line is no
/// answer, or `type` and `job_id` do not stand before what is broken.
#[must_use]
pub fn broken_answer(line: &[u8]) -> Option<FromWorker> {
    let text = readable(line);
    let frame = Fields::read(&text, ["type", "job_id", "error", "reason"]).ok()?;
    let job = JobId(frame.get("job_id").and_then(name)?);
    match fields::exact_text(frame.get("type")?)?.as_str() {
        "ack" => Some(FromWorker::Ack { job, result: None }),
        "fail" => {
            let shallow = frame.get("error").filter(|error| fields::depth(error) < MAX_DEPTH);
            let error = error::mended(shallow.or_else(|| frame.get("error")), shallow.is_some());
            Some(FromWorker::Fail { job, error })
        }
        "release" => Some(FromWorker::Release {
            job,
            reason: optional_text("reason", frame.get("reason")).unwrap_or_default(),
            after: Duration::ZERO,
        }),
        _ => None,
    }
}

/// The text itself if it is JSON, else the longest beginning of it that becomes JSON when its open
/// strings, arrays and objects are closed.
fn readable(line: &[u8]) -> Cow<'_, str> {
    let text = match str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => str::from_utf8(line.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default(),
    };
    match serde_json::from_str::<&serde_json::value::RawValue>(text) {
        Ok(_) => Cow::Borrowed(text),
        Err(error) => {
            // One line, so the column is the number of bytes up to the error.
            let valid = text.len().min(error.column());
            let valid = (0..=valid).rev().find(|end| text.is_char_boundary(*end));
            Cow::Owned(closed(text.get(..valid.unwrap_or(0)).unwrap_or_default()))
        }
    }
}

/// Closes a beginning of a JSON text. A number or a word at its end is dropped, because it may be
/// cut; a string value is kept up to its last complete character.
fn closed(beginning: &str) -> String {
    let mut scan = Scan::default();
    for (at, byte) in beginning.bytes().enumerate() {
        scan.take(at, byte);
    }
    let is_value = scan.is_in_string && !scan.is_key;
    let end = if is_value { scan.string_end } else { scan.complete };
    let mut text = beginning.get(..end).unwrap_or_default().to_owned();
    if is_value {
        text.push('"');
    }
    text.extend(scan.closers.iter().rev());
    text
}

/// The position of a scan in a JSON text.
#[derive(Debug, Default)]
struct Scan {
    /// Brackets that close the open arrays and objects, the outermost first.
    closers: Vec<char>,
    /// Bytes up to the last complete value, bracket or comma.
    complete: usize,
    is_in_string: bool,
    /// The string, or the next one, is the name of a field.
    is_key: bool,
    /// Bytes of an escape that are still to come.
    escape_left: usize,
    /// The next byte says which escape it is.
    is_escape: bool,
    /// Bytes up to the last complete character of the string.
    string_end: usize,
}

impl Scan {
    fn take(&mut self, at: usize, byte: u8) {
        if self.is_in_string {
            return self.take_in_string(at, byte);
        }
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string_end = at + 1;
            }
            b'{' | b'[' => {
                self.closers.push(if byte == b'{' { '}' } else { ']' });
                self.is_key = byte == b'{';
                self.complete = at + 1;
            }
            b'}' | b']' => {
                self.closers.pop();
                self.is_key = false;
                self.complete = at + 1;
            }
            b',' => {
                self.is_key = self.closers.last() == Some(&'}');
                self.complete = at;
            }
            b':' => self.is_key = false,
            _ => {}
        }
    }

    fn take_in_string(&mut self, at: usize, byte: u8) {
        if self.is_escape {
            self.is_escape = false;
            self.escape_left = if byte == b'u' { "1234".len() } else { 0 };
        } else if self.escape_left > 0 {
            self.escape_left -= 1;
        } else if byte == b'\\' {
            self.is_escape = true;
        } else if byte == b'"' {
            self.is_in_string = false;
            if !self.is_key {
                self.complete = at + 1;
            }
            return;
        }
        if !self.is_escape && self.escape_left == 0 {
            self.string_end = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ojs_lifecycle::api::JobError;
    use proptest::prelude::*;

    fn ack(job: &str) -> Option<FromWorker> {
        let job = JobId(job.into());
        Some(FromWorker::Ack { job, result: None })
    }

    fn error_in(line: &str) -> JobError {
        match broken_answer(line.as_bytes()) {
            Some(FromWorker::Fail { error, .. }) => error,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_result_that_cannot_be_read_is_dropped_and_the_job_is_done() {
        let head = r#"{"type":"ack","job_id":"j1","result":"#;
        for result in [
            "NaN}",
            "[1,2",
            "\"long",
            "{\"a\":{\"b\":\"c",
            "1e",
            "undefined}",
            "",
            "\u{1}",
        ] {
            assert_eq!(
                broken_answer(format!("{head}{result}").as_bytes()),
                ack("j1"),
                "{result}"
            );
        }
        assert_eq!(broken_answer(&[head.as_bytes(), b"\"\xff\"}"].concat()), ack("j1"));
        let deep = format!("{head}{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(broken_answer(deep.as_bytes()), ack("j1"));
    }

    #[test]
    fn a_failure_keeps_what_stands_before_the_break() {
        let cut = error_in(r#"{"type":"fail","job_id":"j1","error":{"type":"E","message":"half a mess"#);
        assert_eq!((&*cut.message, cut.kind.as_deref()), ("half a mess", Some("E")));
        let broken =
            error_in(r#"{"type":"fail","job_id":"j1","error":{"message":"m","retryable":false,"details":{"n":NaN}}}"#);
        assert_eq!((&*broken.message, broken.retryable), ("m", false));
        let escape = error_in(r#"{"type":"fail","job_id":"j1","error":{"message":"a\u00"#);
        assert_eq!(&*escape.message, "a");
        let nothing = error_in(r#"{"type":"fail","job_id":"j1","err"#);
        assert!(!nothing.message.is_empty() && nothing.retryable);
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
        let release = broken_answer(br#"{"type":"release","job_id":"j1","reason":"later","after_ms":"soon"}"#);
        let expected = FromWorker::Release {
            job: JobId("j1".into()),
            reason: Some("later".into()),
            after: Duration::ZERO,
        };
        assert_eq!(release, Some(expected));
    }

    #[test]
    fn a_line_that_does_not_say_which_job_it_answers_answers_none() {
        for line in [
            r#"{"type":"ack","job_"#,
            r#"{"type":"ack","job_id":"j"#,
            r#"{"type":"ack","job_id":"","result":NaN}"#,
            r#"{"type":"progress","job_id":"j1","progress":NaN}"#,
            r#"{"result":NaN,"type":"ack","job_id":"j1"}"#,
            "[",
            "",
        ] {
            let answered = broken_answer(line.as_bytes());
            assert!(answered.is_none() || line.ends_with("\"j"), "{line}: {answered:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_beginning_of_a_valid_object_can_be_closed(
            pieces in prop::collection::vec(
                prop::sample::select(vec![r#""a\u00e4":"\ud83d\ude00","#, r#""b":[1,{"c":null},"\\"],"#, r#""d":-1.5e3,"#, "\"ä\":{},"]),
                0..5,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = format!("{{{}\"e\":true}}", pieces.concat());
            let end = cut.index(whole.len());
            let end = (0..=end).rev().find(|end| whole.is_char_boundary(*end)).unwrap();
            let text = closed(&whole[..end]);
            prop_assert!(end == 0 || Fields::read(&text, ["a"]).is_ok(), "{text}");
        }
    }
}
