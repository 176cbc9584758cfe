//! Stop signals: which of them is a separate request, and which one forced the end.

use std::time::Duration;

use crate::api::{Force, Moment, Reason};
use crate::shutdown::timeouts::SAME_REQUEST;

/// The stop signals that counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct StopSignals {
    count: u8,
    last: Option<(Reason, Moment)>,
}

impl StopSignals {
    /// How long ago the last signal counted, if a signal of this moment still belongs to it.
    pub(super) fn just_came(&self, now: Moment) -> Option<Duration> {
        let (_, at) = self.last?;
        Some(at.elapsed(now)).filter(|ago| *ago < SAME_REQUEST)
    }

    /// How long ago the last signal counted, if this one is the same request. The time is measured
    /// from a signal that counted. A series of signals therefore does not stay one request for
    /// ever.
    pub(super) fn repeats(&self, by: Reason, now: Moment) -> Option<Duration> {
        let (last, _) = self.last?;
        self.just_came(now).filter(|_| last == by)
    }

    /// This one counts.
    pub(super) fn counts(&mut self, by: Reason, now: Moment) -> Force {
        self.count = self.count.saturating_add(1);
        let before = self.last.replace((by, now));
        Force {
            by,
            nth: self.count,
            after: before.map(|(last, at)| (last, at.elapsed(now))),
        }
    }
}
