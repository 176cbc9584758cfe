//! A fault, and which requests it meets.

use std::fmt;
use std::time::Duration;

use crate::operation::Operation;

/// Longest that a fault can be switched on for, or an answer be delayed.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400);

/// The name of the fault by which an answer gets lost.
pub(crate) const LOSE_REPLY: &str = "lose_reply";

/// The name of the fault by which a request is carried out at once and answered late.
pub(crate) const LATE_REPLY: &str = "late_reply";

/// The names of all faults of requests.
pub(crate) const FAULT_NAMES: [&str; 18] = [
    "hang",
    "close",
    "delay",
    "status",
    LOSE_REPLY,
    LATE_REPLY,
    "truncate",
    "page",
    "redirect",
    "store_away",
    "limit",
    "overtaken",
    "stream_silent",
    "stream_hangs",
    "stream_ends",
    "stream_lies",
    "stream_floods",
    "stream_without_comments",
];

/// The names of the faults that answer and do not carry out the request, even if the status is a
/// success.
pub(crate) const ANSWERED_INSTEAD: [&str; 4] = ["status", "page", "redirect", "store_away"];

/// A public backend whose words the server uses while its store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// ACK, FAIL, requeue and a look at a job: 404, as if the job did not exist. FETCH: 500.
    Postgres,
    /// As Postgres, but FETCH finds no jobs, and every answer is slow, that to a heartbeat slowest.
    Nats,
    /// ACK and a look at a job: 500. FAIL and giving back: 404. FETCH finds no jobs.
    Redis,
}

impl Backend {
    /// All backends.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Nats, Self::Redis];

    /// The name of the backend.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Nats => "nats",
            Self::Redis => "redis",
        }
    }
}

/// Faults that a request can meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is never answered, and not carried out; the connection stays open.
    Hang,
    /// The connection is closed, and it is not carried out.
    Close,
    /// The request is carried out this much later.
    Delay(Duration),
    /// The request is not carried out, and answered with this.
    Status {
        /// The HTTP status of the answer.
        status: u16,
        /// The header Retry-After, spelled like this.
        retry_after: Option<String>,
    },
    /// The request is carried out, and the connection is closed instead of an answer.
    LoseReply,
    /// The request is carried out at once, and answered this much later: its effects are visible
    /// before its answer.
    LateReply(Duration),
    /// The request is carried out, and the answer breaks off in the middle of its body.
    Truncate,
    /// The request is not carried out, and answered 200 with a page of HTML, as by a proxy, a
    /// portal or a foreign web site.
    Page,
    /// The request is not carried out, and answered with this status (301, 302, 303, 307 or 308)
    /// and another place to ask at.
    Redirect(u16),
    /// The request is not carried out, because the store behind the HTTP server is away. The answer
    /// is that of a public backend.
    StoreAway {
        /// The public backend that is played.
        backend: Backend,
        /// The delay of the answer; a heartbeat is answered [`HEARTBEAT_DELAYS`] times as late.
        delay: Duration,
    },
    /// An ACK that is too large for the store together with its job is always refused; a smaller
    /// one passes.
    Limit {
        /// Most bytes of the job and the ACK's body together.
        bytes: u64,
        /// 500, as nats answers, or 400, as the others do.
        status: u16,
    },
    /// An ACK arrives too late: the job's reservation has just expired, and another worker has
    /// already completed the job. 409.
    Overtaken {
        /// Whether the answer names the state `completed`.
        tells_state: bool,
    },
    /// A stream of events is opened, and has a fault.
    Stream(StreamFault),
}

/// Faults of a stream of events that was opened as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFault {
    /// The stream sends no events; the comment lines continue.
    Silent,
    /// The server sends only the head of the answer; the connection stays open.
    Hangs,
    /// The stream ends at once.
    Ends,
    /// The stream sends no real events, and ten times a second announces jobs that do not exist.
    Lies,
    /// As [`Self::Lies`], but as fast as the client reads.
    Floods,
    /// The stream sends its events, and no comment lines.
    WithoutComments,
}

/// The delay of a heartbeat's answer while the store is away, as a multiple of other answers'
/// delay.
pub const HEARTBEAT_DELAYS: u32 = 6;

