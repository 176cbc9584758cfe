//! The error by which a worker reports a failed job, in the words of either vocabulary
//! (requirements C-22).

use crate::json::object::Object;
use crate::json::values;
use crate::worker::limits::{MAX_BACKTRACE_CHARS, MAX_BACKTRACE_FRAMES, MAX_DEPTH};
use crate::worker::values::{Wrong, boolean, optional_text};
use ojs_lifecycle::api::{JobError, Text};
use ojs_values::text::beginning;

/// The message of a failure with an empty message and without type and code.
const NO_MESSAGE: &str = "the job failed without a message";

/// Most bytes of a broken message that are kept, as they are spelled. Backends get less.
const MOST_SPELLED_BYTES: usize = 32 << 10;

/// Longest escape of one character in a JSON string, in bytes: two times `\\u1234`.
const LONGEST_ESCAPE: usize = 12;

const FIELDS: [&str; 6] = ["code", "type", "message", "retryable", "details", "backtrace"];

/// Reads the `error` of a fail frame.
pub(crate) fn read(json: Option<&str>) -> Result<JobError, Wrong> {
    let wrong = || Wrong::invalid("error must be an object, or a string");
    let json = json.ok_or_else(wrong)?;
    if json.starts_with('"') {
        return from_message(optional_text("error", Some(json))?);
    }
    let error = Object::read_some(json, &FIELDS).map_err(|_| wrong())?;
    let text = |field| optional_text(field, error.raw(field)).map_err(in_error);
    let (code, kind, message) = (text("code")?, text("type")?, text("message")?);
    let retryable = error.raw("retryable").map(|json| boolean("retryable", json));
    let retryable = retryable.transpose().map_err(in_error)?;
    let details = error.raw("details");
    if details.is_some_and(|details| !details.starts_with('{')) {
        return Err(Wrong::invalid("error.details must be an object"));
    }
    Ok(JobError {
        message: message_or_name(message, &kind, &code)?,
        retryable: retryable.unwrap_or_else(|| retryable_by(code.as_deref())),
        code,
        kind,
        details: details.map(Text::from),
        backtrace: error.raw("backtrace").map(backtrace).transpose()?,
    })
}

/// Reads the `error` of a fail frame that [`read`] refuses, or the beginning of one. A field of a
/// wrong type is converted or left out. Details that are nested too deep are left out.
pub(crate) fn mended(json: Option<&str>) -> JobError {
    let json = json.unwrap_or_default();
    if json.starts_with('"') {
        let message = values::text(json).or_else(|| cut_text(json)).map(Text::from);
        return from_message(message).unwrap_or_else(|_| JobError::new(NO_MESSAGE));
    }
    let error = Object::read_beginning(json, &FIELDS);
    let text = |name: &str| optional_text(name, error.raw(name)).ok().flatten();
    let (code, kind) = (text("code"), text("type"));
    let spelled = error
        .raw("message")
        .map(|json| Text::from(beginning(json, MOST_SPELLED_BYTES)));
    let cut = || error.broken(json, "message").and_then(cut_text).map(Text::from);
    let message = text("message").or(spelled).or_else(cut);
    let details = error
        .raw("details")
        .filter(|details| values::depth(details) < MAX_DEPTH);
    let details = details.map(|details| {
        if details.starts_with('{') {
            Text::from(details)
        } else {
            format!("{{\"value\":{details}}}").into()
        }
    });
    let retryable = error.raw("retryable").and_then(|json| boolean("retryable", json).ok());
    JobError {
        message: message_or_name(message, &kind, &code).unwrap_or_else(|_| NO_MESSAGE.into()),
        retryable: retryable.unwrap_or_else(|| retryable_by(code.as_deref())),
        code,
        kind,
        details,
        backtrace: error
            .raw("backtrace")
            .and_then(|json| backtrace(json).ok().or_else(|| lines_of(json))),
    }
}

/// The beginning of a string that was cut off.
fn cut_text(json: &str) -> Option<String> {
    let inner = beginning(json.strip_prefix('"')?, MOST_SPELLED_BYTES);
    // The end may be within an escape, or the string may have ended already.
    let ends = (inner.len().saturating_sub(LONGEST_ESCAPE)..=inner.len()).rev();
    let texts = ends.filter_map(|end| inner.get(..end).map(|text| format!("\"{text}\"")));
    texts.filter_map(|text| values::text(&text)).next()
}

/// A backtrace that is one text: its lines.
fn lines_of(json: &str) -> Option<Text> {
    let text = values::text(json)?;
    let lines = text.lines().take(MAX_BACKTRACE_FRAMES).collect::<Vec<_>>();
    backtrace(&serde_json::Value::from(lines).to_string()).ok()
}

fn in_error(wrong: Wrong) -> Wrong {
    wrong.within("error.")
}

fn from_message(message: Option<Text>) -> Result<JobError, Wrong> {
    Ok(JobError::new(message_or_name(message, &None, &None)?))
}

/// Exceptions without a message are common (`raise ValueError`), and their class is clear enough.
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

/// A backtrace in its author's spelling if it is within the limits, else its first frames.
fn backtrace(json: &str) -> Result<Text, Wrong> {
    let wrong = || Wrong::invalid("error.backtrace must be an array of strings");
    let frames = values::elements(json, MAX_BACKTRACE_FRAMES + 1).ok_or_else(wrong)?;
    let mut is_cut = frames.len() > MAX_BACKTRACE_FRAMES;
    let mut left = MAX_BACKTRACE_CHARS;
    let mut kept = Vec::new();
    for frame in frames.into_iter().take(MAX_BACKTRACE_FRAMES) {
        let frame = values::text(frame).ok_or_else(wrong)?;
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
