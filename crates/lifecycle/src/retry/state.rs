//! How often an attempt has failed, and how.

use std::mem;
use std::time::Duration;

use crate::api::{Failure, FailureClass, Moment};

/// Failures in a row of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RetryState {
    count: u32,
    last: Option<Failure>,
    /// When the last ones in a row that were of one kind began.
    same_kind_since: Option<Moment>,
}

impl RetryState {
    /// Adds a failure. Returns how many there were before.
    pub fn add(&mut self, failure: Failure, now: Moment) -> u32 {
        let is_alike = |last: Failure| mem::discriminant(&last) == mem::discriminant(&failure);
        if !self.last.is_some_and(is_alike) {
            self.same_kind_since = Some(now);
        }
        self.last = Some(failure);
        let before = self.count;
        self.count = before.saturating_add(1);
        before
    }

    /// Since when every failure has been of the kind of the last one.
    pub fn same_kind_since(&self) -> Option<Moment> {
        self.same_kind_since
    }

    /// For how long every failure has been of the kind of the last one.
    pub fn same_kind_for(&self, now: Moment) -> Duration {
        self.same_kind_since.map_or(Duration::ZERO, |since| since.elapsed(now))
    }

    /// The pause that the backend asked for after the last one.
    pub fn asked_for(&self) -> Option<Duration> {
        self.last.and_then(asked_for)
    }

    /// Whether the last failure was one of these.
    pub fn last_was(&self, failures: Failures) -> bool {
        self.last.is_some_and(|last| failures.has(last))
    }

    /// Whether the pause of this request ends now, because its last failure has no cause any more.
    /// A request in flight may fail in this way once more, and its pause is then short. If
    /// `is_soon`, because retries were brought forward a moment ago, a request in flight keeps its
    /// pause.
    pub fn retry_now(&mut self, failures: Failures, is_in_flight: bool, is_soon: bool) -> bool {
        let is_now = self.last_was(failures) && !(is_in_flight && is_soon);
        if is_now && is_in_flight {
            self.reset();
        }
        is_now
    }

    /// Makes the next pause a short one. The last failure stays known.
    pub fn reset(&mut self) {
        self.count = 0;
    }
}

/// Failures that have one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failures {
    /// See [`is_of_an_outage`].
    OfAnOutage,
    /// Failures that end with other credentials.
    OfCredentials,
}

impl Failures {
    /// Whether this failure is one of the set.
    pub fn has(self, failure: Failure) -> bool {
        match self {
            Self::OfAnOutage => is_of_an_outage(failure),
            Self::OfCredentials => matches!(failure, Failure::Unauthorized | Failure::NoCredentials),
        }
    }
}

/// The pause that the backend asked for, if it did.
pub fn asked_for(failure: Failure) -> Option<Duration> {
    if let Failure::RetryLater { retry_after } = failure {
        retry_after
    } else {
        None
    }
}

/// Whether the failure is of an outage: no connection, no answer, a server error, or an answer that
/// is not from the backend. An outage ends when the backend is back.
pub fn is_of_an_outage(failure: Failure) -> bool {
    failure.class() == FailureClass::Outage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_those_of_one_kind_are_timed() {
        let at = |seconds| Moment::new(Duration::from_secs(seconds));
        let mut setbacks = RetryState::default();
        assert_eq!(setbacks.add(Failure::NotFromBackend, at(10)), 0);
        assert_eq!(setbacks.add(Failure::NotFromBackend, at(20)), 1);
        assert_eq!(setbacks.same_kind_for(at(20)), Duration::from_secs(10));
        assert_eq!(setbacks.add(Failure::NotSent, at(30)), 2);
        assert_eq!(setbacks.same_kind_for(at(35)), Duration::from_secs(5));
        assert_eq!(setbacks.add(Failure::NotSent, at(40)), 3);
    }

    #[test]
    fn after_a_new_beginning_pauses_are_short_and_the_last_failure_is_still_known() {
        let mut setbacks = RetryState::default();
        let now = Moment::new(Duration::ZERO);
        assert!(!setbacks.last_was(Failures::OfAnOutage));
        setbacks.add(Failure::NotSent, now);
        assert!(setbacks.last_was(Failures::OfAnOutage) && !setbacks.last_was(Failures::OfCredentials));
        assert_eq!(setbacks.add(Failure::NotSent, now), 1);
        setbacks.reset();
        assert!(setbacks.last_was(Failures::OfAnOutage));
        assert_eq!(setbacks.add(Failure::NotSent, now), 0);
    }

    #[test]
    fn only_the_last_failure_may_have_asked_for_a_pause() {
        let mut setbacks = RetryState::default();
        let (now, pause) = (Moment::new(Duration::ZERO), Duration::from_secs(9));
        setbacks.add(
            Failure::RetryLater {
                retry_after: Some(pause),
            },
            now,
        );
        assert_eq!(setbacks.asked_for(), Some(pause));
        setbacks.add(Failure::RetryLater { retry_after: None }, now);
        assert_eq!(setbacks.asked_for(), None);
    }
}
