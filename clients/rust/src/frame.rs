//! The frames of the worker socket, as docs/worker-socket-frames.md describes them.

use std::collections::HashMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// A frame from ojs-init. Fields that a type does not have are absent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Frame<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) protocol: Value,
    pub(crate) concurrency: usize,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) remaining_ms: u64,
    #[serde(rename = "max_frame")]
    pub(crate) longest: Option<usize>,
    pub(crate) id: u64,
    pub(crate) job_id: String,
    #[serde(borrow)]
    pub(crate) job: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) checkpoint: Option<&'a RawValue>,
    pub(crate) traceparent: Option<String>,
    pub(crate) code: String,
    pub(crate) message: String,
}

/// What a worker needs of a job's envelope. Fields count as absent if they are not as expected.
pub(crate) struct Envelope {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) queue: Option<String>,
    pub(crate) attempt: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) args: Vec<Box<RawValue>>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) timeout_ms: Option<f64>,
    pub(crate) timeout: Option<f64>,
}

impl Envelope {
    /// Field by field, because producers write what no type of Rust takes as a whole: a field twice,
    /// or half a character in one that nobody reads.
    pub(crate) fn read(raw: &RawValue) -> serde_json::Result<Envelope> {
        let fields = serde_json::from_str(raw.get())?;
        Ok(Envelope {
            id: field(&fields, "id"),
            kind: field(&fields, "type"),
            queue: field(&fields, "queue"),
            attempt: field(&fields, "attempt"),
            max_attempts: field(&fields, "max_attempts"),
            args: field(&fields, "args"),
            meta: field(&fields, "meta"),
            timeout_ms: field(&fields, "timeout_ms"),
            timeout: field(&fields, "timeout"),
        })
    }
}

fn field<T: DeserializeOwned + Default>(fields: &HashMap<String, &RawValue>, name: &str) -> T {
    fields.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// A line about a job, with members whose values are JSON. `type` and `job_id` come first, because
/// ojs-init reads them even if the rest of the line is too long.
pub(crate) fn about(kind: &str, job_id: &str, members: &[(&str, &str)]) -> Vec<u8> {
    let mut line = format!("{{\"type\":\"{kind}\",\"job_id\":{}", json!(job_id));
    for (name, value) in members {
        line.extend([",\"", name, "\":", value]);
    }
    line.push_str("}\n");
    line.into_bytes()
}
