//! The end as one part of the machine: its phase, its times, its steps, and the account of it.
//!
//! The part knows no other one. It takes triggers and [`Facts`] about the others, and returns a
//! list of [`Said`]: orders for the shell and requests to the other parts. `router::end` carries
//! them out in order.

use crate::api::{EndingNotice, EndingTimer, Moment, Options, Phase, ShutdownCounts, ToWorker, WorkerState};
use crate::shutdown::idle_state::Idle;
use crate::shutdown::said::Said;
use crate::shutdown::state::Shutdown;
use crate::timers::Timers;
use ojs_values::signal::Signal;

/// The phase, and everything that leads to the exit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ending {
    pub(super) phase: Phase,
    pub(super) shutdown: Shutdown,
    pub(super) idle: Idle,
    pub(super) tally: ShutdownCounts,
    pub(super) timers: Timers<EndingTimer>,
    said: Vec<Said>,
}

/// Facts about the other parts for one decision. All are cheap, however many jobs there are.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// Jobs that are not finished: claimed, and no outcome of theirs is on its way as surplus.
    pub(crate) unfinished: usize,
    /// There is a job, whatever its place.
    pub(crate) has_jobs: bool,
    /// A holder has a job.
    pub(crate) has_held_jobs: bool,
    /// No job is ours, and no handler of a lost job has time left.
    pub(crate) has_nothing_to_do: bool,
    pub(crate) is_fetching: bool,
    /// A job that becomes available would be fetched.
    pub(crate) is_looking_for_jobs: bool,
    pub(crate) worker_is_alive: bool,
    /// The worker ended, and nothing of it is left.
    pub(crate) worker_is_over: bool,
    /// ojs-init has just ended the worker or a process of it.
    pub(crate) worker_was_just_ended: bool,
    /// Nobody on the control socket waits for anything.
    pub(crate) operators_have_left: bool,
    /// The backend has heard of the worker.
    pub(crate) is_known: bool,
    /// The backend has to be told that a worker leaves.
    pub(crate) owes_farewell: bool,
    /// Heartbeats without an answer, the last one not among them.
    pub(crate) heartbeats: usize,
    /// The last heartbeat has no answer.
    pub(crate) is_saying_last: bool,
    pub(crate) is_registering: bool,
    pub(crate) is_deregistering: bool,
}

impl Facts {
    /// No job is active, and none is on its way to us.
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

impl Default for Ending {
    fn default() -> Self {
        Self {
            phase: Phase::Running,
            shutdown: Shutdown::default(),
            idle: Idle::default(),
            tally: ShutdownCounts::default(),
            timers: Timers::default(),
            said: Vec::new(),
        }
    }
}

/// Questions of the other parts.
impl Ending {
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The phase as the worker and the backend know it.
    pub(crate) fn state(&self) -> WorkerState {
        match self.phase {
            Phase::Running => WorkerState::Running,
            Phase::Quiet => WorkerState::Quiet,
            Phase::Delay | Phase::Drain | Phase::EndGame | Phase::Stop | Phase::Exited => WorkerState::Terminate,
        }
    }

    /// The request for the end, its time, and how far the end is.
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    pub(crate) fn timers(&self) -> &Timers<EndingTimer> {
        &self.timers
    }

    /// This timer is acted on.
    pub(crate) fn cancel(&mut self, timer: EndingTimer) {
        self.timers.cancel(timer);
    }

    /// Whether nothing was said since the last list was taken.
    pub(crate) fn is_silent(&self) -> bool {
        self.said.is_empty()
    }

    /// Everything that was said since the last call.
    pub(crate) fn take_said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    /// That is carried out. The memory of the list is used for the next one.
    pub(crate) fn is_carried_out(&mut self, list: Vec<Said>) {
        if self.said.capacity() == 0 {
            self.said = list;
        }
    }

    /// SIGKILL went out to processes of the worker.
    pub(crate) fn killed(&mut self, now: Moment) {
        self.shutdown.killed(now);
    }
}

/// How it talks.
impl Ending {
    pub(super) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(super) fn notify(&mut self, notice: EndingNotice) {
        self.say(Said::Notify(notice));
    }

    pub(super) fn tell_all(&mut self, word: ToWorker) {
        self.say(Said::TellAll(word));
    }

    pub(super) fn signal_worker_if_set(&mut self, signal: Option<Signal>) {
        if let Some(signal) = signal {
            self.say(Said::SignalWorker(signal));
        }
    }
}
