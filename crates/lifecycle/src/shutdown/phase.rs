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

use Verdict::{Move, Stay};

const NO_WAY_BACK: &str = "terminate is irreversible";

const NOT_TIMED: &str = "no such timer runs here";

const OVER: &str = "exit was ordered";

/// The table: every phase, every trigger.
pub fn verdict(phase: Phase, trigger: Trigger) -> Verdict {
    use Phase::{Delay, Drain, EndGame, Exited, Running, Stop};
    match (trigger, phase) {
        (_, Exited) => Stay(OVER),
        (Trigger::Quiet, Running) => Move(Phase::Quiet),
        (Trigger::Quiet, Phase::Quiet) => Stay("quiet already"),
        (Trigger::Resume, Running) => Stay("running already"),
        (Trigger::Resume, Phase::Quiet) => Move(Running),
        (Trigger::Quiet | Trigger::Resume, Delay | Drain | EndGame | Stop) => Stay(NO_WAY_BACK),
        (Trigger::Terminate, Running | Phase::Quiet) => Move(Delay),
        (Trigger::Terminate, Delay) => Stay("terminate was asked for already"),
        (Trigger::Terminate, Drain) => Stay("the drain runs already"),
        (Trigger::Terminate, EndGame) => Stay("the worker is ending already"),
        (Trigger::Terminate, Stop) => Stay("the stop phase runs already"),
        (Trigger::Force, Running | Phase::Quiet | Delay | Drain | EndGame) => Move(Stop),
        (Trigger::Force, Stop) => Stay("the stop phase runs already; cancel_grace is 0 from here on"),
        (Trigger::Abandon, Running | Phase::Quiet | Delay | Drain | EndGame | Stop) => Move(Exited),
        (Trigger::WorkerLost, Running | Phase::Quiet) => Move(Drain),
        (Trigger::WorkerLost, Delay | Drain | EndGame | Stop) => {
            Stay("a worker that ends in terminate is not started again")
        }
        (Trigger::DelayOver, Delay) => Move(Drain),
        (Trigger::DeadlineReached, Delay | Drain | EndGame) => Move(Stop),
        (Trigger::DelayOver, Running | Phase::Quiet | Drain | EndGame | Stop) => Stay(NOT_TIMED),
        (Trigger::DeadlineReached, Running | Phase::Quiet | Stop) => Stay(NOT_TIMED),
        (Trigger::Drained, Running) => Stay("an idle worker waits for jobs"),
        (Trigger::Drained, Phase::Quiet) => Stay("quiet stays until it is told to go on or to end"),
        (Trigger::Drained, Delay) => Stay("the delay holds back the end game"),
        (Trigger::Drained, Drain) => Move(EndGame),
        (Trigger::Drained, EndGame) => Stay("the drain is over already"),
        (Trigger::Drained, Stop) => Stay("each step of the stop phase ends by itself"),
        (Trigger::Done, Running | Phase::Quiet) => Stay("nothing is being ended"),
        (Trigger::Done, Delay) => Stay("nothing is being ended yet"),
        (Trigger::Done, Drain) => Stay("jobs are still active"),
        (Trigger::Done, EndGame | Stop) => Move(Exited),
    }
}
