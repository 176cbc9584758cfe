//! How often an attempt has failed, and how.

use std::mem;

use crate::lifecycle::event::Failure;

/// Failures in a row of the same thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Setbacks {
    count: u32,
    last: Option<Failure>,
    alike: u32,
}

impl Setbacks {
    /// Another one. How many there were before.
    pub fn add(&mut self, failure: Failure) -> u32 {
        self.alike = self.were_alike(failure).saturating_add(1);
        self.last = Some(failure);
        let before = self.count;
        self.count = before.saturating_add(1);
        before
    }

    /// How many of the last ones in a row were of this kind.
    #[must_use]
    pub fn were_alike(&self, failure: Failure) -> u32 {
        let is_alike = |last: Failure| mem::discriminant(&last) == mem::discriminant(&failure);
        if self.last.is_some_and(is_alike) { self.alike } else { 0 }
    }

    /// Whether the last one was such a failure.
    #[must_use]
    pub fn were(&self, such: fn(Failure) -> bool) -> bool {
        self.last.is_some_and(such)
    }

    /// The next pause is a short one again. What the last one was is still known.
    pub fn begin_anew(&mut self) {
        self.count = 0;
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
    fn failures_are_counted_in_all_and_by_kind() {
        let mut setbacks = Setbacks::default();
        assert_eq!(setbacks.add(Failure::NotOffered), 0);
        assert_eq!(setbacks.add(Failure::NotOffered), 1);
        assert_eq!(setbacks.were_alike(Failure::NotOffered), 2);
        assert_eq!(setbacks.add(Failure::NotSent), 2);
        assert_eq!(setbacks.were_alike(Failure::NotSent), 1);
        assert_eq!(setbacks.were_alike(Failure::NotOffered), 0);
        assert!(setbacks.were(is_of_an_outage) && !setbacks.were(is_of_credentials));
        setbacks.begin_anew();
        assert!(setbacks.were(is_of_an_outage));
        assert_eq!(setbacks.add(Failure::Unauthorized), 0);
        assert!(setbacks.were(is_of_credentials));
    }
}
