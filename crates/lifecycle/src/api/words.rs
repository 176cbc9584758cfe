//! Words that events and effects share: the states, the reasons of a change, and the kinds of
//! outcomes.

use std::time::Duration;

/// The states of the worker protocol 2.1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// The worker fetches and processes jobs.
    #[default]
    Running,
    /// The worker only processes jobs.
    Quiet,
    /// The worker finishes its jobs and exits.
    Terminate,
    /// The worker has ended. Only the very last heartbeat reports it, if `backend.final_state` asks
    /// for it (requirements C-04).
    Terminated,
}

/// The cause of a change of the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Sigterm,
    Sigint,
    Sigquit,
    Sigtstp,
    Sigcont,
    /// A directive of the backend.
    Server,
    /// A request of the operator.
    Control,
    /// A preStop hook ran or lapsed.
    Prestop,
    /// There was no job for this long (`worker.exit_when_idle`).
    Idle(Duration),
    /// The backend accepted the ACK of the one job (`--once`).
    OnceDone,
    /// The one job has another end (`--once`): it failed, was given back or was lost.
    OnceNotDone,
    /// The worker ended, or ojs-init ended it, and does not restart it.
    #[default]
    Worker,
}

impl Reason {
    /// The name in the log and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigterm => "sigterm",
            Self::Sigint => "sigint",
            Self::Sigquit => "sigquit",
            Self::Sigtstp => "sigtstp",
            Self::Sigcont => "sigcont",
            Self::Server => "server",
            Self::Control | Self::Prestop => "control",
            Self::Idle(_) => "idle",
            Self::OnceDone | Self::OnceNotDone => "once",
            Self::Worker => "worker",
        }
    }

    /// The name on the worker socket. An end that the configuration asked for has the name of one
    /// that an operator asked for.
    pub fn wire_name(self) -> &'static str {
        match self {
            Self::Idle(_) | Self::OnceDone | Self::OnceNotDone => Self::Control.name(),
            Self::Sigterm
            | Self::Sigint
            | Self::Sigquit
            | Self::Sigtstp
            | Self::Sigcont
            | Self::Server
            | Self::Control
            | Self::Prestop
            | Self::Worker => self.name(),
        }
    }
}

/// Why a job is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelReason {
    /// The stop phase began.
    Shutdown,
    /// The job's own timeout expired.
    Timeout,
    /// The job was cancelled at the backend.
    Cancelled,
    /// An operator cancelled the job here. A worker gets the same word as for `Cancelled`.
    Operator,
    Lost,
}

/// Error type and code of a job that fails because an operator cancelled it.
pub const CANCELLED_BY_OPERATOR: &str = "cancelled_by_operator";

/// The frame of a worker that an `ok` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    Ack,
    Fail,
    Release,
    Progress,
    Checkpoint,
}

/// Why a job was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// No heartbeat named the job for long enough, and several reported that its holder has no job.
    NotNamed,
    /// The holder sent nothing for longer than the job's time limit.
    Silent,
}
