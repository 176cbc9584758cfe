//! The worker socket from the worker's side: the frames that the runner receives and sends.
//!
//! PID 1 sends the frames to the runner. Still nothing here panics or grows on any input.

use std::borrow::Cow;
use std::str;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::json::object::Object;
use crate::json::values;
use crate::names;
use crate::worker::{FrameLine, MAX_DEPTH, PROTOCOL};
use ojs_lifecycle::api::{About, CancelReason, JobError};

/// A frame of PID 1 that the runner acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Work on this.
    Job(JobOrder),
    /// Stop working on this, and answer within `grace`.
    Cancel {
        job: String,
        reason: CancelReason,
        grace: Duration,
    },
    /// A checkpoint has arrived.
    Saved {
        job: String,
    },
    /// A frame of the runner was refused, a checkpoint perhaps: code and message.
    Refused {
        job: Option<String>,
        why: String,
    },
    Ping {
        id: u64,
    },
}

/// The order to work on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOrder {
    /// The envelope, as the backend spelled it.
    pub envelope: String,
    /// The checkpoint of an earlier attempt, from which this one continues, as JSON.
    pub checkpoint: Option<String>,
    /// The context of the span that PID 1 records of the job, if it records one.
    pub traceparent: Option<String>,
}

impl JobOrder {
    /// The facts of the job; `None` if its envelope has no id. The span of PID 1 is the parent of
    /// the job's own, in place of the one that the job was enqueued in.
    pub fn facts(&self) -> Option<JobFacts<'_>> {
        let facts = JobFacts::read(&self.envelope)?;
        Some(JobFacts {
            traceparent: self.traceparent.clone().or(facts.traceparent),
            ..facts
        })
    }
}

const FIELDS: [&str; 11] = [
    "type",
    "job",
    "checkpoint",
    "traceparent",
    "job_id",
    "reason",
    "grace_ms",
    "for",
    "id",
    "code",
    "message",
];

/// Reads a frame for the runner from a line without its `\n`. `None`: the line is no frame, or one
/// that the runner does not act on: the greeting, the state of all, or one of a newer version.
pub fn decode(line: &[u8]) -> Option<Told> {
    let line = str::from_utf8(line).ok()?;
    let frame = Object::read_some(line, &FIELDS).ok()?;
    let text = |name: &str| frame.text(name).map(Cow::into_owned);
    let message = frame.raw("message").and_then(values::text);
    let kind = text("type")?;
    match kind.as_str() {
        "job" => Some(Told::Job(JobOrder {
            envelope: frame.raw("job")?.to_owned(),
            checkpoint: frame.any("checkpoint").map(str::to_owned),
            traceparent: text("traceparent"),
        })),
        "cancel" => Some(Told::Cancel {
            job: text("job_id")?,
            reason: cancel_reason(&text("reason")?)?,
            grace: Duration::from_millis(frame.whole("grace_ms")?),
        }),
        "ok" if text("for")? == names::about(About::Checkpoint) => Some(Told::Saved { job: text("job_id")? }),
        "error" => Some(Told::Refused {
            job: text("job_id"),
            why: format!("{}: {}", text("code").unwrap_or_default(), message.unwrap_or_default()),
        }),
        "ping" => Some(Told::Ping { id: frame.whole("id")? }),
        _ => None,
    }
}

fn cancel_reason(name: &str) -> Option<CancelReason> {
    use CancelReason::{Cancelled, Lost, Shutdown, Timeout};
    let mut reasons = [Shutdown, Timeout, Cancelled, Lost].into_iter();
    reasons.find(|reason| names::cancel_reason(*reason) == name)
}

/// The fields of an envelope that the runner and its jobs need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFacts<'a> {
    pub id: String,
    /// The job's type.
    pub kind: String,
    pub queue: String,
    pub attempt: Option<u64>,
    pub max_attempts: Option<u64>,
    /// The job's timeout, if the envelope has one.
    pub timeout: Option<Duration>,
    /// The arguments, as JSON.
    pub args: Option<&'a str>,
    /// The W3C trace context that it runs in: it was enqueued in that one, or PID 1 records it.
    pub traceparent: Option<String>,
}

