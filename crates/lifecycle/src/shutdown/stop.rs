//! The end game and the stop phase, step by step. Each step ends when its awaited event has
//! happened, and at its moment of the plan at the latest.

use std::time::Duration;

use crate::api::{EndingTimer, FinalState, Moment, Phase, StillThere, WorkerState};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::phase::Trigger;
use crate::shutdown::said::Said;
use crate::shutdown::steps::{StepTrigger, StepVerdict, StopStep, step_verdict};
use crate::shutdown::timeouts::{REAP_MIN, earlier_heartbeats};

impl Ending {
    /// Acts on a timer of the end that is due.
    pub(crate) fn due(&mut self, timer: EndingTimer, cx: &Context) {
        match timer {
            EndingTimer::Step => self.step_is_over(cx),
            EndingTimer::WithoutCheckpoints => self.shutdown.goes_without_checkpoints = true,
            EndingTimer::FinalHeartbeat => {
                self.send_final_heartbeat(cx);
            }
            EndingTimer::Deadline => self.go(Trigger::DeadlineReached, self.shutdown.reason, cx),
            EndingTimer::DelayOver => self.go(Trigger::DelayOver, self.shutdown.reason, cx),
            EndingTimer::DrainLog => self.log_drain(cx),
            EndingTimer::PrestopLapse => self.prestop_lapsed(cx),
            // This timer only expires: `end_if_idle` compares the times.
            EndingTimer::Idle => {}
        }
    }

    /// Ends the cancel grace if the request was repeated.
    pub(super) fn skip_cancel_grace(&mut self, cx: &Context) {
        if self.shutdown.skips_cancel_grace && self.phase == Phase::Stop {
            self.step(StepTrigger::NoGrace, cx);
        }
    }

    /// Whether `advance` could lead on in this phase.
    pub(crate) fn is_waiting_for_something(&self) -> bool {
        matches!(self.phase, Phase::Drain | Phase::EndGame | Phase::Stop)
    }

    /// Enters the next step if the awaited event of the present one has happened.
    pub(crate) fn advance(&mut self, cx: &Context) -> bool {
        match self.phase {
            Phase::Drain if cx.facts.is_idle() => {
                self.go(Trigger::Drained, self.shutdown.reason, cx);
                true
            }
            Phase::EndGame | Phase::Stop => self.advance_step(cx),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::Exited => false,
        }
    }

    fn advance_step(&mut self, cx: &Context) -> bool {
        self.has_happened(self.shutdown.step, cx) && self.step(StepTrigger::Done, cx)
    }

    /// Whether the awaited event of this step has happened by now. Sends the request for it if one
    /// is needed.
    fn has_happened(&mut self, step: StopStep, cx: &Context) -> bool {
        let facts = &cx.facts;
        match step {
            StopStep::NotYet | StopStep::Over => false,
            StopStep::Cancel => !facts.has_held_jobs,
            StopStep::Ask | StopStep::Kill => facts.worker_is_over && !facts.has_held_jobs,
            StopStep::BeforeKill | StopStep::BeforeExit => facts.operators_have_left,
            StopStep::Report => facts.is_idle(),
            StopStep::FinalHeartbeat => {
                // The last heartbeat has to be the last, so it waits for those in flight.
                let is_sent = facts.heartbeats == 0 && self.send_final_heartbeat(cx);
                !is_sent && facts.heartbeats == 0 && !facts.is_saying_last
            }
            StopStep::Deregister => !self.deregister_everybody(cx) && !facts.is_deregistering && !facts.is_registering,
        }
    }

    /// Ends a step whose time has passed.
    fn step_is_over(&mut self, cx: &Context) {
        // Not even half of the time was left for the last heartbeat, but it is still sent.
        self.send_final_heartbeat(cx);
        self.step(StepTrigger::TimeOver, cx);
    }

    /// Looks the trigger up in the table, and begins the step that it names. Returns whether there
    /// was one.
    pub(super) fn step(&mut self, trigger: StepTrigger, cx: &Context) -> bool {
        match step_verdict(self.shutdown.step, trigger) {
            StepVerdict::Stay(_) => false,
            StepVerdict::Move(step) => {
                self.enter(step, cx);
                true
            }
        }
    }

    fn enter(&mut self, step: StopStep, cx: &Context) {
        self.shutdown.step = step;
        match step {
            StopStep::NotYet => {}
            StopStep::BeforeKill | StopStep::BeforeExit => self.say(Said::ShowEnd),
            StopStep::Cancel => self.say(Said::CancelJobs(self.cancel_grace(cx))),
            StopStep::Ask => self.say(Said::AskWorkerToEnd),
            StopStep::Kill => {
                self.shutdown.killed_at = Some(cx.now);
                self.say(Said::Kill);
            }
            StopStep::Report => self.begin_report(cx),
            StopStep::FinalHeartbeat => self.say_goodbye(cx),
            StopStep::Deregister => {
                self.deregister_everybody(cx);
            }
            StopStep::Over => self.go(Trigger::Done, self.shutdown.reason, cx),
        }
        if let Some(end) = self.end_of(step, cx) {
            self.timers.arm(EndingTimer::Step, end);
        }
    }