impl Fault {
    /// The name of the fault in requests and events.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Close => "close",
            Self::Delay(_) => "delay",
            Self::Status { .. } => "status",
            Self::LoseReply => LOSE_REPLY,
            Self::LateReply(_) => LATE_REPLY,
            Self::Truncate => "truncate",
            Self::Page => "page",
            Self::Redirect(_) => "redirect",
            Self::StoreAway { .. } => "store_away",
            Self::Limit { .. } => "limit",
            Self::Overtaken { .. } => "overtaken",
            Self::Stream(StreamFault::Silent) => "stream_silent",
            Self::Stream(StreamFault::Hangs) => "stream_hangs",
            Self::Stream(StreamFault::Ends) => "stream_ends",
            Self::Stream(StreamFault::Lies) => "stream_lies",
            Self::Stream(StreamFault::Floods) => "stream_floods",
            Self::Stream(StreamFault::WithoutComments) => "stream_without_comments",
        }
    }

    /// Whether the fault can affect requests to this operation.
    pub(crate) fn can_meet(&self, operation: Operation) -> bool {
        self.only().is_none_or(|only| only == operation)
    }

    /// The one operation that it means; `None`: any.
    pub(crate) fn only(&self) -> Option<Operation> {
        match self {
            Self::Limit { .. } | Self::Overtaken { .. } => Some(Operation::Ack),
            Self::Stream(_) => Some(Operation::Events),
            Self::Hang
            | Self::Close
            | Self::Delay(_)
            | Self::Status { .. }
            | Self::LoseReply
            | Self::LateReply(_)
            | Self::Truncate
            | Self::Page
            | Self::Redirect(_)
            | Self::StoreAway { .. } => None,
        }
    }

    /// Whether the fault affects a request that puts this many bytes into the store.
    pub(super) fn meets(&self, operation: Operation, stored: u64) -> bool {
        let is_small = matches!(self, Self::Limit { bytes, .. } if stored <= *bytes);
        self.can_meet(operation) && !is_small
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault and the requests that it affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// The fault that meets the requests.
    pub fault: Fault,
    /// The operation that the fault affects; `None`: all requests, except those to `/dev`.
    pub operation: Option<Operation>,
    /// The fault meets every how many-th of these requests; 1: each.
    pub every: u32,
    /// Most times that the fault happens; `None`: as long as it is switched on.
    pub times: Option<u32>,
    /// How long the fault stays switched on; `None`: until it is switched off.
    pub lasts: Option<Duration>,
}

impl FaultRule {
    /// A rule by which this fault meets every request to the operation, until it is switched off.
    #[must_use]
    pub fn on(operation: Operation, fault: Fault) -> Self {
        Self {
            fault,
            operation: Some(operation),
            every: 1,
            times: None,
            lasts: None,
        }
    }

    /// A rule by which this fault meets every request, until it is switched off.
    #[must_use]
    pub fn on_all(fault: Fault) -> Self {
        Self {
            operation: None,
            ..Self::on(Operation::Other, fault)
        }
    }

    /// Makes the rule count for every `n`-th request only.
    #[must_use]
    pub fn every(self, n: u32) -> Self {
        Self {
            every: n.max(1),
            ..self
        }
    }

    /// Makes the rule count for at most `n` requests.
    #[must_use]
    pub fn times(self, n: u32) -> Self {
        Self { times: Some(n), ..self }
    }

    /// Makes the rule count for this long.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        Self {
            lasts: Some(time),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_names_has_every_fault() {
        let status = Fault::Status {
            status: 503,
            retry_after: None,
        };
        let delay = Fault::Delay(Duration::ZERO);
        let all = [
            Fault::Hang,
            Fault::Close,
            delay,
            status,
            Fault::LoseReply,
            Fault::LateReply(Duration::ZERO),
            Fault::Truncate,
            Fault::Page,
            Fault::Redirect(301),
            Fault::StoreAway {
                backend: Backend::Nats,
                delay: Duration::ZERO,
            },
            Fault::Limit { bytes: 1, status: 500 },
            Fault::Overtaken { tells_state: true },
            Fault::Stream(StreamFault::Silent),
            Fault::Stream(StreamFault::Hangs),
            Fault::Stream(StreamFault::Ends),
            Fault::Stream(StreamFault::Lies),
            Fault::Stream(StreamFault::Floods),
            Fault::Stream(StreamFault::WithoutComments),
        ];
        assert_eq!(all.map(|fault| fault.name()), FAULT_NAMES);
    }
}
