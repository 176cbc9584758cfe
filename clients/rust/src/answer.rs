//! The one answer of each job.

use tracing::warn;

use crate::error::{Error, Release, Result, Retry, Verdict};
use crate::frame;
use crate::job::Job;
use crate::log::{self, OneLine, guarded};
use crate::registry::Output;

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
        let (reason, after_ms) = (serde_json::json!(error.message()).to_string(), error.after_ms());
        let mut members = vec![("reason", reason.as_str())];
        members.extend(after_ms.as_deref().map(|after_ms| ("after_ms", after_ms)));
        return frame::about("release", job.id(), &members);
    }
    if !error.is_expected() {
        let is_tried_again = error.verdict() != Verdict::Discard && job.attempts_left() > Some(0);
        log::failed(is_tried_again, "the job failed", &error);
    }
    frame::about("fail", job.id(), &[("error", &error.to_json())])
}

/// What an error means after a cancel: the handler gave up because of that. Its own outcomes stay.
fn after_cancel(job: &Job, error: Error) -> Error {
    let Some(reason) = job.cancel_reason() else { return error };
    match error.verdict() {
        Verdict::Cancelled => {}
        // Perhaps a mistake, which nobody would see.
        Verdict::Failed => log::failed(true, "the handler failed after its job was cancelled", &error),
        _ => return error,
    }
    if reason == "timeout" {
        return Retry::new("the job took longer than its timeout").code("timeout").kind("Timeout").into();
    }
    Release::new(reason).into()
}

/// Saves the finished rows, if the job may come again.
fn save_position(job: &Job, error: &Error) {
    let resume = job.resume();
    if resume.is_dirty() && error.verdict() != Verdict::Discard {
        if let Err(error) = job.save(resume) {
            guarded(|| warn!("the position of the job is not saved: {}", OneLine(error.message())));
        }
    }
}
