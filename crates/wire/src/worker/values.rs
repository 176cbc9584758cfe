//! Values of a frame's fields, and why a frame is refused.

use crate::json::values;
use crate::worker::limits::MAX_NAME_BYTES;
use ojs_lifecycle::api::{ErrorCode, FromWorker, JobId, Text};

/// Why a frame is refused.
pub(crate) struct Wrong {
    code: ErrorCode,
    message: String,
}

impl Wrong {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidFrame, message)
    }

    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// Puts the place before the text of the refusal.
    pub(crate) fn within(self, place: &str) -> Self {
        let message = format!("{place}{}", self.message);
        Self { message, ..self }
    }

    /// `broken`: the job of the line if that could be read, with the readable part of an answer.
    pub(crate) fn said(self, job: Option<JobId>, broken: Option<(JobId, Option<FromWorker>)>) -> FromWorker {
        let (of_broken, answer) = broken.unzip();
        FromWorker::Garbage {
            code: self.code,
            message: self.message.into(),
            job: job.or(of_broken),
            answer: answer.flatten().map(Box::new),
        }
    }
}

pub(crate) fn optional_text(field: &str, json: Option<&str>) -> Result<Option<Text>, Wrong> {
    let Some(json) = json else { return Ok(None) };
    let text = values::text(json).ok_or_else(|| Wrong::invalid(format!("{field} must be a string")))?;
    Ok(Some(text.into()))
}

pub(crate) fn boolean(field: &str, json: &str) -> Result<bool, Wrong> {
    json.parse()
        .map_err(|_| Wrong::invalid(format!("{field} must be true or false")))
}

/// The name of a job or of a job type, if it is exact: Unicode, and not half of it (`"\ud800"`).
pub(crate) fn name(json: &str) -> Option<Text> {
    let name: String = serde_json::from_str(json).ok()?;
    (1..=MAX_NAME_BYTES).contains(&name.len()).then(|| name.into())
}
