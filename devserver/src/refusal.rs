//! Why a request is not carried out.

use serde_json::value::RawValue;

use crate::json::{WrongType, raw};

/// What kind of refusal; decides the HTTP status and the error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request makes no sense.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It does not go with the state of the thing.
    Conflict,
    /// A job of that id exists.
    Duplicate,
    /// The queue takes no jobs.
    QueuePaused,
    /// There is no room for another live job (or worker, or queue).
    Full,
    /// A body or a part of it is too large.
    TooLarge,
}

/// A refusal.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// What kind.
    pub kind: Kind,
    /// For people: what was wrong, and what is accepted.
    pub message: String,
    /// For programs.
    pub details: Option<Box<RawValue>>,
}

impl Refusal {
    /// One without details.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
        }
    }

    /// The same, with details.
    pub fn with(self, details: &serde_json::Value) -> Self {
        Self {
            details: Some(raw(details)),
            ..self
        }
    }

    /// A field that is not what it should be.
    pub fn field(name: &str, expected: &str) -> Self {
        let details = serde_json::json!({"field": name, "expected": expected});
        Self::new(Kind::Invalid, format!("the field '{name}' must be {expected}")).with(&details)
    }

    /// There is no job of that id.
    pub fn no_job(id: &str) -> Self {
        let details = serde_json::json!({"resource_type": "job", "resource_id": id});
        Self::new(
            Kind::NotFound,
            format!("there is no job '{id}'; it may have been forgotten"),
        )
        .with(&details)
    }

    /// There is no worker of that id.
    pub fn no_worker(id: &str) -> Self {
        let details = serde_json::json!({"resource_type": "worker", "resource_id": id});
        let message = format!("there is no worker '{id}': it never came, deregistered, or was declared dead");
        Self::new(Kind::NotFound, message).with(&details)
    }
}

impl From<WrongType> for Refusal {
    fn from(wrong: WrongType) -> Self {
        Self::field(&wrong.field, &wrong.expected)
    }
}
