//! Requests that failed, as records of the log: an outage in one line a minute, other failures once
//! a minute for each kind, with their number. Level debug shows each of them.

use std::collections::BTreeMap;
use std::time::Duration;

use log::Level;

use crate::daemon::log::record::LogRecord;
use crate::daemon::log::throttle::Throttle;
use crate::daemon::log::words::{info, reason, warn};
use ojs_lifecycle::api::{Failure, FailureClass, Subject, Trouble};
use ojs_wire::text::{milliseconds, roughly, seconds, several};
use ojs_wire::trouble::{consequences, kind};

/// Between two lines about requests that fail alike.
const EVERY: Duration = Duration::from_secs(60);

/// A request that failed.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// The kind of request.
    pub what: &'static str,
    /// The job that the request is about, if it is about one.
    pub job: Option<&'a Subject>,
    /// How the request failed.
    pub failure: Failure,
    /// The pause before the next attempt, if there is one.
    pub retry_in: Option<Duration>,
}

/// Reports faults of the backend.
#[derive(Debug, Default)]
pub struct OutageNarrator {
    url: String,
    /// An outage continues, and was reported to a person.
    is_away: bool,
    /// Why the last request of the outage got no answer.
    cause: Option<String>,
    /// By request and by kind of failure. Both are constants of the program, so their number is
    /// bounded.
    failures: BTreeMap<(&'static str, &'static str), Throttle>,
}

impl OutageNarrator {
    /// A narrator for the backend at this address.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..Self::default()
        }
    }

    /// The first request of an outage failed.
    pub fn begins(&mut self, outage: &Trouble, words: Option<&str>) -> LogRecord {
        self.is_away = true;
        self.cause = words.map(str::to_owned);
        let (kind, why) = (kind(outage.failure), reason(outage.failure));
        let cause = words.unwrap_or(why);
        warn(format_args!("backend {}: {cause}", self.url)).of_error(kind, cause)
    }

    /// The outage continues, another minute later.
    pub fn goes_on(&mut self, outage: &Trouble) -> LogRecord {
        self.is_away = true;
        let (kind, why) = (kind(outage.failure), reason(outage.failure));
        let cause = self.cause.as_deref().unwrap_or(why);
        let how = state(outage.failure);
        let mut message = format!("backend {how} for {} ({cause})", roughly(outage.lasted));
        let consequences = consequences(outage.waiting, outage.lapses_in);
        if !consequences.is_empty() {
            message = format!("{message}; {consequences}");
        }
        warn(message)
            .of_error(kind, cause)
            .with("outage_ms", milliseconds(outage.lasted))
            .with("failed_requests", outage.failed)
            .with("waiting_outcomes", outage.waiting)
            .with_any("lapses_ms", outage.lapses_in.map(milliseconds))
    }

    /// The backend is there again.
    pub fn is_over(&mut self, outage: &Trouble) -> LogRecord {
        self.is_away = false;
        self.cause = None;
        let failed = several(outage.failed, "request");
        info(format_args!(
            "the backend answers again, after {} and {failed} that failed",
            roughly(outage.lasted)
        ))
        .with("outage_ms", milliseconds(outage.lasted))
        .with("failed_requests", outage.failed)
    }

    /// Requests failed within a minute, and the backend was reachable in between.
    pub fn is_unsteady(&mut self, failed: u32) -> LogRecord {
        self.is_away = false;
        let cause = self.cause.take().map_or(String::new(), |cause| format!(" ({cause})"));
        let requests = several(failed, "request");
        warn(format_args!(
            "the backend comes and goes: {requests} failed within a minute{cause}"
        ))
        .with("failed_requests", failed)
    }

    /// A request failed. `words` is the text of the answer, or the reason why there is none.
    pub fn failed(&mut self, failed: Failed<'_>, words: Option<&str>, now: Duration) -> LogRecord {
        let Failed {
            what,
            job,
            failure,
            retry_in,
        } = failed;
        let (kind, why) = (kind(failure), reason(failure));
        let said = words.map_or(String::new(), |words| format!(" ({words})"));
        let next = retry_in.map_or(String::new(), |pause| format!("; next attempt in {}", seconds(pause)));
        let is_of_the_outage = self.is_of_the_outage(what, failure);
        if is_of_the_outage {
            self.cause = words.map(str::to_owned).or(self.cause.take());
        }
        let level = if failure == Failure::Unauthorized {
            Level::Error
        } else {
            Level::Warn
        };
        let seldom = self.failures.entry((what, kind)).or_insert(Throttle::every(EVERY));
        let due = if is_of_the_outage { None } else { seldom.is_due_at(now) };
        let (level, more) = due.map_or((Level::Debug, String::new()), |more| (level, more));
        LogRecord::new(level, format_args!("{what} failed: {why}{said}{next}{more}"))
            .of_error(kind, why)
            .naming(job)
            .with("request", what)
            .with_any("retry_ms", retry_in.map(milliseconds))
    }

    /// True if the lines about the outage cover it. The last requests of all are reported by
    /// themselves, because no line follows them.
    fn is_of_the_outage(&self, what: &str, failure: Failure) -> bool {
        let is_last = matches!(what, "deregistration" | "final heartbeat");
        let is_greeting = matches!(what, "heartbeat" | "registration");
        let is_part = match failure.class() {
            // One path may be broken, or one job too much for it, so that is reported.
            FailureClass::Outage => is_silence(failure) || self.is_away || is_greeting,
            FailureClass::NotNow | FailureClass::Verdict => false,
        };
        is_part && !is_last
    }
}

