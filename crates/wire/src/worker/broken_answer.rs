//! The answer to a job in a line that is no valid frame.
//!
//! The line is longer than `worker.max_frame`, no JSON (`NaN` in a result), nested too deep, or a
//! field has a wrong type. The handler has still finished its job, and no other answer will follow.
//! So `type` and `job_id` are enough to end the job.

use std::str;
use std::time::Duration;

use crate::json::object::Object;
use crate::worker::error;
use crate::worker::values::{name, optional_text};
use ojs_lifecycle::api::{FromWorker, JobId};

/// The beginning of each answer of the libraries, as they write it.
const ANSWER_BEGINS: &str = "{\"type\":\"";

/// Reads the answer in a line that [`decode`](crate::worker::decode) refuses, or in the beginning
/// of a line that is too long. Returns it with the job of the line, which may be no answer.
///
/// `decode` reads complete lines; `None`: the line is a beginning. An `ack` loses its result. A
/// `fail` keeps the readable parts of its error. Returns `None` if `type` and `job_id` are not
/// before the broken part.
pub(super) fn broken_answer(
    line: &[u8],
    decode: Option<fn(&[u8]) -> FromWorker>,
) -> Option<(JobId, Option<FromWorker>)> {
    let text = match str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => str::from_utf8(line.get(..error.valid_up_to())?).ok()?,
    };
    let frame = Object::read_beginning(text, &["type", "job_id", "error", "reason"]);
    let job = JobId(frame.raw("job_id").and_then(name)?);
    let answer = answer(&frame.text("type")?, job.clone(), &frame, text);
    let whole = answer.map(|answer| {
        let behind = decode.and_then(|decode| answer_behind(text, &answer, decode));
        behind.unwrap_or(answer)
    });
    Some((job, whole))
}

fn answer<'a>(kind: &str, job: JobId, frame: &Object<'a>, text: &'a str) -> Option<FromWorker> {
    match kind {
        "ack" => Some(FromWorker::Ack { job, result: None }),
        "fail" => Some(FromWorker::Fail {
            job,
            error: error::mended(frame.raw("error").or_else(|| frame.broken(text, "error"))),
        }),
        "release" => Some(FromWorker::Release {
            job,
            reason: optional_text("reason", frame.raw("reason")).unwrap_or_default(),
            after: Duration::ZERO,
        }),
        _ => None,
    }
}

/// The answer for this job behind the broken part. A library that writes its frame piece by piece
/// may give up in the middle of a result, and answer again on that line.
fn answer_behind(text: &str, broken: &FromWorker, decode: fn(&[u8]) -> FromWorker) -> Option<FromWorker> {
    let at = text.rfind(ANSWER_BEGINS).filter(|at| *at > 0)?;
    let behind = decode(text.get(at..)?.as_bytes());
    (behind.answers() == broken.answers()).then_some(behind)
}

#[cfg(test)]
#[path = "broken_answer_tests.rs"]
mod tests;
