//! Stop signals and their consequences, as records of the log.

use std::time::Duration;

use log::Level;

use crate::daemon::log::record::LogRecord;
use crate::daemon::log::words::{because_of, info, jobs, warn};
use ojs_lifecycle::api::{Force, Reason, StillThere};
use ojs_wire::text::{asked_by, milliseconds, seconds};

/// `a second SIGTERM, 1.2 s after the first`
fn name(force: Force) -> String {
    let by = if force.by == Reason::Control {
        "`ojs-init stop`"
    } else {
        asked_by(force.by)
    };
    match (force.nth, force.after) {
        (2, Some((before, after))) if before == force.by => {
            format!("a second {by}, {} after the first", seconds(after))
        }
        (2, Some((before, after))) => format!("{by}, {} after {}", seconds(after), asked_by(before)),
        (3.., Some((_, after))) => format!("a third stop signal, {by}, {} after the second", seconds(after)),
        (_, _) => by.to_owned(),
    }
}

/// The stop phase begins.
pub fn began(held: usize, forced: Option<Force>) -> LogRecord {
    let why = match forced {
        Some(force) => format!("forced by {}", name(force)),
        None => "the grace period is over".to_owned(),
    };
    let record = if held == 0 {
        info(format_args!("stop phase: {why}"))
    } else {
        warn(format_args!("stop phase: {why}, cancelling {}", jobs(held)))
    };
    because_of(record, forced.map(|force| force.by)).with("active_jobs", held)
}

/// The stop phase runs, and an operator does not want to wait for handlers.
pub fn grace_ended(by: Force, active: usize) -> LogRecord {
    let record = warn(format_args!(
        "stop phase: cut short by {}: no handler gets any more time, SIGKILL with {} in progress; the first stop signal \
         is enough",
        name(by),
        jobs(active)
    ));
    because_of(record, Some(by.by)).with("active_jobs", active)
}

/// A stop signal ends everything at once, and no job is finished.
pub fn ending_at_once(by: Force, active: usize) -> LogRecord {
    let remedy = if by.nth >= 3 {
        "the first stop signal is enough"
    } else {
        "shutdown.sigint or shutdown.sigquit says so"
    };
    let record = warn(format_args!(
        "ending at once because of {}, with {} in progress: what is not reported is delivered again after its \
         visibility timeout; {remedy}",
        name(by),
        jobs(active)
    ));
    because_of(record, Some(by.by)).with("active_jobs", active)
}

/// A SIGCONT is part of each stop by some; a stop signal that does not count may have been meant
/// to.
pub fn same_request(what: Reason, after: Duration) -> LogRecord {
    let (name, after) = (asked_by(what), seconds(after));
    let record = if what == Reason::Sigcont {
        LogRecord::new(
            Level::Debug,
            format_args!("{name}, {after} after the stop signal: part of it"),
        )
    } else {
        info(format_args!("{name} again after {after}: the same request"))
    };
    because_of(record, Some(what))
}

/// ojs-init stops waiting for processes that got SIGKILL.
pub fn kill_gave_up(why: StillThere, held: usize) -> LogRecord {
    let held_jobs = jobs(held);
    let message = match why {
        StillThere::Held => format!(
            "processes are left that SIGKILL did not end in time, with {held_jobs}; going on without them; look for state \
             D, and at the node's disks and network mounts"
        ),
        StillThere::NoTime(waited) => format!(
            "SIGKILL was sent {} ago, and no time is left to see whether it ends everything, with {held_jobs}; raise \
             shutdown.stop_margin (OJS_STOP_MARGIN) and the orchestrator's limit",
            seconds(waited)
        ),
        StillThere::Overdue(late) => format!(
            "the time for the shutdown was over {} before ojs-init came to it; was it stopped, or the machine? SIGKILL is \
             sent and nobody waits for what it ends, with {held_jobs}",
            seconds(late)
        ),
    };
    LogRecord::new(Level::Error, message).with("active_jobs", held)
}

/// A signal or request changes nothing.
pub fn stayed(what: Reason, why: &str) -> LogRecord {
    let record = info(format_args!("{}: nothing changes: {why}", asked_by(what)));
    because_of(record, Some(what))
}

/// A preStop hook ran.
pub fn prestop_ran(left: Option<Duration>) -> LogRecord {
    match left {
        Some(left) => info(format_args!(
            "a preStop hook ran: the orchestrator's clock runs, SIGKILL is expected in {}",
            seconds(left)
        )),
        None => info("a preStop hook ran: the orchestrator's clock runs"),
    }
    .with_any("remaining_ms", left.map(milliseconds))
}

/// A preStop hook was not followed by a SIGTERM.
pub fn prestop_lapsed(later: Option<Duration>) -> LogRecord {
    const LAPSED: &str = "a preStop hook ran and no SIGTERM followed within the limit";
    match later {
        Some(left) => warn(format_args!(
            "{LAPSED}: the clock of a later one counts, SIGKILL is expected in {}",
            seconds(left)
        )),
        None => warn(format_args!("{LAPSED}: going on without its clock")),
    }
    .with_any("remaining_ms", later.map(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_forced_an_end_is_named() {
        let after = |ms| Duration::from_millis(ms);
        for (by, nth, before, words) in [
            (
                Reason::Sigterm,
                2,
                Some((Reason::Sigterm, after(1_200))),
                "a second SIGTERM, 1.2 s after the first",
            ),
            (
                Reason::Sigint,
                2,
                Some((Reason::Sigterm, after(1))),
                "SIGINT, 0.001 s after SIGTERM",
            ),
            (
                Reason::Sigterm,
                3,
                Some((Reason::Sigint, after(300))),
                "a third stop signal, SIGTERM, 0.3 s after the second",
            ),
            (Reason::Sigint, 1, None, "SIGINT"),
            (Reason::Control, 0, None, "`ojs-init stop`"),
        ] {
            let force = Force { by, nth, after: before };
            assert_eq!(name(force), words);
        }
    }
}
