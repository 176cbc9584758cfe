//! The phases of a worker's life and the total table of the moves between them (worker protocol
//! 2.3, contract of the shutdown). This file sees triggers, never the signal, socket or answer
//! behind them, and is the only one that moves a phase.
//!
//! ```text
//!             Quiet                Terminate              DelayOver           Drained
//!   Running --------> Quiet   Running, Quiet ----> Delay -----------> Drain ----------> EndGame --+
//!      ^                |            |                |                 |                  |      | Done
//!      +----------------+            | WorkerLost     | Force,          | Force,           | same |
//!           Resume                   +------> Drain   | DeadlineReached | DeadlineReached  |      v
//!                                    |                v                 v                  v   Exited
//!                                    +------------> Stop <-----------------------------------     ^
//!                                       Force         |                      Done                 |
//!                                                     +-------------------------------------------+
//! ```

use crate::api::Phase;
use std::fmt;

/// The triggers that can move a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// Accept no new jobs: SIGTSTP, `quiet`, `prestop`, the server.
    Quiet,
    /// Accept jobs again: SIGCONT, `resume`.
    Resume,
    /// Finish the jobs and exit: SIGTERM and the other stop signals, `terminate`, the server.
    Terminate,
    /// Do not wait any longer: a second SIGTERM, `stop`.
    Force,
    /// Exit at once: a third signal.
    Abandon,
    /// The worker ended by itself and will not be started again.
    WorkerLost,
    DelayOver,
    /// No job is active and no FETCH is in flight.
    Drained,
    DeadlineReached,
    /// All work before the exit is done, or its time has ended.
    Done,
}

impl Trigger {
    /// All triggers.
    pub const ALL: [Self; 10] = [
        Self::Quiet,
        Self::Resume,
        Self::Terminate,
        Self::Force,
        Self::Abandon,
        Self::WorkerLost,
        Self::DelayOver,
        Self::Drained,
        Self::DeadlineReached,
        Self::Done,
    ];
}

/// The effect of a trigger in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Change to this phase.
    Move(Phase),
    /// Nothing moves, for this reason.
    Stay(&'static str),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Move(phase) => write!(f, "-> {phase:?}"),
            Self::Stay(why) => f.write_str(why),
        }
    }
}

use Verdict::{Move, Stay};

const NO_WAY_BACK: &str = "terminate is irreversible";

const NOT_TIMED: &str = "no such timer runs here";

const OVER: &str = "exit was ordered";

/// The table: every phase, every trigger.
#[must_use]
pub fn verdict(phase: Phase, trigger: Trigger) -> Verdict {
    match phase {
        Phase::Running => in_running(trigger),
        Phase::Quiet => in_quiet(trigger),
        Phase::Delay => in_delay(trigger),
        Phase::Drain => in_drain(trigger),
        Phase::EndGame => in_end_game(trigger),
        Phase::Stop => in_stop(trigger),
        Phase::Exited => Stay(OVER),
    }
}

fn in_running(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet => Move(Phase::Quiet),
        Trigger::Resume => Stay("running already"),
        Trigger::Terminate => Move(Phase::Delay),
        Trigger::Force => Move(Phase::Stop),
        Trigger::Abandon => Move(Phase::Exited),
        Trigger::WorkerLost => Move(Phase::Drain),
        Trigger::DelayOver | Trigger::DeadlineReached => Stay(NOT_TIMED),
        Trigger::Drained => Stay("an idle worker waits for jobs"),
        Trigger::Done => Stay("nothing is being ended"),
    }
}

fn in_quiet(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet => Stay("quiet already"),
        Trigger::Resume => Move(Phase::Running),
        Trigger::Terminate => Move(Phase::Delay),
        Trigger::Force => Move(Phase::Stop),
        Trigger::Abandon => Move(Phase::Exited),
        Trigger::WorkerLost => Move(Phase::Drain),
        Trigger::DelayOver | Trigger::DeadlineReached => Stay(NOT_TIMED),
        Trigger::Drained => Stay("quiet stays until it is told to go on or to end"),
        Trigger::Done => Stay("nothing is being ended"),
    }
}

fn in_delay(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet | Trigger::Resume => Stay(NO_WAY_BACK),
        Trigger::Terminate => Stay("terminate was asked for already"),
        Trigger::Force | Trigger::DeadlineReached => Move(Phase::Stop),
        Trigger::Abandon => Move(Phase::Exited),
        Trigger::WorkerLost => Stay("a worker that ends in terminate is not started again"),
        Trigger::DelayOver => Move(Phase::Drain),
        Trigger::Drained => Stay("the delay holds back the end game"),
        Trigger::Done => Stay("nothing is being ended yet"),
    }
}

fn in_drain(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet | Trigger::Resume => Stay(NO_WAY_BACK),
        Trigger::Terminate => Stay("the drain runs already"),
        Trigger::Force | Trigger::DeadlineReached => Move(Phase::Stop),
        Trigger::Abandon => Move(Phase::Exited),
        Trigger::WorkerLost => Stay("a worker that ends in terminate is not started again"),
        Trigger::DelayOver => Stay(NOT_TIMED),
        Trigger::Drained => Move(Phase::EndGame),
        Trigger::Done => Stay("jobs are still active"),
    }
}

fn in_end_game(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet | Trigger::Resume => Stay(NO_WAY_BACK),
        Trigger::Terminate => Stay("the worker is ending already"),
        Trigger::Force | Trigger::DeadlineReached => Move(Phase::Stop),
        Trigger::Abandon | Trigger::Done => Move(Phase::Exited),
        Trigger::WorkerLost => Stay("a worker that ends in terminate is not started again"),
        Trigger::DelayOver => Stay(NOT_TIMED),
        Trigger::Drained => Stay("the drain is over already"),
    }
}

fn in_stop(trigger: Trigger) -> Verdict {
    match trigger {
        Trigger::Quiet | Trigger::Resume => Stay(NO_WAY_BACK),
        Trigger::Terminate => Stay("the stop phase runs already"),
        Trigger::Force => Stay("the stop phase runs already; cancel_grace is 0 from here on"),
        Trigger::Abandon | Trigger::Done => Move(Phase::Exited),
        Trigger::WorkerLost => Stay("a worker that ends in terminate is not started again"),
        Trigger::DelayOver | Trigger::DeadlineReached => Stay(NOT_TIMED),
        Trigger::Drained => Stay("each step of the stop phase ends by itself"),
    }
}
