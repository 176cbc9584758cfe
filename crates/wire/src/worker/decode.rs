//! The frames of a worker, read.

use std::str;
use std::time::Duration;

use crate::json::object::Object;
use crate::json::values;
use crate::worker::broken_answer::broken_answer;
use crate::worker::error;
use crate::worker::limits::{MAX_DEPTH, MAX_NAME_BYTES, MAX_TYPES};
use crate::worker::values::{Wrong, boolean, name, optional_text};
use ojs_lifecycle::api::{ErrorCode, FromWorker, JobId, MAX_CONCURRENCY, Progress, Ready, Text};

/// Every field of every frame that a worker sends.
const FIELDS: [&str; 18] = [
    "type",
    "job_id",
    "protocol",
    "concurrency",
    "types",
    "ping",
    "ok",
    "cancel_signal",
    "client",
    "result",
    "error",
    "reason",
    "after_ms",
    "progress",
    "message",
    "data",
    "state",
    "id",
];

/// Reads a worker's frame from a line without its `\n`. An answer that cannot be read as a whole is
/// in the [`FromWorker::Garbage`].
pub fn decode(line: &[u8]) -> FromWorker {
    let (frame, text) = match read(line) {
        Ok(read) => read,
        Err(wrong) => return wrong.said(None, broken_answer(line, Some(decode))),
    };
    understand(&frame, text).unwrap_or_else(|wrong| wrong.said(job(&frame).ok(), broken_answer(line, Some(decode))))
}

/// The frame for a line that is longer than worker.max_frame, of which `beginning` was kept.
pub fn too_long(beginning: &[u8]) -> FromWorker {
    let why = format!("a frame has at most {} bytes", beginning.len());
    Wrong::new(ErrorCode::FrameTooLong, why).said(None, broken_answer(beginning, None))
}

fn read(line: &[u8]) -> Result<(Object<'_>, &str), Wrong> {
    let not_json = |why: String| Wrong::new(ErrorCode::NotJson, why);
    let text = str::from_utf8(line).map_err(|error| not_json(format!("no UTF-8 at byte {}", error.valid_up_to())))?;
    if text.contains('\n') {
        return Err(not_json("a frame is one line".to_owned()));
    }
    let frame = Object::read_some(text, &FIELDS).map_err(|error| {
        // serde's message about a wrong type quotes the value, which may be a secret.
        not_json(if error.is_data() {
            "a frame is a JSON object".to_owned()
        } else {
            error.to_string()
        })
    })?;
    Ok((frame, text))
}

fn understand(frame: &Object<'_>, text: &str) -> Result<FromWorker, Wrong> {
    let kind = frame.raw("type").and_then(values::text);
    let kind = kind.ok_or_else(|| Wrong::invalid("type must be a string"))?;
    let understand: fn(&Object<'_>) -> Result<FromWorker, Wrong> = match kind.as_str() {
        "ready" => ready,
        "ack" => ack,
        "fail" => fail,
        "release" => release,
        "progress" => progress,
        "checkpoint" => checkpoint,
        "heartbeat" => heartbeat,
        "pong" => pong,
        _ => return Err(unknown_type(&kind)),
    };
    let said = if values::depth(text) > MAX_DEPTH {
        Err(Wrong::invalid(format!("nested deeper than {MAX_DEPTH}")))
    } else {
        understand(frame)
    };
    said.map_err(|wrong| wrong.within(&format!("{kind}: ")))
}

fn unknown_type(kind: &str) -> Wrong {
    const SHOWN_CHARS: usize = 64;
    let shown: String = kind.chars().take(SHOWN_CHARS).collect();
    Wrong::new(
        ErrorCode::UnknownType,
        format!("type {shown:?} is not known in protocol 1"),
    )
}

