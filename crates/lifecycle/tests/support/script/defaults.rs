//! The options of a scenario that sets nothing. The parts' own tests in `src` use this file too.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::{
    FinalState, Leftovers, LimitSource, Options, Queues, RecycleLimits, Restart, ShutdownTimes, StopSignal,
    TransitionSignals,
};
use ojs_values::exit::RemapExit;

/// The defaults of the product, under an orchestrator that allows 40 s.
pub fn defaults() -> Options {
    Options {
        concurrency: 10,
        queues: Queues::Configured,
        tell_worker: false,
        enforce_timeouts: true,
        isolates_suspects: true,
        restart: Restart::Hung,
        recycle: RecycleLimits::default(),
        ready_timeout: Duration::from_secs(60),
        type_wait: Duration::from_secs(5),
        memory_gate: None,
        exit_when_idle: None,
        once: false,
        job_timeout: None,
        timeout_grace: Duration::from_secs(30),
        listen_to: Vec::new(),
        poll_interval: Duration::from_secs(1),
        poll_interval_max: Duration::from_secs(10),
        heartbeat_interval: Duration::from_secs(5),
        heartbeat_interval_is_fixed: false,
        visibility_timeout: Duration::from_secs(120),
        request_timeout: Duration::from_secs(10),
        final_state: FinalState::Terminate,
        server_resume: false,
        times: ShutdownTimes {
            grace_period: Duration::from_secs(30),
            limit: Some(Duration::from_secs(40)),
            stop_margin: Duration::from_secs(5),
            source: LimitSource::Configured,
        },
        cancel_grace: Duration::from_secs(1),
        term_delay: Duration::ZERO,
        tstp_starts_clock: false,
        sigint: StopSignal::Graceful,
        sigquit: StopSignal::Graceful,
        signals: TransitionSignals::default(),
        rewrite: BTreeMap::new(),
        remap_exit: RemapExit::default(),
        interrupted_exit: 0,
        leftovers: Leftovers::Fail,
        shutdown_error_type: "ShutdownError".into(),
        shutdown_error_code: "shutdown".into(),
        seed: 1,
    }
}
