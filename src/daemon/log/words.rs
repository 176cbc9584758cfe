//! Words that several kinds of records share.

use std::fmt;

use log::Level;

use crate::daemon::log::record::{LogRecord, NAME_BYTES, RecordFields, clipped};
use ojs_lifecycle::api::{Failure, Reason, WorkerState};
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

/// The side that asked for it, and its signal.
pub fn because_of(reason: Reason) -> RecordFields {
    let signal = match reason {
        Reason::Sigterm | Reason::Sigint | Reason::Sigquit | Reason::Sigtstp | Reason::Sigcont => {
            Some(asked_by(reason))
        }
        Reason::Server
        | Reason::Control
        | Reason::Prestop
        | Reason::Idle(_)
        | Reason::OnceDone
        | Reason::OnceNotDone
        | Reason::Worker => None,
    };
    RecordFields::default()
        .with("reason", reason.name())
        .with_any("signal", signal)
}

/// `error.type`, and a text for a person.
pub fn kind_and_reason(failure: Failure) -> (&'static str, &'static str) {
    match failure {
        Failure::NotSent => ("not_sent", "it did not get to the backend"),
        Failure::Overloaded => (
            "no_room",
            "there is no room for it here: too many requests wait already",
        ),
        Failure::NoCredentials => (
            "no_credentials",
            "there is no token for it; check backend.auth_token_file",
        ),
        Failure::Unanswered => ("unanswered", "the backend did not answer clearly"),
        Failure::ServerError => ("server_error", "something is broken at the backend"),
        Failure::RetryLater { .. } => ("declined", "the backend does not take it now"),
        Failure::Redirected => ("redirected", "the backend is said to be somewhere else"),
        Failure::Unauthorized => (
            "unauthorized",
            "the backend does not accept our credentials; check backend.auth_token_file or OJS_AUTH_TOKEN",
        ),
        Failure::Unsupported => ("not_offered", "the backend does not offer it; check backend.url"),
        Failure::NotFromBackend => (
            "foreign",
            "somebody in front of the backend answers, and not the backend",
        ),
        Failure::Unregistered => ("unregistered", "the backend does not know this worker"),
        Failure::NotFound => ("not_found", "the backend says that there is no such job"),
        Failure::Lost => ("lost", "the job is not ours any more"),
        Failure::Conflict { .. } => ("conflict", "the job is not active any more"),
        Failure::AlreadyCompleted => ("already_completed", "the job is completed already"),
        Failure::Refused => ("refused", "the backend refuses the request"),
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
    use ojs_wire::trouble;

    #[test]
    fn instruments_and_log_have_the_same_word_for_each_failure() {
        for failure in [
            Failure::NotSent,
            Failure::Overloaded,
            Failure::NoCredentials,
            Failure::Unanswered,
            Failure::ServerError,
            Failure::RetryLater { retry_after: None },
            Failure::Redirected,
            Failure::Unauthorized,
            Failure::Unsupported,
            Failure::NotFromBackend,
            Failure::Unregistered,
            Failure::NotFound,
            Failure::Lost,
            Failure::Conflict { was_sent_twice: false },
            Failure::AlreadyCompleted,
            Failure::Refused,
        ] {
            assert_eq!(kind_and_reason(failure).0, trouble::kind(failure));
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
