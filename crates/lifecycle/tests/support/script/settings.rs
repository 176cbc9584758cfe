//! The configuration of a scenario: `with concurrency 2, grace 30s`.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::{
    FinalState, Leftovers, LimitSource, Options, Queues, Restart, ShutdownTimes, StopSignal, Text, TransitionSignals,
};
use ojs_values::exit::RemapExit;

use super::words::{Wrong, number, period, signal};

/// The defaults of the product, under an orchestrator that allows 40 s.
pub fn defaults() -> Options {
    Options {
        concurrency: 10,
        queues: Queues::Configured,
        tell_worker: false,
        enforce_timeouts: true,
        isolates_suspects: true,
        restart: Restart::Hung,
        ready_timeout: Duration::from_secs(60),
        type_wait: Duration::from_secs(5),
        memory_gate: None,
        exit_when_idle: None,
        once: false,
        timeout_grace: Duration::from_secs(30),
        listen_to: Vec::new(),
        poll_interval: Duration::from_secs(1),
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

/// Changes `options`, and the longest frame of a connection, as a list of settings says.
pub fn apply(options: &mut Options, max_frame: &mut usize, text: &str) -> Result<(), Wrong> {
    for setting in text.split(", ") {
        let (key, value) = setting.split_once(' ').unwrap_or((setting, ""));
        match key {
            "concurrency" => options.concurrency = number(value)?,
            "max_frame" => *max_frame = number(value)?,
            "restart" => options.restart = restart(value)?,
            "a_process_for_each_job" => options.isolates_suspects = false,
            "ready_timeout" => options.ready_timeout = period(value)?,
            "type_wait" => options.type_wait = period(value)?,
            "listen_to" => options.listen_to = value.split(' ').map(Into::into).collect(),
            "memory_gate" => options.memory_gate = Some(number(value)?),
            "exit_when_idle" => options.exit_when_idle = Some(period(value)?),
            "once" => options.once = true,
            "timeout_grace" => options.timeout_grace = period(value)?,
            "poll_interval" => options.poll_interval = period(value)?,
            "visibility" => options.visibility_timeout = period(value)?,
            "request_timeout" => options.request_timeout = period(value)?,
            "heartbeat" => options.heartbeat_interval = period(value)?,
            "final_state" => options.final_state = final_state(value)?,
            "heartbeat_is_fixed" => options.heartbeat_interval_is_fixed = true,
            "server_resume" => options.server_resume = true,
            "grace" => options.times.grace_period = period(value)?,
            "limit" if value == "none" => options.times.limit = None,
            "limit" => options.times.limit = Some(period(value)?),
            "margin" => options.times.stop_margin = period(value)?,
            "cancel_grace" => options.cancel_grace = period(value)?,
            "term_delay" => options.term_delay = period(value)?,
            "kubernetes" => options.tstp_starts_clock = true,
            "sigint" => options.sigint = stop_signal(value)?,
            "sigquit" => options.sigquit = stop_signal(value)?,
            "on_quiet" => options.signals.on_quiet = Some(signal(value)?),
            "on_resume" => options.signals.on_resume = Some(signal(value)?),
            "on_terminate" => options.signals.on_terminate = Some(signal(value)?),
            "rewrite" => rewrite(options, value)?,
            "remap_exit" => options.remap_exit.insert(number(value)?),
            "interrupted_exit" => options.interrupted_exit = number(value)?,
            "queues" if value == "as asked" => options.queues = Queues::AsAsked,
            "queues" => options.queues = Queues::Only(value.split(' ').map(Text::from).collect()),
            "tell_worker" => options.tell_worker = true,
            "ends_nobody" => options.enforce_timeouts = false,
            "leftovers" if value == "requeue" => options.leftovers = Leftovers::Requeue,
            other => return Err(format!("not a setting: `{other} {value}`")),
        }
    }
    Ok(())
}

fn restart(text: &str) -> Result<Restart, Wrong> {
    Ok(match text {
        "never" => Restart::Never,
        "hung" => Restart::Hung,
        "on-failure" => Restart::OnFailure,
        "always" => Restart::Always,
        other => return Err(format!("not a restart policy: `{other}`")),
    })
}

fn stop_signal(text: &str) -> Result<StopSignal, Wrong> {
    Ok(match text {
        "graceful" => StopSignal::Graceful,
        "stop" => StopSignal::Stop,
        "exit" => StopSignal::Exit,
        other => return Err(format!("not a meaning of a stop signal: `{other}`")),
    })
}

/// `HUP:TERM`, `USR1:0`
fn rewrite(options: &mut Options, text: &str) -> Result<(), Wrong> {
    let (from, to) = text.split_once(':').ok_or_else(|| format!("not FROM:TO: `{text}`"))?;
    let to = if to == "0" { None } else { Some(signal(to)?) };
    options.rewrite.insert(signal(from)?, to);
    Ok(())
}

fn final_state(text: &str) -> Result<FinalState, Wrong> {
    Ok(match text {
        "terminate" => FinalState::Terminate,
        "terminated" => FinalState::Terminated,
        "both" => FinalState::Both,
        other => return Err(format!("not a final state: `{other}`")),
    })
}
