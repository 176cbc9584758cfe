//! One log record: its parts, their bounds, and how it is written. The layout is that of the OJS
//! logging extension, chapter 5.
//!
//! Each part has its own bound, counted while it is written, escapes included. The sum is less than
//! the bytes that a pipe accepts in one piece. So no line of the child interrupts a record, even if
//! the backend or a worker sends too much.

use std::fmt::{self, Write};

use std::time::Duration;

use log::Level;

use crate::config::LogFormat;
use crate::daemon::log::json_text::{Members, push_number, quote};
use ojs_lifecycle::api::{Subject, Text, Trace};
use ojs_values::text::{CUT, clipped};
use ojs_wire::text::{count, is_terminal_control, seconds};

/// Most bytes of a whole record, its line end included: `PIPE_BUF`.
pub const RECORD_BYTES: usize = 4096;

/// Room for a usual record: one that is longer gets more.
const USUAL_RECORD_BYTES: usize = 512;

/// Most bytes of the message, as it is written.
const MESSAGE_BYTES: usize = 1400;

/// Most bytes of each id and name in `ojs`, as it is written.
pub const NAME_BYTES: usize = 200;

/// Most bytes of an error's type, as it is written.
const ERROR_TYPE_BYTES: usize = 200;

/// Most bytes of an error's message, as it is written.
const ERROR_MESSAGE_BYTES: usize = 700;

/// Most bytes of one text among the attributes, as it is written.
const ATTRIBUTE_BYTES: usize = 200;

/// Most bytes of all attributes together. One that has no room is left out.
const ATTRIBUTES_BYTES: usize = 500;

/// The subject of a record (OJS logging 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    /// The way of a job.
    Lifecycle,
    /// All other facts about the worker and ojs-init.
    Worker,
    /// A failure of something other than a job.
    Error,
}

impl Category {
    fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Worker => "worker",
            Self::Error => "error",
        }
    }
}

/// A job, as far as the log is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordAbout {
    id: Text,
    kind: Text,
    queue: Text,
    attempt: Option<u64>,
    trace: Option<Trace>,
    state: Option<&'static str>,
}

