//! What is accepted from workers and how they are answered: the specification's way and the ways of real backends.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::json::{Object, raw};
use crate::refusal::{Kind, Refusal};
use crate::store::Fetch;
use crate::store::job::Directive;
use crate::store::worker::{Beat, Beaten};

/// How the server speaks with workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// The HTTP binding and the worker protocol, as generously as both can be read: `active_jobs` is an array or a number.
    #[default]
    Spec,
    /// The public Go backends: `state` is always `active` and the word is in `directive`; an integer in `active_jobs` is
    /// refused; without `visibility_timeout_ms` a job is reserved for 30 s; nothing to register, report or save at.
    Go,
    /// The worker protocol to the letter: `active_jobs` must be a number and the ids come in `active_job_ids`.
    Integer,
    /// The JSON schemas to the letter: a field that they do not have is refused.
    Strict,
    /// As [`Self::Integer`], and what the worker protocol does not have in a heartbeat or a FETCH is refused.
    Protocol,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Spec, Self::Go, Self::Integer, Self::Strict, Self::Protocol];

    /// Its name on the command line.
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

    /// Whether an administrator's quiet is stored where nothing takes it back, and FETCH does not ask for it.
    pub(crate) fn keeps_quiet(self) -> bool {
        self == Self::Go
    }

    /// Whether there is anything at `/workers/register`, `/progress` and `/checkpoint`.
    pub(crate) fn has_extensions(self) -> bool {
        self != Self::Go
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
        found.ok_or_else(|| format!("there is no dialect '{name}': it is one of spec, go, integer, strict, protocol"))
    }
}

/// How long the Go backends reserve a job when a request does not say it.
const GO_VISIBILITY: Duration = Duration::from_secs(30);

/// Shortest visibility timeout of the JSON schemas.
const SCHEMA_MIN_VISIBILITY_MS: u64 = 1_000;

/// Longest id of a worker, in bytes.
const MAX_WORKER_BYTES: usize = 255;

/// The fields of the JSON schemas of requests.
const FETCH_FIELDS: [&str; 4] = ["queues", "count", "worker_id", "visibility_timeout_ms"];
const ACK_FIELDS: [&str; 2] = ["job_id", "result"];
const NACK_FIELDS: [&str; 2] = ["job_id", "error"];
const ERROR_FIELDS: [&str; 4] = ["code", "message", "retryable", "details"];
const HEARTBEAT_FIELDS: [&str; 3] = ["worker_id", "active_jobs", "visibility_timeout_ms"];
const DEREGISTER_FIELDS: [&str; 1] = ["worker_id"];

/// The fields of a heartbeat and of a FETCH in the worker protocol (4.2, 6.2).
const PROTOCOL_HEARTBEAT_FIELDS: [&str; 10] = [
    "worker_id",
    "state",
    "active_jobs",
    "active_job_ids",
    "started_at",
    "hostname",
    "pid",
    "queues",
    "concurrency",
    "labels",
];
const PROTOCOL_FETCH_FIELDS: [&str; 3] = ["queues", "count", "worker_id"];

/// The error codes of the JSON schema of a FAIL.
const ERROR_CODES: [&str; 12] = [
    "handler_error",
    "timeout",
    "cancelled",
    "invalid_payload",
    "invalid_request",
    "not_found",
    "backend_error",
    "rate_limited",
    "duplicate",
    "queue_paused",
    "schema_validation",
    "unsupported",
];

/// What a worker may say about itself in registration and heartbeats.
const ABOUT: [&str; 6] = ["hostname", "pid", "queues", "concurrency", "labels", "started_at"];

/// An ACK.
#[derive(Debug)]
pub struct Ack {
    pub job: String,
    pub worker: Option<String>,
    pub result: Option<Box<RawValue>>,
}