fn ready(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    match frame.raw("protocol") {
        Some("1") => {}
        // Another version may spell its other fields differently, so they are ignored.
        Some(other) if is_number(other) => {
            return Err(Wrong::new(
                ErrorCode::UnsupportedProtocol,
                "only protocol 1 is spoken here",
            ));
        }
        Some(_) | None => return Err(Wrong::invalid("protocol must be the number 1")),
    }
    let concurrency = match frame.raw("concurrency") {
        None => 1,
        Some(number) => number
            .parse()
            .ok()
            .filter(|number| *number <= MAX_CONCURRENCY)
            .ok_or_else(|| Wrong::invalid(format!("concurrency must be an integer from 0 to {MAX_CONCURRENCY}")))?,
    };
    let flag = |name: &str| frame.raw(name).map(|value| boolean(name, value)).transpose();
    Ok(FromWorker::Ready(Ready {
        concurrency,
        types: frame.raw("types").map(types).transpose()?,
        ping: flag("ping")?.unwrap_or(false),
        ok: flag("ok")?.unwrap_or(true),
        cancel_signal: flag("cancel_signal")?.unwrap_or(false),
        client: optional_text("client", frame.raw("client"))?,
    }))
}

fn types(json: &str) -> Result<Vec<Text>, Wrong> {
    let names = values::elements(json, MAX_TYPES + 1).filter(|names| names.len() <= MAX_TYPES);
    let names = names.and_then(|names| names.into_iter().map(name).collect());
    names.ok_or_else(|| {
        Wrong::invalid(format!(
            "types must be an array of at most {MAX_TYPES} strings of 1 to {MAX_NAME_BYTES} bytes"
        ))
    })
}

fn ack(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    Ok(FromWorker::Ack {
        job: job(frame)?,
        result: frame.any("result").map(Text::from),
    })
}

fn fail(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    let job = job(frame)?;
    let error = error::read(frame.raw("error"))?;
    Ok(FromWorker::Fail { job, error })
}

fn release(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    Ok(FromWorker::Release {
        job: job(frame)?,
        reason: optional_text("reason", frame.raw("reason"))?,
        after: frame.raw("after_ms").map(milliseconds).transpose()?.unwrap_or_default(),
    })
}

fn milliseconds(json: &str) -> Result<Duration, Wrong> {
    let number = json.parse().map(Duration::from_millis);
    number.map_err(|_| Wrong::invalid("after_ms must be an integer from 0 to 2^64 - 1"))
}

fn progress(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    let job = job(frame)?;
    // A JSON number is a number for Rust too, and nothing else in JSON is.
    let is_fraction = |spelled: &&str| spelled.parse::<f64>().is_ok_and(|number| (0.0..=1.0).contains(&number));
    let fraction = frame.raw("progress").filter(is_fraction);
    let fraction = fraction.ok_or_else(|| Wrong::invalid("progress must be a number from 0.0 to 1.0"))?;
    let progress = Progress {
        fraction: fraction.into(),
        message: optional_text("message", frame.raw("message"))?,
        data: frame.raw("data").map(Text::from),
    };
    Ok(FromWorker::Progress { job, progress })
}

fn checkpoint(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    let job = job(frame)?;
    let state = frame.any("state").ok_or_else(|| Wrong::invalid("state is missing"))?;
    let state = state.into();
    Ok(FromWorker::Checkpoint { job, state })
}

fn heartbeat(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    Ok(FromWorker::Heartbeat { job: job(frame)? })
}

fn pong(frame: &Object<'_>) -> Result<FromWorker, Wrong> {
    let id = frame.raw("id").and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| Wrong::invalid("id must be an integer from 0 to 2^64 - 1"))?;
    Ok(FromWorker::Pong { id })
}

fn job(frame: &Object<'_>) -> Result<JobId, Wrong> {
    let id = frame.raw("job_id").and_then(name);
    let id = id.ok_or_else(|| Wrong::invalid(format!("job_id must be a string of 1 to {MAX_NAME_BYTES} bytes")))?;
    Ok(JobId(id))
}

fn is_number(json: &str) -> bool {
    json.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}
