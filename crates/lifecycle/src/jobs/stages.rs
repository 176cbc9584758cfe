//! The stages of an outcome on its way to the backend, as two total tables: the step from one stage
//! to the next, and the meaning of a failed request. `reports`, `doubts` and `ack_fallback` act on
//! the decisions.

use std::fmt;

use crate::api::{CallId, Failure, Moment};

/// How far a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReportStage {
    /// To be sent as soon as there is room.
    Due,
    /// To be sent again after a pause.
    Pausing,
    /// Sent, at this moment.
    Sent(CallId, Moment),
    /// The outcome may have been carried out, or the reservation may be over. A look follows after
    /// a pause.
    Doubtful,
    /// Looked at, since this moment.
    Looking(CallId, Moment),
    /// The backend refused the result. The worker has some time to send another answer.
    ResultRefused,
}

impl ReportStage {
    /// When the request was sent, if this is the one in flight.
    pub fn sent_as(self, call: CallId) -> Option<Moment> {
        match self {
            Self::Sent(sent, at) => (sent == call).then_some(at),
            Self::Due | Self::Pausing | Self::Doubtful | Self::Looking(..) | Self::ResultRefused => None,
        }
    }

    /// Whether the stage ends by time alone, with another attempt.
    pub fn is_pause(self) -> bool {
        match self {
            Self::Pausing | Self::Doubtful => true,
            Self::Due | Self::Sent(..) | Self::Looking(..) | Self::ResultRefused => false,
        }
    }
}

/// The events of an outcome in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportEvent {
    Room,
    /// A request of the outcome returned, and the backend has the outcome.
    Taken,
    Failed {
        call: CallId,
        failure: Failure,
    },
    TimerDue,
    /// The stop phase sends outcomes, and little time is left.
    TimeIsShort,
    /// The worker sent no other answer in time.
    NoOtherAnswer,
}

impl ReportEvent {
    /// All events, with the failure of this request.
    pub const fn all(call: CallId, failure: Failure) -> [Self; 6] {
        [
            Self::Room,
            Self::Taken,
            Self::Failed { call, failure },
            Self::TimerDue,
            Self::TimeIsShort,
            Self::NoOtherAnswer,
        ]
    }
}

/// The next step of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportStep {
    /// Send the outcome, or look first if another worker may have the job.
    Send,
    /// Remove the job, because the backend has the outcome.
    Settle,
    /// The failure decides: see [`after_failure`].
    Weigh {
        failure: Failure,
        asked_at: Moment,
    },
    /// Send the outcome again as soon as there is room.
    Repeat,
    Look,
    /// End the pause before the look.
    EndPause,
    /// Send an ACK without an answer again, beside this request of this moment, once that one
    /// counts as hung.
    Hedge(CallId, Moment),
    DropResult,
}

impl fmt::Display for ReportStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "**→ Sent**; a FAIL or requeue whose reservation may be over **→ Looking**",
            Self::Settle => "**done**",
            Self::Weigh { .. } => "**→** as the failure says, below",
            Self::Repeat => "**→ Due**",
            Self::Look => "**→ Looking**",
            Self::EndPause => "the pause is over: **→ Looking**",
            Self::Hedge(..) => "**→ Due** for an ACK that hangs: again, beside the first",
            Self::DropResult => "**→ Due**, without the result",
        })
    }
}

/// The effect of an event in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportVerdict {
    /// This step follows.
    Do(ReportStep),
    /// Nothing changes, for this reason.
    Stay(&'static str),
}

use ReportVerdict::{Do, Stay};

const NOT_SENT: &str = "no request is on its way";

const NO_TIMER: &str = "no such timer runs here";

const TAKES_RESULT: &str = "nobody was asked for another answer";

const PAUSE: &str = "its pause is not over";

