//! Command lines, understood.

use std::ffi::OsString;
use std::time::Duration;

use crate::config::Flags;

/// The request of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// Supervise a command.
    Run {
        flags: Flags,
        /// Program and arguments, byte for byte. Empty if none is given, which is useful only if
        /// the configuration has its own programs.
        command: Vec<OsString>,
    },
    /// Check the configuration.
    ConfigCheck {
        flags: Flags,
        /// Program and arguments that a start would be given; empty: not known.
        command: Vec<OsString>,
    },
    /// Show each effective value and its source.
    ConfigShow { flags: Flags },
    /// Send an order to the running instance.
    #[cfg(feature = "agent")]
    Control {
        order: Order,
        flags: Flags,
        /// The pid of that instance, if one is given.
        pid: Option<i32>,
    },
    /// Send a message to the runner of the job that this process belongs to.
    #[cfg(feature = "agent")]
    Job(JobWord),
    /// Help, version or completions, for standard output; exit status 0.
    Print(String),
}

/// Requests to an instance that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Fetch no new jobs.
    Quiet,
    /// Fetch jobs again.
    Resume,
    /// Finish the active jobs and end.
    Terminate,
    /// Do not wait for the active jobs any longer.
    Stop,
    /// Drain the worker and start it again.
    Recycle,
    /// Quiet, start the orchestrator's clock, and wait.
    Prestop(PrestopWait),
    /// Show the state of the instance, its connections and its jobs.
    Status {
        as_json: bool,
        /// Show the status again and again, until the instance ends.
        watches: bool,
    },
    /// Check the health of the instance.
    Health(HealthOf),
    /// Show the active jobs.
    Jobs { as_json: bool },
    /// Cancel one active job.
    Cancel {
        /// The id of the job, or a beginning that no other active job has.
        job: String,
    },
}

/// Messages and questions of a job's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWord {
    /// The progress of the job; not checked yet.
    Progress {
        fraction: String,
        /// Text for a person; may be empty.
        message: String,
    },
    /// The state from which the next attempt continues.
    Checkpoint {
        /// JSON, not checked yet.
        state: String,
    },
    /// The job is alive.
    Heartbeat,
    /// Is it to end?
    Cancelled,
    /// One of its arguments.
    Argument {
        /// The place of the argument, as `0` or `1.path`; not checked yet.
        path: String,
    },
}

/// The probe whose answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthOf {
    /// `/healthz`.
    Both,
    /// `/livez`.
    Live,
    /// `/readyz`.
    Ready,
}

/// How long a preStop hook waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrestopWait {
    For(Duration),
    /// Waits until no job is active.
    UntilIdle,
}
