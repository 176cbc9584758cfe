//! The typed configuration, section by section. Durations are durations; everything else says its unit.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::choice::{FinalState, Leftovers, LogFormat, LogLevel, Mode, Restart, StopSignalAction};
use super::network::{BackendUrl, Header, Listen, Secret};
use super::settings::Settings;
use super::user::UserSpec;
use crate::exit::RemapExit;
use crate::signal::Signal;

/// Everything that ojs-init was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How jobs reach the child.
    pub mode: Mode,
    /// The init itself.
    pub init: Init,
    /// How the child ends.
    pub shutdown: Shutdown,
    /// What the child runs as.
    pub process: Process,
    /// What the log says.
    pub log: Log,
    /// The connection to the backend.
    pub backend: Backend,
    /// The worker and its jobs.
    pub worker: Worker,
    /// Signals to the worker.
    pub signals: Signals,
    /// The health endpoints.
    pub health: Health,
    /// Files and directories.
    pub paths: Paths,
    /// Each key with its text and source.
    pub settings: Settings,
    /// What is allowed but probably not meant: complete sentences.
    pub warnings: Vec<String>,
}

/// The init itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// Become a subreaper even where nothing says that it is needed.
    pub subreaper: bool,
    /// Signal that we get when our parent dies.
    pub parent_death_signal: Option<Signal>,
    /// How often `-v` was given; [`Log::level`] already counts it.
    pub verbosity: u8,
    /// Warn when an orphan is reaped.
    pub warn_on_reap: bool,
    /// Forwarded signals go to the child's whole process group.
    pub process_group: bool,
    /// Statuses of the child that become 0.
    pub remap_exit: RemapExit,
    /// What a signal is forwarded as; `None` drops it.
    pub rewrite: BTreeMap<Signal, Option<Signal>>,
}

/// How the child ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// Longest drain; zero means none.
    pub grace_period: Duration,
    /// Whether somebody set `grace_period`: without the agent only then it bounds anything.
    pub grace_period_is_explicit: bool,
    /// What the orchestrator allows from its first step to SIGKILL, when somebody told us.
    pub termination_grace_period: Option<Duration>,
    /// Time that a preStop hook has used before the first signal.
    pub prestop_time: Duration,
    /// Kept back for the stop phase, when somebody set it; else 5 s, at most half of the limit.
    pub stop_margin: Option<Duration>,
    /// From `cancel` to SIGKILL in the stop phase.
    pub cancel_grace: Duration,
    /// From not ready to the first step of the drain.
    pub term_delay: Duration,
    /// What SIGINT does to the agent.
    pub sigint: StopSignalAction,
    /// What SIGQUIT does to the agent.
    pub sigquit: StopSignalAction,
    /// Exit status of a shutdown that cut jobs off.
    pub interrupted_exit: u8,
}

/// What the child runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Another user, as written.
    pub user: Option<UserSpec>,
}

/// What the log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Shape of the records; `None`: text on a terminal, else JSON.
    pub format: Option<LogFormat>,
    /// Least severe record that is written, `-v` counted in.
    pub level: LogLevel,
}

/// The connection to the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Where it is; always set when the mode is not none.
    pub url: Option<BackendUrl>,
    /// File with the bearer token; goes before `auth_token`.
    pub auth_token_file: Option<PathBuf>,
    /// The bearer token itself.
    pub auth_token: Option<Secret>,
    /// Leave the token in the child's environment.
    pub pass_token: bool,
    /// State in the last heartbeat.
    pub final_state: FinalState,
    /// Extra headers of each request.
    pub headers: Vec<Header>,
    /// Certificates that the backend's must go back to; `None`: the public roots.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate; set exactly when `key_file` is.
    pub cert_file: Option<PathBuf>,
    /// The key of our own certificate.
    pub key_file: Option<PathBuf>,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for an answer.
    pub request_timeout: Duration,
    /// What becomes of a job that a shutdown cut off.
    pub leftovers: Leftovers,
    /// Error type in the FAIL of such a job.
    pub shutdown_error_type: String,
    /// Error code in the FAIL of such a job.
    pub shutdown_error_code: String,
}

/// The worker and its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Highest priority first; never empty.
    pub queues: Vec<String>,
    /// Most jobs active at once, 1 to [`super::keys::MAX_CONCURRENCY`].
    pub concurrency: u32,
    /// Labels of this worker.
    pub labels: Vec<String>,
    /// Pause after an empty fetch.
    pub poll_interval: Duration,
    /// Time between heartbeats until registration recommends another; never above a third of `visibility_timeout`.
    pub heartbeat_interval: Duration,
    /// Whether somebody set `heartbeat_interval`: then no recommendation changes it.
    pub heartbeat_interval_is_explicit: bool,
    /// How long a heartbeat keeps a job reserved.
    pub visibility_timeout: Duration,
    /// Whether a worker that ended is started again.
    pub restart: Restart,
    /// Whether the backend may lift a quiet that it made.
    pub server_resume: bool,
    /// From a job's timeout to the end of its process.
    pub timeout_grace: Duration,
    /// Further uids that may connect.
    pub socket_users: Vec<u32>,
    /// Warn when the worker has not said ready by then.
    pub ready_timeout: Duration,
    /// How long a job whose type no connection takes waits for one that may still come.
    pub type_wait: Duration,
    /// Largest frame on the worker socket, in bytes.
    pub max_frame: u64,
    /// Gateway: let the worker's own heartbeats see quiet and terminate.
    pub tell_worker: bool,
}

/// Signals to the worker, for one that knows signals but no protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signals {
    /// When no new jobs will come.
    pub on_quiet: Option<Signal>,
    /// When jobs come again.
    pub on_resume: Option<Signal>,
    /// When the drain begins.
    pub on_terminate: Option<Signal>,
}

/// The health endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Where they listen; `None`: the default address with the agent, nowhere without.
    pub listen: Option<Listen>,
}

/// Files and directories, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Directory for the sockets; `None`: the first candidate that works.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, one of the candidates.
    pub user_runtime_dir: Option<PathBuf>,
    /// Existing file for the summary of a shutdown; `None`: the default when it exists.
    pub termination_log: Option<PathBuf>,
}
