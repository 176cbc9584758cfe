//! The orchestrator's time: when the drain has to end, when ojs-init has to exit, and the effect of
//! a clock that starts late.

use std::time::Duration;

use crate::api::{EndingTimer, Moment, Options, Phase};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::timeouts::StopPlan;

impl Ending {
    /// When a drain that begins now ends. Time that has passed on the orchestrator's clock is
    /// subtracted.
    pub(crate) fn latest_deadline(&self, options: &Options, now: Moment) -> Moment {
        let clock = self.shutdown.clock;
        let elapsed = clock.map_or(Duration::ZERO, |clock| clock.elapsed(now));
        now.after(options.times.drain(elapsed))
    }

    /// When the drain began: with terminate, or with the preStop hook before it.
    pub(crate) fn drain_since(&self) -> Option<Moment> {
        let clock = self.shutdown.clock;
        match self.shutdown.began {
            Some(began) => Some(clock.map_or(began, |clock| clock.min(began))),
            None => clock.filter(|_| self.shutdown.quiet.prestop),
        }
    }

    /// The time until jobs are cut off; zero in the stop phase. During a preStop hook it is the
    /// length of a drain that begins now. None before both.
    pub(crate) fn drain_left(&self, options: &Options, now: Moment) -> Option<Duration> {
        self.drain_since().map(|_| match self.shutdown.began {
            Some(_) => self.time_to_deadline(now),
            None => self.latest_deadline(options, now).remaining(now),
        })
    }

    pub(super) fn set_deadline(&mut self, deadline: Moment, cx: &Context) {
        self.shutdown.grants_until(deadline);
        let margin = deadline.after(cx.options.times.stop_margin);
        let exit_by = self.limit(cx.options).unwrap_or(margin);
        self.plan(deadline, exit_by, cx);
        self.timers.arm(EndingTimer::Deadline, deadline);
    }

    /// Handles a stop signal after a terminate that no orchestrator had asked for. The deadline,
    /// and every other end, may only move closer.
    pub(super) fn clock_started_late(&mut self, cx: &Context) {
        let (Some(exit_by), Some(before)) = (self.limit(cx.options), self.shutdown.exit_by()) else {
            return;
        };
        if before <= exit_by {
            return;
        }
        if let Some(before) = self.timers.deadline_of(EndingTimer::Deadline) {
            let deadline = before.min(self.latest_deadline(cx.options, cx.now));
            self.set_deadline(deadline, cx);
            if deadline < before && self.phase == Phase::Drain {
                self.announce(self.shutdown.reason, Some(deadline.remaining(cx.now)));
            }
        } else {
            self.plan(cx.now, exit_by, cx);
            self.follow_plan(cx);
        }
    }

    /// When the orchestrator's time ends, once ojs-init knows when it began.
    fn limit(&self, options: &Options) -> Option<Moment> {
        let (clock, limit) = self.shutdown.clock.zip(options.times.limit)?;
        Some(clock.after(limit))
    }

    /// The time until that limit.
    pub(super) fn time_to_limit(&self, cx: &Context) -> Option<Duration> {
        self.limit(cx.options).map(|limit| limit.remaining(cx.now))
    }

    pub(crate) fn time_to_deadline(&self, now: Moment) -> Duration {
        self.timers
            .deadline_of(EndingTimer::Deadline)
            .map_or(Duration::ZERO, |deadline| deadline.remaining(now))
    }

    /// The plan of a stop phase that begins now.
    pub(super) fn plan_stop(&mut self, cx: &Context) {
        let margin = cx.now.after(cx.options.times.stop_margin);
        let limits = [self.shutdown.exit_by(), self.limit(cx.options)];
        let exit_by = limits.into_iter().flatten().fold(margin, Moment::min);
        self.plan(cx.now, exit_by, cx);
    }

    fn plan(&mut self, begin: Moment, exit_by: Moment, cx: &Context) {
        let grace = cx.options.cancel_grace;
        self.shutdown
            .planned(StopPlan::new(&cx.options.times, grace, begin, exit_by));
    }
}
