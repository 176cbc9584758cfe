//! The meaning of a job's end: done, given back or failed.

use serde_json::{Map, Value};

use crate::config::values::enums::ExecOutput;
use crate::config::values::exec::{ExitVerdict, ProcessEnd};
use crate::config::{Exec, RunnerSettings};
use crate::runner::output::LONGEST_CHARACTER;
use crate::runner::redaction::Redaction;
use ojs_lifecycle::api::{CANCELLED_BY_OPERATOR, CancelReason, JobError, Leftovers};
use ojs_os::reaper::Usage;
use ojs_values::exit::Ended;
use ojs_values::text::beginning;
use ojs_wire::runner::frames;
use ojs_wire::text::milliseconds;

/// Most bytes of standard error in the details of a failure.
pub const STDERR_BYTES: usize = 4096;

/// Most bytes of a line of standard error in the message of a failure.
const MESSAGE_LINE_BYTES: usize = 200;

/// Error codes that are also sent as the error type.
const TYPES: [&str; 2] = [CANCELLED_BY_OPERATOR, OUT_OF_MEMORY];

const OUT_OF_MEMORY: &str = "out_of_memory";

/// The end of a job's process, and the facts about it.
#[derive(Debug)]
pub struct JobEnding<'a> {
    pub ended: Ended,
    /// Why the runner or the kernel ended it, if it did not end by itself.
    pub cause: Option<EndedFor>,
    /// The processor time and the memory that it used.
    pub usage: Usage,
    /// Its standard output, as far as that is within the limit.
    pub stdout: &'a [u8],
    pub stdout_is_cut: bool,
    /// The end of its standard error.
    pub stderr: &'a [u8],
    pub stderr_is_cut: bool,
}

/// Why the runner has ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedFor {
    Cancel(CancelReason),
    /// The job used more than these bytes, which are `exec.max_memory`.
    Memory(u64),
    /// The kernel ended it, because memory ran out.
    Kernel,
}

/// The outcome of a job, as reported to PID 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    Ack {
        /// JSON.
        result: Option<String>,
    },
    Release {
        reason: String,
        /// How long PID 1 holds the job first, in milliseconds.
        after_ms: u64,
    },
    Fail(JobError),
    /// The shutdown has cut the job off. The runner reports no outcome, because PID 1 counts these
    /// jobs and decides what happens to them.
    CutOff,
}

impl JobOutcome {
    /// A failure with only a code and a message, and the code as its type if it is one.
    pub fn failure(code: &str, message: &str, retryable: bool) -> Self {
        Self::Fail(JobError {
            kind: TYPES.contains(&code).then(|| code.into()),
            code: Some(code.into()),
            retryable,
            ..JobError::new(message)
        })
    }

    /// Its name in the log. The outcome of a job that was lost, or cancelled at the backend, does
    /// not count.
    pub fn name(&self, cause: Option<EndedFor>) -> &'static str {
        match self {
            _ if cause == Some(EndedFor::Cancel(CancelReason::Cancelled)) => "cancelled",
            _ if cause == Some(EndedFor::Cancel(CancelReason::Lost)) => "lost",
            Self::Ack { .. } => "acked",
            Self::Release { .. } => "released",
            Self::Fail(error) if error.retryable => "failed",
            Self::Fail(_) => "discarded",
            Self::CutOff => "cut off",
        }
    }
}

/// The outcome that this end means.
pub fn judge(settings: &RunnerSettings, ending: &JobEnding<'_>, redaction: &Redaction) -> JobOutcome {
    let end = match ending.ended {
        Ended::Exited(status) => ProcessEnd::Status(status),
        Ended::Signalled(signal) => ProcessEnd::Signal(signal),
    };
    let verdict = settings.exec.exit.0.get(&end).copied().unwrap_or(ExitVerdict::Retry);
    // A job that was asked to end may still have finished, or may give itself back. After its
    // timeout it may not give itself back, because the next attempt would run into the same
    // timeout, without end.
    let has_exited = matches!(ending.ended, Ended::Exited(_));
    let may_go_back = has_exited && ending.cause != Some(EndedFor::Cancel(CancelReason::Timeout));
    match (verdict, ending.cause) {
        (ExitVerdict::Ack, _) if has_exited => acknowledge(&settings.exec, ending, redaction),
        (ExitVerdict::Release(after), _) if may_go_back => release(&ending.ended.to_string(), milliseconds(after)),
        (_, Some(EndedFor::Cancel(reason))) => cancelled(settings.leftovers, reason, ending, redaction),
        (_, Some(EndedFor::Memory(most))) if !has_exited => {
            let message = format!("the job took more memory than exec.max_memory allows ({most} bytes)");
            failure(ending, redaction, OUT_OF_MEMORY, message, true)
        }
        (_, Some(EndedFor::Kernel)) if !has_exited => {
            let message = "the kernel ended the job because memory ran out".to_owned();
            failure(ending, redaction, OUT_OF_MEMORY, message, true)
        }
        (ExitVerdict::Ack, _) => acknowledge(&settings.exec, ending, redaction),
        (ExitVerdict::Release(after), _) => release(&ending.ended.to_string(), milliseconds(after)),
        (ExitVerdict::Retry, _) => by_end(ending, redaction, true),
        (ExitVerdict::Discard, _) => by_end(ending, redaction, false),
    }
}

