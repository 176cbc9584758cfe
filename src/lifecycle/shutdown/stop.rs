//! The end game and the stop phase, step by step. Each step ends when what it waits for has happened, and at the moment
//! of the plan at the latest.

use std::time::Duration;

use crate::lifecycle::api::call::{Failure, Reply};
use crate::lifecycle::api::effect::Effect;
use crate::lifecycle::api::forms::{Farewell, HeartbeatForm};
use crate::lifecycle::api::ids::{Claim, ProcessId};
use crate::lifecycle::api::notice::Notice;
use crate::lifecycle::api::options::FinalState;
use crate::lifecycle::api::phase::Phase;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::api::timer::Timer;
use crate::lifecycle::api::words::{CancelReason, WorkerState};
use crate::lifecycle::api::worker_end::StillThere;
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::jobs::job::{Place, What};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::clock::StopStep;
use crate::lifecycle::shutdown::phase::Trigger;

/// Longest that each of the two last words may take when there is time: an exit in good order shall be quick too.
const LAST_WORD: Duration = Duration::from_secs(2);

/// How long the SIGKILL, and then the exit, wait for those on the control socket who have their answer and are about to
/// leave: as PID 1 either ends them as well.
const OPERATOR_LEAVE_LIMIT: Duration = Duration::from_millis(100);

/// How long those who got the SIGKILL have at least to be gone, when half of what is left for the reports is as much.
const REAP_MIN: Duration = Duration::from_millis(200);

/// Of the time that the SIGKILL and the reaping have, they get at most one part in so many.
const OPERATOR_LEAVE_SHARE: u32 = 5;

/// Longest wait for the answer to a registration that is to be undone.
const UNDO_WITHIN: Duration = Duration::from_secs(1);

impl Lifecycle {
    pub(super) fn begin_end_game(&mut self, now: Moment) {
        self.timers.cancel(Timer::DrainLog);
        if self.worker.is_alive() {
            self.notify(Notice::Drained);
        }
        self.enter(StopStep::Ask, now);
    }

    pub(super) fn begin_stop(&mut self, from: Phase, now: Moment) {
        for timer in [Timer::Deadline, Timer::DelayOver, Timer::DrainLog] {
            self.timers.cancel(timer);
        }
        self.plan_stop(now);
        if self.shutdown.has_said_goodbye() {
            // The last words are being said: whoever forces the end gets it no later for that.
            return self.follow_plan(now);
        }
        let held = self.holders.iter().map(|(_, holder)| holder.held.len());
        self.notify(Notice::StopBegan {
            held: held.sum(),
            forced: self.shutdown.forced,
        });
        self.account_for_stop(now);
        if matches!(from, Phase::Running | Phase::Quiet | Phase::Delay) {
            self.signal_worker_if_set(self.options.signals.on_terminate);
            self.announce(self.shutdown.reason, Some(Duration::ZERO), now);
        }
        match from {
            // It was asked to end already, and has what is left of the grace: its exit handlers may be running.
            Phase::EndGame if self.shutdown.forced.is_none() => self.await_end(now),
            Phase::EndGame => self.enter(StopStep::BeforeKill, now),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::Stop | Phase::Exited => {
                self.enter(StopStep::Cancel, now);
                self.skip_cancel_grace(now);
            }
        }
    }

    /// No job is left and the worker knows that it is to end.
    fn await_end(&mut self, now: Moment) {
        self.shutdown.step = StopStep::Ask;
        if let Some(end) = self.end_of(StopStep::Ask, now) {
            self.timers.arm(Timer::Step, end);
        }
    }

    /// A second signal: no grace any more.
    pub(super) fn skip_cancel_grace(&mut self, now: Moment) {
        if self.shutdown.skips_cancel_grace
            && matches!(self.shutdown.step, StopStep::Cancel | StopStep::Ask)
            && self.phase == Phase::Stop
        {
            self.enter(StopStep::BeforeKill, now);
        }
    }