impl<'a> JobFacts<'a> {
    /// Reads an envelope; `None` if it has no id.
    pub fn read(envelope: &'a str) -> Option<Self> {
        let fields = Object::read(envelope)?;
        let timeout = fields
            .duration("timeout_ms", Duration::from_millis(1))
            .or_else(|| fields.duration("timeout", Duration::from_secs(1)));
        Some(Self {
            id: fields.text("id").filter(|id| !id.is_empty())?.into_owned(),
            kind: fields.text("type").unwrap_or_default().into_owned(),
            queue: fields.text("queue").unwrap_or_default().into_owned(),
            attempt: fields.whole("attempt"),
            max_attempts: fields.whole("max_attempts"),
            timeout,
            args: fields.raw("args"),
            traceparent: fields
                .object("meta")
                .and_then(|meta| meta.text("traceparent").map(Cow::into_owned)),
        })
    }
}

/// `ready`: ojs-init may send jobs from now on, at most `concurrency` at once.
pub fn ready(concurrency: u32, client: &str) -> Vec<u8> {
    FrameLine::new("ready")
        .number("protocol", PROTOCOL)
        .number("concurrency", concurrency)
        .json("ping", "true")
        .text("client", client)
        .end()
}

/// `ack`: the job is done, with this result as JSON.
pub fn ack(job: &str, result: Option<&str>) -> Vec<u8> {
    let line = FrameLine::new("ack").text("job_id", job);
    line.optional(result, |line, result| line.json("result", result)).end()
}

/// `fail`: the job failed.
pub fn fail(job: &str, error: &JobError) -> Vec<u8> {
    let mut said = serde_json::Map::new();
    said.insert("message".to_owned(), (&*error.message).into());
    let names = [("code", &error.code), ("type", &error.kind)];
    for (name, value) in names {
        said.extend(value.as_ref().map(|value| (name.to_owned(), (&**value).into())));
    }
    said.insert("retryable".to_owned(), error.retryable.into());
    let mut error_json = serde_json::Value::from(said).to_string();
    if let Some(details) = &error.details {
        error_json.pop();
        error_json.push_str(",\"details\":");
        error_json.push_str(details);
        error_json.push('}');
    }
    FrameLine::new("fail")
        .text("job_id", job)
        .json("error", &error_json)
        .end()
}

/// `release`: gives the job back, to be retried after `after_ms` milliseconds.
pub fn release(job: &str, reason: &str, after_ms: u64) -> Vec<u8> {
    FrameLine::new("release")
        .text("job_id", job)
        .text("reason", reason)
        .json("after_ms", &after_ms.to_string())
        .end()
}

/// `progress`: how far the job is, as a JSON number.
pub fn progress(job: &str, fraction: &str, message: Option<&str>) -> Vec<u8> {
    let line = FrameLine::new("progress")
        .text("job_id", job)
        .json("progress", fraction);
    line.optional(message, |line, message| line.text("message", message))
        .end()
}

/// `checkpoint`: the point from which the next attempt continues, as JSON.
pub fn checkpoint(job: &str, state: &str) -> Vec<u8> {
    FrameLine::new("checkpoint")
        .text("job_id", job)
        .json("state", state)
        .end()
}

/// `heartbeat`: the job is alive.
pub fn heartbeat(job: &str) -> Vec<u8> {
    FrameLine::new("heartbeat").text("job_id", job).end()
}

/// `pong`: the answer to this ping.
pub fn pong(id: u64) -> Vec<u8> {
    FrameLine::new("pong").number("id", id).end()
}

/// The result that these bytes are: JSON if they are that, else their text as a string. The string
/// has no line breaks at its end, as in a shell's `$(...)`. Space alone is no result.
pub fn result(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let json = text.trim_matches([' ', '\t', '\n', '\r']);
    if json.is_empty() {
        return None;
    }
    if is_json(json) {
        return Some(json.to_owned());
    }
    let text = text.trim_end_matches(['\n', '\r']);
    Some(serde_json::Value::from(text).to_string())
}

/// Whether this is one JSON document that may be a value in a frame.
pub fn is_json(text: &str) -> bool {
    // The frame itself is one level.
    serde_json::from_str::<&RawValue>(text).is_ok() && values::depth(text) < MAX_DEPTH
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
