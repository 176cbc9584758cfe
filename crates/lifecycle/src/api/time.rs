//! A point in time, as an argument.

use std::time::Duration;

/// A point on the monotonic clock, as the shell read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The point `since_start` after the clock's own start.
    #[must_use]
    pub fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The point `later` after this one; the end of time at the latest.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// How long ago this point was at `now`; zero when it is still to come.
    #[must_use]
    pub fn elapsed(self, now: Self) -> Duration {
        now.0.saturating_sub(self.0)
    }

    /// How long it is from `now` to this point; zero when it has passed.
    #[must_use]
    pub fn remaining(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}
