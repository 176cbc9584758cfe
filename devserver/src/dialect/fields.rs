//! The fields of the JSON schemas and of the worker protocol, for the dialects that refuse all
//! others.

use crate::json::Object;
use crate::refusal::{Refusal, RefusalKind};

/// The fields of the JSON schemas of requests.
pub(super) const FETCH_FIELDS: [&str; 4] = ["queues", "count", "worker_id", "visibility_timeout_ms"];
pub(super) const ACK_FIELDS: [&str; 2] = ["job_id", "result"];
pub(super) const NACK_FIELDS: [&str; 2] = ["job_id", "error"];
pub(super) const ERROR_FIELDS: [&str; 4] = ["code", "message", "retryable", "details"];
pub(super) const HEARTBEAT_FIELDS: [&str; 3] = ["worker_id", "active_jobs", "visibility_timeout_ms"];
pub(super) const DEREGISTER_FIELDS: [&str; 1] = ["worker_id"];

/// The fields of a heartbeat and of a FETCH in the worker protocol (4.2, 6.2).
pub(super) const PROTOCOL_HEARTBEAT_FIELDS: [&str; 10] = [
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
pub(super) const PROTOCOL_FETCH_FIELDS: [&str; 3] = ["queues", "count", "worker_id"];

/// The error codes of the JSON schema of a FAIL.
pub(super) const ERROR_CODES: [&str; 12] = [
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

/// Fields that a worker may report about itself in registration and heartbeats.
pub(super) const WORKER_INFO_FIELDS: [&str; 6] = ["hostname", "pid", "queues", "concurrency", "labels", "started_at"];

/// Refuses a field that is not in the list; `whose` names the list's owner.
pub(super) fn check_fields(body: &Object, whose: &str, allowed: &[&str]) -> Result<(), Refusal> {
    let mut names = body.fields().map(|(name, _)| name);
    let Some(name) = names.find(|name| !allowed.contains(name)) else {
        return Ok(());
    };
    let message = format!("{whose} has no field '{name}'; it has {}", allowed.join(", "));
    let details = serde_json::json!({"field": name, "allowed": allowed});
    Err(Refusal::new(RefusalKind::Invalid, message).with(&details))
}
