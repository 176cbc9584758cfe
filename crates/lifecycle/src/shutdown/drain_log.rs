//! The log lines about the progress of the drain.

use std::time::Duration;

use crate::api::{EndingTimer, Moment, Phase};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::said::Said;
use crate::shutdown::timeouts::{DRAIN_LOG_AT_MOST_EVERY, DRAIN_LOG_EVERY};

impl Ending {
    pub(super) fn begin_drain_log(&mut self, left: Duration, cx: &Context) {
        self.say(Said::DrainLine { is_first: true, left });
        self.next_drain_line(cx);
    }

    /// A change of the number of jobs is logged too, but not each of many.
    pub(crate) fn watch_drain(&mut self, unfinished: usize, now: Moment) {
        if self.phase == Phase::Drain
            && let Some((logged, at)) = self.shutdown.logged
            && logged != unfinished
        {
            self.timers
                .arm_at_latest(EndingTimer::DrainLog, at.after(DRAIN_LOG_AT_MOST_EVERY).max(now));
        }
    }

    pub(super) fn log_drain(&mut self, cx: &Context) {
        if self.phase == Phase::Drain {
            let left = self.time_to_deadline(cx.now);
            self.say(Said::DrainLine { is_first: false, left });
            self.next_drain_line(cx);
        }
    }

    fn next_drain_line(&mut self, cx: &Context) {
        self.shutdown.logged = Some((cx.facts.unfinished, cx.now));
        self.timers.arm(EndingTimer::DrainLog, cx.now.after(DRAIN_LOG_EVERY));
    }
}
