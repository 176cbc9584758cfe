//! How a lifecycle is configured. Every period is a duration, every limit says its unit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::budget::ShutdownTimes;
use crate::api::ids::Text;
use ojs_values::exit::RemapExit;
use ojs_values::signal::Signal;

/// Most jobs that one worker may hold at once. Where holders ask for their jobs, as a concurrency
/// it means that nobody has set one: each holder gets what it asks for.
pub const MAX_CONCURRENCY: u32 = 10_000;

/// The configuration of one lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Options {
    /// Most jobs active at once, over all holders (`worker.concurrency`), up to
    /// [`MAX_CONCURRENCY`].
    pub concurrency: u32,
    /// The queues that jobs are taken from.
    pub queues: Queues,
    /// Whether a holder that tells what it has is told our real state, and not always `running`
    /// (`gateway.tell_worker`).
    pub tell_worker: bool,
    /// Whether the process of a holder that hears nothing is ended for a job whose timeout is over,
    /// or that is lost (`gateway.enforce_timeouts`). That of one that hears always is.
    pub enforce_timeouts: bool,
    /// Whether a job whose process crashed gets a process for itself the next time. Not in mode
    /// exec: there each job has one.
    pub isolates_suspects: bool,
    /// Whether a worker that ended is started again.
    pub restart: Restart,
    /// Warn when nobody has said ready by then.
    pub ready_timeout: Duration,
    /// How long a job whose type no holder takes waits for one that may still come.
    pub type_wait: Duration,
    /// The share of the memory that the container may have above which nobody is asked for jobs, in
    /// percent (`worker.memory_gate`); none: that does not matter, or cannot be told.
    pub memory_gate: Option<u8>,
    /// The end begins after so long without a job (`worker.exit_when_idle`); `None`: it does not.
    pub exit_when_idle: Option<Duration>,
    /// The end begins with the outcome of the first job (`--once`). It takes a concurrency of 1.
    pub once: bool,
    /// The timeout of a job that has none of its own (`exec.timeout`); `None`: the job has none.
    pub job_timeout: Option<Duration>,
    /// From a job's timeout to the end of the process that holds it.
    pub timeout_grace: Duration,
    /// The queues of whose events we ask to be told (`worker.wake`), the first [`MOST_STREAMS`] of
    /// them; none: nobody is asked.
    ///
    /// [`MOST_STREAMS`]: crate::api::MOST_STREAMS
    pub listen_to: Vec<Text>,
    /// The longest pause after an empty FETCH.
    pub poll_interval: Duration,
    /// That pause while an event stream is open that has told of every job which polls found.
    pub poll_interval_max: Duration,
    /// Time between heartbeats until the backend recommends another.
    pub heartbeat_interval: Duration,
    /// Whether a recommendation may change it.
    pub heartbeat_interval_is_fixed: bool,
    /// How long a heartbeat keeps a job reserved.
    pub visibility_timeout: Duration,
    /// Longest that any request may take.
    pub request_timeout: Duration,
    /// The state in the last heartbeat (requirements C-04).
    pub final_state: FinalState,
    /// Whether a server's `running` lifts a quiet that the server made (requirements C-20).
    pub server_resume: bool,
    /// The times of a shutdown.
    pub times: ShutdownTimes,
    /// From `cancel` to SIGKILL.
    pub cancel_grace: Duration,
    /// Pause between not-ready and the first step of the drain.
    pub term_delay: Duration,
    /// Whether a SIGTSTP starts the orchestrator's clock when a SIGTERM follows: the preStop hook
    /// of GS 8.1.
    pub tstp_starts_clock: bool,
    pub sigint: StopSignal,
    pub sigquit: StopSignal,
    /// Signals for a worker that knows no protocol.
    pub signals: TransitionSignals,
    /// Signals to replace before anything is decided; none drops them (`-r`).
    pub rewrite: BTreeMap<Signal, Option<Signal>>,
    /// Statuses of the worker that become 0 (`-e`).
    pub remap_exit: RemapExit,
    /// Exit status when a shutdown cut jobs off.
    pub interrupted_exit: u8,
    /// The outcome of a job that was cut off.
    pub leftovers: Leftovers,
    /// Error type in its FAIL.
    pub shutdown_error_type: Text,
    /// Error code in its FAIL.
    pub shutdown_error_code: Text,
    /// Where pseudo-random pauses start. The same seed and the same events give the same effects.
    pub seed: u64,
}

/// The queues that jobs are taken from (`worker.queues`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Queues {
    /// Those that are configured, which only the shell knows: whatever takes jobs takes them from
    /// there.
    Configured,
    /// Those that holders ask for.
    AsAsked,
    /// Those that holders ask for, as far as they are among these, which are configured.
    Only(Vec<Text>),
}

impl Queues {
    /// Whether holders name them, each time that they ask for jobs. Who does that comes and goes as
    /// it likes.
    #[must_use]
    pub fn are_named_by_holders(&self) -> bool {
        match self {
            Self::Configured => false,
            Self::AsAsked | Self::Only(_) => true,
        }
    }
}

/// Whether the backend's events are listened to (`worker.wake`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wake {
    /// Where it streams them.
    Auto,
    Off,
}

/// Whether a worker that ended is started again (`worker.restart`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restart {
    /// Never: we end with it.
    Never,
    /// When we ended it: a handler that hung, pings that were not answered.
    Hung,
    /// Then, and when its status was not 0.
    OnFailure,
    Always,
}

/// The meaning of a stop signal (`shutdown.sigint`, `shutdown.sigquit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopSignal {
    /// As SIGTERM.
    Graceful,
    /// The stop phase now.
    Stop,
    Exit,
}

/// Signals for the worker at a transition (`signals.on_*`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TransitionSignals {
    /// No new jobs will come.
    pub on_quiet: Option<Signal>,
    /// Jobs come again.
    pub on_resume: Option<Signal>,
    /// The drain begins.
    pub on_terminate: Option<Signal>,
}

/// The state in the last heartbeat (`backend.final_state`). The documents name two words
/// (requirements C-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinalState {
    Terminate,
    Terminated,
    /// One after the other; the second one only if the first was answered in time.
    Both,
}

/// The outcome of a job that a shutdown cut off (`backend.leftovers`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leftovers {
    /// FAIL, retryable.
    Fail,
    Requeue,
}
