//! A job as a producer sends it: the body of an enqueue request, or the envelope itself.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::job::Directive;
use super::retry::{self, RetryPolicy};
use crate::json::{Object, raw};
use crate::refusal::{Refusal, RefusalKind};

/// The priorities that the specification knows (core 5.2).
const PRIORITIES: std::ops::RangeInclusive<i64> = -100..=100;

/// Longest id of a job, in bytes.
const MAX_ID_BYTES: usize = 255;

/// Longest type of a job, in bytes.
const MAX_TYPE_BYTES: usize = 255;

/// Longest name of a queue, in bytes.
const MAX_QUEUE_BYTES: usize = 128;

/// The queue of a job that names none.
const DEFAULT_QUEUE: &str = "default";

/// Fields that only the backend sets; a producer's word on them is dropped.
const MANAGED: [&str; 20] = [
    "state",
    "attempt",
    "max_attempts",
    "created_at",
    "enqueued_at",
    "started_at",
    "completed_at",
    "cancelled_at",
    "discarded_at",
    "next_attempt_at",
    "retry_delay_ms",
    "worker_id",
    "error",
    "errors",
    "result",
    "checkpoint",
    "progress",
    "progress_data",
    "previous_state",
    "pending",
];

/// A job that was understood and is not yet in the store.
#[derive(Debug)]
pub struct NewJob {
    /// The producer's id, if it gave one.
    pub id: Option<String>,
    /// The type of the job.
    pub kind: String,
    /// The name of its queue.
    pub queue: String,
    /// The priority: jobs with a higher one are handed out first.
    pub priority: i64,
    /// The time before which the job is not fetched.
    pub scheduled_at: Option<Timestamp>,
    /// The time from which the job is not fetched any more.
    pub expires_at: Option<Timestamp>,
    /// How long the job stays reserved without a sign of life.
    pub visibility: Option<Duration>,
    /// Longest time of one execution.
    pub timeout: Option<Duration>,
    /// When the job is tried again after a failure.
    pub policy: RetryPolicy,
    /// Whether the job waits for its activation.
    pub is_pending: bool,
    /// The state requested of the worker that has the job (the conformance suite's
    /// `meta.test_directive`).
    pub test_directive: Option<Directive>,
    /// All fields of the producer, as they were spelled.
    pub producer_fields: Object,
}

/// Reads one job.
///
/// # Errors
///
/// A field is wrong; the refusal names it.
pub fn read(body: Object) -> Result<NewJob, Refusal> {
    let mut fields = flattened(body)?;
    let is_pending = fields.get("pending", "true or false")?.unwrap_or(false);
    for name in MANAGED {
        fields.remove(name);
    }
    let id = fields.text("id")?;
    if id.as_deref().is_some_and(|id| !is_id(id)) {
        return Err(Refusal::field(
            "id",
            "1 to 255 letters, digits, '-', '_', '.' or '~' (the specification: a UUIDv7)",
        ));
    }
    let kind = fields.text("type")?.filter(|kind| is_type(kind));
    let kind = kind.ok_or_else(|| {
        Refusal::field(
            "type",
            "given, of dot-separated segments of a-z, 0-9, _ and - that start with a letter, such as email.send-welcome",
        )
    })?;
    fields
        .get::<Vec<&RawValue>>("args", "a JSON array")?
        .ok_or_else(|| Refusal::field("args", "given, as a JSON array"))?;
    let queue = fields.text("queue")?.unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
    check_queue(&queue)?;
    fields.set("queue", raw(&queue));
    if fields.raw("specversion").is_none() {
        fields.set("specversion", raw("1.0"));
    }
    let policy = fields
        .get::<Object>("retry", "an object")?
        .map(|retry| RetryPolicy::read(&retry).map_err(Refusal::unprocessable));
    let meta = fields.get::<Object>("meta", "an object")?;
    let metadata = fields.get::<Object>("metadata", "an object")?;
    let priority = fields.get("priority", "a whole number")?.unwrap_or(0);
    if !PRIORITIES.contains(&priority) {
        return Err(Refusal::field("priority", "a whole number from -100 to 100"));
    }
    Ok(NewJob {
        kind,
        queue,
        priority,
        scheduled_at: timestamp(&fields, "scheduled_at")?,
        expires_at: timestamp(&fields, "expires_at")?,
        visibility: visibility(&fields)?,
        timeout: timeout(&fields)?,
        policy: policy.transpose()?.unwrap_or_default(),
        is_pending,
        test_directive: meta.or(metadata).and_then(|meta| test_directive(&meta)),
        id,
        producer_fields: fields,
    })
}

