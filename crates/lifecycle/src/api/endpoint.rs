//! The kinds of requests to the backend, with the properties of each: one row per kind.

use crate::api::call::Call;

/// A kind of request to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    Register,
    Heartbeat,
    Fetch,
    Ack,
    /// FAIL and requeue.
    Nack,
    Info,
    Progress,
    Checkpoint,
    Manifest,
    Events,
    Deregister,
}

/// Lanes of requests. A request waits only for others of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Requests that announce the worker.
    Beat,
    Fetch,
    /// Outcomes, and the checks that they may need.
    Report,
    /// Requests on which no job depends.
    Side,
    /// Event streams, which stay open.
    Stream,
}

/// The body of the answer to a request that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSize {
    Fields,
    /// Jobs, each with its envelope.
    Jobs,
    /// No fields, because the status is enough. Hundreds of these answers may arrive at once.
    Nothing,
    /// An endless stream of events.
    Events,
}

/// The properties of a kind of request.
struct Properties {
    lane: Lane,
    may_come_twice: bool,
    answer: AnswerSize,
}

impl Endpoint {
    /// All kinds of requests.
    pub const ALL: [Self; 11] = [
        Self::Register,
        Self::Heartbeat,
        Self::Fetch,
        Self::Ack,
        Self::Nack,
        Self::Info,
        Self::Progress,
        Self::Checkpoint,
        Self::Manifest,
        Self::Events,
        Self::Deregister,
    ];

    /// The lane of the request.
    pub fn lane(self) -> Lane {
        self.properties().lane
    }

    /// Whether the backend may carry out the request twice without harm. A FETCH would claim other
    /// jobs. A FAIL or requeue may arrive during the job's next reservation.
    pub fn may_come_twice(self) -> bool {
        self.properties().may_come_twice
    }

    /// The body of the answer.
    pub fn answer(self) -> AnswerSize {
        self.properties().answer
    }

    fn properties(self) -> Properties {
        const TWICE: bool = true;
        const ONCE: bool = false;
        let row = |lane, may_come_twice, answer| Properties {
            lane,
            may_come_twice,
            answer,
        };
        match self {
            Self::Register => row(Lane::Beat, TWICE, AnswerSize::Fields),
            Self::Heartbeat => row(Lane::Beat, TWICE, AnswerSize::Fields),
            Self::Deregister => row(Lane::Beat, TWICE, AnswerSize::Nothing),
            Self::Fetch => row(Lane::Fetch, ONCE, AnswerSize::Jobs),
            Self::Ack => row(Lane::Report, TWICE, AnswerSize::Nothing),
            Self::Nack => row(Lane::Report, ONCE, AnswerSize::Nothing),
            Self::Info => row(Lane::Report, TWICE, AnswerSize::Jobs),
            Self::Progress => row(Lane::Side, TWICE, AnswerSize::Nothing),
            Self::Checkpoint => row(Lane::Side, TWICE, AnswerSize::Nothing),
            Self::Manifest => row(Lane::Side, TWICE, AnswerSize::Fields),
            Self::Events => row(Lane::Stream, TWICE, AnswerSize::Events),
        }
    }
}

impl Call {
    /// The kind of the request.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            Self::Register { .. } => Endpoint::Register,
            Self::Heartbeat { .. } => Endpoint::Heartbeat,
            Self::Fetch { .. } => Endpoint::Fetch,
            Self::Report { outcome, .. } if outcome.is_ack() => Endpoint::Ack,
            Self::Report { .. } => Endpoint::Nack,
            Self::GetJob { .. } => Endpoint::Info,
            Self::Progress { .. } => Endpoint::Progress,
            Self::Checkpoint { .. } => Endpoint::Checkpoint,
            Self::Manifest => Endpoint::Manifest,
            Self::Listen { .. } => Endpoint::Events,
            Self::Deregister { .. } => Endpoint::Deregister,
        }
    }
}
