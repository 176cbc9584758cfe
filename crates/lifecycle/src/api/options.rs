//! The configuration of a lifecycle. Every period is a duration, every limit states its unit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::budget::ShutdownTimes;
use crate::api::ids::Text;
use crate::api::recycle::RecycleLimits;
use ojs_values::exit::RemapExit;
use ojs_values::signal::Signal;

/// Most jobs that one worker may hold at once. If holders ask for their jobs, a concurrency of this
/// value means that none is configured: each holder gets as many jobs as it asks for.
pub const MAX_CONCURRENCY: u32 = 10_000;

/// The configuration of one lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Most jobs active at once, over all holders (`worker.concurrency`), up to
    /// [`MAX_CONCURRENCY`].
    pub concurrency: u32,
    /// The queues of the jobs.
    pub queues: Queues,
    /// Whether a holder that sends heartbeats with its jobs gets the real state instead of always
    /// `running` (`gateway.tell_worker`).
    pub tell_worker: bool,
    /// Whether ojs-init may end the process of a holder that receives no messages because a job of
    /// it timed out or is lost (`gateway.enforce_timeouts`). It may always do so if the holder
    /// receives messages.
    pub enforce_timeouts: bool,
    /// Whether a job whose process crashed gets a process for itself the next time. Not in mode
    /// exec, because each job has its own process there.
    pub isolates_suspects: bool,
    /// Whether ojs-init restarts a worker that ended.
    pub restart: Restart,
    /// When ojs-init recycles the worker.
    pub recycle: RecycleLimits,
    /// Warn if no holder has sent ready within this time.
    pub ready_timeout: Duration,
    /// How long a job waits for a holder of its type if there is none yet.
    pub type_wait: Duration,
    /// The share of the container's memory limit, in percent, above which ojs-init asks for no jobs
    /// (`worker.memory_gate`). None: there is no gate, or the share is unknown.
    pub memory_gate: Option<u8>,
    /// The end begins after this long without a job (`worker.exit_when_idle`); `None`: never.
    pub exit_when_idle: Option<Duration>,
    /// The end begins with the outcome of the first job (`--once`). Requires a concurrency of 1.
    pub once: bool,
    /// The timeout of a job that has none of its own (`exec.timeout`); `None`: the job has none.
    pub job_timeout: Option<Duration>,
    /// From a job's timeout to the end of the process that holds it.
    pub timeout_grace: Duration,
    /// The queues whose events ojs-init asks for (`worker.wake`), the first [`MOST_STREAMS`] of
    /// them. Empty: no streams.
    ///
    /// [`MOST_STREAMS`]: crate::api::MOST_STREAMS
    pub listen_to: Vec<Text>,
    /// The longest pause after an empty FETCH.
    pub poll_interval: Duration,
    /// The longest pause while streams are open that have reported every job which polls found.
    pub poll_interval_max: Duration,
    /// Time between heartbeats until the backend recommends another.
    pub heartbeat_interval: Duration,
    /// Whether the backend's recommendation may change the interval.
    pub heartbeat_interval_is_fixed: bool,
    /// How long a heartbeat keeps a job reserved.
    pub visibility_timeout: Duration,
    /// Longest timeout of any request.
    pub request_timeout: Duration,
    /// The state in the last heartbeat (requirements C-04).
    pub final_state: FinalState,
    /// Whether a `running` of the backend ends a quiet that the backend asked for (requirements
    /// C-20).
    pub server_resume: bool,
    /// The times of a shutdown.
    pub times: ShutdownTimes,
    /// From `cancel` to SIGKILL.
    pub cancel_grace: Duration,
    /// Pause between not-ready and the first step of the drain.
    pub term_delay: Duration,
    /// Whether a SIGTSTP starts the orchestrator's clock if a SIGTERM follows, as in the preStop
    /// hook of GS 8.1.
    pub tstp_starts_clock: bool,
    pub sigint: StopSignal,
    pub sigquit: StopSignal,
    /// Signals for a worker without a protocol.
    pub signals: TransitionSignals,
    /// Signals to replace before they are handled; none drops them (`-r`).
    pub rewrite: BTreeMap<Signal, Option<Signal>>,
    /// Statuses of the worker that are mapped to 0 (`-e`).
    pub remap_exit: RemapExit,
    /// Exit status if a shutdown cut jobs off.
    pub interrupted_exit: u8,
    /// The outcome of a job that was cut off.
    pub leftovers: Leftovers,
    /// Error type in the FAIL of a job that was cut off.
    pub shutdown_error_type: Text,
    /// Error code in the FAIL of a job that was cut off.
    pub shutdown_error_code: Text,
    /// Seed of pseudo-random pauses. Equal seeds and events give equal effects.
    pub seed: u64,
}

/// The queues of the jobs (`worker.queues`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Queues {
    /// The configured queues. The shell fetches from them, and the machine does not know them.
    Configured,
    /// The queues that holders ask for.
    AsAsked,
    /// The queues that holders ask for, if they are among these configured ones.
    Only(Vec<Text>),
}

impl Queues {
    /// Whether holders name the queues with each request for jobs. Such holders connect and
    /// disconnect at any time.
    pub fn are_named_by_holders(&self) -> bool {
        match self {
            Self::Configured => false,
            Self::AsAsked | Self::Only(_) => true,
        }
    }
}

/// Whether ojs-init reads the backend's event streams (`worker.wake`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wake {
    /// If the backend offers them.
    Auto,
    Off,
}

/// Whether ojs-init restarts a worker that ended (`worker.restart`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restart {
    /// Never: ojs-init ends as well.
    Never,
    /// If ojs-init ended it, for example because a handler hung or pings were not answered.
    Hung,
    /// As `Hung`, and if the worker's status was not 0.
    OnFailure,
    Always,
}

/// The meaning of a stop signal (`shutdown.sigint`, `shutdown.sigquit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopSignal {
    /// As SIGTERM.
    Graceful,
    /// The stop phase begins at once.
    Stop,
    Exit,
}

/// Signals for the worker at a transition (`signals.on_*`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TransitionSignals {
    /// The worker gets no new jobs.
    pub on_quiet: Option<Signal>,
    /// The worker gets jobs again.
    pub on_resume: Option<Signal>,
    /// The drain begins.
    pub on_terminate: Option<Signal>,
}

/// The state in the last heartbeat (`backend.final_state`). The documents have two words for it
/// (requirements C-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinalState {
    Terminate,
    Terminated,
    /// First `terminate`, then `terminated`; the second only if the first was answered in time.
    Both,
}

/// The outcome of a job that a shutdown cut off (`backend.leftovers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leftovers {
    /// FAIL, retryable.
    Fail,
    Requeue,
}