/// The table: every stage, every event.
pub fn stage_verdict(stage: ReportStage, event: ReportEvent) -> ReportVerdict {
    use ReportEvent::{Failed, NoOtherAnswer, Room, Taken, TimeIsShort, TimerDue};
    use ReportStage::{Doubtful, Due, Looking, Pausing, ResultRefused, Sent};
    match (stage, event) {
        // Whichever of two attempts brings the good news.
        (_, Taken) => Do(ReportStep::Settle),
        (Due, Room) => Do(ReportStep::Send),
        (Sent(..), Room) => Stay("it is on its way"),
        (Pausing | Doubtful, Room) => Stay(PAUSE),
        (Looking(..), Room) => Stay("the look decides"),
        (ResultRefused, Room) => Stay("the worker may answer differently"),
        (Sent(sent, asked_at), Failed { call, failure }) if sent == call => Do(ReportStep::Weigh { failure, asked_at }),
        (Sent(..), Failed { .. }) => Stay("another request is on its way"),
        (Due | Pausing | Doubtful | Looking(..) | ResultRefused, Failed { .. }) => Stay(NOT_SENT),
        (Pausing, TimerDue | TimeIsShort) => Do(ReportStep::Repeat),
        (Sent(call, at), TimerDue | TimeIsShort) => Do(ReportStep::Hedge(call, at)),
        (Doubtful, TimerDue) => Do(ReportStep::Look),
        // A look does no harm, however often.
        (Doubtful, TimeIsShort) => Do(ReportStep::EndPause),
        (Due | Looking(..) | ResultRefused, TimerDue) => Stay(NO_TIMER),
        (ResultRefused, TimeIsShort | NoOtherAnswer) => Do(ReportStep::DropResult),
        (Due, TimeIsShort) => Stay("it goes as soon as there is room, of which there is more now"),
        (Looking(..), TimeIsShort) => Stay("the look is on its way already"),
        (Due | Pausing | Sent(..) | Doubtful | Looking(..), NoOtherAnswer) => Stay(TAKES_RESULT),
    }
}

/// The meaning of a failed request for its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// The outcome is sent again after a pause.
    Repeat,
    /// Repeat the outcome. The job does not exist if another program has answered for minutes.
    RepeatUnlessForGood,
    /// Repeat the outcome. The backend may never accept the result if every attempt for minutes
    /// meets this error.
    RepeatOrDoubtResult,
    /// The request may have been carried out. ojs-init looks at the job after a pause.
    Look,
    /// Look after a pause, to see whether an ACK of ojs-init completed the job.
    LookWhetherCompleted { was_sent_twice: bool },
    /// The job is not found. ojs-init believes that when the reservation has expired, or when the
    /// backend's store has shown itself.
    Missing,
    /// The job is completed: by an earlier ACK of ojs-init, or by another program.
    Completed,
    /// Try the bare form. After that an ACK is sent without its result, if it has one; any other
    /// outcome is left alone.
    OtherForm { is_ack: bool },
    /// The reservation is lost, and the job is removed.
    Gone,
}

impl fmt::Display for AfterFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeat => "**→ Pausing**",
            Self::RepeatUnlessForGood => "**→ Pausing**; nothing else for minutes: gone",
            Self::RepeatOrDoubtResult => "**→ Pausing**; nothing else for minutes: perhaps the result is never taken",
            Self::Look => "**→ Doubtful**: it may have been carried out",
            Self::LookWhetherCompleted { .. } => "**→ Doubtful**: by whom is it completed?",
            Self::Missing => {
                "**→ Pausing**, or **→ Doubtful** where only a look decides; believed when the reservation is over"
            }
            Self::Completed => "**done** if an earlier ACK may have got through, else gone",
            Self::OtherForm { is_ack: true } => {
                "**→ Due** in the bare form; then **→ ResultRefused** with a result, left to the visibility timeout without one"
            }
            Self::OtherForm { is_ack: false } => "**→ Due** in the bare form, then left to the visibility timeout",
            Self::Gone => "gone: the reservation is lost",
        })
    }
}

/// The table: an ACK or another outcome, every failure. An ACK may be repeated. A FAIL or a requeue
/// that may have been carried out must not be.
pub fn after_failure(is_ack: bool, failure: Failure) -> AfterFailure {
    match failure {
        Failure::Lost => AfterFailure::Gone,
        Failure::AlreadyCompleted if is_ack => AfterFailure::Completed,
        Failure::Conflict { was_sent_twice } if is_ack => AfterFailure::LookWhetherCompleted { was_sent_twice },
        Failure::AlreadyCompleted | Failure::Conflict { .. } => AfterFailure::Gone,
        Failure::NotFound => AfterFailure::Missing,
        Failure::Refused => AfterFailure::OtherForm { is_ack },
        Failure::ServerError if is_ack => AfterFailure::RepeatOrDoubtResult,
        Failure::Unanswered if is_ack => AfterFailure::Repeat,
        Failure::Unanswered | Failure::ServerError => AfterFailure::Look,
        Failure::Unsupported | Failure::NotFromBackend => AfterFailure::RepeatUnlessForGood,
        Failure::NotSent
        | Failure::Overloaded
        | Failure::NoCredentials
        | Failure::RetryLater { .. }
        | Failure::Redirected
        | Failure::Unauthorized
        | Failure::Unregistered => AfterFailure::Repeat,
    }
}
