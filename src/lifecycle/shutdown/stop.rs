//! The end game and the stop phase, step by step. Each step ends when what it waits for has happened, and at the moment
//! of the plan at the latest.

use crate::lifecycle::api::ids::{CallId, Claim, ProcessId};
use crate::lifecycle::api::{
    Call, CancelReason, Effect, Failure, Farewell, FinalState, HeartbeatForm, Moment, Notice, Phase, Reply, StillThere,
    Timer, WorkerState,
};
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::jobs::job::Place;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::phase::Trigger;
use crate::lifecycle::shutdown::steps::{StepTime, StepTrigger, StepVerdict, StopStep, WaitsFor};
use crate::lifecycle::shutdown::steps::{step_verdict, time_of, waits_for};
use crate::lifecycle::shutdown::timeouts::{REAP_MIN, earlier_heartbeats};

impl Lifecycle {
    /// Where somebody has asked again, there is no grace any more.
    pub(super) fn skip_cancel_grace(&mut self, now: Moment) {
        if self.shutdown.skips_cancel_grace() && self.phase == Phase::Stop {
            self.step(StepTrigger::NoGrace, now);
        }
    }

    /// Goes one step on if what this one waits for has happened.
    pub(in crate::lifecycle) fn advance(&mut self, now: Moment) -> bool {
        match self.phase {
            Phase::Drain if self.is_idle() => {
                self.go(Trigger::Drained, self.shutdown.reason(), now);
                true
            }
            Phase::EndGame | Phase::Stop => self.advance_step(now),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::Exited => false,
        }
    }

    /// No job is active, and none is on its way to us.
    pub(in crate::lifecycle) fn is_idle(&self) -> bool {
        self.jobs.is_empty() && !self.is_fetching()
    }

    fn advance_step(&mut self, now: Moment) -> bool {
        self.has_happened(waits_for(self.shutdown.step()), now) && self.step(StepTrigger::Done, now)
    }

    /// Whether that is so by now; what has to be said for it to happen is said.
    fn has_happened(&mut self, awaited: WaitsFor, now: Moment) -> bool {
        match awaited {
            WaitsFor::Nothing => false,
            WaitsFor::Handlers => !self.has_held_jobs(),
            WaitsFor::WorkerGone => self.worker.is_over() && !self.has_held_jobs(),
            WaitsFor::OperatorsGone => self.operators.have_left(),
            WaitsFor::Outcomes => self.is_idle(),
            WaitsFor::HeartbeatAnswered => {
                // The last one shall be the last: those that are on their way come first.
                if self.beats_in_flight() == 0 {
                    self.send_final_heartbeat(now);
                }
                self.beats_in_flight() == 0
                    && !self.is_waiting_for(|purpose| matches!(purpose, Purpose::FinalHeartbeat { .. }))
            }
            WaitsFor::DeregistrationsAnswered => {
                self.deregister_everybody(now);
                !self.is_waiting_for(|purpose| matches!(purpose, Purpose::Deregister(..) | Purpose::Register(_)))
            }
        }
    }

    /// Whether a request is on its way that is for this, and about no single job.
    pub(in crate::lifecycle) fn is_waiting_for(&self, is: impl Fn(&Purpose) -> bool) -> bool {
        self.calls.general().any(|(_, purpose)| is(purpose))
    }

    /// The time of this step is over.
    pub(in crate::lifecycle) fn step_is_over(&mut self, now: Moment) {
        // Not even half of the time was left for it: it goes out all the same.
        self.send_final_heartbeat(now);
        self.step(StepTrigger::TimeOver, now);
    }

    /// Asks the table, and begins the step that it names. Whether there was one.
    pub(super) fn step(&mut self, trigger: StepTrigger, now: Moment) -> bool {
        match step_verdict(self.shutdown.step(), trigger) {
            StepVerdict::Stay(_) => false,
            StepVerdict::Move(step) => {
                self.enter(step, now);
                true
            }
        }
    }

    fn enter(&mut self, step: StopStep, now: Moment) {
        self.shutdown.entered(step);
        match step {
            StopStep::NotYet => {}
            StopStep::BeforeKill | StopStep::BeforeExit => self.show_end(now),
            StopStep::Cancel => self.cancel_jobs(now),
            StopStep::Ask => self.ask_worker_to_end(),
            StopStep::Kill => self.kill_everything(now),
            StopStep::Report => self.report_leftovers(now),
            StopStep::FinalHeartbeat => self.say_goodbye(now),
            StopStep::Deregister => self.deregister_everybody(now),
            StopStep::Over => self.go(Trigger::Done, self.shutdown.reason(), now),
        }
        if let Some(end) = self.end_of(step, now) {
            self.timers.arm(Timer::Step, end);
        }
    }

