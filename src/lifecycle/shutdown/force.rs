//! Stop signals: which of them is a request of its own, and what somebody forced the end with.

use std::time::Duration;

use crate::lifecycle::api::effect::Reason;
use crate::lifecycle::api::time::Moment;

/// How soon after a stop signal another one of its kind is the same request: `timeout` and some shells signal a process and
/// its group. No person is that quick, and no orchestrator forces anything within a second.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// What somebody forced the end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Force {
    /// A stop signal, or the operator.
    pub by: Reason,
    /// Which stop signal it is, counted from 1; 0 where it is none.
    pub nth: u8,
    /// The stop signal before it, and how long before.
    pub after: Option<(Reason, Duration)>,
}

/// The stop signals that counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct StopSignals {
    count: u8,
    last: Option<(Reason, Moment)>,
}

impl StopSignals {
    /// How long ago the last one counted, if that is so recent that whatever came with it belongs to it.
    pub(in crate::lifecycle) fn just_came(&self, now: Moment) -> Option<Duration> {
        let (_, at) = self.last?;
        Some(at.until(now)).filter(|ago| *ago < SAME_REQUEST)
    }

    /// How long ago the last one counted, if this one is the same request. It is measured from one that counted, so that no
    /// number of them is the same request for ever.
    pub(in crate::lifecycle) fn repeats(&self, by: Reason, now: Moment) -> Option<Duration> {
        let (last, _) = self.last?;
        self.just_came(now).filter(|_| last == by)
    }

    /// This one counts.
    pub(in crate::lifecycle) fn counts(&mut self, by: Reason, now: Moment) -> Force {
        self.count = self.count.saturating_add(1);
        let before = self.last.replace((by, now));
        Force {
            by,
            nth: self.count,
            after: before.map(|(last, at)| (last, at.until(now))),
        }
    }
}

impl Force {
    /// The operator's.
    pub const BY_OPERATOR: Self = Self {
        by: Reason::Control,
        nth: 0,
        after: None,
    };
}
