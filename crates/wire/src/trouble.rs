//! Trouble with the backend in words: for probes, the status and the termination log.

use std::time::Duration;

use crate::text::{roughly, several};
use ojs_lifecycle::api::{Failure, Trouble};

/// The behaviour of the backend: `refuses the credentials`.
pub fn state(failure: Failure) -> &'static str {
    match failure {
        Failure::NotSent => "is unreachable",
        Failure::Unanswered => "does not answer",
        Failure::ServerError => "answers with server errors",
        Failure::NotFromBackend => "is hidden behind something that answers in its place",
        Failure::Unauthorized => "refuses the credentials",
        Failure::NoCredentials => "is not asked, because there is no token",
        Failure::Overloaded => "is not asked, because too many requests wait here",
        Failure::RetryLater { .. } => "declines for now",
        Failure::Redirected => "redirects to another address",
        Failure::Unsupported => "does not offer this API; check backend.url",
        Failure::Unregistered => "does not know this worker",
        Failure::NotFound | Failure::Lost | Failure::Conflict { .. } | Failure::AlreadyCompleted | Failure::Refused => {
            "refuses our requests"
        }
    }
}

/// The word for programs, as `error.type` in the log.
pub fn kind(failure: Failure) -> &'static str {
    match failure {
        Failure::NotSent => "not_sent",
        Failure::Overloaded => "no_room",
        Failure::NoCredentials => "no_credentials",
        Failure::Unanswered => "unanswered",
        Failure::ServerError => "server_error",
        Failure::RetryLater { .. } => "declined",
        Failure::Redirected => "redirected",
        Failure::Unauthorized => "unauthorized",
        Failure::Unsupported => "not_offered",
        Failure::NotFromBackend => "foreign",
        Failure::Unregistered => "unregistered",
        Failure::NotFound => "not_found",
        Failure::Lost => "lost",
        Failure::Conflict { .. } => "conflict",
        Failure::AlreadyCompleted => "already_completed",
        Failure::Refused => "refused",
    }
}

/// `the backend refuses the credentials for 3 min (status 403 forbidden); reservations lapse in 59
/// s`; `words` is the log's text for the last failure.
pub fn sentence(trouble: &Trouble, words: Option<&str>) -> String {
    let words = words.map_or(String::new(), |words| format!(" ({words})"));
    let consequences = consequences(trouble.waiting, trouble.lapses_in);
    let rest = if consequences.is_empty() {
        String::new()
    } else {
        format!("; {consequences}")
    };
    format!(
        "the backend {} for {}{words}{rest}",
        state(trouble.failure),
        roughly(trouble.lasted)
    )
}

/// `1 outcome waits; reservations lapse in 59 s`; empty if nothing depends on the backend.
pub fn consequences(waiting: usize, lapses_in: Option<Duration>) -> String {
    let mut parts = Vec::new();
    match waiting {
        0 => {}
        1 => parts.push("1 outcome waits".to_owned()),
        waiting => parts.push(format!("{} wait", several(waiting, "outcome"))),
    }
    match lapses_in {
        None => {}
        Some(Duration::ZERO) => {
            parts.push("reservations have lapsed, the backend may give jobs to others".to_owned());
        }
        Some(left) => parts.push(format!("reservations lapse in {}", roughly(left))),
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_says_what_the_backend_does_since_when_why_and_what_follows() {
        let trouble = Trouble {
            failure: Failure::Unauthorized,
            failed: 0,
            lasted: Duration::from_secs(185),
            waiting: 2,
            lapses_in: Some(Duration::from_secs(59)),
            is_from_the_start: false,
        };
        assert_eq!(
            sentence(&trouble, Some("status 403 forbidden")),
            "the backend refuses the credentials for 3 min 5 s (status 403 forbidden); 2 outcomes wait; reservations lapse in 59 s"
        );
        let outage = Trouble {
            failure: Failure::NotSent,
            waiting: 0,
            lapses_in: None,
            ..trouble
        };
        assert_eq!(sentence(&outage, None), "the backend is unreachable for 3 min 5 s");
    }
}