/// The body as an envelope: the binding's `options` are fields of it.
fn flattened(mut body: Object) -> Result<Object, Refusal> {
    let options = body.get::<Object>("options", "an object")?;
    body.remove("options");
    for (name, value) in options.into_iter().flat_map(Object::into_fields) {
        let name = match name.as_str() {
            "delay_until" => "scheduled_at",
            "retry_policy" => "retry",
            name => name,
        };
        body.set(name, value);
    }
    Ok(body)
}

fn is_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_allowed) && id.bytes().any(|byte| byte != b'.')
}

fn is_type(kind: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.starts_with(|first: char| first.is_ascii_lowercase())
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
    };
    kind.len() <= MAX_TYPE_BYTES && kind.split('.').all(is_segment)
}

/// Whether a queue can have this name.
///
/// # Errors
///
/// No queue can.
pub fn check_queue(name: &str) -> Result<(), Refusal> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    if starts_well && name.len() <= MAX_QUEUE_BYTES && name.bytes().all(is_allowed) {
        Ok(())
    } else {
        let expected = "1 to 128 of a-z, 0-9, '-' and '.', beginning with a letter or digit";
        Err(Refusal::field("queue", expected))
    }
}

fn timestamp(fields: &Object, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    let wrong = |_| Refusal::field(name, "a time with its zone, such as 2026-03-15T09:30:00Z");
    text.parse().map(Some).map_err(wrong)
}

/// The envelope has seconds, the binding's options milliseconds, the conformance suite an ISO 8601
/// duration.
fn visibility(fields: &Object) -> Result<Option<Duration>, Refusal> {
    let millis: Option<u64> = fields.get("visibility_timeout_ms", "milliseconds, 1 or more")?;
    let seconds: Option<u64> = match fields.raw("visibility_timeout") {
        Some(text) if text.get().starts_with('"') => None,
        Some(_) | None => fields.get("visibility_timeout", "whole seconds, 1 or more")?,
    };
    let text = match seconds {
        None => retry::interval(fields, "", "visibility_timeout")?,
        Some(_) => None,
    };
    let fields = millis
        .map(Duration::from_millis)
        .or(seconds.map(Duration::from_secs))
        .or(text);
    if fields == Some(Duration::ZERO) {
        return Err(Refusal::field("visibility_timeout", "1 or more"));
    }
    Ok(fields)
}

/// The envelope has seconds, the binding's options milliseconds.
fn timeout(fields: &Object) -> Result<Option<Duration>, Refusal> {
    let millis: Option<u64> = fields.get("timeout_ms", "milliseconds, 1 or more")?;
    let seconds: Option<f64> = fields.get("timeout", "seconds, more than 0")?;
    let wrong = || Refusal::field("timeout", "seconds, more than 0");
    let seconds = seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds).map_err(|_| wrong()))
        .transpose()?;
    match millis.map(Duration::from_millis).or(seconds) {
        Some(Duration::ZERO) => Err(wrong()),
        timeout => Ok(timeout),
    }
}

fn test_directive(meta: &Object) -> Option<Directive> {
    match meta.text("test_directive").ok()??.as_str() {
        "quiet" => Some(Directive::Quiet),
        "terminate" => Some(Directive::Terminate),
        _ => None,
    }
}

/// Reads the body of a batch: all of its jobs, or the reason why all are refused.
///
/// # Errors
///
/// The body has no `jobs`, or one of them is wrong; the refusal names its index.
pub fn read_batch(body: &Object) -> Result<Vec<NewJob>, Refusal> {
    let jobs: Option<Vec<Object>> = body.get("jobs", "an array of jobs")?;
    let jobs = jobs.filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| Refusal::field("jobs", "given, as an array of at least one job"))?;
    let each = jobs.into_iter().enumerate().map(|(index, job)| {
        read(job).map_err(|refusal| Refusal {
            message: format!(
                "no job of the batch is taken: the one at index {index}: {}",
                refusal.message
            ),
            ..refusal
        })
    });
    each.collect()
}

/// Whether this is a UUIDv7 in lower case, as the specification demands of a job's id (core 5.1).
fn is_uuid7(id: &str) -> bool {
    let bytes = id.as_bytes();
    let fits = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        14 => *byte == b'7',
        19 => b"89ab".contains(byte),
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(fits)
}

