//! The frames of the worker socket, as docs/worker-socket.md describes them.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Error;

pub(crate) const PROTOCOL: u64 = 1;

/// A frame from ojs-init. Fields that a type does not have are absent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Frame<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) protocol: Value,
    pub(crate) concurrency: Option<usize>,
    pub(crate) state: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) remaining_ms: Option<u64>,
    pub(crate) id: Option<u64>,
    pub(crate) job_id: Option<String>,
    #[serde(borrow)]
    pub(crate) job: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) checkpoint: Option<&'a RawValue>,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

/// What a worker needs of a job's envelope. Only `id` has to be as expected.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    pub(crate) id: String,
    #[serde(default, rename = "type")]
    pub(crate) kind: Value,
    #[serde(default)]
    queue: Value,
    #[serde(default)]
    attempt: Value,
    #[serde(default)]
    max_attempts: Value,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    #[serde(default)]
    timeout_ms: Value,
    #[serde(default)]
    timeout: Value,
}

impl Envelope<'_> {
    pub(crate) fn queue(&self) -> &str {
        self.queue.as_str().unwrap_or("default")
    }

    pub(crate) fn attempt(&self) -> Option<u32> {
        small(&self.attempt)
    }

    pub(crate) fn max_attempts(&self) -> Option<u32> {
        small(&self.max_attempts)
    }

    pub(crate) fn args(&self) -> Box<RawValue> {
        let array = self.args.filter(|args| args.get().starts_with('['));
        array.map_or_else(|| RawValue::from_string("[]".to_owned()).unwrap_or_default(), ToOwned::to_owned)
    }

    pub(crate) fn meta(&self) -> Map<String, Value> {
        self.meta.and_then(|meta| serde_json::from_str(meta.get()).ok()).unwrap_or_default()
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        let millis = self.timeout_ms.as_f64().or_else(|| self.timeout.as_f64().map(|seconds| seconds * 1000.0))?;
        Duration::try_from_secs_f64(millis / 1000.0).ok().filter(|timeout| !timeout.is_zero())
    }
}

/// A count, also if a backend spells it 2.0.
fn small(value: &Value) -> Option<u32> {
    let float = value.as_f64().filter(|float| float.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(float))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number in the range of u32")]
    Some(float as u32)
}

#[derive(Serialize)]
pub(crate) struct Failure<'a> {
    pub(crate) message: &'a str,
    pub(crate) code: &'a str,
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    pub(crate) kind: &'a str,
    pub(crate) retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Value>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) backtrace: &'a [String],
}

impl<'a> Failure<'a> {
    pub(crate) fn of(error: &'a Error, retryable: bool) -> Failure<'a> {
        Failure {
            message: error.message(),
            code: error.code(),
            kind: error.kind(),
            retryable,
            details: error.details(),
            backtrace: error.backtrace(),
        }
    }
}

/// A line about a job, with members whose values are JSON. `type` and `job_id` come first, because
/// ojs-init reads them even if the rest of the line is too long.
pub(crate) fn about(kind: &str, job_id: &str, members: &[(&str, &str)]) -> Vec<u8> {
    let mut line = format!("{{\"type\":\"{kind}\",\"job_id\":{}", quoted(job_id));
    for (name, value) in members {
        let _infallible = write!(line, ",\"{name}\":{value}");
    }
    line.push_str("}\n");
    line.into_bytes()
}

pub(crate) fn fail(job_id: &str, failure: &Failure<'_>) -> Vec<u8> {
    let error = serde_json::to_string(failure).unwrap_or_else(|_| "{\"message\":\"unknown\"}".to_owned());
    about("fail", job_id, &[("error", &error)])
}

pub(crate) fn pong(id: u64) -> Vec<u8> {
    format!("{{\"type\":\"pong\",\"id\":{id}}}\n").into_bytes()
}

/// `types` is `None` for a worker that takes every type.
pub(crate) fn ready(concurrency: usize, types: Option<Vec<&str>>) -> Vec<u8> {
    let mut ready = serde_json::json!({
        "type": "ready",
        "protocol": PROTOCOL,
        "concurrency": concurrency,
        "ping": true,
        // This library does nothing with an `ok`.
        "ok": false,
        "client": concat!("ojs-worker-rust/", env!("CARGO_PKG_VERSION")),
    });
    if let Some(types) = types {
        ready["types"] = types.into();
    }
    format!("{ready}\n").into_bytes()
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
