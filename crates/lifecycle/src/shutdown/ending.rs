//! The end as one part of the machine: its phase, its times, its steps, and the account of it.
//!
//! The part knows no other part. Its input is triggers and [`Facts`] about the others. It returns a
//! list of [`Said`]: orders for the shell and requests to the other parts. `router::end` carries
//! out the list in order.

use crate::api::{EndingNotice, EndingTimer, Moment, Options, Phase, ShutdownCounts, WorkerState};
use crate::shutdown::idle_state::Idle;
use crate::shutdown::said::Said;
use crate::shutdown::state::Shutdown;
use crate::timers::Timers;
use ojs_values::signal::Signal;

/// The phase, and everything that leads to the exit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ending {
    pub(crate) phase: Phase,
    /// The state that the holders were last told. In the phase delay it is still the former one.
    pub(crate) told: WorkerState,
    pub(crate) shutdown: Shutdown,
    pub(crate) idle: Idle,
    pub(crate) tally: ShutdownCounts,
    pub(crate) timers: Timers<EndingTimer>,
    pub(crate) said: Vec<Said>,
}

/// Facts about the other parts for one decision. All are cheap, however many jobs there are.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// Jobs that are not finished: claimed, and without a surplus report in flight.
    pub(crate) unfinished: usize,
    /// There is a job, whatever its place.
    pub(crate) has_jobs: bool,
    /// A holder has a job.
    pub(crate) has_held_jobs: bool,
    /// No reservation is ojs-init's, and no handler of a lost job has time left.
    pub(crate) has_nothing_to_do: bool,
    pub(crate) is_fetching: bool,
    /// A job that becomes available would be fetched.
    pub(crate) is_looking_for_jobs: bool,
    /// Jobs wait because the worker is being recycled.
    pub(crate) is_recycling: bool,
    pub(crate) worker_is_alive: bool,
    /// The worker and all its descendants have ended.
    pub(crate) worker_is_over: bool,
    /// ojs-init has just ended the worker or one of its processes.
    pub(crate) worker_was_just_ended: bool,
    /// No client of the control socket that sent a request is connected, with or without its reply.
    pub(crate) operators_have_left: bool,
    /// The backend knows the worker.
    pub(crate) is_known: bool,
    /// The backend knows a worker that is not deregistered yet.
    pub(crate) owes_farewell: bool,
    /// Heartbeats without an answer, without the last one.
    pub(crate) heartbeats: usize,
    /// The last heartbeat has no answer.
    pub(crate) is_saying_last: bool,
    pub(crate) is_registering: bool,
    pub(crate) is_deregistering: bool,
}

impl Facts {
    /// No job is active, and no FETCH is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_jobs && !self.is_fetching
    }
}

/// The facts of a decision besides the state of the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) facts: Facts,
    pub(crate) now: Moment,
}

/// Questions of the other parts.
impl Ending {
    /// The state for the backend, the status and the probes. The backend gets one `quiet` before
    /// the first `terminate`; the worker's state is [`Self::told`].
    pub(crate) fn state(&self) -> WorkerState {
        match self.phase {
            Phase::Running => WorkerState::Running,
            Phase::Quiet => WorkerState::Quiet,
            Phase::Delay | Phase::Drain | Phase::EndGame | Phase::Stop | Phase::Exited => WorkerState::Terminate,
        }
    }
}

/// Orders to the shell and to the other parts.
impl Ending {
    pub(super) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(super) fn notify(&mut self, notice: EndingNotice) {
        self.say(Said::Notify(notice));
    }

    pub(super) fn signal_worker_if_set(&mut self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.say(Said::SignalWorker(signal));
        }
    }
}
