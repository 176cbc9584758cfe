//! The one answer of each job.

use tracing::{Level, warn};

use crate::error::{Error, Release, Result, Verdict};
use crate::frame::{self, Failure, quoted};
use crate::job::Job;
use crate::log::{self, OneLine, guarded};
use crate::registry::{Output, Registry};

/// The frame that answers the job. Logs an unexpected error and calls the failure hooks.
pub(crate) fn to(job: &Job, result: Result<Output>, registry: &Registry) -> Vec<u8> {
    let error = match result {
        Ok(output) => {
            let result = output.text().map(|text| ("result", text));
            return frame::about("ack", job.id(), result.as_slice());
        }
        Err(error) => after_cancel(job, error),
    };
    save_position(job, &error);
    if error.verdict() == Verdict::Release {
        let after = error.after_ms().map(|after| after.to_string());
        let reason = quoted(error.message());
        let members = [("reason", Some(reason)), ("after_ms", after)];
        let members: Vec<_> = members.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        return frame::about("release", job.id(), &members);
    }
    let is_retryable = error.verdict() != Verdict::Discard;
    if error.is_unexpected() {
        let level = if is_retryable && job.has_attempts_left() { Level::WARN } else { Level::ERROR };
        log::failed(level, "the job failed", &error);
    }
    for hook in &registry.failure_hooks {
        guarded(|| hook(job, &error));
    }
    frame::fail(job.id(), &Failure::of(&error, is_retryable))
}

/// What an error means after a cancel: the handler gave up because of that. Its own outcomes and
/// panics stay.
fn after_cancel(job: &Job, error: Error) -> Error {
    let Some(reason) = job.cancel_reason() else { return error };
    match error.verdict() {
        Verdict::Failed if error.is_panic() => return error,
        // Perhaps a mistake, which nobody would see.
        Verdict::Failed => log::failed(Level::WARN, "the handler failed after the job was cancelled", &error),
        Verdict::Cancelled => {}
        Verdict::Retry | Verdict::Discard | Verdict::Release => return error,
    }
    if reason == "timeout" { error.timed_out() } else { Release::new(reason).into() }
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
