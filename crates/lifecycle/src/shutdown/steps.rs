//! The steps of an end game and of a stop phase, and the total table of the moves between them.
//! Each step waits for an event, and for a time. Both are written here, with the next step. This
//! file sees events, never the process, request or client behind them. `stop` carries out a step;
//! `timeouts` has the longest time of each.

use std::fmt;

use crate::shutdown::timeouts::{LAST_WORD, OPERATOR_LEAVE_LIMIT, UNDO_WITHIN};

/// The steps of the end game and of the stop phase, in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopStep {
    #[default]
    NotYet,
    /// Jobs are cancelled; their handlers may answer.
    Cancel,
    Ask,
    /// Clients of the control socket that have their reply may leave before the SIGKILL.
    BeforeKill,
    /// The worker is made to end.
    Kill,
    /// Outcomes are sent to the backend.
    Report,
    FinalHeartbeat,
    /// The last word.
    Deregister,
    /// Clients may leave, as before the SIGKILL, because the exit of PID 1 ends every process as
    /// well.
    BeforeExit,
    /// Nothing is left to do.
    Over,
}

impl StopStep {
    /// All steps, in their order.
    pub const ALL: [Self; 10] = [
        Self::NotYet,
        Self::Cancel,
        Self::Ask,
        Self::BeforeKill,
        Self::Kill,
        Self::Report,
        Self::FinalHeartbeat,
        Self::Deregister,
        Self::BeforeExit,
        Self::Over,
    ];
}

/// The triggers that can end a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTrigger {
    /// The phase has become the end game.
    EndGameBegins,
    /// The phase has become the stop phase.
    StopBegins,
    /// The awaited event of the step has happened.
    Done,
    TimeOver,
    /// A repeated request ends the cancel grace of every job.
    NoGrace,
}

impl StepTrigger {
    /// All triggers.
    pub const ALL: [Self; 5] = [
        Self::EndGameBegins,
        Self::StopBegins,
        Self::Done,
        Self::TimeOver,
        Self::NoGrace,
    ];
}

/// The awaited event of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// The step ends only with its phase, or with the start of its phase.
    Nothing,
    /// Each handler has answered.
    Handlers,
    /// The worker and its descendants have ended, and no holder has a job.
    WorkerGone,
    /// The clients of the control socket that have their reply have left.
    OperatorsGone,
    /// The backend has every outcome, and no FETCH is in flight.
    Outcomes,
    /// The last heartbeat is answered, and no other is in flight.
    HeartbeatAnswered,
    /// Each deregistration is answered, and each registration that was in flight.
    DeregistrationsAnswered,
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing of its own",
            Self::Handlers => "each handler has answered",
            Self::WorkerGone => "nothing is left of the worker, and nobody holds a job",
            Self::OperatorsGone => "who has an answer on the control socket has left",
            Self::Outcomes => "the backend has every outcome, and no FETCH is on its way",
            Self::HeartbeatAnswered => "the last heartbeat is answered, and no other is on its way",
            Self::DeregistrationsAnswered => {
                "each deregistration is answered, and each registration that was on its way"
            }
        })
    }
}

/// The limit of a step's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTime {
    /// The step takes no time.
    None,
    /// With the cancel grace.
    CancelGrace,
    /// With the cancel grace; in the end game with the deadline, which begins the stop phase.
    DeadlineOrCancelGrace,
    /// The moment that operators have to leave, a part of the time for the SIGKILL.
    LeaveBeforeKill,
    /// The part of the SIGKILL, but not before killed processes have had a moment to end.
    Kill,
    /// With the part of the outcomes.
    Report,
    /// With the part of the last heartbeat; in an end game soon.
    Heartbeat,
    /// With the part of the deregistration; in an end game, and for a registration that is undone,
    /// soon.
    Deregister,
    /// With the moment that operators have to leave.
    LeaveBeforeExit,
}

impl fmt::Display for StepTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leave = OPERATOR_LEAVE_LIMIT.as_millis();
        let (word, undo) = (LAST_WORD.as_secs(), UNDO_WITHIN.as_secs());
        match self {
            Self::None => write!(f, "it takes no time"),
            Self::CancelGrace => write!(f, "the cancel grace"),
            Self::DeadlineOrCancelGrace => {
                write!(f, "the deadline; in the stop phase what is left of the cancel grace")
            }
            Self::LeaveBeforeKill => write!(f, "{leave} ms, and at most a part of what the SIGKILL has"),
            Self::Kill => write!(
                f,
                "the part of the SIGKILL, and at least a moment for what is killed to be gone"
            ),
            Self::Report => write!(f, "the part of the outcomes"),
            Self::Heartbeat => write!(f, "the part of the last heartbeat; in an end game {word} s at most"),
            Self::Deregister => write!(
                f,
                "the part of the deregistration; in an end game {word} s at most, and {undo} s for a registration that is \
                 undone"
            ),
            Self::LeaveBeforeExit => write!(f, "{leave} ms, within the part of the deregistration"),
        }
    }
}

