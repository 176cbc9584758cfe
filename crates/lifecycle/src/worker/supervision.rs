//! The state of the worker's process: whether it runs, since when, how it ended, and how often it
//! was restarted.

use std::time::Duration;

use crate::api::{EndCause, Moment, ProcessId, Restarts, WorkerEnd};
use crate::worker::blame::Blame;
use ojs_values::exit::{Ended, RemapExit};

/// Exit status if ojs-init ended the worker and does not restart it.
const ENDED_BY_US: u8 = 1;

/// The state of the worker's process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Supervision {
    pub(super) state: WorkerProcessState,
    /// When the present one was started, or ordered.
    pub(super) started_at: Moment,
    /// Since when the present worker accepts jobs.
    pub(super) ready_since: Option<Moment>,
    /// Lives in a row that were not successful.
    pub(super) failures: u32,
    /// Attempts in a row to get a process.
    pub(super) shortages: u32,
    /// Restarts within the window.
    pub(super) restarts: Restarts,
    /// Which process the last one was that ended.
    pub(crate) ended_process: Option<ProcessId>,
    /// How the last one ended.
    pub(crate) ended: Option<WorkerEnd>,
    /// How long the last worker had run when it ended.
    pub(super) ran: Duration,
    /// Processes that the kernel has killed for lack of memory since the start of the present
    /// worker, as far as reported.
    pub(crate) oom_kills: u64,
    /// The last process of the present worker that ojs-init ended.
    pub(super) blame: Option<Blame>,
    /// Why ojs-init ended the last worker, until the next one runs.
    pub(crate) ended_for: Option<EndCause>,
    /// The present one was asked to end since nothing is left to do, or all that is left is cut
    /// off.
    pub(super) is_asked_to_end: bool,
    /// Why the last one could not be started.
    pub(crate) start_failure_status: Option<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum WorkerProcessState {
    #[default]
    Starting,
    /// The system had no process left for the worker. Its start will be ordered again.
    Postponed,
    Alive(ProcessId),
    /// The process was reaped, and its descendants are being ended.
    Clearing {
        process: ProcessId,
        children_left: bool,
        is_asked: bool,
        is_killed: bool,
    },
    /// No process of the worker is left. The next one will be started.
    Between,
    /// No process of the worker is left, and there will be no other.
    Over,
}

impl Supervision {
    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.state, WorkerProcessState::Alive(_))
    }

    pub(crate) fn is_clearing(&self) -> bool {
        matches!(self.state, WorkerProcessState::Clearing { .. })
    }

    /// Whether nothing of the last worker is left, and the next one is not started yet.
    pub(super) fn awaits_the_next(&self) -> bool {
        matches!(self.state, WorkerProcessState::Between | WorkerProcessState::Postponed)
    }

    /// Whether nothing of the last one is left, and the next one will be started.
    pub(crate) fn is_between_two(&self) -> bool {
        self.state == WorkerProcessState::Between
    }

    /// Whether no process of the worker runs or is being started.
    pub(crate) fn is_over(&self) -> bool {
        match self.state {
            WorkerProcessState::Postponed | WorkerProcessState::Between | WorkerProcessState::Over => true,
            WorkerProcessState::Starting | WorkerProcessState::Alive(_) | WorkerProcessState::Clearing { .. } => false,
        }
    }

    /// The worker's own process, until its last descendant has ended.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self.state {
            WorkerProcessState::Alive(process) | WorkerProcessState::Clearing { process, .. } => Some(process),
            WorkerProcessState::Starting
            | WorkerProcessState::Postponed
            | WorkerProcessState::Between
            | WorkerProcessState::Over => None,
        }
    }

    /// For how long the present one has run, or was to be started.
    pub(crate) fn up(&self, now: Moment) -> Duration {
        self.started_at.elapsed(now)
    }

    /// Starts again that still count.
    pub(crate) fn restarts(&self, now: Moment) -> usize {
        self.restarts.count(now)
    }

    /// How long the last worker had run when it ended.
    pub(crate) fn ran(&self) -> Option<Duration> {
        self.ended.map(|_| self.ran)
    }

    /// Why ojs-init ended the last worker, or a moment ago one of its processes.
    pub(crate) fn has_just_ended_for(&self, now: Moment) -> Option<&EndCause> {
        let recent = self.blame.as_ref().filter(|blame| blame.is_recent(now));
        self.ended_for.as_ref().or(recent.map(|blame| &blame.cause))
    }

    pub(crate) fn said_ready(&mut self, now: Moment) {
        self.ready_since.get_or_insert(now);
    }

    pub(crate) fn has_been_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// The latest moment at which the worker has to send ready.
    pub(crate) fn ready_by(&self, timeout: Duration) -> Moment {
        self.started_at.after(timeout)
    }

    /// The exit status of ojs-init after the end of the worker, if no request caused that end.
    pub(crate) fn status(&self, remap: &RemapExit) -> u8 {
        let of_its_end = || match self.ended_for {
            Some(_) => ENDED_BY_US,
            None => remap.apply(self.ended.map_or(Ended::UNREAPED, |end| end.ended)),
        };
        self.start_failure_status.unwrap_or_else(of_its_end)
    }
}