impl RecordAbout {
    fn new(job: &Subject, state: Option<&'static str>) -> Self {
        Self {
            id: Text::clone(&job.id.0),
            kind: Text::clone(&job.kind),
            queue: Text::clone(&job.queue),
            attempt: job.attempt,
            trace: job.trace,
            state,
        }
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(u64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(clipped(text, ATTRIBUTE_BYTES))
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Attribute {
    fn from(number: usize) -> Self {
        Self::Number(count(number))
    }
}

/// A record that one place builds and another writes: its level, its message and its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    pub level: Level,
    pub message: String,
    /// ojs-init cannot continue: worse than any level.
    is_fatal: bool,
    category: Category,
    job: Option<RecordAbout>,
    error: Option<(String, String)>,
    is_error_in_the_message: bool,
    attributes: Vec<(&'static str, Attribute)>,
}

impl LogRecord {
    /// About the worker or ojs-init.
    pub fn new(level: Level, message: impl fmt::Display) -> Self {
        Self {
            level,
            message: message.to_string(),
            is_fatal: false,
            category: Category::Worker,
            job: None,
            error: None,
            is_error_in_the_message: false,
            attributes: Vec::new(),
        }
    }

    /// Marks a record after which ojs-init cannot continue.
    pub fn fatal(mut self) -> Self {
        self.is_fatal = true;
        self.category = Category::Error;
        self
    }

    /// About a job, which is in this state now (OJS core's words), or is about to be.
    pub fn of_job(mut self, job: &Subject, state: Option<&'static str>) -> Self {
        self.category = Category::Lifecycle;
        self.job = Some(RecordAbout::new(job, state));
        self
    }

    /// Names a job that the record is about, too, if there is one.
    pub fn naming(mut self, job: Option<&Subject>) -> Self {
        self.job = job.map(|job| RecordAbout::new(job, None));
        self
    }

    /// About a failure whose reason is also in the message.
    pub fn of_error(mut self, kind: &str, message: &str) -> Self {
        self.category = Category::Error;
        self.is_error_in_the_message = true;
        self.error(kind, message)
    }

    /// Adds the error: its kind in a word, and a text for a person that the message lacks.
    pub fn error(mut self, kind: &str, message: &str) -> Self {
        self.error = Some((clipped(kind, ERROR_TYPE_BYTES), clipped(message, ERROR_MESSAGE_BYTES)));
        self
    }

    /// Adds an attribute.
    pub fn with(mut self, name: &'static str, value: impl Into<Attribute>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Adds an attribute if there is one.
    pub fn with_any(self, name: &'static str, value: Option<impl Into<Attribute>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The duration of the job, for a person.
    fn duration(&self) -> Option<String> {
        let is_it = |(name, _): &&(&str, Attribute)| *name == "duration_ms";
        match self.attributes.iter().find(is_it) {
            Some((_, Attribute::Number(milliseconds))) => Some(seconds(Duration::from_millis(*milliseconds))),
            Some((_, Attribute::Text(_))) | None => None,
        }
    }

    /// The name and the number of its severity (OJS logging 5.4): the numbers are OpenTelemetry's.
    fn severity(&self) -> (&'static str, u64) {
        if self.is_fatal {
            return ("FATAL", 21);
        }
        match self.level {
            Level::Error => ("ERROR", 17),
            Level::Warn => ("WARN", 13),
            Level::Info => ("INFO", 9),
            Level::Debug => ("DEBUG", 5),
            Level::Trace => ("TRACE", 1),
        }
    }

    /// One line, its end included. `worker`: the present incarnation's name, if there was one yet.
    pub fn line(&self, format: LogFormat, at: jiff::Timestamp, worker: Option<&str>) -> String {
        match format {
            LogFormat::Text => self.text(at),
            LogFormat::Json => self.json(at, worker),
        }
    }

    /// `12:34:56.789Z ojs-init: warn: message`, and the job and its error, which the message does
    /// not name.
    fn text(&self, at: jiff::Timestamp) -> String {
        let severity = self.severity().0.to_ascii_lowercase();
        let moment = format!("{at:.3}");
        let time = moment.split_once('T').map_or(moment.as_str(), |(_, time)| time);
        let mut said = self.message.clone();
        if let Some((kind, message)) = &self.error
            && !self.is_error_in_the_message
        {
            let separator = if kind.is_empty() || message.is_empty() {
                ""
            } else {
                ": "
            };
            // Writing to a text cannot fail.
            let _ = write!(said, ": {kind}{separator}{message}");
        }
        if let Some(job) = &self.job {
            let _ = write!(said, " [job {}", clipped(&job.id, NAME_BYTES));
            if !job.kind.is_empty() {
                let _ = write!(said, ", {}", clipped(&job.kind, NAME_BYTES));
            }
            if let Some(attempt) = job.attempt {
                let _ = write!(said, ", attempt {attempt}");
            }
            if let Some(took) = self.duration() {
                let _ = write!(said, ", took {took}");
            }
            said.push(']');
        }
        format!("{time} ojs-init: {severity}: {}\n", printable(&said))
    }

    /// By hand, because a record has a limit in bytes, and so has each text in it; and piece by
    /// piece, because a record is written for each job.
    fn json(&self, at: jiff::Timestamp, worker: Option<&str>) -> String {
        let (severity, number) = self.severity();
        let mut line = String::with_capacity(USUAL_RECORD_BYTES);
        // Writing to a text cannot fail.
        let _ = write!(line, r#"{{"timestamp":"{at:.3}","severity":""#);
        line.push_str(severity);
        line.push_str(r#"","severity_number":"#);
        push_number(&mut line, number);
        line.push_str(r#","message":"#);
        quote(&mut line, &self.message, MESSAGE_BYTES);
        line.push_str(r#","category":""#);
        line.push_str(self.category.name());
        line.push_str(r#"","component":"worker""#);
        self.put_ojs(&mut line, worker);
        if let Some(trace) = self.job.as_ref().and_then(|job| job.trace) {
            let (trace, span) = (trace.trace, trace.span);
            let _ = write!(
                line,
                r#","trace":{{"trace_id":"{trace:032x}","span_id":"{span:016x}"}}"#
            );
        }
        if let Some((kind, message)) = &self.error {
            line.push_str(r#","error":{"type":"#);
            quote(&mut line, kind, ERROR_TYPE_BYTES);
            line.push_str(r#","message":"#);
            quote(&mut line, message, ERROR_MESSAGE_BYTES);
            line.push('}');
        }
        self.put_attributes(&mut line);
        line.push_str("}\n");
        line
    }

    fn put_ojs(&self, line: &mut String, worker: Option<&str>) {
        let mut object = Members::begin("ojs", line);
        if let Some(job) = &self.job {
            object.text("job_id", &job.id, NAME_BYTES);
            for (name, text) in [("job_type", &job.kind), ("queue", &job.queue)] {
                if !text.is_empty() {
                    object.text(name, text, NAME_BYTES);
                }
            }
            if let Some(attempt) = job.attempt {
                object.number("attempt", attempt);
            }
            if let Some(state) = job.state {
                object.text("state", state, NAME_BYTES);
            }
        }
        if let Some(worker) = worker {
            object.text("worker_id", worker, NAME_BYTES);
        }
        object.end();
    }

    fn put_attributes(&self, line: &mut String) {
        let mut object = Members::begin("attributes", line);
        for (name, value) in &self.attributes {
            let before = object.length();
            match value {
                Attribute::Text(text) => object.text(name, text, ATTRIBUTE_BYTES),
                Attribute::Number(number) => object.number(name, *number),
            }
            if object.length() > ATTRIBUTES_BYTES {
                object.cut_to(before);
            }
        }
        object.end();
    }
}

/// Escapes line breaks and control characters, and cuts the text: a job's id or a client's name may
/// hold anything.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let before = shown.len();
        if is_terminal_control(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        if shown.len() > TEXT_BYTES {
            shown.truncate(before);
            shown.push(CUT);
            break;
        }
    }
    shown
}

/// Most bytes of a line's text.
const TEXT_BYTES: usize = RECORD_BYTES - 64;

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
