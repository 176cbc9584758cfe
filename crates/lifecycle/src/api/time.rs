//! A point in time, which callers pass as an argument.

use std::time::Duration;

/// A point on the monotonic clock, as the shell read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The point `since_start` after the clock's own start.
    pub fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The point `later` after this one, at most the end of time.
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Time from this point to `now`; zero if the point is in the future.
    pub fn elapsed(self, now: Self) -> Duration {
        now.0.saturating_sub(self.0)
    }

    /// Time from `now` to this point; zero if the point has passed.
    pub fn remaining(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}
