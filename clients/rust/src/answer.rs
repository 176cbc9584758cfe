//! The one answer of each job.

use serde_json::{Value, json};
use tracing::{Level, error, warn};

use crate::error::{Error, Release, Result, Retry, Verdict};
use crate::log::{OneLine, guarded};
use crate::{frame, job::Job, registry::Output};

/// The frame that answers the job. Logs an error that nobody expected.
pub(crate) fn to(job: &Job, result: Result<Output>) -> Vec<u8> {
    let error = match result {
        Ok(output) => {
            let result = output.text().map(|text| ("result", text));
            return frame::about("ack", job.id(), result.as_slice());
        }
        Err(error) => after_cancel(job, error),
    };
    save_position(job, &error);
    if error.verdict() == Verdict::Release {
        let (reason, after_ms) =
            (json!(error.message()).to_string(), error.0.details.get("after_ms").map(Value::to_string));
        let after_ms = after_ms.as_deref().unwrap_or("null");
        return frame::about("release", job.id(), &[("reason", &reason), ("after_ms", after_ms)]);
    }
    if !error.0.is_expected {
        let is_tried_again = error.verdict() != Verdict::Discard && job.attempts_left() > Some(0);
        log_failure(if is_tried_again { Level::WARN } else { Level::ERROR }, "the job failed", &error);
    }
    frame::about("fail", job.id(), &[("error", &error.to_json())])
}

/// What an error means after a cancel: the handler gave up because of that. Its own outcomes stay.
fn after_cancel(job: &Job, error: Error) -> Error {
    let Some(reason) = job.cancel_reason() else { return error };
    match error.verdict() {
        Verdict::Cancelled => {}
        // Perhaps a mistake, which nobody would see.
        Verdict::Failed => log_failure(Level::WARN, "the handler failed after its job was cancelled", &error),
        _ => return error,
    }
    if reason == "timeout" {
        let late = Retry::new("the job took longer than its timeout").code("timeout").kind("Timeout");
        return Error::from(late).without_place();
    }
    Release::new(reason).into()
}

/// Saves the finished rows, if the job may come again.
fn save_position(job: &Job, error: &Error) {
    let resume = job.resume();
    let is_wanted = resume.is_dirty && error.verdict() != Verdict::Discard;
    if let Some(Err(error)) = is_wanted.then(|| job.save(resume)) {
        guarded(|| warn!("the position of the job is not saved: {}", OneLine(error.message())));
    }
}

/// Logs an error of a handler with its stack, as one event.
fn log_failure(level: Level, text: &str, failure: &Error) {
    let (kind, message) = (OneLine(failure.kind()), OneLine(failure.message()));
    let at = if failure.0.place.is_empty() { "" } else { "\n    at " };
    let stack = format!("{kind}: {message}{at}{}", failure.0.place);
    guarded(|| {
        if level == Level::WARN {
            warn!(error.type = %kind, error.message = %message, error.stack = stack, "{text}");
        } else {
            error!(error.type = %kind, error.message = %message, error.stack = stack, "{text}");
        }
    });
}
