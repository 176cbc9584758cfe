//! The times of a shutdown: the orchestrator's clock, the deadline of the drain, the plan of the stop phase.

use std::time::Duration;

use crate::lifecycle::api::job::JobError;
use crate::lifecycle::api::notice::Notice;
use crate::lifecycle::api::phase::Phase;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::api::timer::Timer;
use crate::lifecycle::api::words::Reason;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::clock::StopPlan;
use crate::lifecycle::shutdown::phase::Trigger;

impl Lifecycle {
    /// t0: from here on there is a deadline, no FETCH, and no way back.
    pub(super) fn begin_terminate(&mut self, from: Phase, reason: Reason, now: Moment) {
        for timer in [
            Timer::PrestopLapse,
            Timer::Fetch,
            Timer::FetchAgain,
            Timer::Register,
            Timer::Start,
            Timer::StartAnyway,
            Timer::Ready,
            Timer::Capacity,
            Timer::Settled,
        ] {
            self.timers.cancel(timer);
        }
        self.shutdown.is_asked = reason != Reason::Worker;
        self.shutdown.reason = reason;
        self.shutdown.began = Some(now);
        self.begin_account(now);
        self.set_deadline(self.latest_deadline(now));
        let state = self.state();
        self.notify(Notice::StateChanged { state, reason });
        self.beat_for_terminate(from, now);
    }

    /// When a drain that begins now ends; what the orchestrator's clock says has gone by already is gone.
    pub(in crate::lifecycle) fn latest_deadline(&self, now: Moment) -> Moment {
        let elapsed = self.shutdown.clock.map_or(Duration::ZERO, |clock| clock.elapsed(now));
        now.after(self.options.times.drain(elapsed))
    }

    fn set_deadline(&mut self, deadline: Moment) {
        self.shutdown.granted = self
            .shutdown
            .began
            .map_or(Duration::ZERO, |began| began.elapsed(deadline));
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
                self.announce(self.shutdown.reason, Some(deadline.remaining(now)), now);
            }
        } else {
            self.plan(now, exit_by);
            self.follow_plan(now);
        }
    }

    /// When the orchestrator's time is over, once we know when it began.
    fn limit(&self) -> Option<Moment> {
        let (clock, limit) = self.shutdown.clock.zip(self.options.times.limit)?;
        Some(clock.after(limit))
    }

    /// How long it is until then.
    pub(super) fn time_to_limit(&self, now: Moment) -> Option<Duration> {
        self.limit().map(|limit| limit.remaining(now))
    }

    pub(in crate::lifecycle) fn deadline_reached(&mut self, now: Moment) {
        self.go(Trigger::DeadlineReached, self.shutdown.reason, now);
    }

    /// The plan of a stop phase that begins now.
    pub(super) fn plan_stop(&mut self, now: Moment) {
        let margin = now.after(self.options.times.stop_margin);
        let limits = [self.shutdown.exit_by(), self.limit()];
        let exit_by = limits.into_iter().flatten().fold(margin, Moment::min);
        self.plan(now, exit_by);
    }

    fn plan(&mut self, begin: Moment, exit_by: Moment) {
        let plan = StopPlan::new(&self.options.times, self.options.cancel_grace, begin, exit_by);
        self.shutdown.plan = Some(plan);
        self.shutdown.calls_end = Some(plan.report);
    }

    /// The FAIL of a job that was cut off (GS-005, worker protocol 7.2.5, requirements C-05).
    pub(in crate::lifecycle) fn shutdown_error(&self, now: Moment) -> JobError {
        let elapsed = self.shutdown.took(now);
        let details = format!(
            r#"{{"reason":"shutdown","kind":"{}","trigger":"{}","grace_ms":{},"elapsed_ms":{}}}"#,
            if self.shutdown.forced.is_some() {
                "forced"
            } else {
                "ShutdownTimeout"
            },
            self.shutdown.reason.name(),
            // What was in force, which the orchestrator's limit may have made less than what is configured.
            self.shutdown.granted.as_millis(),
            elapsed.as_millis(),
        );
        JobError {
            code: Some(self.options.shutdown_error_code.clone()),
            kind: Some(self.options.shutdown_error_type.clone()),
            message: "the worker was shut down before the job was finished".into(),
            retryable: true,
            details: Some(details.into()),
            backtrace: None,
        }
    }

    /// With what status to end.
    pub(in crate::lifecycle) fn exit_status(&self) -> u8 {
        if let Some(status) = self.shutdown.abandoned_with {
            return status;
        }
        if !self.shutdown.is_asked {
            return self.worker.status(&self.options.remap_exit);
        }
        if self.shutdown.cut_off > 0 {
            self.options.interrupted_exit
        } else {
            0
        }
    }
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
