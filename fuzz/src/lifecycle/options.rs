//! Options of a life.

use std::time::Duration;

use ojs_lifecycle::api::{
    FinalState, Leftovers, LimitSource, Options, Queues, RecycleLimits, Restart, ShutdownTimes, StopSignal,
    TransitionSignals, cancel_grace, stop_margin,
};
use ojs_values::signal::Signal;

use super::bytes::Bytes;

#[path = "../../../crates/lifecycle/tests/support/script/defaults.rs"]
mod defaults;

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn options(bytes: &mut Bytes<'_>) -> Options {
    let times = times(bytes);
    let stop = [StopSignal::Graceful, StopSignal::Stop, StopSignal::Exit];
    let limit = times.limit.unwrap_or(ms(40_000));
    let flags = bytes.below(256);
    let is = |bit: usize| flags >> bit & 1 == 1;
    let queues = [
        Queues::Configured,
        Queues::Configured,
        Queues::AsAsked,
        Queues::Only(vec!["q0".into(), "q1".into()]),
    ];
    Options {
        concurrency: bytes.pick([1, 2, 3, 10]),
        queues: bytes.pick(queues),
        restart: bytes.pick([Restart::Hung, Restart::Never, Restart::OnFailure, Restart::Always]),
        tell_worker: is(0),
        enforce_timeouts: is(1),
        isolates_suspects: is(2),
        heartbeat_interval_is_fixed: is(3),
        server_resume: is(4),
        tstp_starts_clock: is(5),
        once: is(6) && is(7),
        recycle: RecycleLimits {
            max_jobs: is(6).then_some(2),
            max_memory: is(5).then_some(1_000),
            max_age: is(4).then_some(ms(2_000)),
            overlap: is(7),
        },
        ready_timeout: bytes.pick([ms(60_000), ms(300)]),
        type_wait: bytes.pick([ms(5_000), ms(0), ms(200)]),
        memory_gate: bytes.pick([None, Some(80)]),
        exit_when_idle: bytes.pick([None, None, Some(ms(0)), Some(ms(3_000))]),
        job_timeout: bytes.pick([None, Some(ms(500))]),
        timeout_grace: bytes.pick([ms(30_000), ms(0), ms(300)]),
        listen_to: bytes.pick([Vec::new(), vec!["q0".into()], vec!["q0".into(), "q1".into()]]),
        poll_interval: bytes.pick([ms(1_000), ms(100)]),
        heartbeat_interval: bytes.pick([ms(5_000), ms(300)]),
        visibility_timeout: bytes.pick([ms(120_000), ms(1_500)]),
        request_timeout: bytes.pick([ms(10_000), ms(500)]),
        final_state: bytes.pick([FinalState::Terminate, FinalState::Terminated, FinalState::Both]),
        cancel_grace: cancel_grace(bytes.pick([ms(1_000), ms(0), ms(200)]), limit),
        term_delay: bytes.pick([ms(0), ms(0), ms(400)]),
        sigint: bytes.pick(stop),
        sigquit: bytes.pick(stop),
        signals: TransitionSignals {
            on_terminate: bytes.pick([None, Some(Signal::HUP)]),
            on_quiet: bytes.pick([None, Some(Signal::TSTP)]),
            on_resume: None,
        },
        leftovers: bytes.pick([Leftovers::Fail, Leftovers::Requeue]),
        times,
        ..defaults::defaults()
    }
}

fn times(bytes: &mut Bytes<'_>) -> ShutdownTimes {
    let limit = bytes.pick([Some(40_000), None, Some(2_000), Some(6_000)]).map(ms);
    ShutdownTimes {
        grace_period: bytes.pick([ms(30_000), ms(0), ms(500)]),
        limit,
        stop_margin: limit.map_or(ms(5_000), |limit| stop_margin(None, limit)),
        source: LimitSource::Configured,
    }
}
