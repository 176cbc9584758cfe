//! The frames to a worker, written.

use std::fmt::Display;
use std::time::Duration;

use serde_json::Value;

use crate::backend::envelope::one_line;
use crate::names;
use crate::worker::limits::PROTOCOL;
use ojs_lifecycle::api::{GivenJob, JOB_FRAME_BYTES, Text, ToWorker};

/// Bytes of a job frame beside the envelope and the checkpoint, its `\n` not counted, without what
/// is left out where there is no room.
pub const JOB_OVERHEAD: usize = r#"{"type":"job","job":,"checkpoint":}"#.len();

// The machine decides which job is too large, and does not know the text of a frame.
const _: () = assert!(JOB_OVERHEAD == JOB_FRAME_BYTES);

/// The content of a hello.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HelloContext {
    /// Most jobs at once over all connections (worker.concurrency).
    pub concurrency: u32,
    /// The queues of the jobs, most important first (worker.queues).
    pub queues: Vec<Text>,
    /// Longest frame in bytes in either direction, the `\n` not counted (worker.max_frame).
    pub max_frame: usize,
}

/// The frame for a word: one line, its `\n` included. Envelope and checkpoint keep their spelling,
/// on one line. Times are in whole milliseconds, rounded down, so a worker never counts on more
/// time than it has.
pub fn encode(word: &ToWorker, context: &HelloContext) -> Vec<u8> {
    match word {
        ToWorker::Hello { worker, state } => FrameLine::new("hello")
            .number("protocol", PROTOCOL)
            .text("worker_id", &worker.0)
            .text("state", names::worker_state(*state))
            .number("concurrency", context.concurrency)
            .json("queues", &queues(&context.queues))
            .number("max_frame", context.max_frame),
        ToWorker::Job(job) => {
            let (head, tail) = encode_around(job, None, context.max_frame);
            return [&head, one_line(&job.envelope).as_bytes(), &tail].concat();
        }
        ToWorker::Lifecycle {
            state,
            reason,
            remaining,
        } => FrameLine::new("lifecycle")
            .text("state", names::worker_state(*state))
            .text("reason", reason.wire_name())
            .optional(*remaining, |line, remaining| line.millis("remaining_ms", remaining)),
        ToWorker::Cancel { job, reason, grace } => FrameLine::new("cancel")
            .text("job_id", &job.0)
            .text("reason", names::cancel_reason(*reason))
            .millis("grace_ms", *grace),
        ToWorker::Ok { job, about, .. } => FrameLine::new("ok")
            .text("job_id", &job.0)
            .text("for", names::about(*about)),
        ToWorker::Error { code, message, job } => FrameLine::new("error")
            .text("code", names::error_code(*code))
            .text("message", message)
            .optional(job.as_ref(), |line, job| line.text("job_id", &job.0)),
        ToWorker::Ping { id } => FrameLine::new("ping").number("id", id),
    }
    .end()
}

/// The frame for a job whose envelope is written from its own memory, or which has the context of a
/// span: the bytes before the envelope, and the bytes behind it. The envelope is on one line. The
/// job's id in front, and then the context, are left out where the frame would be longer than
/// `most` bytes with them.
pub fn encode_around(job: &GivenJob, traceparent: Option<&str>, most: usize) -> (Vec<u8>, Vec<u8>) {
    let checkpoint =
        FrameLine::part().optional(job.checkpoint.as_deref(), |line, state| line.json("checkpoint", state));
    let least = r#"{"type":"job","job":}"#.len() + job.envelope.len() + checkpoint.0.len();
    let mut room = most.saturating_sub(least);
    let mut fitting = |name, value| {
        let member = FrameLine::part().text(name, value).0;
        let left = room.checked_sub(member.len());
        room = left.unwrap_or(room);
        left.map_or(String::new(), |_| member)
    };
    let head = FrameLine(FrameLine::new("job").0 + &fitting("job_id", &job.subject.id.0)).json("job", "");
    let tail = checkpoint.0 + &traceparent.map_or(String::new(), |context| fitting("traceparent", context));
    (head.0.into_bytes(), FrameLine(tail).end())
}

fn queues(names: &[Text]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    Value::from(names).to_string()
}

/// A frame that is being written.
pub(crate) struct FrameLine(String);

impl FrameLine {
    pub(crate) fn new(kind: &str) -> Self {
        Self(format!(r#"{{"type":"{kind}""#))
    }

    /// Members of a frame that is put together later.
    fn part() -> Self {
        Self(String::new())
    }

    /// A JSON value as its author spelled it, on one line: a line break between its tokens would
    /// end the frame.
    pub(crate) fn json(mut self, name: &str, spelled: &str) -> Self {
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(&one_line(spelled));
        self
    }

    pub(crate) fn text(self, name: &str, text: &str) -> Self {
        let json = Value::from(text).to_string();
        self.json(name, &json)
    }

    pub(crate) fn number(self, name: &str, number: impl Display) -> Self {
        self.json(name, &number.to_string())
    }

    fn millis(self, name: &str, duration: Duration) -> Self {
        self.number(name, duration.as_millis())
    }

    pub(crate) fn optional<T>(self, value: Option<T>, write: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => write(self, value),
            None => self,
        }
    }

    pub(crate) fn end(self) -> Vec<u8> {
        let mut line = self.0;
        line.push_str("}\n");
        line.into_bytes()
    }
}
