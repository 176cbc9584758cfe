//! Operations of the server, by name.

use std::fmt;

/// The operation that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `POST /workers/fetch`
    Fetch,
    /// `POST /workers/ack`
    Ack,
    /// `POST /workers/nack`
    Nack,
    /// `POST /workers/heartbeat`
    Heartbeat,
    /// `POST /workers/register`
    Register,
    /// `POST /workers/deregister` and `DELETE /workers/{id}`
    Deregister,
    /// `POST /jobs` and `POST /jobs/batch`
    Enqueue,
    /// `GET /jobs/{id}`
    Info,
    /// `DELETE /jobs/{id}`
    Cancel,
    /// `/jobs/{id}/progress`
    Progress,
    /// `/jobs/{id}/checkpoint`
    Checkpoint,
    /// Below `/admin`
    Admin,
    /// Below `/dev`
    Dev,
    /// `GET /queues/{name}/events`, `GET /jobs/{id}/events` and `GET /events`
    Events,
    /// Everything else
    Other,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 15] = [
        Self::Fetch,
        Self::Ack,
        Self::Nack,
        Self::Heartbeat,
        Self::Register,
        Self::Deregister,
        Self::Enqueue,
        Self::Info,
        Self::Cancel,
        Self::Progress,
        Self::Checkpoint,
        Self::Admin,
        Self::Dev,
        Self::Events,
        Self::Other,
    ];

    /// The name of the operation in faults and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Heartbeat => "heartbeat",
            Self::Register => "register",
            Self::Deregister => "deregister",
            Self::Enqueue => "enqueue",
            Self::Info => "info",
            Self::Cancel => "cancel",
            Self::Progress => "progress",
            Self::Checkpoint => "checkpoint",
            Self::Admin => "admin",
            Self::Dev => "dev",
            Self::Events => "events",
            Self::Other => "other",
        }
    }

    /// The operation of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The operation behind this method and this path.
    pub(crate) fn of(method: &str, path: &[&str]) -> Self {
        match (method, path) {
            (_, ["dev", ..]) => Self::Dev,
            ("POST", ["ojs", "v1", "workers", "fetch"]) => Self::Fetch,
            ("POST", ["ojs", "v1", "workers", "ack"]) => Self::Ack,
            ("POST", ["ojs", "v1", "workers", "nack"]) => Self::Nack,
            ("POST", ["ojs", "v1", "workers", "heartbeat"]) => Self::Heartbeat,
            ("POST", ["ojs", "v1", "workers", "register"]) => Self::Register,
            ("POST", ["ojs", "v1", "workers", "deregister"]) | ("DELETE", ["ojs", "v1", "workers", _]) => {
                Self::Deregister
            }
            ("POST", ["ojs", "v1", "jobs"] | ["ojs", "v1", "jobs", "batch"]) => Self::Enqueue,
            ("GET", ["ojs", "v1", "jobs", _]) => Self::Info,
            ("DELETE", ["ojs", "v1", "jobs", _]) => Self::Cancel,
            (_, ["ojs", "v1", "jobs", _, "progress"]) => Self::Progress,
            (_, ["ojs", "v1", "jobs", _, "checkpoint"]) => Self::Checkpoint,
            (_, ["ojs", "v1", "admin", ..]) => Self::Admin,
            ("GET", ["ojs", "v1", "queues" | "jobs", _, "events"] | ["ojs", "v1", "events"]) => Self::Events,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