/// The effect of a trigger in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepVerdict {
    /// That step begins.
    Move(StopStep),
    /// The step continues, for this reason.
    Stay(&'static str),
}

use StepVerdict::{Move, Stay};

const NO_END_GAME: &str = "a stop phase never becomes an end game";

const IN_STOP: &str = "the stop phase runs already";

const NO_GRACE_HERE: &str = "there is no grace in it";

const LAST_WORDS: &str = "the last words are being said, and shall not come later for that; their time may become less";

const NOTHING_ENDS: &str = "nothing is being ended yet";

const OVER: &str = "the exit is ordered";

/// The awaited event of a step.
#[must_use]
pub fn waits_for(step: StopStep) -> WaitsFor {
    match step {
        StopStep::NotYet | StopStep::Over => WaitsFor::Nothing,
        StopStep::Cancel => WaitsFor::Handlers,
        StopStep::Ask | StopStep::Kill => WaitsFor::WorkerGone,
        StopStep::BeforeKill | StopStep::BeforeExit => WaitsFor::OperatorsGone,
        StopStep::Report => WaitsFor::Outcomes,
        StopStep::FinalHeartbeat => WaitsFor::HeartbeatAnswered,
        StopStep::Deregister => WaitsFor::DeregistrationsAnswered,
    }
}

/// When the time of a step ends.
#[must_use]
pub fn time_of(step: StopStep) -> StepTime {
    match step {
        StopStep::NotYet | StopStep::Over => StepTime::None,
        StopStep::Cancel => StepTime::CancelGrace,
        StopStep::Ask => StepTime::DeadlineOrCancelGrace,
        StopStep::BeforeKill => StepTime::LeaveBeforeKill,
        StopStep::Kill => StepTime::Kill,
        StopStep::Report => StepTime::Report,
        StopStep::FinalHeartbeat => StepTime::Heartbeat,
        StopStep::Deregister => StepTime::Deregister,
        StopStep::BeforeExit => StepTime::LeaveBeforeExit,
    }
}

/// The table: every step, every trigger.
#[must_use]
pub fn step_verdict(step: StopStep, trigger: StepTrigger) -> StepVerdict {
    use StepTrigger::{Done, EndGameBegins, NoGrace, StopBegins, TimeOver};
    use StopStep::{Ask, BeforeExit, BeforeKill, Cancel, Deregister, FinalHeartbeat, Kill, NotYet, Over, Report};
    match (step, trigger) {
        (Over, _) => Stay(OVER),
        (NotYet, EndGameBegins) => Move(Ask),
        (NotYet, StopBegins) => Move(Cancel),
        (NotYet, Done | TimeOver | NoGrace) => Stay(NOTHING_ENDS),
        (Ask, EndGameBegins) => Stay("the worker is asked already"),
        (Cancel | BeforeKill | Kill | Report | FinalHeartbeat | Deregister | BeforeExit, EndGameBegins) => {
            Stay(NO_END_GAME)
        }
        (Ask, StopBegins) => {
            Stay("the worker was asked to end, and its exit handlers may run for what is left of the grace")
        }
        (Cancel | BeforeKill | Kill | Report, StopBegins) => Stay(IN_STOP),
        (FinalHeartbeat | Deregister | BeforeExit, StopBegins) => Stay(LAST_WORDS),
        (Cancel, Done) => Move(Ask),
        (Cancel | Ask, TimeOver | NoGrace) => Move(BeforeKill),
        (BeforeKill | Kill | Report | FinalHeartbeat | Deregister | BeforeExit, NoGrace) => Stay(NO_GRACE_HERE),
        (BeforeKill, Done | TimeOver) => Move(Kill),
        // In an end game there is no outcome left, so the step ends as it begins.
        (Ask, Done) | (Kill, Done | TimeOver) => Move(Report),
        (Report, Done | TimeOver) => Move(FinalHeartbeat),
        (FinalHeartbeat, Done | TimeOver) => Move(Deregister),
        (Deregister, Done | TimeOver) => Move(BeforeExit),
        (BeforeExit, Done | TimeOver) => Move(Over),
    }
}
