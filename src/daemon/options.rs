//! The options of the lifecycle, from the configuration.

use std::time::Duration;

use log::{info, warn};

use crate::config::values::enums::RecycleOverlap;
use crate::config::{Config, Mode, OwnProgram, TERMINATE_SIGNAL, keys};
use ojs_lifecycle::api::{
    LimitSource, MAX_CONCURRENCY, Options, Queues, RecycleLimits, ShutdownTimes, Surroundings, Text, TransitionSignals,
    Wake,
};
use ojs_os::cgroup_memory::MemoryCgroup;
use ojs_wire::text::seconds;

/// The options of the lifecycle.
pub fn options(config: &Config, surroundings: Surroundings, seed: u64) -> Options {
    let worker = &config.worker;
    let shutdown = &config.shutdown;
    let settings = &config.settings;
    Options {
        concurrency: concurrency(config),
        queues: queues(config),
        tell_worker: settings.value(&keys::TELL_WORKER),
        enforce_timeouts: settings.value(&keys::ENFORCE_TIMEOUTS),
        isolates_suspects: config.mode != Mode::Exec,
        restart: settings.value(&keys::RESTART),
        recycle: RecycleLimits {
            max_jobs: settings.value(&keys::MAX_JOBS),
            max_memory: max_memory(config),
            max_age: settings.value(&keys::MAX_AGE),
            overlap: config.mode == Mode::Socket && settings.value(&keys::RECYCLE_OVERLAP) != RecycleOverlap::Off,
        },
        ready_timeout: settings.value(&keys::READY_TIMEOUT),
        type_wait: worker.type_wait,
        memory_gate: worker.memory_gate.map(|most| most.0),
        exit_when_idle: settings.value(&keys::EXIT_WHEN_IDLE).0,
        once: settings.value(&keys::ONCE),
        job_timeout: config.exec.timeout.filter(|_| config.mode == Mode::Exec),
        timeout_grace: worker.timeout_grace,
        listen_to: listen_to(config),
        poll_interval: settings.value(&keys::POLL_INTERVAL),
        poll_interval_max: settings.value(&keys::POLL_INTERVAL_MAX),
        heartbeat_interval: worker.heartbeat_interval,
        heartbeat_interval_is_fixed: worker.heartbeat_interval_is_explicit,
        visibility_timeout: worker.visibility_timeout,
        request_timeout: config.backend.request_timeout,
        final_state: settings.value(&keys::FINAL_STATE),
        server_resume: settings.value(&keys::SERVER_RESUME),
        times: ShutdownTimes::of_agent(&config.shutdown.limits, surroundings),
        cancel_grace: shutdown.cancel_grace,
        term_delay: shutdown.term_delay,
        tstp_starts_clock: surroundings == Surroundings::Kubernetes,
        sigint: settings.value(&keys::SIGINT),
        sigquit: settings.value(&keys::SIGQUIT),
        signals: match config.own_program() {
            // No operator has taught the runner signals.
            Some(OwnProgram::Runner) => TransitionSignals::default(),
            Some(OwnProgram::Copies) => TransitionSignals {
                on_terminate: config.signals.on_terminate.or(Some(TERMINATE_SIGNAL)),
                ..config.signals
            },
            None => config.signals,
        },
        rewrite: config.init.rewrite.clone(),
        remap_exit: config.init.remap_exit.clone(),
        interrupted_exit: settings.value(&keys::INTERRUPTED_EXIT),
        leftovers: settings.value(&keys::LEFTOVERS),
        shutdown_error_type: settings.value(&keys::SHUTDOWN_ERROR_TYPE).into(),
        shutdown_error_code: settings.value(&keys::SHUTDOWN_ERROR_CODE).into(),
        seed,
    }
}

/// `worker.max_memory` in bytes. A share of no limit is none, which is a warning.
fn max_memory(config: &Config) -> Option<u64> {
    let limit = config.worker.max_memory?;
    let bytes = limit.bytes(|| MemoryCgroup::find().and_then(|cgroup| cgroup.limit()));
    if bytes.is_none() {
        warn!(
            "{}: this container has no memory limit of which that could be a share; the worker is not recycled for its \
             memory; set a memory limit, or a size",
            config.settings.describe(&keys::MAX_MEMORY)
        );
    }
    bytes
}

/// Most jobs that the worker may have at once.
pub(super) fn concurrency(config: &Config) -> u32 {
    set_concurrency(config).unwrap_or(MAX_CONCURRENCY)
}

/// The concurrency, if the operator has set it. A worker behind the gateway asks for as many jobs
/// as it likes.
pub(super) fn set_concurrency(config: &Config) -> Option<u32> {
    let is_bound = config.mode != Mode::Gateway || config.worker.concurrency_is_explicit;
    is_bound.then_some(config.worker.concurrency)
}

/// The queues of jobs, if the operator has set them. A worker behind the gateway chooses its own.
pub(super) fn set_queues(config: &Config) -> Option<&[String]> {
    let are_bound = config.mode != Mode::Gateway || config.worker.queues_are_explicit;
    are_bound.then_some(&config.worker.queues)
}

/// Events bring the FETCH after a pause forward. A worker behind the gateway makes its own pauses,
/// and receives nothing unasked.
fn listen_to(config: &Config) -> Vec<Text> {
    match config.settings.value(&keys::WAKE) {
        Wake::Auto if config.mode != Mode::Gateway => texts(&config.worker.queues),
        Wake::Auto | Wake::Off => Vec::new(),
    }
}

fn texts(queues: &[String]) -> Vec<Text> {
    queues.iter().map(|queue| queue.as_str().into()).collect()
}

/// The source of the queues.
fn queues(config: &Config) -> Queues {
    match config.mode {
        Mode::Gateway => set_queues(config).map_or(Queues::AsAsked, |queues| Queues::Only(texts(queues))),
        Mode::Socket | Mode::Exec | Mode::None => Queues::Configured,
    }
}

/// The start-up line about the end: the time for jobs, the setting that decided it, and the one to
/// change if it is wrong.
pub fn announce(times: &ShutdownTimes, grace_is_explicit: bool) {
    let drain = seconds(times.drain(Duration::ZERO));
    let is_cut = times.drain(Duration::ZERO) < times.grace_period;
    let grace = seconds(times.grace_period);
    let margin = seconds(times.stop_margin);
    let limit = times.limit.map(seconds).unwrap_or_default();
    match times.source {
        LimitSource::Configured if is_cut && grace_is_explicit => warn!(
            "after a stop signal jobs get {drain}, not the grace period of {grace}: the termination grace period leaves \
             {limit}, and {margin} of that are for the stop phase"
        ),
        LimitSource::Configured if is_cut => {
            info!("after a stop signal jobs get {drain}: what is allowed, {limit}, less {margin} for the stop phase");
        }
        LimitSource::Configured => info!("after a stop signal jobs get {drain}"),
        LimitSource::Assumed => info!(
            "after a stop signal jobs get {drain}; assuming that the orchestrator allows {limit}: set \
             shutdown.termination_grace_period (OJS_TERMINATION_GRACE_PERIOD) if it is another"
        ),
        LimitSource::Kubernetes | LimitSource::Container => warn!(
            "after a stop signal jobs get {drain}, guessing that the orchestrator allows {limit}: set \
             shutdown.termination_grace_period (OJS_TERMINATION_GRACE_PERIOD) to what it really allows"
        ),
        LimitSource::Nobody => info!("after a stop signal jobs get {drain}; no orchestrator seems to limit that"),
    }
}
