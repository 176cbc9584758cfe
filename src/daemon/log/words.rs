//! Words that several kinds of records share.

use std::fmt;

use log::Level;

use crate::daemon::log::record::{LogRecord, NAME_BYTES};
use ojs_lifecycle::api::{Failure, Reason, WorkerState};
use ojs_values::text::clipped;
use ojs_wire::text::{asked_by, several};

/// A record of level info.
pub fn info(message: impl fmt::Display) -> LogRecord {
    LogRecord::new(Level::Info, message)
}

/// A record of level warn.
pub fn warn(message: impl fmt::Display) -> LogRecord {
    LogRecord::new(Level::Warn, message)
}

/// `1 job`, `2 jobs`.
pub fn jobs(count: impl fmt::Display) -> String {
    several(count, "job")
}

/// Most jobs that one record names.
const MOST_NAMED: usize = 10;

/// `01a2 (mail), 01a3 (mail) and 4 more`: ids and types of the first of so many jobs.
pub fn named<'a>(jobs: impl Iterator<Item = (&'a str, &'a str)>, count: usize) -> String {
    let name = |(id, kind)| format!("{} ({})", clipped(id, NAME_BYTES), clipped(kind, NAME_BYTES));
    let names: Vec<String> = jobs.take(MOST_NAMED).map(name).collect();
    let rest = match count.saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.join(", ") + &rest
}

/// The words for so many active jobs, of which so many only wait for the backend to accept their
/// outcomes.
pub fn in_progress(active: usize, reporting: usize) -> String {
    let worked_on = active.saturating_sub(reporting);
    let outcomes = several(reporting, "outcome");
    match (worked_on, reporting) {
        (_, 0) => format!("{} in progress", jobs(active)),
        (0, _) => format!("{outcomes} to be reported"),
        (_, _) => format!("{} in progress, {outcomes} to be reported", jobs(worked_on)),
    }
}

/// Adds the side that asked for it, and its signal, if a side did.
pub fn because_of(record: LogRecord, reason: Option<Reason>) -> LogRecord {
    let Some(reason) = reason else { return record };
    let is_signal = matches!(
        reason,
        Reason::Sigterm | Reason::Sigint | Reason::Sigquit | Reason::Sigtstp | Reason::Sigcont
    );
    // A rule on the log must be able to tell a hook of the orchestrator from a person.
    let name = if reason == Reason::Prestop {
        "prestop"
    } else {
        reason.name()
    };
    record
        .with("reason", name)
        .with_any("signal", is_signal.then(|| asked_by(reason)))
}

/// Why a request failed, for a person.
pub fn reason(failure: Failure) -> &'static str {
    match failure {
        Failure::NotSent => "it did not get to the backend",
        Failure::Overloaded => "there is no room for it here: too many requests wait already",
        Failure::NoCredentials => "there is no token for it; check backend.auth_token_file",
        Failure::Unanswered => "the backend did not answer clearly",
        Failure::ServerError => "something is broken at the backend",
        Failure::RetryLater { .. } => "the backend does not take it now",
        Failure::Redirected => "the backend is said to be somewhere else",
        Failure::Unauthorized => {
            "the backend does not accept the credentials; check backend.auth_token_file or OJS_AUTH_TOKEN"
        }
        Failure::Unsupported => "the backend does not offer it; check backend.url",
        Failure::NotFromBackend => "somebody in front of the backend answers, and not the backend",
        Failure::Unregistered => "the backend does not know this worker",
        Failure::NotFound => "the backend says that there is no such job",
        Failure::Lost => "the job is not ours any more",
        Failure::Conflict { .. } => "the job is not active any more",
        Failure::AlreadyCompleted => "the job is completed already",
        Failure::Refused => "the backend refuses the request",
    }
}

/// The words for a state of the worker, for a person.
pub fn what_follows(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running => "running, taking jobs",
        WorkerState::Quiet => "quiet, taking no new jobs",
        WorkerState::Terminate => "terminating, taking no new jobs",
        WorkerState::Terminated => "gone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_stop_hook_is_told_from_an_operator() {
        for (reason, word) in [(Reason::Prestop, "prestop"), (Reason::Control, "control")] {
            let record = format!("{:?}", because_of(info("x"), Some(reason)));
            assert!(record.contains(&format!("{word:?}")), "{record}");
        }
    }

    #[test]
    fn outcomes_that_wait_are_not_called_jobs_in_progress() {
        assert_eq!(in_progress(1, 0), "1 job in progress");
        assert_eq!(in_progress(3, 1), "2 jobs in progress, 1 outcome to be reported");
        assert_eq!(in_progress(2, 2), "2 outcomes to be reported");
        assert_eq!(in_progress(0, 0), "0 jobs in progress");
    }
}
