//! The subcommands `quiet`, `resume`, `terminate`, `stop`, `recycle` and `prestop`: find the
//! instance, send the request, report the result in one line.

use std::time::Duration;

use crate::cli::PrestopWait;
use crate::commands::ask::{NoAnswer, ask};
use crate::commands::common::{ANSWER_WITHIN, FIND_WITHIN, NOT_TAKEN, Target, connect, failed};
use crate::daemon::log::report::report;
use ojs_lifecycle::api::OperatorRequest;
use ojs_os::clock;
use ojs_os::signals::SignalSet;
use ojs_os::socket::Stream;
use ojs_os::stdio;
use ojs_values::exit::Exit;
use ojs_values::signal::Signal;
use ojs_wire::operator::control::ControlReply;
use ojs_wire::text::{active_jobs, seconds};

/// A preStop hook without an instance or an answer ends after its configured wait. It tries for at
/// least this long, even if that wait is shorter.
const LEAST_ATTEMPT: Duration = Duration::from_secs(1);

/// How much later than the end of a wait its answer may arrive.
const WAIT_SLACK: Duration = Duration::from_secs(1);

/// How long a preStop hook waits if no instance can decide that.
const USUAL_WAIT: Duration = Duration::from_secs(5);

/// Longest that a line may wait for a slow reader of standard output. An instance delays its
/// SIGKILL much longer for clients with an answer.
const OUTPUT_LIMIT: Duration = Duration::from_millis(30);

/// A drain with no more than this left counts as ended.
const NOTHING_LEFT: Duration = Duration::from_millis(5);

/// Sends a request, and reports its result.
pub(super) fn operate(request: &OperatorRequest, target: Target) -> Exit {
    SignalSet::inherited().set_as_mask();
    let search = match target.warned() {
        Ok(search) => search,
        Err(message) => return failed(&message, Exit::Usage),
    };
    match connect(&search, FIND_WITHIN).and_then(|stream| told(stream, request, ANSWER_WITHIN)) {
        Ok(told) if told.is_ok => say(&happened(request, &told)),
        Ok(told) => failed(&format!("{}: {}", told.message, where_it_is(&told)), NOT_TAKEN),
        Err(message) => failed(&message, NOT_TAKEN),
    }
}

fn told(stream: &'static Stream, request: &OperatorRequest, limit: Duration) -> Result<ControlReply, String> {
    ask(stream, request, limit).map_err(|error| error.to_string())
}

/// A failed hook would only make the orchestrator continue at once, so this hook always succeeds,
/// and never too early.
pub(super) fn prestop(wait: PrestopWait, target: Target, begin: Duration) -> Exit {
    // An init that cannot list its descendants sends SIGTERM to all processes.
    SignalSet::inherited().with(Signal::TERM).set_as_mask();
    let usual = match wait {
        PrestopWait::For(period) => period,
        PrestopWait::UntilIdle => USUAL_WAIT,
    };
    let give_up = begin.saturating_add(usual.max(LEAST_ATTEMPT));
    let left = || give_up.saturating_sub(clock::monotonic());
    let asked = target.warned().and_then(|search| {
        let stream = connect(&search, FIND_WITHIN.min(left()))?;
        Ok((
            stream,
            told(stream, &OperatorRequest::Prestop, ANSWER_WITHIN.min(left()))?,
        ))
    });
    let wait_anyway = |message: &str| {
        report(&format!("prestop: {message}; waiting {} all the same", seconds(usual)));
        clock::pause_until(begin.saturating_add(usual));
        Exit::Success
    };
    let (stream, told) = match asked {
        Ok((stream, told)) if told.is_ok => (stream, told),
        Ok((_, told)) => return wait_anyway(&told.message),
        Err(message) => return wait_anyway(&message),
    };
    let until_idle = wait == PrestopWait::UntilIdle;
    let most = match wait {
        PrestopWait::For(period) => period.saturating_sub(clock::monotonic().saturating_sub(begin)),
        PrestopWait::UntilIdle => told.left.unwrap_or(USUAL_WAIT),
    };
    let limit = most.saturating_add(WAIT_SLACK);
    let line = match ask(stream, &OperatorRequest::Wait { until_idle, most }, limit) {
        Ok(told) if told.is_ok => {
            let waited = clock::monotonic().saturating_sub(begin);
            format!(
                "waited {}{}: {}",
                seconds(waited),
                why_now(&told, until_idle),
                where_it_is(&told)
            )
        }
        Ok(told) => return wait_anyway(&told.message),
        Err(NoAnswer::Gone) => "ojs-init has ended".to_owned(),
        Err(error) => return wait_anyway(&error.to_string()),
    };
    say(&line)
}