/// The outcome of a job that is cancelled before its process was started.
pub fn not_started(leftovers: Leftovers, reason: CancelReason) -> JobOutcome {
    match reason {
        CancelReason::Timeout => JobOutcome::failure("timeout", "timed out before its process was started", true),
        CancelReason::Cancelled | CancelReason::Operator if leftovers == Leftovers::Fail => {
            let message = "an operator cancelled the job before its process was started";
            JobOutcome::failure(CANCELLED_BY_OPERATOR, message, true)
        }
        CancelReason::Shutdown | CancelReason::Cancelled | CancelReason::Operator | CancelReason::Lost => {
            release("not started", 0)
        }
    }
}

fn acknowledge(exec: &Exec, ending: &JobEnding<'_>, redaction: &Redaction) -> JobOutcome {
    if exec.output == ExecOutput::Log {
        return JobOutcome::Ack { result: None };
    }
    if ending.stdout_is_cut {
        let message = format!(
            "the result is longer than exec.output_limit ({} bytes)",
            exec.output_limit
        );
        return failure(ending, redaction, "result_too_large", message, false);
    }
    let result = frames::result(ending.stdout);
    JobOutcome::Ack { result }
}

fn cancelled(leftovers: Leftovers, reason: CancelReason, ending: &JobEnding<'_>, redaction: &Redaction) -> JobOutcome {
    match reason {
        CancelReason::Timeout => failure(ending, redaction, "timeout", "timed out".to_owned(), true),
        CancelReason::Shutdown => JobOutcome::CutOff,
        // If the job was cancelled at the backend, its reservation is lost and no outcome
        // counts. The outcome of a job that an operator cancelled here counts.
        CancelReason::Cancelled | CancelReason::Operator => match leftovers {
            Leftovers::Fail => {
                let message = "an operator cancelled the job".to_owned();
                failure(ending, redaction, CANCELLED_BY_OPERATOR, message, true)
            }
            Leftovers::Requeue => release("cancelled", 0),
        },
        CancelReason::Lost => release("lost", 0),
    }
}

fn release(reason: &str, after_ms: u64) -> JobOutcome {
    JobOutcome::Release {
        reason: reason.to_owned(),
        after_ms,
    }
}

/// A failure that follows from the end of the process itself.
fn by_end(ending: &JobEnding<'_>, redaction: &Redaction, retryable: bool) -> JobOutcome {
    let code = match ending.ended {
        Ended::Exited(_) => "exit_status",
        Ended::Signalled(_) => "signal",
    };
    let stderr = stderr(ending, redaction);
    let mut message = ending.ended.to_string();
    if let Some(line) = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        message.push_str(": ");
        message.push_str(beginning(line, MESSAGE_LINE_BYTES));
    }
    failure(ending, redaction, code, message, retryable)
}

/// Most bytes of the end of standard error that are kept. Struck, they are shorter than that. The
/// length of the longest secret comes in addition, because one may begin before the shown part.
pub fn stderr_to_keep(redaction: &Redaction) -> usize {
    2 * STDERR_BYTES + redaction.most_of_a_half()
}

fn failure(ending: &JobEnding<'_>, redaction: &Redaction, code: &str, message: String, retryable: bool) -> JobOutcome {
    let mut outcome = JobOutcome::failure(code, &message, retryable);
    if let JobOutcome::Fail(error) = &mut outcome {
        error.details = Some(details(ending, redaction).into());
    }
    outcome
}

/// A JSON object.
fn details(ending: &JobEnding<'_>, redaction: &Redaction) -> String {
    let mut details = Map::new();
    let (name, value) = match ending.ended {
        Ended::Exited(status) => ("exit_status", Value::from(status)),
        Ended::Signalled(signal) => ("signal", Value::from(signal.to_string())),
    };
    details.insert(name.to_owned(), value);
    details.insert("cpu_ms".to_owned(), milliseconds(ending.usage.cpu).into());
    details.insert("max_rss_bytes".to_owned(), ending.usage.max_rss_bytes.into());
    let stderr = stderr(ending, redaction);
    if !stderr.is_empty() {
        details.insert("stderr".to_owned(), stderr.into());
    }
    Value::from(details).to_string()
}

/// The end of standard error without secrets. If there was more before it, it may begin with half
/// of a secret, so as many bytes are left out.
fn stderr(ending: &JobEnding<'_>, redaction: &Redaction) -> String {
    let half_secret = if ending.stderr_is_cut {
        redaction.most_of_a_half()
    } else {
        0
    };
    let behind = ending.stderr.iter().skip(half_secret).take(LONGEST_CHARACTER - 1);
    let half_character = behind.take_while(|byte| **byte & 0xc0 == 0x80).count();
    let start = (half_secret + half_character).min(ending.stderr.len());
    let (struck, _) = redaction.strike(ending.stderr, start..ending.stderr.len(), true);
    let start = character_at(&struck, struck.len().saturating_sub(STDERR_BYTES));
    struck.get(start..).unwrap_or_default().to_owned()
}

/// The first place from this one on at which no character is cut in two.
fn character_at(text: &str, place: usize) -> usize {
    let mut places = place..text.len();
    places.find(|place| text.is_char_boundary(*place)).unwrap_or(text.len())
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
