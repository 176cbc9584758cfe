//! The steps of an end game and of a stop phase, and the total table of the moves between them.
//! Each step waits for an event, and for a time. This file has the next step, and the words for
//! both. It sees triggers, never the process, request or client behind them. `stop` carries out a
//! step, and knows its event and its end; `timeouts` has the longest time of each.

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

/// The awaited event of a step, in the words of docs/lifecycle.md; `stop` waits for it.
pub fn waits_for(step: StopStep) -> &'static str {
    match step {
        StopStep::NotYet | StopStep::Over => "nothing of its own",
        StopStep::Cancel => "each handler has answered",
        StopStep::Ask | StopStep::Kill => "nothing is left of the worker, and nobody holds a job",
        StopStep::BeforeKill | StopStep::BeforeExit => "who has an answer on the control socket has left",
        StopStep::Report => "the backend has every outcome, and no FETCH is on its way",
        StopStep::FinalHeartbeat => "the last heartbeat is answered, and no other is on its way",
        StopStep::Deregister => "each deregistration is answered, and each registration that was on its way",
    }
}

/// When the time of a step ends, in the words of docs/lifecycle.md; `stop` finds the moment.
pub fn time_of(step: StopStep) -> String {
    let leave = OPERATOR_LEAVE_LIMIT.as_millis();
    let (word, undo) = (LAST_WORD.as_secs(), UNDO_WITHIN.as_secs());
    match step {
        StopStep::NotYet | StopStep::Over => "it takes no time".to_owned(),
        StopStep::Cancel => "the cancel grace".to_owned(),
        StopStep::Ask => "the deadline; in the stop phase what is left of the cancel grace".to_owned(),
        StopStep::BeforeKill => format!("{leave} ms, and at most a part of what the SIGKILL has"),
        StopStep::Kill => "the part of the SIGKILL, and at least a moment for what is killed to be gone".to_owned(),
        StopStep::Report => "the part of the outcomes".to_owned(),
        StopStep::FinalHeartbeat => format!("the part of the last heartbeat; in an end game {word} s at most"),
        StopStep::Deregister => format!(
            "the part of the deregistration; in an end game {word} s at most, and {undo} s for a registration that is \
             undone"
        ),
        StopStep::BeforeExit => format!("{leave} ms, within the part of the deregistration"),
    }
}

/// The table: every step, every trigger.
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
