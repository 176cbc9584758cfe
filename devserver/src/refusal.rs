//! Why a request is not carried out.

use serde_json::value::RawValue;

use crate::json::{WrongType, raw};

/// The kind of a refusal, which decides the HTTP status and the error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request makes no sense.
    Invalid,
    /// The body is no JSON object.
    Unreadable,
    /// A retry policy that cannot be applied.
    Unprocessable,
    /// The specification has it, and this server does not.
    Unsupported,
    /// The requested object does not exist.
    NotFound,
    /// The request does not fit the state of the object.
    Conflict,
    /// A job of that id exists.
    Duplicate,
    /// The queue accepts no jobs.
    QueuePaused,
    /// The server has no room for another live job (or worker, or queue).
    Full,
    /// A body or a part of it is too large.
    TooLarge,
}

/// Why a request is not carried out.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The kind, which decides the HTTP status.
    pub kind: RefusalKind,
    /// The mistake, and the accepted values; for people.
    pub message: String,
    /// The details for programs, as JSON.
    pub details: Option<Box<RawValue>>,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
        }
    }

    /// Adds details to the refusal.
    pub fn with(self, details: &serde_json::Value) -> Self {
        Self {
            details: Some(raw(details)),
            ..self
        }
    }

    /// A field that is wrong.
    pub fn field(name: &str, expected: &str) -> Self {
        let details = serde_json::json!({"field": name, "expected": expected});
        Self::new(RefusalKind::Invalid, format!("the field '{name}' must be {expected}")).with(&details)
    }

    /// Marks the request as understood but impossible to carry out.
    pub fn unprocessable(self) -> Self {
        Self {
            kind: RefusalKind::Unprocessable,
            ..self
        }
    }

    /// A job, a worker or the like that is not there, by the type that the details name.
    pub fn not_found(resource_type: &str, id: &str, message: impl Into<String>) -> Self {
        let details = serde_json::json!({"resource_type": resource_type, "resource_id": id});
        Self::new(RefusalKind::NotFound, message).with(&details)
    }

    /// A job that is not there.
    pub fn no_job(id: &str) -> Self {
        Self::not_found("job", id, format!("there is no job '{id}'; it may have been forgotten"))
    }

    /// A worker that is not there.
    pub fn no_worker(id: &str) -> Self {
        let message = format!("there is no worker '{id}': it never came, deregistered, or was declared dead");
        Self::not_found("worker", id, message)
    }
}

impl From<WrongType> for Refusal {
    fn from(wrong: WrongType) -> Self {
        Self::field(&wrong.field, &wrong.expected)
    }
}
