//! Moments: the only time that the jobs, the faults and the events know.

use std::time::Duration;

use jiff::Timestamp;

/// A moment: the time since the server was started.
pub type Moment = Duration;

/// A moment as the wire spells it: RFC 3339, UTC, milliseconds.
pub fn wall(epoch: Timestamp, moment: Moment) -> String {
    let at = epoch.checked_add(moment).unwrap_or(Timestamp::MAX);
    format!("{at:.3}")
}