    /// Goes one step on if what this one waits for has happened.
    pub(in crate::lifecycle) fn advance(&mut self, now: Moment) -> bool {
        match self.phase {
            Phase::Drain if self.is_idle() => {
                self.go(Trigger::Drained, self.shutdown.reason, now);
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
        let is_done = match self.shutdown.step {
            StopStep::Cancel => !self.has_held_jobs(),
            StopStep::Ask | StopStep::Kill => self.worker.is_over() && !self.has_held_jobs(),
            StopStep::Report => self.is_idle(),
            StopStep::BeforeKill | StopStep::BeforeExit => self.operators.have_left(),
            StopStep::FinalHeartbeat => {
                // The last one shall be the last: those that are on their way come first.
                if self.beats_in_flight() == 0 {
                    self.send_final_heartbeat(now);
                }
                self.beats_in_flight() == 0
                    && !self.is_waiting_for(|purpose| matches!(purpose, Purpose::FinalHeartbeat { .. }))
            }
            StopStep::Deregister => {
                self.deregister_everybody(now);
                !self.is_waiting_for(|purpose| matches!(purpose, Purpose::Deregister(..) | Purpose::Register(_)))
            }
            StopStep::NotYet | StopStep::Over => false,
        };
        if is_done {
            let next = self.step_after(self.shutdown.step);
            self.enter(next, now);
        }
        is_done
    }

    pub(in crate::lifecycle) fn is_waiting_for(&self, is: impl Fn(&Purpose) -> bool) -> bool {
        self.calls.values().any(is)
    }

    fn step_after(&self, step: StopStep) -> StopStep {
        match step {
            StopStep::NotYet | StopStep::Cancel => StopStep::Ask,
            StopStep::Ask if self.phase == Phase::EndGame => StopStep::FinalHeartbeat,
            StopStep::BeforeKill => StopStep::Kill,
            StopStep::Ask | StopStep::Kill => StopStep::Report,
            StopStep::Report => StopStep::FinalHeartbeat,
            StopStep::FinalHeartbeat => StopStep::Deregister,
            StopStep::Deregister => StopStep::BeforeExit,
            StopStep::BeforeExit | StopStep::Over => StopStep::Over,
        }
    }

    /// The time of this step is over.
    pub(in crate::lifecycle) fn step_is_over(&mut self, now: Moment) {
        // Not even half of the time was left for it: it goes out all the same.
        self.send_final_heartbeat(now);
        let next = match self.shutdown.step {
            StopStep::Cancel | StopStep::Ask => StopStep::BeforeKill,
            other @ (StopStep::NotYet
            | StopStep::BeforeKill
            | StopStep::Kill
            | StopStep::Report
            | StopStep::FinalHeartbeat
            | StopStep::Deregister
            | StopStep::BeforeExit
            | StopStep::Over) => self.step_after(other),
        };
        self.enter(next, now);
    }

    fn enter(&mut self, step: StopStep, now: Moment) {
        self.shutdown.step = step;
        match step {
            StopStep::NotYet => {}
            StopStep::BeforeKill | StopStep::BeforeExit => self.show_end(now),
            StopStep::Cancel => self.cancel_jobs(now),
            StopStep::Ask => self.ask_worker_to_end(),
            StopStep::Kill => self.kill_everything(now),
            StopStep::Report => self.report_leftovers(now),
            StopStep::FinalHeartbeat => self.say_goodbye(now),
            StopStep::Deregister => self.deregister_everybody(now),
            StopStep::Over => self.go(Trigger::Done, self.shutdown.reason, now),
        }
        if let Some(end) = self.end_of(step, now) {
            self.timers.arm(Timer::Step, end);
        }
    }

    /// The plan has changed in the middle of a step: that may only come to an end earlier.
    pub(super) fn follow_plan(&mut self, now: Moment) {
        let step = match self.shutdown.step {
            // It has no time of its own.
            StopStep::Ask => StopStep::Cancel,
            other @ (StopStep::NotYet
            | StopStep::Cancel
            | StopStep::BeforeKill
            | StopStep::Kill
            | StopStep::Report
            | StopStep::FinalHeartbeat
            | StopStep::Deregister
            | StopStep::BeforeExit
            | StopStep::Over) => other,
        };
        let end = self.end_of(step, now);
        if self.shutdown.has_said_goodbye() {
            self.shutdown.calls_end = end;
        }
        if let Some(end) = end {
            self.timers.arm_at_latest(Timer::Step, end);
        }
    }

    /// When this step ends at the latest, where it has an end of its own.
    fn end_of(&self, step: StopStep, now: Moment) -> Option<Moment> {
        let plan = self.shutdown.plan?;
        match step {
            StopStep::NotYet | StopStep::Over => None,
            // In the end game that is the deadline.
            StopStep::Ask => (self.phase == Phase::Stop).then_some(plan.cancel),
            StopStep::Cancel => Some(plan.cancel),
            StopStep::BeforeKill => {
                let share = plan.kill.remaining(now) / OPERATOR_LEAVE_SHARE;
                Some(now.after(OPERATOR_LEAVE_LIMIT.min(share)))
            }
            StopStep::Kill => {
                // Where the SIGKILL itself came late, what is killed has some time to be gone all the same: a job whose
                // process is not known to be gone gets no FAIL.
                let least = REAP_MIN.min(plan.report.remaining(now) / 2);
                Some(plan.kill.max(now.after(least)))
            }
            StopStep::Report => Some(plan.report),
            StopStep::FinalHeartbeat => Some(self.end_of_word(plan.heartbeat, now)),
            StopStep::Deregister if self.is_waiting_for(|purpose| matches!(purpose, Purpose::Register(_))) => {
                Some(plan.deregister.min(now.after(UNDO_WITHIN)))
            }
            StopStep::Deregister => Some(self.end_of_word(plan.deregister, now)),
            StopStep::BeforeExit => Some(plan.deregister.min(now.after(OPERATOR_LEAVE_LIMIT))),
        }
    }

    /// When one of the two last words ends that the plan gives until `end`.
    fn end_of_word(&self, end: Moment, now: Moment) -> Moment {
        match self.phase {
            Phase::EndGame => end.min(now.after(LAST_WORD)),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::Stop | Phase::Exited => end,
        }
    }

    /// Each handler may still answer.
    fn cancel_jobs(&mut self, now: Moment) {
        let grace = if self.shutdown.skips_cancel_grace {
            Duration::ZERO
        } else {
            self.shutdown
                .plan
                .map_or(Duration::ZERO, |plan| plan.cancel.remaining(now))
        };
        let held: Vec<Claim> = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.place, Place::Held(_)))
            .map(|(claim, _)| claim)
            .collect();
        for claim in held {
            self.cancel(claim, CancelReason::Shutdown, grace, now);
        }
    }

