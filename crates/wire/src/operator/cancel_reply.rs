//! The reply to `cancel` on the control socket. `docs/control-jobs.md` lists the names.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::names;
use crate::operator::status_line::{InstanceInfo, LONGEST_NAME, line};
use crate::text::{count, milliseconds, seconds, several, shortened};
use ojs_lifecycle::api::{
    CANCELLED_BY_OPERATOR, CancelAnswer, CancelReason, CancelRefusal, JobEnd, StoppingJob, Subject,
};

/// The advice of a refusal about a name.
const SEE_JOBS: &str = "ojs-init jobs lists the active jobs";

/// The reply. Fields that do not apply are left out.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CancelReply {
    /// The job is cancelled, now or before.
    pub ok: bool,
    /// This request has changed something.
    pub changed: bool,
    /// Why not, as a word that never changes: `unknown_job`, `ambiguous`, `too_late`, `impossible`.
    pub code: Option<String>,
    /// The consequence, or the reason why there is none, for a person.
    pub message: String,
    pub id: Option<String>,
    /// The type of the job.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Why its handler is told to stop: operator, or an earlier reason.
    pub cancel_reason: Option<String>,
    /// The process of the handler is ended in this time unless it answers.
    pub ends_in_ms: Option<u64>,
    /// In a drain the time until the stop phase.
    pub drain_left_ms: Option<u64>,
    /// Other jobs of that process.
    pub other_jobs: Option<u64>,
    /// The outcome of the job; of one that has a handler, the outcome without its answer.
    pub outcome: Option<String>,
}

/// The reply in this line, given without its `\n`; `None` if it is none.
pub fn decode(line: &[u8]) -> Option<CancelReply> {
    serde_json::from_slice(line).ok()
}

/// The reply as a line with its `\n`.
pub(super) fn encode(answer: &CancelAnswer, facts: &InstanceInfo) -> Vec<u8> {
    line(&reply(answer, facts))
}

fn reply(answer: &CancelAnswer, facts: &InstanceInfo) -> CancelReply {
    match answer {
        CancelAnswer::Stops(stopping) => of_stopping(stopping, facts),
        CancelAnswer::Decided(job, end) => CancelReply {
            ok: true,
            changed: true,
            message: format!(
                "{} had not been started: {}",
                name(job),
                outcome(*end, CANCELLED_BY_OPERATOR)
            ),
            outcome: Some(names::end(*end).to_owned()),
            ..of_job(job, CancelReply::default())
        },
        CancelAnswer::Refused(refusal) => of_refusal(refusal),
    }
}

fn of_stopping(stopping: &StoppingJob, facts: &InstanceInfo) -> CancelReply {
    let ends_in = stopping.ends_in.map(|left| left.saturating_sub(facts.kill_lead));
    let reason = names::shown_cancel_reason(stopping.reason);
    CancelReply {
        ok: true,
        changed: stopping.is_news,
        message: happens(stopping, ends_in, &facts.mode),
        cancel_reason: Some(reason.to_owned()),
        ends_in_ms: ends_in.map(milliseconds),
        drain_left_ms: stopping.drain_left.map(milliseconds),
        // In mode exec each job has a process of its own.
        other_jobs: (facts.mode != "exec").then(|| count(stopping.others)),
        outcome: ends_in.map(|_| names::end(stopping.unanswered).to_owned()),
        ..of_job(&stopping.job, CancelReply::default())
    }
}

