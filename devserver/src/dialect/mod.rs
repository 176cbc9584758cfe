//! Dialects: which requests of workers are accepted and how they are answered, in the
//! specification's way and the ways of real backends.
//!
//! A dialect translates, and has no state and no rule about jobs. `fields` names the fields of the
//! specification, for a dialect that refuses all others. Start with [`Dialect`]: each `match` on it
//! is one difference between backends.

mod fields;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::value::RawValue;

use fields::{
    ACK_FIELDS, DEREGISTER_FIELDS, ERROR_CODES, ERROR_FIELDS, FETCH_FIELDS, HEARTBEAT_FIELDS, NACK_FIELDS,
    PROTOCOL_FETCH_FIELDS, PROTOCOL_HEARTBEAT_FIELDS, WORKER_INFO_FIELDS, check_fields,
};

use crate::json::{Object, raw};
use crate::refusal::Refusal;
use crate::store::fetch::Fetch;
use crate::store::job::Directive;
use crate::store::worker::{Heartbeat, HeartbeatAnswer};

/// How the server speaks with workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The HTTP binding and the worker protocol, as generously as both can be read: `active_jobs`
    /// is an array or a number.
    #[default]
    Spec,
    /// The public Go backends. `state` is always `active` and the word is in `directive`. An
    /// integer in `active_jobs` is refused. Without `visibility_timeout_ms` a job is reserved for
    /// 30 s. The routes to register, report progress and save a checkpoint do not exist.
    Go,
    /// The worker protocol to the letter: `active_jobs` must be a number and the ids are in
    /// `active_job_ids`.
    Integer,
    /// The JSON schemas to the letter: a field that they do not have is refused.
    Strict,
    /// As [`Self::Integer`], and a field of a heartbeat or a FETCH that is not in the worker
    /// protocol is refused.
    Protocol,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 5] = [Self::Spec, Self::Go, Self::Integer, Self::Strict, Self::Protocol];

    /// The name of the dialect on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Go => "go",
            Self::Integer => "integer",
            Self::Strict => "strict",
            Self::Protocol => "protocol",
        }
    }

    /// Whether an administrator's quiet is stored for good, and FETCH ignores it.
    pub(crate) fn keeps_quiet(self) -> bool {
        self == Self::Go
    }

    /// Whether the server has `/workers/register`, `/progress` and `/checkpoint`.
    pub(crate) fn has_extensions(self) -> bool {
        self != Self::Go
    }

    /// The version of the specification that every answer names.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Go => "1.0.0-rc.1",
            Self::Spec | Self::Integer | Self::Strict | Self::Protocol => "1.0",
        }
    }

    /// Whether a producer's own id of a job has to be a UUIDv7.
    pub(crate) fn wants_uuid7(self) -> bool {
        match self {
            Self::Spec | Self::Strict => true,
            Self::Go | Self::Integer | Self::Protocol => false,
        }
    }

    /// Whether the server ends an execution that exceeds the job's timeout.
    pub(crate) fn enforces_timeouts(self) -> bool {
        self.has_extensions()
    }

    /// Whether the events of a queue and of a job can be listened to.
    pub(crate) fn has_streams(self) -> bool {
        match self {
            Self::Spec | Self::Go => true,
            Self::Integer | Self::Strict | Self::Protocol => false,
        }
    }

    /// Whether one stream announces available jobs of several queues, as one of the public backends
    /// does.
    pub(crate) fn has_availability(self) -> bool {
        self == Self::Go
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        let known = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("there is no dialect '{name}': it is one of {known}"))
    }
}

/// How long the Go backends reserve a job if a request names no time.
const GO_VISIBILITY: Duration = Duration::from_secs(30);

/// Shortest visibility timeout of the JSON schemas.
const SCHEMA_MIN_VISIBILITY_MS: u64 = 1_000;

/// Longest id of a worker, in bytes.
const MAX_WORKER_ID_BYTES: usize = 255;

/// The contents of an ACK.
#[derive(Debug)]
pub struct Ack {
    pub job: String,
    pub worker: Option<String>,
    pub result: Option<Box<RawValue>>,
}

/// The contents of a FAIL.
#[derive(Debug)]
pub struct Nack {
    pub job: String,
    pub worker: Option<String>,
    /// The error; `None`: the job is given back.
    pub error: Option<Object>,
}

impl Dialect {
    /// Refuses a field that the schema does not have.
    fn check_schema(self, body: &Object, fields: &[&str]) -> Result<(), Refusal> {
        match self {
            Self::Strict => check_fields(body, "the schema", fields),
            Self::Spec | Self::Go | Self::Integer | Self::Protocol => Ok(()),
        }
    }

