//! The orchestrator's time: when the drain has to end and we have to be gone, and what a clock that starts late changes.

use std::time::Duration;

use crate::lifecycle::api::{Moment, Phase, Timer};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Trigger;
use crate::lifecycle::shutdown::timeouts::StopPlan;

impl Lifecycle {
    /// When a drain that begins now ends; what the orchestrator's clock says has gone by already is gone.
    pub(in crate::lifecycle) fn latest_deadline(&self, now: Moment) -> Moment {
        let clock = self.shutdown.clock();
        let elapsed = clock.map_or(Duration::ZERO, |clock| clock.elapsed(now));
        now.after(self.options.times.drain(elapsed))
    }

    pub(super) fn set_deadline(&mut self, deadline: Moment) {
        self.shutdown.grants_until(deadline);
        let margin = deadline.after(self.options.times.stop_margin);
        let exit_by = self.limit().unwrap_or(margin);
        self.plan(deadline, exit_by);
        self.timers.arm(Timer::Deadline, deadline);
    }

    /// A stop signal after a terminate that no orchestrator had asked for: the deadline, and every other end, may only
    /// come closer.
    pub(super) fn clock_started_late(&mut self, now: Moment) {
        let (Some(exit_by), Some(before)) = (self.limit(), self.shutdown.exit_by()) else {
            return;
        };
        if before <= exit_by {
            return;
        }
        if let Some(before) = self.timers.deadline_of(Timer::Deadline) {
            let deadline = before.min(self.latest_deadline(now));
            self.set_deadline(deadline);
            if deadline < before && self.phase == Phase::Drain {
                self.announce(self.shutdown.reason(), Some(deadline.remaining(now)), now);
            }
        } else {
            self.plan(now, exit_by);
            self.follow_plan(now);
        }
    }

    /// When the orchestrator's time is over, once we know when it began.
    fn limit(&self) -> Option<Moment> {
        let (clock, limit) = self.shutdown.clock().zip(self.options.times.limit)?;
        Some(clock.after(limit))
    }

    /// How long it is until then.
    pub(super) fn time_to_limit(&self, now: Moment) -> Option<Duration> {
        self.limit().map(|limit| limit.remaining(now))
    }

    pub(in crate::lifecycle) fn time_to_deadline(&self, now: Moment) -> Duration {
        self.timers
            .deadline_of(Timer::Deadline)
            .map_or(Duration::ZERO, |deadline| deadline.remaining(now))
    }

    pub(in crate::lifecycle) fn deadline_reached(&mut self, now: Moment) {
        self.go(Trigger::DeadlineReached, self.shutdown.reason(), now);
    }

    /// The plan of a stop phase that begins now.
    pub(super) fn plan_stop(&mut self, now: Moment) {
        let margin = now.after(self.options.times.stop_margin);
        let limits = [self.shutdown.exit_by(), self.limit()];
        let exit_by = limits.into_iter().flatten().fold(margin, Moment::min);
        self.plan(now, exit_by);
    }

    fn plan(&mut self, begin: Moment, exit_by: Moment) {
        let grace = self.options.cancel_grace;
        self.shutdown
            .planned(StopPlan::new(&self.options.times, grace, begin, exit_by));
    }
}
