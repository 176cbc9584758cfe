//! The kinds of requests to the backend, with the properties of each: one row for each.

use crate::api::call::Call;

/// A kind of request to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    Register,
    Heartbeat,
    Fetch,
    Ack,
    /// FAIL, and giving back.
    Nack,
    Info,
    Progress,
    Checkpoint,
    Manifest,
    Events,
    Deregister,
}

/// Which requests wait for each other, and for no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Those that say who is there.
    Beat,
    Fetch,
    /// Outcomes, and the looks that they may need.
    Report,
    /// Requests on which no job depends.
    Side,
    /// Event streams, which last.
    Stream,
}

/// The body of the answer to a request that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerSize {
    Fields,
    /// Jobs, each with its envelope.
    Jobs,
    /// Nothing: that it was carried out says all. There may be hundreds of these at once.
    Nothing,
    /// Events without an end.
    Events,
}

/// The properties of a kind of request.
struct Properties {
    lane: Lane,
    may_come_twice: bool,
    answer: AnswerSize,
}

impl Endpoint {
    /// All of them.
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

    /// On which lane it goes.
    #[must_use]
    pub fn lane(self) -> Lane {
        self.properties().lane
    }

    /// Whether the backend may carry it out twice without harm. A FETCH would claim other jobs; a
    /// FAIL or requeue may meet the job's next reservation.
    #[must_use]
    pub fn may_come_twice(self) -> bool {
        self.properties().may_come_twice
    }

    /// The body of the answer.
    #[must_use]
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
    #[must_use]
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