    /// The plan has changed in the middle of a step: that may only come to an end earlier.
    pub(super) fn follow_plan(&mut self, now: Moment) {
        let end = self.end_of(self.shutdown.step(), now);
        if self.shutdown.has_said_goodbye() {
            self.shutdown.calls_end_by(end);
        }
        if let Some(end) = end {
            self.timers.arm_at_latest(Timer::Step, end);
        }
    }

    /// When this step ends at the latest, where that is not the deadline's business.
    fn end_of(&self, step: StopStep, now: Moment) -> Option<Moment> {
        let plan = self.shutdown.plan()?;
        match time_of(step) {
            StepTime::None => None,
            StepTime::CancelGrace => Some(plan.cancel()),
            StepTime::DeadlineOrCancelGrace => (self.phase == Phase::Stop).then_some(plan.cancel()),
            StepTime::LeaveBeforeKill => Some(plan.leave_before_kill(now)),
            StepTime::Kill => Some(plan.reaped(now)),
            StepTime::Report => Some(plan.report()),
            StepTime::Heartbeat => Some(plan.final_heartbeat(self.is_in_good_order(), now)),
            StepTime::Deregister if self.is_waiting_for(|purpose| matches!(purpose, Purpose::Register(_))) => {
                Some(plan.undo(now))
            }
            StepTime::Deregister => Some(plan.deregister(self.is_in_good_order(), now)),
            StepTime::LeaveBeforeExit => Some(plan.leave_before_exit(now)),
        }
    }

    /// Nothing was cut off: the last words have more time than they may take.
    fn is_in_good_order(&self) -> bool {
        self.phase == Phase::EndGame
    }

