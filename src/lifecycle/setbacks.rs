//! How often an attempt has failed, and how.

use std::mem;
use std::time::Duration;

use crate::lifecycle::event::Failure;
use crate::lifecycle::time::Moment;

/// Failures in a row of the same thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Setbacks {
    count: u32,
    last: Option<Failure>,
    /// When the last ones in a row that were of one kind began.
    alike_since: Option<Moment>,
}

impl Setbacks {
    /// Another one. How many there were before.
    pub fn add(&mut self, failure: Failure, now: Moment) -> u32 {
        let is_alike = |last: Failure| mem::discriminant(&last) == mem::discriminant(&failure);
        if !self.last.is_some_and(is_alike) {
            self.alike_since = Some(now);
        }
        self.last = Some(failure);
        let before = self.count;
        self.count = before.saturating_add(1);
        before
    }

    /// For how long every one of them has been of the kind of the last one.
    #[must_use]
    pub fn alike_for(&self, now: Moment) -> Duration {
        self.alike_since.map_or(Duration::ZERO, |since| since.until(now))
    }

    /// Whether the backend asked for the pause after the last one.
    #[must_use]
    pub fn were_declined(&self) -> bool {
        matches!(self.last, Some(Failure::Declined { .. }))
    }

    /// What such failures held up gets another chance: now, if it is waiting for one, so the answer is whether it is.
    /// What is in flight may fail in the same way once more; that shall not be followed by a long pause.
    pub fn gets_a_chance(&mut self, such: fn(Failure) -> bool, is_in_flight: bool) -> bool {
        let is_held_up = self.last.is_some_and(such);
        if is_held_up && is_in_flight {
            self.count = 0;
        }
        is_held_up && !is_in_flight
    }
}

/// No connection or no answer: over when the backend is back.
#[must_use]
pub fn is_of_an_outage(failure: Failure) -> bool {
    matches!(failure, Failure::NotSent | Failure::Unanswered)
}

/// Over when there are other credentials.
#[must_use]
pub fn is_of_credentials(failure: Failure) -> bool {
    matches!(failure, Failure::Unauthorized | Failure::NoCredentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_those_of_one_kind_are_timed() {
        let at = |seconds| Moment::new(Duration::from_secs(seconds));
        let mut setbacks = Setbacks::default();
        assert_eq!(setbacks.add(Failure::Foreign, at(10)), 0);
        assert_eq!(setbacks.add(Failure::Foreign, at(20)), 1);
        assert_eq!(setbacks.alike_for(at(20)), Duration::from_secs(10));
        assert_eq!(setbacks.add(Failure::NotSent, at(30)), 2);
        assert_eq!(setbacks.alike_for(at(35)), Duration::from_secs(5));
        assert_eq!(setbacks.add(Failure::NotSent, at(40)), 3);
    }

    #[test]
    fn only_what_such_failures_held_up_gets_a_chance_and_what_is_in_flight_a_short_pause() {
        let mut setbacks = Setbacks::default();
        let now = Moment::new(Duration::ZERO);
        assert!(!setbacks.gets_a_chance(is_of_an_outage, false));
        setbacks.add(Failure::NotSent, now);
        assert!(!setbacks.gets_a_chance(is_of_credentials, true));
        assert!(setbacks.gets_a_chance(is_of_an_outage, false));
        assert_eq!(setbacks.add(Failure::NotSent, now), 1, "waiting, it keeps its pauses");
        assert!(!setbacks.gets_a_chance(is_of_an_outage, true));
        assert_eq!(setbacks.add(Failure::NotSent, now), 0);
    }
}
