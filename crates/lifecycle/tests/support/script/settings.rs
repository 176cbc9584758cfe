//! The configuration of a scenario: `with concurrency 2, grace 30s`.

use ojs_lifecycle::api::{FinalState, Leftovers, Options, Queues, Restart, StopSignal, Text};

pub use super::defaults::defaults;
use super::words::{Wrong, number, period, signal};

/// Changes `options`, and the longest frame of a connection, by a list of settings.
pub fn apply(options: &mut Options, max_frame: &mut usize, text: &str) -> Result<(), Wrong> {
    for setting in text.split(", ") {
        let (key, value) = setting.split_once(' ').unwrap_or((setting, ""));
        match key {
            "concurrency" => options.concurrency = number(value)?,
            "max_frame" => *max_frame = number(value)?,
            "restart" => options.restart = restart(value)?,
            "a_process_for_each_job" if value.is_empty() => options.isolates_suspects = false,
            "ready_timeout" => options.ready_timeout = period(value)?,
            "type_wait" => options.type_wait = period(value)?,
            "listen_to" => options.listen_to = value.split(' ').map(Into::into).collect(),
            "memory_gate" => options.memory_gate = Some(number(value)?),
            "overlap" if value.is_empty() => options.recycle.overlap = true,
            "max_jobs" => options.recycle.max_jobs = Some(number(value)?),
            "max_memory" => options.recycle.max_memory = Some(number(value)?),
            "max_age" => options.recycle.max_age = Some(period(value)?),
            "exit_when_idle" => options.exit_when_idle = Some(period(value)?),
            "once" if value.is_empty() => options.once = true,
            "job_timeout" => options.job_timeout = Some(period(value)?),
            "timeout_grace" => options.timeout_grace = period(value)?,
            "poll_interval" => options.poll_interval = period(value)?,
            "poll_interval_max" => options.poll_interval_max = period(value)?,
            "visibility" => options.visibility_timeout = period(value)?,
            "request_timeout" => options.request_timeout = period(value)?,
            "heartbeat" => options.heartbeat_interval = period(value)?,
            "final_state" => options.final_state = final_state(value)?,
            "heartbeat_is_fixed" if value.is_empty() => options.heartbeat_interval_is_fixed = true,
            "server_resume" if value.is_empty() => options.server_resume = true,
            "grace" => options.times.grace_period = period(value)?,
            "limit" if value == "none" => options.times.limit = None,
            "limit" => options.times.limit = Some(period(value)?),
            "margin" => options.times.stop_margin = period(value)?,
            "cancel_grace" => options.cancel_grace = period(value)?,
            "term_delay" => options.term_delay = period(value)?,
            "kubernetes" if value.is_empty() => options.tstp_starts_clock = true,
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
            "tell_worker" if value.is_empty() => options.tell_worker = true,
            "ends_nobody" if value.is_empty() => options.enforce_timeouts = false,
            "leftovers" if value == "requeue" => options.leftovers = Leftovers::Requeue,
            _ => return Err(format!("not a setting: `{setting}`")),
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