    /// Each handler may still answer.
    fn cancel_jobs(&mut self, now: Moment) {
        let left = self.shutdown.cancel_grace_left(now);
        let grace = left.filter(|_| !self.shutdown.skips_cancel_grace()).unwrap_or_default();
        let held: Vec<Claim> = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.place, Place::Held(_)))
            .map(|(claim, _)| claim)
            .collect();
        let hears_nothing = |claim: &Claim| {
            let holder = self.jobs.get(*claim).and_then(|job| job.holder());
            holder.is_some_and(|holder| !self.holders.hears(holder))
        };
        if held.iter().any(hears_nothing) {
            // That is all that such a one can be told.
            self.ask_worker_to_end();
        }
        for claim in held {
            self.cancel(claim, CancelReason::Shutdown, grace, now);
        }
    }

    fn kill_everything(&mut self, now: Moment) {
        self.timers.cancel(Timer::KillDescendants);
        self.timers.cancel(Timer::GiveUpOnDescendants);
        self.notify(Notice::Killing);
        self.shutdown.killed(now);
        self.order(Effect::KillEverything);
        let holders: Vec<ProcessId> = self
            .holders
            .with_jobs(&self.jobs)
            .map(|(_, holder)| holder.process)
            .collect();
        for process in holders {
            self.kill_process(process);
        }
        // Whoever is reaped next may have left children.
        self.timers.arm_at_latest(Timer::Rescan, now);
    }

    /// Everybody who could have answered has, or is gone; or the kernel holds the process, and its job may still be
    /// worked on.
    fn report_leftovers(&mut self, now: Moment) {
        self.timers.cancel(Timer::Rescan);
        if let Some(plan) = self.shutdown.plan() {
            self.timers.arm(Timer::WithoutCheckpoints, plan.checkpoints(now));
        }
        if self.worker.is_clearing() {
            self.give_up_on_descendants(now);
        } else if self.has_held_jobs() || !self.worker.is_over() {
            self.give_up_on_the_killed(now);
        }
        self.hurry_reports(now);
        self.hurry_looks(now);
        // What hangs since before has less time from now on.
        self.look_for_hanging(now);
    }

    /// Nobody waits any longer for processes that got SIGKILL; what is said of them is what is known.
    pub(in crate::lifecycle) fn give_up_on_the_killed(&mut self, now: Moment) {
        let waited = self.shutdown.since_kill(now);
        let still_there = match self.shutdown.exit_by() {
            Some(end) if end < now => StillThere::Overdue(end.elapsed(now)),
            Some(_) | None if waited < REAP_MIN => StillThere::NoTime(waited),
            Some(_) | None => StillThere::Held,
        };
        self.notify(Notice::KillGaveUp(still_there));
        self.abandon_held(still_there.why_left());
    }

    pub(super) fn abandon_held(&mut self, why: &'static str) {
        let held: Vec<Claim> = self
            .holders
            .with_jobs(&self.jobs)
            .filter(|(_, holder)| {
                let is_gone = self.holders.is_gone(holder.process);
                // What the worker's own process held, a descendant that is left may be working on.
                let is_with_descendants = self.worker.process() == Some(holder.process);
                !(is_gone && holder.is_closed) || is_with_descendants
            })
            .flat_map(|(id, _)| self.jobs.held_by(id).iter().copied())
            .collect();
        for claim in held {
            let is_lost = self.jobs.get(claim).is_some_and(|job| job.is_lost);
            if self.phase == Phase::Stop && !is_lost {
                self.count_cut_off(claim);
            }
            self.let_reservation_expire(claim, why);
        }
    }

    /// What the backend has not taken by now it will not hear of any more; then the last heartbeat (GS 5.3).
    fn say_goodbye(&mut self, now: Moment) {
        for timer in [
            Timer::Deadline,
            Timer::Heartbeat,
            Timer::Rescan,
            Timer::WithoutCheckpoints,
        ] {
            self.timers.cancel(timer);
        }
        self.give_up_on_outcomes(now);
        let Some(end) = self.end_of(StopStep::FinalHeartbeat, now) else {
            return;
        };
        self.shutdown.calls_end_by(Some(end));
        self.timers.arm(Timer::FinalHeartbeat, earlier_heartbeats(end, now));
    }

    /// Once, and only to a backend that has heard of us.
    pub(in crate::lifecycle) fn send_final_heartbeat(&mut self, now: Moment) {
        if !self.shutdown.owes_final_heartbeat() || !self.agent.is_known() {
            return;
        }
        self.shutdown.final_heartbeat_sent();
        self.say_last(
            match self.options.final_state {
                FinalState::Terminate | FinalState::Both => WorkerState::Terminate,
                FinalState::Terminated => WorkerState::Terminated,
            },
            now,
        );
    }

    fn say_last(&mut self, state: WorkerState, now: Moment) {
        if let Some(call) = self.last_heartbeat(state, now) {
            let form = self.agent.heartbeats.form();
            self.call(
                call,
                Purpose::FinalHeartbeat { state, form },
                self.options.request_timeout,
                now,
            );
        }
    }

    /// The last heartbeat, which names nobody.
    pub(in crate::lifecycle) fn last_heartbeat(&self, state: WorkerState, now: Moment) -> Option<Call> {
        let worker = self.agent.worker().cloned()?;
        Some(self.heartbeat(worker, state, &[], now))
    }

    fn give_up_on_outcomes(&mut self, now: Moment) {
        let is_overdue = self.shutdown.exit_by().is_some_and(|end| end < now);
        let why = if is_overdue {
            "the time for the shutdown was over before its outcome could be reported"
        } else {
            "the backend did not take its outcome in time"
        };
        if self.is_fetching() {
            self.notify(Notice::FetchAbandoned);
            let is_fetch = |(_, purpose): &(_, &Purpose)| matches!(purpose, Purpose::Fetch(..));
            let fetches: Vec<CallId> = self.calls.general().filter(is_fetch).map(|(call, _)| call).collect();
            for call in fetches {
                self.calls.remove(&call);
            }
        }
        let left: Vec<(Claim, bool)> = self
            .jobs
            .iter()
            .map(|(claim, job)| {
                let is_ack = matches!(&job.place, Place::Reporting(report) if report.what.is_ack());
                (claim, is_ack)
            })
            .collect();
        for (claim, is_ack) in left {
            if is_ack {
                self.shutdown.ack_unreported();
            }
            self.let_reservation_expire(claim, why);
        }
    }

    pub(in crate::lifecycle) fn final_heartbeat_replied(
        &mut self,
        state: WorkerState,
        form: HeartbeatForm,
        reply: &Reply,
        now: Moment,
    ) {
        let has_time = self.shutdown.is_saying_goodbye();
        // An end that comes before the first answer to a heartbeat meets a backend whose form is not known yet.
        if *reply == Reply::Failed(Failure::Refused) && has_time && self.form_refused(form) {
            return self.say_last(state, now);
        }
        self.note_failure("final heartbeat", reply);
        // A worker that was being started when the end came may be there by now, under a name that the backend never heard.
        let is_answered = matches!(reply, Reply::HeartbeatOk { .. }) && has_time && self.agent.is_known();
        // The website's word after the specification's, for a backend that wants it literally.
        if is_answered && self.options.final_state == FinalState::Both && self.shutdown.takes_terminated() {
            self.say_last(WorkerState::Terminated, now);
        }
    }

    /// Also whom a registration that was in flight has made known meanwhile.
    fn deregister_everybody(&mut self, now: Moment) {
        let known = self.agent.take_registered();
        if known.is_empty() {
            return;
        }
        self.abandon_heartbeats();
        let is_quick = self.is_in_good_order();
        let end = self.shutdown.plan().map(|plan| plan.deregister(is_quick, now));
        self.shutdown.calls_end_by(end);
        if let Some(end) = end {
            self.timers.arm(Timer::Step, end);
        }
        for worker in known {
            self.deregister(worker, Farewell::Full, now);
        }
    }
}