    /// Follows a plan that changed during a step. The step may only end earlier.
    pub(super) fn follow_plan(&mut self, cx: &Context) {
        let end = self.end_of(self.shutdown.step, cx);
        if self.shutdown.has_said_goodbye() {
            self.shutdown.calls_end = end;
        }
        if let Some(end) = end {
            self.timers.arm_at_latest(EndingTimer::Step, end);
        }
    }

    /// When this step ends at the latest, unless the deadline decides that.
    fn end_of(&self, step: StopStep, cx: &Context) -> Option<Moment> {
        let plan = self.shutdown.plan?;
        match step {
            StopStep::NotYet | StopStep::Over => None,
            StopStep::Cancel => Some(plan.cancel),
            StopStep::Ask => (self.phase == Phase::Stop).then_some(plan.cancel),
            StopStep::BeforeKill => Some(plan.leave_before_kill(cx.now)),
            StopStep::Kill => Some(plan.reaped(cx.now)),
            StopStep::Report => Some(plan.report),
            StopStep::FinalHeartbeat => Some(plan.final_heartbeat(self.is_end_game(), cx.now)),
            StopStep::Deregister if cx.facts.is_registering => Some(plan.undo(cx.now)),
            StopStep::Deregister => Some(plan.deregister(self.is_end_game(), cx.now)),
            StopStep::BeforeExit => Some(plan.leave_before_exit(cx.now)),
        }
    }

    /// Whether no job was cut off, so that the last heartbeat and the deregistration have more time
    /// than they may use.
    fn is_end_game(&self) -> bool {
        self.phase == Phase::EndGame
    }

    /// How long a handler has to answer its cancel.
    fn cancel_grace(&self, cx: &Context) -> Duration {
        let left = self.shutdown.cancel_grace_left(cx.now);
        left.filter(|_| !self.shutdown.skips_cancel_grace).unwrap_or_default()
    }

    fn begin_report(&mut self, cx: &Context) {
        if let Some(plan) = self.shutdown.plan {
            let checkpoints = plan.checkpoints(cx.now);
            self.timers.arm(EndingTimer::WithoutCheckpoints, checkpoints);
        }
        self.say(Said::Report);
    }

    /// The state of processes that got SIGKILL and still exist.
    pub(crate) fn still_there(&self, now: Moment) -> StillThere {
        let waited = self.shutdown.killed_at.map_or(Duration::ZERO, |at| at.elapsed(now));
        match self.shutdown.exit_by() {
            Some(end) if end < now => StillThere::Overdue(end.elapsed(now)),
            Some(_) | None if waited < REAP_MIN => StillThere::NoTime(waited),
            Some(_) | None => StillThere::Held,
        }
    }

    /// Gives up on outcomes that the backend has not accepted by now. The last heartbeat follows
    /// (GS 5.3).
    fn say_goodbye(&mut self, cx: &Context) {
        self.timers.cancel(EndingTimer::Deadline);
        self.timers.cancel(EndingTimer::WithoutCheckpoints);
        let is_overdue = self.shutdown.exit_by().is_some_and(|end| end < cx.now);
        self.say(Said::GiveUpOnOutcomes(if is_overdue {
            "the time for the shutdown was over before its outcome could be reported"
        } else {
            "the backend did not take its outcome in time"
        }));
        let Some(end) = self.end_of(StopStep::FinalHeartbeat, cx) else {
            return;
        };
        self.shutdown.calls_end = Some(end);
        self.timers
            .arm(EndingTimer::FinalHeartbeat, earlier_heartbeats(end, cx.now));
    }

    /// Sends the last heartbeat, once and only to a backend that knows the worker. Returns whether
    /// it is sent.
    fn send_final_heartbeat(&mut self, cx: &Context) -> bool {
        if !self.shutdown.owes_final_heartbeat() || !cx.facts.is_known {
            return false;
        }
        self.shutdown.has_beaten_last = true;
        self.say(Said::SayLast(match cx.options.final_state {
            FinalState::Terminate | FinalState::Both => WorkerState::Terminate,
            FinalState::Terminated => WorkerState::Terminated,
        }));
        true
    }

    /// Sends the website's state after the specification's, because the last heartbeat was answered
    /// and some backends need that state literally.
    pub(crate) fn last_heartbeat_answered(&mut self, cx: &Context) {
        if cx.options.final_state == FinalState::Both && self.shutdown.takes_terminated() {
            self.say(Said::SayLast(WorkerState::Terminated));
        }
    }

    /// Deregisters every worker, also one that a registration in flight has made known. Returns
    /// whether there is one.
    fn deregister_everybody(&mut self, cx: &Context) -> bool {
        if !cx.facts.owes_farewell {
            return false;
        }
        let is_quick = self.is_end_game();
        let end = self.shutdown.plan.map(|plan| plan.deregister(is_quick, cx.now));
        self.shutdown.calls_end = end;
        if let Some(end) = end {
            self.timers.arm(EndingTimer::Step, end);
        }
        self.say(Said::Deregister);
        true
    }
}
