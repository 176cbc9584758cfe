//! Words that cross the border in both directions: what state we are in, why something happens,
//! what an outcome is.

use std::time::Duration;

/// The states of the worker protocol 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerState {
    /// Fetching and processing.
    Running,
    /// Processing only.
    Quiet,
    /// Finishing, then gone.
    Terminate,
    /// Gone: said by the very last heartbeat, where `backend.final_state` asks for it (requirements
    /// C-04).
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
    /// The backend said so.
    Server,
    /// The operator said so.
    Control,
    /// A preStop hook ran, or came to nothing.
    Prestop,
    /// There was no job for so long (`worker.exit_when_idle`).
    Idle(Duration),
    /// The backend accepted the ACK of the one job (`--once`).
    OnceDone,
    /// The one job has another end (`--once`): it failed, was given back or was lost.
    OnceNotDone,
    /// The worker ended, or was ended by us, and is not started again.
    #[default]
    Worker,
}

impl Reason {
    /// Its name in the log and in the status.
    #[must_use]
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

    /// Its name on the worker socket, where an end that the configuration asked for is one that an
    /// operator asked for.
    #[must_use]
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
    /// The job's own timeout is over.
    Timeout,
    /// Somebody cancelled it at the backend.
    Cancelled,
    Lost,
}

/// Which frame of a worker an `ok` answers.
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
    /// No heartbeat named it for long enough, and several said that its holder has no job.
    NotNamed,
    /// The holder sent nothing for longer than the job may take.
    Silent,
}
