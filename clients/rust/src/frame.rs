//! The frames of the worker socket, as docs/worker-socket-frames.md describes them.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
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

/// What a worker needs of a job's envelope. Other fields than the first two count as absent if they
/// are not as expected.
#[derive(Deserialize)]
pub(crate) struct Envelope {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) queue: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) attempt: Option<u32>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) max_attempts: Option<u32>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) args: Vec<Box<RawValue>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) meta: Map<String, Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout_ms: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout: Option<f64>,
}

fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(field: D) -> Result<T, D::Error> {
    let raw = <&RawValue>::deserialize(field)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
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