/// A FAIL.
#[derive(Debug)]
pub struct Nack {
    pub job: String,
    pub worker: Option<String>,
    /// `None`: the job is given back.
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
    fn check_written(self, body: &Object, schema: &[&str], protocol: &[&str]) -> Result<(), Refusal> {
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
    /// It is not what this dialect takes.
    pub fn fetch(self, body: &Object) -> Result<Fetch, Refusal> {
        self.check_written(body, &FETCH_FIELDS, &PROTOCOL_FETCH_FIELDS)?;
        let queues: Option<Vec<String>> = body.get("queues", "an array of queue names")?;
        let queues = queues.filter(|queues| !queues.is_empty());
        let count: i64 = body.get("count", "a whole number")?.unwrap_or(1);
        if self == Self::Strict && count < 1 {
            return Err(Refusal::field("count", "1 or more"));
        }
        Ok(Fetch {
            queues: queues.ok_or_else(|| Refusal::field("queues", "given, as an array of at least one queue name"))?,
            count: u64::try_from(count).unwrap_or_default().max(1),
            worker: worker(body)?,
            visibility: self.visibility(body)?,
            default_visibility: (self == Self::Go).then_some(GO_VISIBILITY),
            ignores_quiet: self.keeps_quiet(),
        })
    }

    /// Reads the body of an ACK.
    ///
    /// # Errors
    ///
    /// It is not what this dialect takes.
    pub fn ack(self, body: &Object) -> Result<Ack, Refusal> {
        self.check_schema(body, &ACK_FIELDS)?;
        Ok(Ack {
            job: self.job_id(body)?,
            worker: worker(body)?,
            result: body.raw("result").map(ToOwned::to_owned),
        })
    }

    /// Reads the body of a FAIL.
    ///
    /// # Errors
    ///
    /// It is not what this dialect takes.
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
            worker: worker(body)?,
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
    /// It is not what this dialect takes.
    pub fn heartbeat(self, body: &Object) -> Result<Beat, Refusal> {
        self.check_written(body, &HEARTBEAT_FIELDS, &PROTOCOL_HEARTBEAT_FIELDS)?;
        let extension = self.visibility(body)?;
        Ok(Beat {
            worker: worker_required(body)?,
            reported: reported(body)?,
            jobs: self.active_jobs(body)?,
            extension: extension.or((self == Self::Go).then_some(GO_VISIBILITY)),
            about: about(body),
        })
    }

    /// Reads the body of a deregister: who goes.
    ///
    /// # Errors
    ///
    /// It is not what this dialect takes.
    pub fn deregister(self, body: &Object) -> Result<String, Refusal> {
        self.check_schema(body, &DEREGISTER_FIELDS)?;
        worker_required(body)
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

    /// The answer to a heartbeat.
    pub fn beaten(self, beaten: &Beaten, server_time: &str) -> Box<RawValue> {
        let ids: Vec<&str> = beaten.extended.iter().map(|id| &**id).collect();
        let word = beaten.directive.name();
        if self != Self::Go {
            return raw(&serde_json::json!({"state": word, "jobs_extended": ids, "server_time": server_time}));
        }
        let directive = if beaten.directive == Directive::Run {
            "continue"
        } else {
            word
        };
        let mut answer = serde_json::json!({"state": "active", "directive": directive, "server_time": server_time});
        if !ids.is_empty() {
            answer["jobs_extended"] = ids.into();
        }
        raw(&answer)
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

/// Refuses a field that is not in the list; `whose` list it is.
fn check_fields(body: &Object, whose: &str, allowed: &[&str]) -> Result<(), Refusal> {
    let mut names = body.fields().map(|(name, _)| name);
    let Some(name) = names.find(|name| !allowed.contains(name)) else {
        return Ok(());
    };
    let message = format!("{whose} has no field '{name}'; it has {}", allowed.join(", "));
    let details = serde_json::json!({"field": name, "allowed": allowed});
    Err(Refusal::new(Kind::Invalid, message).with(&details))
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

fn worker(body: &Object) -> Result<Option<String>, Refusal> {
    let id = body.text("worker_id")?.filter(|id| !id.is_empty());
    if id.as_ref().is_some_and(|id| id.len() > MAX_WORKER_BYTES) {
        return Err(Refusal::field(
            "worker_id",
            &format!("text of at most {MAX_WORKER_BYTES} bytes"),
        ));
    }
    Ok(id)
}

/// The `worker_id` that must be there.
///
/// # Errors
///
/// It is not.
pub fn worker_required(body: &Object) -> Result<String, Refusal> {
    worker(body)?.ok_or_else(|| Refusal::field("worker_id", "given, as text"))
}

fn reported(body: &Object) -> Result<Option<Directive>, Refusal> {
    match body.text("state")?.as_deref() {
        None => Ok(None),
        Some("running") => Ok(Some(Directive::Run)),
        Some("quiet") => Ok(Some(Directive::Quiet)),
        // The last beat of the website's example: after it nothing more is done than during terminate.
        Some("terminate" | "terminated") => Ok(Some(Directive::Terminate)),
        Some(_) => Err(Refusal::field("state", "running, quiet or terminate")),
    }
}

/// What a worker says about itself.
pub fn about(body: &Object) -> Object {
    let mut about = Object::default();
    for name in ABOUT {
        if let Some(value) = body.raw(name) {
            about.set(name, value.to_owned());
        }
    }
    about
}

#[cfg(test)]
mod tests;