    fn kill_everything(&mut self, now: Moment) {
        self.timers.cancel(Timer::KillDescendants);
        self.timers.cancel(Timer::GiveUpOnDescendants);
        self.notify(Notice::Killing);
        self.shutdown.killed_at = Some(now);
        self.order(Effect::KillEverything);
        let holders: Vec<ProcessId> = self.holders.with_jobs().map(|holder| holder.process).collect();
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
        if let Some(plan) = self.shutdown.plan {
            // What a handler saved within its cancel grace is for the next attempt: half of the time is for that.
            let half = plan.report.remaining(now) / 2;
            self.timers.arm(Timer::WithoutCheckpoints, now.after(half));
        }
        if self.worker.is_clearing() {
            self.give_up_on_descendants(now);
        } else if self.has_held_jobs() || !self.worker.is_over() {
            self.give_up_on_the_killed(now);
        }
        self.hurry_reports(now);
        self.hurry_looks(now);
    }

    /// Nobody waits any longer for processes that got SIGKILL; what is said of them is what is known.
    pub(in crate::lifecycle) fn give_up_on_the_killed(&mut self, now: Moment) {
        let waited = self.shutdown.killed_at.map_or(Duration::ZERO, |at| at.elapsed(now));
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
            .with_jobs()
            .filter(|holder| {
                let is_gone = self.holders.is_gone(holder.process);
                // What the worker's own process held, a descendant that is left may be working on.
                let is_with_descendants = self.worker.process() == Some(holder.process);
                !(is_gone && holder.is_closed) || is_with_descendants
            })
            .flat_map(|holder| holder.held.iter().copied())
            .collect();
        for claim in held {
            let is_lost = self.jobs.get(claim).is_some_and(|job| job.is_lost);
            if self.phase == Phase::Stop && !is_lost {
                self.count_cut_off(claim);
            }
            self.let_go(claim);
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
        self.shutdown.calls_end = Some(end);
        // One that hangs holds it up for half of the time.
        self.timers
            .arm(Timer::FinalHeartbeat, now.after(end.remaining(now) / 2));
    }

    /// Once, and only to a backend that has heard of us.
    pub(in crate::lifecycle) fn send_final_heartbeat(&mut self, now: Moment) {
        if self.shutdown.step != StopStep::FinalHeartbeat || self.shutdown.has_beaten_last || !self.agent.is_known {
            return;
        }
        self.shutdown.has_beaten_last = true;
        self.say_last(
            match self.options.final_state {
                FinalState::Terminate | FinalState::Both => WorkerState::Terminate,
                FinalState::Terminated => WorkerState::Terminated,
            },
            now,
        );
    }

    fn say_last(&mut self, state: WorkerState, now: Moment) {
        if let Some(worker) = self.agent.worker.clone() {
            let call = self.heartbeat(worker, state, &[], now);
            let form = self.agent.heartbeats.form();
            self.call(
                call,
                Purpose::FinalHeartbeat { state, form },
                self.options.request_timeout,
                now,
            );
        }
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
            self.calls.retain(|_, purpose| !matches!(purpose, Purpose::Fetch(..)));
        }
        let left: Vec<(Claim, bool)> = self
            .jobs
            .iter()
            .map(|(claim, job)| {
                let is_ack = matches!(&job.place, Place::Reporting(report) if matches!(report.what, What::Ack { .. }));
                (claim, is_ack)
            })
            .collect();
        for (claim, is_ack) in left {
            self.shutdown.unreported += usize::from(is_ack);
            self.let_go(claim);
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
        let has_time = self.shutdown.step == StopStep::FinalHeartbeat;
        // An end that comes before the first answer to a heartbeat meets a backend whose form is not known yet.
        if *reply == Reply::Failed(Failure::Refused) && has_time && self.form_refused(form) {
            return self.say_last(state, now);
        }
        self.note_failure("final heartbeat", reply);
        // A worker that was being started when the end came may be there by now, under a name that the backend never heard.
        let is_answered = matches!(reply, Reply::HeartbeatOk { .. }) && has_time && self.agent.is_known;
        // The website's word after the specification's, for a backend that wants it literally.
        if is_answered
            && self.options.final_state == FinalState::Both
            && !std::mem::replace(&mut self.shutdown.has_said_terminated, true)
        {
            self.say_last(WorkerState::Terminated, now);
        }
    }

    /// Also whom a registration that was in flight has made known meanwhile.
    fn deregister_everybody(&mut self, now: Moment) {
        let known = self.take_registered();
        if known.is_empty() {
            return;
        }
        let end = self.shutdown.plan.map(|plan| self.end_of_word(plan.deregister, now));
        self.shutdown.calls_end = end;
        if let Some(end) = end {
            self.timers.arm(Timer::Step, end);
        }
        for worker in known {
            self.deregister(worker, Farewell::Full, now);
        }
    }

    /// Nothing was finished: for the summary.
    fn count_what_is_left(&mut self) {
        for (_, job) in self.jobs.iter() {
            if let Place::Reporting(report) = &job.place {
                self.shutdown.unreported += usize::from(matches!(report.what, What::Ack { .. }));
            }
        }
        self.account_for_abandoning();
    }

    /// The last order of all.
    pub(super) fn exit(&mut self, now: Moment) {
        // Who waits is told; without a way to leave before the SIGKILL where a third signal ends us at once.
        self.answer_waits(now);
        self.timers.clear();
        if self.shutdown.abandoned_with.is_some() {
            self.order(Effect::KillEverything);
            self.count_what_is_left();
        }
        let status = self.exit_status();
        self.account_for_exit(status, now);
        self.order(Effect::Exit(status));
    }
}
