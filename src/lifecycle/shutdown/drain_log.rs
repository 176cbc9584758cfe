//! The lines that tell how the drain goes on.

use std::time::Duration;

use crate::lifecycle::api::{Moment, Notice, Phase, Timer};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::timeouts::{DRAIN_LOG_AT_MOST_EVERY, DRAIN_LOG_EVERY};

impl Lifecycle {
    pub(super) fn begin_drain_log(&mut self, left: Duration, now: Moment) {
        let active = self.jobs.unfinished();
        let reporting = self.jobs.reporting();
        if self.is_draining_anything() {
            self.notify(Notice::DrainBegan {
                active,
                reporting,
                left,
            });
        }
        self.next_drain_line(active, now);
    }

    /// A change is logged too, but not each of many.
    pub(in crate::lifecycle) fn watch_drain(&mut self, now: Moment) {
        if self.phase == Phase::Drain
            && let Some(at) = self.shutdown.drain_logged_otherwise(self.jobs.unfinished())
        {
            self.timers
                .arm_at_latest(Timer::DrainLog, at.after(DRAIN_LOG_AT_MOST_EVERY).max(now));
        }
    }

    pub(in crate::lifecycle) fn log_drain(&mut self, now: Moment) {
        if self.phase == Phase::Drain {
            let active = self.jobs.unfinished();
            let reporting = self.jobs.reporting();
            let left = self.time_to_deadline(now);
            if self.is_draining_anything() {
                self.notify(Notice::Draining {
                    active,
                    reporting,
                    left,
                });
            }
            self.next_drain_line(active, now);
        }
    }

    fn next_drain_line(&mut self, active: usize, now: Moment) {
        self.shutdown.drain_logged(active, now);
        self.timers.arm(Timer::DrainLog, now.after(DRAIN_LOG_EVERY));
    }

    /// Without a worker and without a job there is nothing that a person would wait for.
    fn is_draining_anything(&self) -> bool {
        self.jobs.unfinished() > 0 || self.worker.is_alive()
    }
}