/// The consequence for a job whose handler is told to stop, and its latest moment.
fn happens(stopping: &StoppingJob, ends_in: Option<Duration>, mode: &str) -> String {
    let job = name(&stopping.job);
    let Some(ends_in) = ends_in else {
        return format!("{job} is told to stop already, and its process is being ended");
    };
    let within = seconds(ends_in);
    let begin = match mode {
        "exec" if stopping.is_news => {
            format!("{job}: its process gets SIGTERM now, and SIGKILL in {within} if it does not end")
        }
        "gateway" if stopping.is_news => {
            format!("{job}: its SDK gets no message; its process is ended in {within} unless the job is answered")
        }
        _ if stopping.is_news => {
            format!("{job}: its handler is told to stop; its process is ended in {within} unless the job is answered")
        }
        _ => {
            let reason = names::shown_cancel_reason(stopping.reason);
            let end = if mode == "exec" {
                "SIGKILL follows"
            } else {
                "its process is ended"
            };
            format!("{job} is told to stop already ({reason}): {end} in {within}")
        }
    };
    let others = match stopping.others {
        0 => String::new(),
        _ if mode == "exec" => String::new(),
        others => format!(
            "; its process has {}, which are given back then",
            several(others, "other job")
        ),
    };
    let error = if stopping.reason == CancelReason::Timeout {
        "timeout"
    } else {
        CANCELLED_BY_OPERATOR
    };
    let sooner = stopping.drain_left.filter(|left| *left < ends_in);
    let sooner = sooner.map(|left| format!("; the stop phase begins before, in {}", seconds(left)));
    format!(
        "{begin}; without an answer {}{others}{}",
        outcome(stopping.unanswered, error),
        sooner.unwrap_or_default()
    )
}

/// The outcome of a job without an answer. If it fails, `error` is the type.
fn outcome(end: JobEnd, error: &str) -> String {
    match end {
        JobEnd::Failed => format!("it fails, retryable ({error})"),
        JobEnd::Requeued => "it is given back".to_owned(),
        JobEnd::Left => "it is left to its visibility timeout, because a requeue could discard it".to_owned(),
        JobEnd::Lost | JobEnd::Cancelled => "its reservation is lost: the backend gets no outcome".to_owned(),
        JobEnd::Acked => "it is acknowledged".to_owned(),
    }
}

fn of_refusal(refusal: &CancelRefusal) -> CancelReply {
    let refused = |code: &str, message: String| CancelReply {
        code: Some(code.to_owned()),
        message,
        ..CancelReply::default()
    };
    match refusal {
        CancelRefusal::Unknown => {
            let message = format!("no active job has this id or an id that begins so; {SEE_JOBS}");
            refused("unknown_job", message)
        }
        CancelRefusal::Ambiguous => {
            let message = format!("several active jobs have ids that begin so: give more of the id; {SEE_JOBS}");
            refused("ambiguous", message)
        }
        CancelRefusal::Decided(job, end) => {
            let end = names::end(*end);
            let message = format!(
                "{} is {end}, and that is on its way to the backend: nothing is left to cancel",
                name(job)
            );
            CancelReply {
                outcome: Some(end.to_owned()),
                ..of_job(job, refused("too_late", message))
            }
        }
        CancelRefusal::CannotBeTold(job) => {
            let message = format!(
                "{} goes on: its SDK gets no message, and gateway.enforce_timeouts is off, so ojs-init ends no process \
                 for one job; cancel it at the backend or in the SDK, or end all of the worker with ojs-init stop",
                name(job)
            );
            of_job(job, refused("impossible", message))
        }
        CancelRefusal::Dropped(job) => {
            let message = format!(
                "{} goes on, perhaps: no heartbeat of the worker names it, so its process is not known, and its \
                 reservation runs out; ojs-init stop ends all of the worker",
                name(job)
            );
            of_job(job, refused("impossible", message))
        }
    }
}

/// The reply with the name of its job.
fn of_job(job: &Subject, reply: CancelReply) -> CancelReply {
    CancelReply {
        id: Some(shortened(&job.id.0, LONGEST_NAME)),
        kind: Some(shortened(&job.kind, LONGEST_NAME)),
        ..reply
    }
}

fn name(job: &Subject) -> String {
    let (id, kind) = (shortened(&job.id.0, LONGEST_NAME), shortened(&job.kind, LONGEST_NAME));
    format!("job {id} ({kind})")
}

#[cfg(test)]
#[path = "cancel_reply_tests.rs"]
mod tests;
