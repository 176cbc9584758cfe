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
    match trigger {
        StepTrigger::EndGameBegins => on_end_game(step),
        StepTrigger::StopBegins => on_stop(step),
        StepTrigger::Done => on_done(step),
        StepTrigger::TimeOver => on_time_over(step),
        StepTrigger::NoGrace => on_no_grace(step),
    }
}

fn on_end_game(step: StopStep) -> StepVerdict {
    match step {
        StopStep::NotYet => Move(StopStep::Ask),
        StopStep::Ask => Stay("the worker is asked already"),
        StopStep::Cancel
        | StopStep::BeforeKill
        | StopStep::Kill
        | StopStep::Report
        | StopStep::FinalHeartbeat
        | StopStep::Deregister
        | StopStep::BeforeExit => Stay(NO_END_GAME),
        StopStep::Over => Stay(OVER),
    }
}

fn on_stop(step: StopStep) -> StepVerdict {
    match step {
        StopStep::NotYet => Move(StopStep::Cancel),
        StopStep::Ask => {
            Stay("the worker was asked to end, and its exit handlers may run for what is left of the grace")
        }
        StopStep::Cancel | StopStep::BeforeKill | StopStep::Kill | StopStep::Report => Stay(IN_STOP),
        StopStep::FinalHeartbeat | StopStep::Deregister | StopStep::BeforeExit => Stay(LAST_WORDS),
        StopStep::Over => Stay(OVER),
    }
}

fn on_done(step: StopStep) -> StepVerdict {
    match step {
        StopStep::NotYet => Stay(NOTHING_ENDS),
        StopStep::Cancel => Move(StopStep::Ask),
        StopStep::BeforeKill => Move(StopStep::Kill),
        // In an end game there is no outcome left, so the step ends as it begins.
        StopStep::Ask | StopStep::Kill => Move(StopStep::Report),
        StopStep::Report => Move(StopStep::FinalHeartbeat),
        StopStep::FinalHeartbeat => Move(StopStep::Deregister),
        StopStep::Deregister => Move(StopStep::BeforeExit),
        StopStep::BeforeExit => Move(StopStep::Over),
        StopStep::Over => Stay(OVER),
    }
}

fn on_time_over(step: StopStep) -> StepVerdict {
    match step {
        StopStep::NotYet => Stay(NOTHING_ENDS),
        StopStep::Cancel | StopStep::Ask => Move(StopStep::BeforeKill),
        StopStep::BeforeKill
        | StopStep::Kill
        | StopStep::Report
        | StopStep::FinalHeartbeat
        | StopStep::Deregister
        | StopStep::BeforeExit => on_done(step),
        StopStep::Over => Stay(OVER),
    }
}

fn on_no_grace(step: StopStep) -> StepVerdict {
    match step {
        StopStep::NotYet => Stay(NOTHING_ENDS),
        StopStep::Cancel | StopStep::Ask => Move(StopStep::BeforeKill),
        StopStep::BeforeKill
        | StopStep::Kill
        | StopStep::Report
        | StopStep::FinalHeartbeat
        | StopStep::Deregister
        | StopStep::BeforeExit => Stay(NO_GRACE_HERE),
        StopStep::Over => Stay(OVER),
    }
}
