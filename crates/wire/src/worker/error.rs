//! How a worker says that a job failed: the words of either vocabulary (requirements C-22).

use crate::json::fields::{self, Fields};
use crate::worker::limits::{MAX_BACKTRACE_CHARS, MAX_BACKTRACE_FRAMES};
use crate::worker::values::{Wrong, boolean, optional_text};
use ojs_lifecycle::api::{JobError, Text};

/// The message of a failure that came with an empty one and without type and code.
const NO_MESSAGE: &str = "the job failed without a message";

const FIELDS: [&str; 6] = ["code", "type", "message", "retryable", "details", "backtrace"];

/// Reads the `error` of a fail frame.
pub(crate) fn read(json: Option<&str>) -> Result<JobError, Wrong> {
    let wrong = || Wrong::invalid("error must be an object, or a string");
    let json = json.ok_or_else(wrong)?;
    if json.starts_with('"') {
        return from_message(optional_text("error", Some(json))?);
    }
    let error = Fields::read(json, FIELDS).map_err(|_| wrong())?;
    let text = |field| optional_text(field, error.get(field)).map_err(in_error);
    let (code, kind, message) = (text("code")?, text("type")?, text("message")?);
    let retryable = error.get("retryable").map(|json| boolean("retryable", json));
    let retryable = retryable.transpose().map_err(in_error)?;
    let details = error.get("details");
    if details.is_some_and(|details| !details.starts_with('{')) {
        return Err(Wrong::invalid("error.details must be an object"));
    }
    Ok(JobError {
        message: message_or_name(message, &kind, &code)?,
        retryable: retryable.unwrap_or_else(|| retryable_by(code.as_deref())),
        code,
        kind,
        details: details.map(Text::from),
        backtrace: error.get("backtrace").map(backtrace).transpose()?,
    })
}

/// Reads the `error` of a fail frame that [`read`] refuses. A field of a wrong type is converted or
/// left out. The details are left out unless `has_details`.
pub(crate) fn mended(json: Option<&str>, has_details: bool) -> JobError {
    let error = json.and_then(|json| Fields::read(json, FIELDS).ok());
    let field = |name: &str| error.as_ref().and_then(|error| error.get(name));
    let text = |name: &str| optional_text(name, field(name)).ok().flatten();
    let (code, kind) = (text("code"), text("type"));
    let message = text("message").or_else(|| field("message").map(Text::from));
    let details = field("details").filter(|_| has_details).map(|details| {
        if details.starts_with('{') {
            Text::from(details)
        } else {
            format!("{{\"value\":{details}}}").into()
        }
    });
    let retryable = field("retryable").and_then(|json| boolean("retryable", json).ok());
    JobError {
        message: message_or_name(message, &kind, &code).unwrap_or_else(|_| NO_MESSAGE.into()),
        retryable: retryable.unwrap_or_else(|| retryable_by(code.as_deref())),
        code,
        kind,
        details,
        backtrace: field("backtrace").and_then(|json| backtrace(json).ok().or_else(|| lines_of(json))),
    }
}

/// A backtrace that came as one text: its lines.
fn lines_of(json: &str) -> Option<Text> {
    let text = fields::text(json)?;
    let lines = text.lines().take(MAX_BACKTRACE_FRAMES).collect::<Vec<_>>();
    backtrace(&serde_json::Value::from(lines).to_string()).ok()
}

fn in_error(wrong: Wrong) -> Wrong {
    wrong.within("error.")
}

fn from_message(message: Option<Text>) -> Result<JobError, Wrong> {
    Ok(JobError::new(message_or_name(message, &None, &None)?))
}

/// Exceptions without a message are common (`raise ValueError`), and their class says enough.
fn message_or_name(message: Option<Text>, kind: &Option<Text>, code: &Option<Text>) -> Result<Text, Wrong> {
    let is_given = message.is_some();
    let mut candidates = [message.as_ref(), kind.as_ref(), code.as_ref()].into_iter().flatten();
    match candidates.find(|text| !text.is_empty()) {
        Some(text) => Ok(Text::clone(text)),
        None if is_given => Ok(NO_MESSAGE.into()),
        None => Err(Wrong::invalid("error.message must be a string")),
    }
}

/// Whether a failure may be tried again, by the retry specification's codes for handlers (7).
fn retryable_by(code: Option<&str>) -> bool {
    !matches!(code, Some("DISCARD" | "DEAD_LETTER"))
}

/// A backtrace as it is spelled if it is within the limits, else its first frames.
fn backtrace(json: &str) -> Result<Text, Wrong> {
    let wrong = || Wrong::invalid("error.backtrace must be an array of strings");
    let frames = fields::elements(json, MAX_BACKTRACE_FRAMES + 1).ok_or_else(wrong)?;
    let mut is_cut = frames.len() > MAX_BACKTRACE_FRAMES;
    let mut left = MAX_BACKTRACE_CHARS;
    let mut kept = Vec::new();
    for frame in frames.into_iter().take(MAX_BACKTRACE_FRAMES) {
        let frame = fields::text(frame).ok_or_else(wrong)?;
        let chars = frame.chars().count();
        if chars <= left {
            left -= chars;
            kept.push(frame);
            continue;
        }
        is_cut = true;
        if left > 0 {
            kept.push(frame.chars().take(left).collect());
        }
        break;
    }
    Ok(if is_cut {
        serde_json::Value::from(kept).to_string().into()
    } else {
        json.into()
    })
}