    /// Refuses a field that the schema, or the worker protocol, does not have.
    fn check_schema_or_protocol(self, body: &Object, schema: &[&str], protocol: &[&str]) -> Result<(), Refusal> {
        match self {
            Self::Protocol => check_fields(body, "the worker protocol", protocol),
            Self::Strict | Self::Spec | Self::Go | Self::Integer => self.check_schema(body, schema),
        }
    }

    fn visibility(self, body: &Object) -> Result<Option<Duration>, Refusal> {
        let millis: Option<u64> = body.get("visibility_timeout_ms", "milliseconds, 1 or more")?;
        let shortest = if self == Self::Strict {
            SCHEMA_MIN_VISIBILITY_MS
        } else {
            1
        };
        if millis.is_some_and(|millis| millis < shortest) {
            return Err(Refusal::field(
                "visibility_timeout_ms",
                &format!("milliseconds, {shortest} or more"),
            ));
        }
        Ok(millis.map(Duration::from_millis))
    }

    /// Reads the body of a FETCH.
    ///
    /// # Errors
    ///
    /// This dialect refuses the body.
    pub fn fetch(self, body: &Object) -> Result<Fetch, Refusal> {
        self.check_schema_or_protocol(body, &FETCH_FIELDS, &PROTOCOL_FETCH_FIELDS)?;
        let queues: Option<Vec<String>> = body.get("queues", "an array of queue names")?;
        let queues = queues.filter(|queues| !queues.is_empty());
        let count: i64 = body.get("count", "a whole number")?.unwrap_or(1);
        if self == Self::Strict && count < 1 {
            return Err(Refusal::field("count", "1 or more"));
        }
        Ok(Fetch {
            queues: queues.ok_or_else(|| Refusal::field("queues", "given, as an array of at least one queue name"))?,
            count: u64::try_from(count).unwrap_or_default().max(1),
            worker: worker_id(body)?,
            visibility: self.visibility(body)?,
            default_visibility: (self == Self::Go).then_some(GO_VISIBILITY),
            ignores_quiet: self.keeps_quiet(),
        })
    }

    /// Reads the body of an ACK.
    ///
    /// # Errors
    ///
    /// This dialect refuses the body.
    pub fn ack(self, body: &Object) -> Result<Ack, Refusal> {
        self.check_schema(body, &ACK_FIELDS)?;
        Ok(Ack {
            job: self.job_id(body)?,
            worker: worker_id(body)?,
            result: body.raw("result").map(ToOwned::to_owned),
        })
    }

    /// Reads the body of a FAIL.
    ///
    /// # Errors
    ///
    /// This dialect refuses the body.
    pub fn nack(self, body: &Object) -> Result<Nack, Refusal> {
        self.check_schema(body, &NACK_FIELDS)?;
        let error = body.get::<Object>("error", "an object")?;
        let is_requeue = body.get("requeue", "true or false")?.unwrap_or(false);
        if self == Self::Strict {
            check_schema_error(self, error.as_ref())?;
        }
        let missing = || Refusal::field("error", "given, as an object with a code or a type and a message");
        Ok(Nack {
            job: self.job_id(body)?,
            worker: worker_id(body)?,
            error: if is_requeue {
                None
            } else {
                Some(error.ok_or_else(missing)?)
            },
        })
    }

    /// Reads the body of a heartbeat.
    ///
    /// # Errors
    ///
    /// This dialect refuses the body.
    pub fn heartbeat(self, body: &Object) -> Result<Heartbeat, Refusal> {
        self.check_schema_or_protocol(body, &HEARTBEAT_FIELDS, &PROTOCOL_HEARTBEAT_FIELDS)?;
        let extension = self.visibility(body)?;
        Ok(Heartbeat {
            worker: required_worker_id(body)?,
            reported: reported_state(body)?,
            jobs: self.active_jobs(body)?,
            extension: extension.or((self == Self::Go).then_some(GO_VISIBILITY)),
            info: worker_info(body),
        })
    }

    /// Reads the body of a deregister: the id of the worker.
    ///
    /// # Errors
    ///
    /// This dialect refuses the body.
    pub fn deregister(self, body: &Object) -> Result<String, Refusal> {
        self.check_schema(body, &DEREGISTER_FIELDS)?;
        required_worker_id(body)
    }

