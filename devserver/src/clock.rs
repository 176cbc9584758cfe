//! The only code that reads the time.

use std::time::Instant;

use jiff::Timestamp;

use crate::moment::Moment;

/// Time since the start of the server. The wall clock is read once, so later changes of the wall
/// clock have no effect.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    epoch: Timestamp,
}

impl Clock {
    /// A clock that starts now.
    #[allow(clippy::disallowed_methods, reason = "the clock itself")]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            epoch: Timestamp::now(),
        }
    }

    /// The time since the clock started.
    pub fn now(&self) -> Moment {
        self.start.elapsed()
    }

    /// The wall clock at the start.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }
}
