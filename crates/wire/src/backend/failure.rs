//! The error of a FAIL as the backend gets it: within the backends' limits, and with the backtrace
//! in the field that backends keep.
//!
//! Backends store `type` or `code`, `message` and `details` of an error, and drop `backtrace`. So
//! the backtrace is sent twice: under its own name, which is in the specification, and in
//! `details`.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

use crate::backend::raw_json::Json;
use crate::json::object::Object;
use ojs_lifecycle::api::JobError;
use ojs_values::text::beginning;

/// The code of a failure without one.
pub const DEFAULT_ERROR_CODE: &str = "handler_error";

/// Longest message that is sent, in bytes. With the bounds below one FAIL stays below 512 KiB, even
/// if its text needs many escapes: public backends accept 1 MiB.
const MOST_MESSAGE_BYTES: usize = 16 << 10;

/// Longest type and code that are sent, in bytes.
const MOST_NAME_BYTES: usize = 1 << 10;

/// Longest details that are sent, in bytes, without a backtrace that is added to them.
const MOST_DETAILS_BYTES: usize = 64 << 10;

/// The field of details that were cut.
const CUT: (&str, &str) = ("truncated", "true");

/// Bytes of an element of an object beside its name and its value.
const AROUND_A_FIELD: usize = 4;

/// Longest escape of one character in a JSON string, in bytes: two times `\\u1234`.
const LONGEST_ESCAPE: usize = 12;

/// The name of the backtrace, on its own and in the details.
const BACKTRACE: &str = "backtrace";

/// An error as it is sent.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    code: &'a str,
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    message: &'a str,
    retryable: bool,
    details: Option<Json<'a>>,
    backtrace: Option<Json<'a>>,
}

impl<'a> ErrorBody<'a> {
    /// The bare form has the fields of the JSON schema and no others, and a code that it knows
    /// (requirements C-05, C-24).
    pub(crate) fn of(error: &'a JobError, is_bare: bool) -> Self {
        let unless_bare = |text: Option<&'a str>| text.filter(|_| !is_bare);
        let name = |text: Option<&'a str>| text.map(|text| beginning(text, MOST_NAME_BYTES));
        Self {
            code: name(unless_bare(error.code.as_deref())).unwrap_or(DEFAULT_ERROR_CODE),
            kind: name(unless_bare(error.kind.as_deref())),
            message: beginning(&error.message, MOST_MESSAGE_BYTES),
            retryable: error.retryable,
            details: details(error).map(Json),
            backtrace: unless_bare(error.backtrace.as_deref()).map(Json::from),
        }
    }

    /// The error of a job that is given back: nothing failed.
    pub(crate) fn of_requeue(code: &'a str, reason: &'a str) -> Self {
        Self {
            code,
            kind: None,
            message: reason,
            retryable: true,
            details: None,
            backtrace: None,
        }
    }
}

/// The details with the backtrace, unless the worker has put one there itself.
fn details(error: &JobError) -> Option<Cow<'_, str>> {
    let own = error.details.as_deref().map(shortened);
    let Some(backtrace) = error.backtrace.as_deref().filter(|backtrace| is_json(backtrace)) else {
        return own;
    };
    let Some(own) = own else {
        return Some(format!("{{\"{BACKTRACE}\":{backtrace}}}").into());
    };
    let has_room = Object::read(&own).is_some_and(|fields| !fields.has(BACKTRACE));
    let Some(inner) = own.trim_end().strip_suffix('}').filter(|_| has_room) else {
        return Some(own);
    };
    let comma = if inner.trim_end().ends_with('{') { "" } else { "," };
    Some(format!("{inner}{comma}\"{BACKTRACE}\":{backtrace}}}").into())
}

/// The first of the details that fit; the string that does not fit is cut.
fn shortened(details: &str) -> Cow<'_, str> {
    if details.len() <= MOST_DETAILS_BYTES {
        return Cow::Borrowed(details);
    }
    let mut room = MOST_DETAILS_BYTES;
    let mut kept = Vec::new();
    let fields = Object::read(details);
    for (name, value) in fields.iter().flat_map(Object::fields) {
        let name = serde_json::to_string(name).unwrap_or_default();
        let around = name.len().saturating_add(AROUND_A_FIELD);
        let value = if around.saturating_add(value.len()) <= room {
            Some(Cow::Borrowed(value))
        } else {
            cut_string(value, room.saturating_sub(around)).map(Cow::Owned)
        };
        if let Some(value) = value {
            room = room.saturating_sub(around).saturating_sub(value.len());
            kept.push(format!("{name}:{value}"));
        }
    }
    let (name, value) = CUT;
    kept.push(format!("\"{name}\":{value}"));
    format!("{{{}}}", kept.join(",")).into()
}

/// The beginning of a JSON string, as a JSON string of at most `most` bytes; `None`: it is no
/// string, or no part of it fits.
fn cut_string(value: &str, most: usize) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut length = most.checked_sub(2).filter(|length| *length > 0)?;
    // The end may be within a character or within an escape.
    for _ in 0..=LONGEST_ESCAPE {
        let text = format!("\"{}\"", beginning(inner, length));
        if serde_json::from_str::<String>(&text).is_ok() {
            return Some(text);
        }
        length = length.checked_sub(1)?;
    }
    None
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