/// True if no answer arrived at all.
fn is_silence(failure: Failure) -> bool {
    matches!(failure, Failure::NotSent | Failure::Unanswered)
}

/// The state of the backend in an outage of this kind.
fn state(failure: Failure) -> &'static str {
    if failure == Failure::NotSent {
        "unreachable"
    } else if failure == Failure::ServerError {
        "broken"
    } else if failure == Failure::NotFromBackend {
        "hidden behind somebody else"
    } else {
        "silent"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_SECONDS: Duration = Duration::from_secs(5);

    fn beat(failure: Failure) -> Failed<'static> {
        Failed {
            what: "heartbeat",
            job: None,
            failure,
            retry_in: None,
        }
    }

    fn outage(failure: Failure, lasted: u64) -> Trouble {
        Trouble {
            lasted: Duration::from_secs(lasted),
            failure,
            failed: 148,
            waiting: 3,
            lapses_in: Some(Duration::from_secs(48)),
            is_from_the_start: false,
        }
    }

    /// The lines at level warn and above of an hour in which such a request fails every five
    /// seconds.
    fn lines_of_an_hour(failure: Failure) -> usize {
        let mut narrator = OutageNarrator::new("http://b");
        let notes = (0..720).map(|count| narrator.failed(beat(failure), Some("words"), FIVE_SECONDS * count));
        notes.filter(|note| note.level <= Level::Warn).count()
    }

    #[test]
    fn the_requests_of_an_outage_are_told_at_level_debug_only() {
        for failure in [
            Failure::NotSent,
            Failure::Unanswered,
            Failure::ServerError,
            Failure::NotFromBackend,
        ] {
            assert_eq!(lines_of_an_hour(failure), 0, "{failure:?}");
        }
    }

    #[test]
    fn requests_that_fail_alike_without_an_outage_are_told_once_a_minute() {
        for failure in [
            Failure::Unauthorized,
            Failure::Unsupported,
            Failure::Refused,
            Failure::Redirected,
            Failure::RetryLater { retry_after: None },
            Failure::NoCredentials,
            Failure::Overloaded,
        ] {
            assert_eq!(lines_of_an_hour(failure), 60, "{failure:?}");
        }
    }

    #[test]
    fn a_request_that_fails_in_another_way_is_told_at_once_and_the_others_are_counted() {
        let mut narrator = OutageNarrator::new("http://b");
        let refused = narrator.failed(beat(Failure::Refused), Some("status 400"), Duration::ZERO);
        assert_eq!(refused.level, Level::Warn);
        assert_eq!(
            refused.message,
            "heartbeat failed: the backend refuses the request (status 400)"
        );
        narrator.failed(beat(Failure::Refused), None, FIVE_SECONDS);
        let other = narrator.failed(beat(Failure::Unauthorized), None, FIVE_SECONDS);
        assert_eq!(other.level, Level::Error);
        let again = narrator.failed(beat(Failure::Refused), None, Duration::from_secs(61));
        let said = "heartbeat failed: the backend refuses the request (1 more since the last such line)";
        assert_eq!(again.message, said);
    }

    #[test]
    fn what_breaks_at_one_path_alone_is_no_outage_and_is_told() {
        let mut narrator = OutageNarrator::new("http://b");
        let ack = Failed {
            what: "ACK",
            ..beat(Failure::ServerError)
        };
        assert_eq!(narrator.failed(ack, None, Duration::ZERO).level, Level::Warn);
        narrator.begins(&outage(Failure::ServerError, 0), None);
        let later = Duration::from_secs(600);
        assert_eq!(narrator.failed(ack, None, later).level, Level::Debug);
    }

    #[test]
    fn an_outage_is_told_with_its_cause_and_its_numbers() {
        let mut narrator = OutageNarrator::new("http://b:8080");
        let begins = narrator.begins(
            &outage(Failure::NotSent, 0),
            Some("connection refused: nothing listens there"),
        );
        assert_eq!(
            begins.message,
            "backend http://b:8080: connection refused: nothing listens there"
        );
        let goes_on = narrator.goes_on(&outage(Failure::NotSent, 12 * 60 + 5));
        let said = "backend unreachable for 12 min 5 s (connection refused: nothing listens there); 3 outcomes wait; \
                    reservations lapse in 48 s";
        assert_eq!(goes_on.message, said);
        // The name server has failed as well.
        narrator.failed(
            beat(Failure::NotSent),
            Some("there is no host of this name"),
            Duration::ZERO,
        );
        let goes_on = narrator.goes_on(&outage(Failure::NotSent, 2 * 3600 + 60));
        let said = "backend unreachable for 2 h 1 min (there is no host of this name); 3 outcomes wait; reservations lapse \
                    in 48 s";
        assert_eq!(goes_on.message, said);
        let is_over = narrator.is_over(&outage(Failure::NotSent, 2 * 3600 + 60));
        assert_eq!(
            is_over.message,
            "the backend answers again, after 2 h 1 min and 148 requests that failed"
        );
    }

    #[test]
    fn the_last_words_that_do_not_get_through_are_told_in_an_outage_too() {
        let mut narrator = OutageNarrator::new("http://b");
        narrator.begins(&outage(Failure::NotSent, 0), None);
        for what in ["final heartbeat", "deregistration"] {
            let failed = Failed {
                what,
                ..beat(Failure::NotSent)
            };
            assert_eq!(
                narrator.failed(failed, None, Duration::ZERO).level,
                Level::Warn,
                "{what}"
            );
        }
    }
}