    fn active_jobs(self, body: &Object) -> Result<Vec<String>, Refusal> {
        let array = "an array of job ids";
        let active = body.raw("active_jobs").map(RawValue::get);
        let is_number =
            active.is_some_and(|active| active.starts_with(|first: char| first == '-' || first.is_ascii_digit()));
        match self {
            Self::Integer | Self::Protocol => {
                body.get::<u64>("active_jobs", "a whole number, 0 or more")?
                    .ok_or_else(|| Refusal::field("active_jobs", "given, as a whole number"))?;
                let ids = body.get("active_job_ids", array)?;
                ids.ok_or_else(|| Refusal::field("active_job_ids", "given, as an array of job ids"))
            }
            Self::Spec => match body.get("active_job_ids", array)? {
                Some(ids) => Ok(ids),
                None if is_number => Ok(Vec::new()),
                None => Ok(body.get("active_jobs", array)?.unwrap_or_default()),
            },
            Self::Go | Self::Strict => Ok(body.get("active_jobs", array)?.unwrap_or_default()),
        }
    }

    /// The body of the answer to a heartbeat.
    pub fn heartbeat_answer(self, answer: &HeartbeatAnswer, server_time: &str) -> Box<RawValue> {
        let ids: Vec<&str> = answer.extended.iter().map(|id| &**id).collect();
        let word = answer.directive.name();
        if self != Self::Go {
            return raw(&serde_json::json!({"state": word, "jobs_extended": ids, "server_time": server_time}));
        }
        let directive = if answer.directive == Directive::Run {
            "continue"
        } else {
            word
        };
        let mut body = serde_json::json!({"state": "active", "directive": directive, "server_time": server_time});
        if !ids.is_empty() {
            body["jobs_extended"] = ids.into();
        }
        raw(&body)
    }

    fn job_id(self, body: &Object) -> Result<String, Refusal> {
        let id = body.text("job_id")?.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Refusal::field("job_id", "given, as text"))?;
        if self == Self::Strict && !is_uuid_v7(&id) {
            return Err(Refusal::field("job_id", "a UUIDv7 in lower case"));
        }
        Ok(id)
    }
}

/// The `error` of the JSON schema of a FAIL.
fn check_schema_error(dialect: Dialect, error: Option<&Object>) -> Result<(), Refusal> {
    let error = error.ok_or_else(|| Refusal::field("error", "given, as an object"))?;
    dialect.check_schema(error, &ERROR_FIELDS)?;
    let code = error.text("code")?;
    if !code.is_some_and(|code| ERROR_CODES.contains(&code.as_str())) {
        return Err(Refusal::field(
            "error.code",
            &format!("one of {}", ERROR_CODES.join(", ")),
        ));
    }
    if error.text("message")?.is_none_or(|message| message.is_empty()) {
        return Err(Refusal::field("error.message", "given, as text"));
    }
    error.get::<bool>("retryable", "true or false")?;
    error.get::<Object>("details", "an object")?;
    Ok(())
}

fn is_uuid_v7(id: &str) -> bool {
    let parsed = uuid::Uuid::parse_str(id).ok().filter(|id| id.get_version_num() == 7);
    parsed.is_some_and(|parsed| parsed.hyphenated().to_string() == id)
}

fn worker_id(body: &Object) -> Result<Option<String>, Refusal> {
    let id = body.text("worker_id")?.filter(|id| !id.is_empty());
    if id.as_ref().is_some_and(|id| id.len() > MAX_WORKER_ID_BYTES) {
        return Err(Refusal::field(
            "worker_id",
            &format!("text of at most {MAX_WORKER_ID_BYTES} bytes"),
        ));
    }
    Ok(id)
}

/// The `worker_id` that must be there.
///
/// # Errors
///
/// The field is not there, or no text.
pub fn required_worker_id(body: &Object) -> Result<String, Refusal> {
    worker_id(body)?.ok_or_else(|| Refusal::field("worker_id", "given, as text"))
}

fn reported_state(body: &Object) -> Result<Option<Directive>, Refusal> {
    match body.text("state")?.as_deref() {
        None => Ok(None),
        Some("running") => Ok(Some(Directive::Run)),
        Some("quiet") => Ok(Some(Directive::Quiet)),
        // The last beat of the website's example: after it nothing more is done than during
        // terminate.
        Some("terminate" | "terminated") => Ok(Some(Directive::Terminate)),
        Some(_) => Err(Refusal::field("state", "running, quiet or terminate")),
    }
}

/// The words of a worker about itself.
pub fn worker_info(body: &Object) -> Object {
    let mut info = Object::default();
    for name in WORKER_INFO_FIELDS {
        if let Some(value) = body.raw(name) {
            info.set(name, value.to_owned());
        }
    }
    info
}

#[cfg(test)]
mod tests;