/// Refuses an id of the producer's own that is no UUIDv7.
///
/// # Errors
///
/// The id is no UUIDv7; the refusal names the accepted form.
pub fn check_uuid7(job: &NewJob) -> Result<(), Refusal> {
    match &job.id {
        Some(id) if !is_uuid7(id) => Err(Refusal::field("id", "a UUIDv7 in lower case, or left out")),
        Some(_) | None => Ok(()),
    }
}

/// The refusal of an id that is already in use.
pub fn duplicate(id: &str) -> Refusal {
    let details = serde_json::json!({"existing_job_id": id});
    Refusal::new(
        RefusalKind::Duplicate,
        format!("there is a job with the id '{id}' already"),
    )
    .with(&details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Result<NewJob, Refusal> {
        read(Object::read(text.as_bytes()).unwrap())
    }

    #[test]
    fn options_become_fields_of_the_envelope_and_nothing_is_respelled() {
        let job = job(r#"{"type":"a.b","args":[1.50],"x_own":{"n":1e2},"options":{"queue":"q","delay_until":"2026-03-15T09:30:00+02:00","timeout_ms":5}}"#).unwrap();
        assert_eq!(job.queue, "q");
        assert_eq!(job.scheduled_at.unwrap().to_string(), "2026-03-15T07:30:00Z");
        let text = serde_json::to_string(&job.producer_fields).unwrap();
        for part in [
            r#""args":[1.50]"#,
            r#""x_own":{"n":1e2}"#,
            r#""timeout_ms":5"#,
            r#""specversion":"1.0""#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_only_the_backend_says_is_dropped() {
        let job = job(r#"{"type":"a","args":[],"state":"completed","attempt":7,"worker_id":"w"}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&job.producer_fields).unwrap(),
            r#"{"type":"a","args":[],"queue":"default","specversion":"1.0"}"#
        );
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (text, field) in [
            (r#"{"args":[]}"#, "type"),
            (r#"{"type":"A","args":[]}"#, "type"),
            (r#"{"type":"1a","args":[]}"#, "type"),
            (r#"{"type":"a..b","args":[]}"#, "type"),
            (r#"{"type":"a"}"#, "args"),
            (r#"{"type":"a","args":null}"#, "args"),
            (r#"{"type":"a","args":{}}"#, "args"),
            (r#"{"type":"a","args":[],"queue":"Q"}"#, "queue"),
            (r#"{"type":"a","args":[],"meta":1}"#, "meta"),
            (r#"{"type":"a","args":[],"scheduled_at":"tomorrow"}"#, "scheduled_at"),
            (r#"{"type":"a","args":[],"visibility_timeout":0}"#, "visibility_timeout"),
            (r#"{"type":"a","args":[],"id":"a b"}"#, "id"),
            (r#"{"type":"a","args":[],"id":".."}"#, "id"),
            (r#"{"type":"-a","args":[]}"#, "type"),
            (r#"{"type":"a","args":[],"priority":101}"#, "priority"),
            (r#"{"type":"a","args":[],"options":{"priority":-101}}"#, "priority"),
            (r#"{"type":"a","args":[],"timeout":0}"#, "timeout"),
            (r#"{"type":"a","args":[],"timeout":-1}"#, "timeout"),
            (r#"{"type":"a","args":[],"options":[]}"#, "options"),
        ] {
            let message = job(text).unwrap_err().message;
            assert!(message.contains(&format!("'{field}'")), "{text}: {message}");
        }
    }

    #[test]
    fn a_uuid_of_version_7_in_lower_case_is_told_from_all_others() {
        assert!(is_uuid7("019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"));
        for other in [
            "",
            "j1",
            "550e8400-e29b-41d4-a716-446655440000",
            "019461A8-1A2B-7C3D-8E4F-5A6B7C8D9E0F",
            "019461a8-1a2b-7c3d-ce4f-5a6b7c8d9e0f",
            "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f0",
            "019461a801a2b-7c3d-8e4f-5a6b7c8d9e0f",
        ] {
            assert!(!is_uuid7(other), "{other}");
        }
    }

    #[test]
    fn one_wrong_job_refuses_the_batch_and_says_which_it_was() {
        let body = Object::read(br#"{"jobs":[{"type":"a","args":[]},{"type":"a"}]}"#).unwrap();
        assert!(read_batch(&body).unwrap_err().message.contains("index 1"));
    }
}
