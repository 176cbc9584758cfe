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
        /// Program and arguments, byte for byte. Empty where none is given, which makes sense only
        /// where the configuration has programs of its own.
        command: Vec<OsString>,
    },
    /// Say whether the configuration holds.
    ConfigCheck {
        flags: Flags,
        /// Program and arguments that a start would be given; empty: not known.
        command: Vec<OsString>,
    },
    /// Show each effective value and its source.
    ConfigShow { flags: Flags },
    /// Ask the instance that runs for something.
    Control {
        order: Order,
        flags: Flags,
        /// The pid of that instance, where one is given.
        pid: Option<i32>,
    },
    /// Say something to whoever runs the job that we are part of.
    Job(JobWord),
    /// Help, version or completions, for standard output; exit status 0.
    Print(String),
}

/// Requests to an instance that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Take no new jobs.
    Quiet,
    /// Take jobs again.
    Resume,
    /// Finish the active jobs and go.
    Terminate,
    /// Do not wait for the active jobs any longer.
    Stop,
    /// Quiet, start the orchestrator's clock, and wait.
    Prestop(PrestopWait),
    /// Show where it is and what everybody is doing.
    Status {
        as_json: bool,
        /// Show the status again and again, until the instance ends.
        watches: bool,
    },
    /// Say whether it is well.
    Health(HealthOf),
}

/// Messages and questions of a job's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWord {
    /// How far it is; nothing is checked yet.
    Progress {
        fraction: String,
        /// For a person; may be empty.
        message: String,
    },
    /// Where the next attempt shall go on.
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
        /// Where it is, as `0` or `1.path`; not checked yet.
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
    /// Until no job is active.
    UntilIdle,
}