/// Why a wait ended before its time.
fn why_now(told: &ControlReply, until_idle: bool) -> &'static str {
    match told.phase.as_str() {
        "end_game" | "stop" => ", the end has begun",
        _ if until_idle && told.active == 0 => ", no job is left",
        _ if told.left.is_some_and(|left| left <= NOTHING_LEFT) => ", all that the drain may take",
        _ => "",
    }
}

pub(super) fn say(line: &str) -> Exit {
    if stdio::write_output(format!("{line}\n").as_bytes(), OUTPUT_LIMIT).is_err() {
        // The request was accepted even if the output fails. If standard error fails too, the exit
        // status still shows it.
        let _ = stdio::write_error(format!("ojs-init: {line}\n").as_bytes(), Duration::ZERO);
    }
    Exit::Success
}

/// Describes in a line the result of an accepted request.
fn happened(request: &OperatorRequest, told: &ControlReply) -> String {
    let jobs = active_jobs(told.active);
    let now = if told.has_changed { "now" } else { "already" };
    match (request, told.phase.as_str()) {
        (OperatorRequest::Quiet, "quiet") => format!("the worker is quiet {now}, {jobs}"),
        (OperatorRequest::Resume, "running") if told.has_changed => format!("the worker runs again, {jobs}"),
        (OperatorRequest::Resume, "running") => format!("the worker is running already, {jobs}"),
        (OperatorRequest::Recycle, _) if told.has_changed => {
            format!("the worker is recycled: it finishes its jobs and starts again, {jobs}")
        }
        (OperatorRequest::Recycle, _) => format!("the worker is being recycled already, {jobs}"),
        (OperatorRequest::Terminate | OperatorRequest::Stop, _) if told.has_changed => where_it_is(told),
        _ => format!("nothing changes: {}", where_it_is(told)),
    }
}

/// The state of the instance, in words.
fn where_it_is(told: &ControlReply) -> String {
    let jobs = active_jobs(told.active);
    let left = told.left.map(seconds).unwrap_or_default();
    match told.phase.as_str() {
        "running" => format!("the worker is running, {jobs}"),
        "quiet" => format!("the worker is quiet, {jobs}"),
        "delay" | "drain" => format!("the worker is terminating, {jobs}: the drain ends in {left} at the latest"),
        "end_game" => format!("the worker is terminating, {jobs}: it has {left} to end"),
        "stop" => format!("the worker is being stopped, {jobs}: ojs-init is gone in {left} at the latest"),
        other => format!("the worker is in phase {other}, {jobs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(has_changed: bool, phase: &str, active: u64, left_ms: Option<u64>) -> ControlReply {
        ControlReply {
            is_ok: true,
            has_changed,
            phase: phase.to_owned(),
            active,
            left: left_ms.map(Duration::from_millis),
            message: String::new(),
        }
    }

    #[test]
    fn one_line_says_what_happened_or_why_nothing_did() {
        let cases = [
            (
                OperatorRequest::Quiet,
                told(true, "quiet", 3, None),
                "the worker is quiet now, 3 jobs active",
            ),
            (
                OperatorRequest::Quiet,
                told(false, "quiet", 1, None),
                "the worker is quiet already, 1 job active",
            ),
            (
                OperatorRequest::Quiet,
                told(false, "drain", 2, Some(12_300)),
                "nothing changes: the worker is terminating, 2 jobs active: the drain ends in 12.3 s at the latest",
            ),
            (
                OperatorRequest::Resume,
                told(true, "running", 0, None),
                "the worker runs again, no job active",
            ),
            (
                OperatorRequest::Resume,
                told(false, "running", 0, None),
                "the worker is running already, no job active",
            ),
            (
                OperatorRequest::Terminate,
                told(true, "drain", 1, Some(25_000)),
                "the worker is terminating, 1 job active: the drain ends in 25 s at the latest",
            ),
            (
                OperatorRequest::Recycle,
                told(true, "running", 2, None),
                "the worker is recycled: it finishes its jobs and starts again, 2 jobs active",
            ),
            (
                OperatorRequest::Recycle,
                told(false, "running", 2, None),
                "the worker is being recycled already, 2 jobs active",
            ),
            (
                OperatorRequest::Stop,
                told(true, "stop", 1, Some(5_000)),
                "the worker is being stopped, 1 job active: ojs-init is gone in 5 s at the latest",
            ),
        ];
        for (request, told, expected) in cases {
            assert_eq!(happened(&request, &told), expected);
        }
    }
}
