//! What a worker says, and whether it is still there.

use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, HolderId, JobId, ProcessId, Text};
use crate::lifecycle::api::{
    Effect, EndCause, ErrorCode, FromWorker, Manners, Moment, Notice, Outcome, Phase, Ready, Timer, ToWorker,
};
use crate::lifecycle::backend::link::Link;
use crate::lifecycle::jobs::job::Place;
use crate::lifecycle::jobs::stages::ReportStage;
use crate::lifecycle::machine::Lifecycle;
use crate::signal::Signal;

/// Malformed frames in a row that end the conversation.
const MALFORMED_LIMIT: u8 = 3;

/// Silence after which a holder is asked whether it is there.
const PING_AFTER: Duration = Duration::from_secs(10);

/// Pings without an answer that make a holder unresponsive.
const PING_LIMIT: u8 = 3;

/// How long a process may take to end by itself after it has closed a connection on which it holds jobs.
const HANG_UP_LEEWAY: Duration = Duration::from_millis(250);

/// Why a holder is let go that comes between two workers.
const NO_WORKER: &str = "nobody may connect while no worker runs";

/// How long a holder may leave a job unread that was written to it.
const STALL_LIMIT: Duration = Duration::from_secs(30);

impl Lifecycle {
    pub(in crate::lifecycle) fn holder_came(
        &mut self,
        holder: HolderId,
        process: Option<ProcessId>,
        manners: Manners,
        now: Moment,
    ) {
        let is_of_unknown_process = process.is_none();
        let of_the_worker = self.worker.process().filter(|_| self.worker.is_alive());
        let Some(process) = process.or(of_the_worker) else {
            return self.order(Effect::Close(holder, NO_WORKER));
        };
        self.holders.add(holder, process, manners);
        self.holders
            .change(holder, |holder| holder.is_of_unknown_process = is_of_unknown_process);
        let is_kept = self.suspects.turn.is_some_and(|turn| turn.process == process);
        self.holders.change(holder, |holder| holder.is_kept = is_kept);
        match self.link.agent().worker().cloned() {
            Some(worker) => {
                let state = self.state();
                self.tell(holder, ToWorker::Hello { worker, state });
            }
            // Somebody else, while there is no worker.
            None => self.give_up(holder, NO_WORKER, now),
        }
    }

    pub(in crate::lifecycle) fn said(&mut self, id: HolderId, said: FromWorker, now: Moment) {
        let is_garbage = matches!(said, FromWorker::Garbage { .. });
        let is_there = self.holders.change(id, |holder| {
            holder.pings = 0;
            holder.last_said = holder.is_known_by_words_alone().then_some(now);
            holder.malformed = if is_garbage { holder.malformed } else { 0 };
        });
        if is_there.is_none() {
            return;
        }
        match said {
            FromWorker::Ready(ready) => self.ready(id, ready, now),
            FromWorker::Ack { job, result } => self.answered(id, &job, Outcome::Acked { result }, now),
            FromWorker::Fail { job, error } => self.answered(id, &job, Outcome::Failed { error }, now),
            FromWorker::Release { job, reason, after } => {
                let reason = reason.unwrap_or_else(|| "released by the worker".into());
                self.answered(id, &job, Outcome::Requeued { reason, after }, now);
            }
            FromWorker::Progress { job, progress } => {
                if let Some(claim) = self.held_by(id, &job) {
                    self.progress(claim, progress, now);
                }
            }
            FromWorker::Checkpoint { job, state } => {
                if let Some(claim) = self.held_by(id, &job) {
                    self.checkpoint(claim, state, now);
                }
            }
            FromWorker::Heartbeat { job } => {
                if self.held_by(id, &job).is_some() {
                    self.link(now, Link::heartbeat_for_worker);
                }
            }
            FromWorker::Pong { .. } => {}
            FromWorker::Wants(wants) => self.wants(id, wants, now),
            FromWorker::WantsNoMore { pull } => self.wants_no_more(id, pull, now),
            FromWorker::Beats { jobs } => self.beats(id, jobs, now),
            FromWorker::Garbage { code, message, job } => self.garbage(id, code, &message, job, now),
        }
        self.expect_life(id, now);
    }

    /// A part of a frame shows that a holder is alive. A pong cannot overtake the frame that is being sent.
    pub(in crate::lifecycle) fn is_alive(&mut self, id: HolderId, now: Moment) {
        let is_there = self.holders.change(id, |holder| {
            holder.pings = 0;
            holder.last_said = holder.is_known_by_words_alone().then_some(now);
        });
        if is_there.is_some() {
            self.expect_life(id, now);
        }
    }

    fn ready(&mut self, id: HolderId, ready: Ready, now: Moment) {
        let notice = Notice::HolderReady {
            holder: id,
            concurrency: ready.concurrency,
            client: ready.client.clone(),
        };
        let Some((is_news, is_first)) = self.holders.is_ready(id, ready) else {
            return;
        };
        if is_news {
            self.capacity_is_said(notice, is_first, now);
        }
        self.timers.cancel(Timer::Ready);
        self.wait_anew_for_types(now);
        self.worker.said_ready(now);
        self.end_if_a_handler_is_stuck(id, now);
    }

    /// The claim on this job that this holder has; tells it when it holds none.
    fn held_by(&mut self, id: HolderId, job: &JobId) -> Option<Claim> {
        let held = self
            .jobs
            .claims_of(job)
            .find(|claim| self.jobs.get(*claim).and_then(|job| job.holder()) == Some(id));
        if held.is_none() {
            let message = "this connection does not hold that job; it was answered already, or never given to it";
            self.refuse(id, ErrorCode::NotHeld, message, Some(job.clone()));
        }
        held
    }

    /// The one answer to a job.
    fn answered(&mut self, id: HolderId, job: &JobId, what: Outcome, now: Moment) {
        if self.answer_limit(id).is_some() {
            self.outcome_is_told(id, job, what, now);
            return self.end_if_a_handler_is_stuck(id, now);
        }
        if self.answered_differently(id, job, &what, now) {
            return;
        }
        let Some(claim) = self.held_by(id, job) else { return };
        if self.jobs.get(claim).is_some_and(|job| job.is_lost) {
            self.finish(claim);
            let message = "the reservation was lost; the backend takes no outcome from us";
            self.refuse(id, ErrorCode::Lost, message, Some(job.clone()));
        } else {
            self.decide(claim, what, Some(id), false, now);
        }
        // A holder that pauses gets no slot back by its answer.
        self.end_if_a_handler_is_stuck(id, now);
    }

    /// Whether this is another answer to a job whose result the backend does not take.
    fn answered_differently(&mut self, id: HolderId, job: &JobId, what: &Outcome, now: Moment) -> bool {
        let refused = self.jobs.claims_of(job).find(|claim| {
            self.jobs.get(*claim).is_some_and(|job| {
                matches!(&job.place, Place::Reporting(report)
                    if report.step == ReportStage::ResultRefused && report.listener == Some(id))
            })
        });
        let Some(claim) = refused else { return false };
        self.decide(claim, what.clone(), Some(id), false, now);
        true
    }

    fn garbage(&mut self, id: HolderId, code: ErrorCode, message: &Text, job: Option<JobId>, now: Moment) {
        self.refuse(id, code, message, job);
        let malformed = self.holders.change(id, |holder| {
            if code.is_malformed() && holder.manners.frame_limit.is_some() {
                holder.malformed = holder.malformed.saturating_add(1);
            }
            holder.malformed
        });
        if malformed == Some(MALFORMED_LIMIT) {
            self.give_up(id, "three malformed frames in a row", now);
        }
    }

    /// Lets a holder go, from our side.
    fn give_up(&mut self, id: HolderId, why: &'static str, now: Moment) {
        if let Some(holder) = self.holders.get(id)
            && !holder.is_closed
        {
            let (was_ready, process) = (holder.takes_jobs(), holder.process);
            self.holders.change(id, |holder| holder.is_given_up = true);
            self.forget_pulls(id);
            self.order(Effect::Close(id, why));
            if was_ready {
                self.capacity_is_lost(id, process, now);
            }
        }
    }

    pub(super) fn close_all_holders(&mut self, now: Moment) {
        let open: Vec<HolderId> = self.holders.iter().map(|(id, _)| id).collect();
        for holder in open {
            self.give_up(holder, "the worker that it belongs to is over", now);
        }
    }

    /// Arms the next question whether a holder is there.
    fn expect_life(&mut self, id: HolderId, now: Moment) {
        if let Some(holder) = self.holders.get(id)
            && holder.manners.answers_pings
            && holder.ready.is_some()
            && !holder.is_closed
            && !holder.is_given_up
        {
            self.timers.arm(Timer::Ping(id), now.after(PING_AFTER));
        }
    }

    pub(in crate::lifecycle) fn ping(&mut self, id: HolderId, now: Moment) {
        let Some(holder) = self.holders.get(id) else { return };
        let pings = holder.pings;
        if !holder.answers_pings_now() {
            // It works and need not listen meanwhile.
            self.holders.change(id, |holder| holder.pings = 0);
        } else if pings == PING_LIMIT {
            let process = holder.process;
            self.end_process(process, EndCause::Silent, now);
            return;
        } else {
            self.holders.change(id, |holder| holder.pings = pings + 1);
            let number = u64::from(pings) + 1;
            self.tell(id, ToWorker::Ping { id: number });
        }
        self.expect_life(id, now);
    }

    pub(in crate::lifecycle) fn outbound(&mut self, id: HolderId, is_busy: bool, now: Moment) {
        let hears = self.holders.change(id, |holder| {
            holder.is_busy = is_busy;
            holder.has_unread_job &= is_busy;
            holder.manners.hears
        });
        let Some(hears) = hears else { return };
        if is_busy && hears {
            self.timers.arm_at_latest(Timer::Stalled(id), now.after(STALL_LIMIT));
        } else {
            self.timers.cancel(Timer::Stalled(id));
        }
    }

    /// While nothing is read from it nobody can tell whether it works.
    pub(in crate::lifecycle) fn reading_paused(&mut self, id: HolderId, is_reading_paused: bool, now: Moment) {
        let hears = self.holders.change(id, |holder| {
            holder.is_reading_paused = is_reading_paused;
            holder.manners.hears
        });
        if is_reading_paused && hears == Some(true) {
            self.timers.arm(Timer::Stalled(id), now.after(STALL_LIMIT));
        }
    }

    /// It has not read what was written to it. One that works on a job may do that without reading; one that has
    /// nothing else to do may not, nor one whose answers we do not read before it does.
    pub(in crate::lifecycle) fn stalled(&mut self, id: HolderId, now: Moment) {
        let Some(holder) = self.holders.get(id) else { return };
        let works = !holder.is_reading_paused
            && holder.held() > usize::from(holder.has_unread_job)
            && !holder.ready.as_ref().is_some_and(|ready| ready.ping);
        if works {
            self.timers.arm(Timer::Stalled(id), now.after(STALL_LIMIT));
        } else {
            let process = holder.process;
            self.end_process(process, EndCause::Deaf, now);
        }
    }

    pub(in crate::lifecycle) fn hung_up(&mut self, id: HolderId, now: Moment) {
        self.timers.cancel(Timer::Ping(id));
        self.timers.cancel(Timer::Stalled(id));
        self.timers.cancel(Timer::CancelSignal(id));
        let Some(holder) = self.holders.get(id) else { return };
        let (was_ready, holds_none, process) = (holder.takes_jobs(), holder.held() == 0, holder.process);
        // What such a one closes says nothing about its process.
        let waits_for_answers = holder.manners.answer_within;
        self.holders.change(id, |holder| holder.is_closed = true);
        self.forget_pulls(id);
        if was_ready {
            self.capacity_is_lost(id, process, now);
        }
        if holds_none {
            self.holders.forget(id);
        } else if !self.holders.is_gone(process) && waits_for_answers.is_none() {
            // Most often it is on its way out: then its own status counts, not that of our SIGTERM.
            self.timers
                .arm_at_latest(Timer::HungUp(process), now.after(HANG_UP_LEEWAY));
        }
        self.end_process_if_stuck(process, now);
        if self.holders.ready() == 0 && self.worker.is_alive() && !self.phase().is_terminating() {
            self.timers
                .arm_at_latest(Timer::Ready, now.after(self.options.ready_timeout));
        }
    }

    pub(in crate::lifecycle) fn lingered_after_hang_up(&mut self, process: ProcessId, now: Moment) {
        self.end_process(process, EndCause::Disconnected, now);
    }

    /// Asks a process to end, and sees to it. A stopped one is woken up for that.
    pub(in crate::lifecycle) fn end_process(&mut self, id: ProcessId, cause: EndCause, now: Moment) {
        let jobs = self.holders.jobs_of(id);
        let Some(process) = self.holders.process_mut(id) else {
            return;
        };
        if process.ending.is_some() || process.is_gone() {
            return;
        }
        process.ending = Some(cause.clone());
        self.give_up_on(id, now);
        self.blame(id, &cause, now);
        self.notify(Notice::EndingProcess {
            process: id,
            cause,
            jobs,
        });
        self.order(Effect::SignalProcess(id, Signal::TERM));
        self.order(Effect::SignalProcess(id, Signal::CONT));
        self.timers
            .arm(Timer::KillProcess(id), now.after(self.options.cancel_grace));
    }

    pub(in crate::lifecycle) fn kill_process(&mut self, id: ProcessId) {
        if self.holders.process(id).is_some_and(|process| !process.is_gone()) {
            self.order(Effect::SignalProcess(id, Signal::KILL));
            self.holders.forget_process(id);
        }
    }

    /// A process gets no more jobs: none of its holders does.
    fn give_up_on(&mut self, id: ProcessId, now: Moment) {
        let ready = self.holders.of(id).filter(|(_, holder)| holder.takes_jobs());
        let ready: Vec<HolderId> = ready.map(|(holder, _)| holder).collect();
        self.holders.give_up_on(id);
        for holder in ready {
            self.end_pulls_of(holder);
            self.capacity_is_lost(holder, id, now);
        }
    }

    /// It is gone: whatever it had written is there to be read now.
    pub(in crate::lifecycle) fn process_gone(&mut self, id: ProcessId, now: Moment) {
        self.timers.cancel(Timer::KillProcess(id));
        self.timers.cancel(Timer::HungUp(id));
        if self.holders.process(id).is_none() {
            return;
        }
        self.holders.process_is_gone(id);
        self.give_up_on(id, now);
        let open: Vec<HolderId> = self
            .holders
            .of(id)
            .filter(|(_, holder)| !holder.is_closed)
            .map(|(id, _)| id)
            .collect();
        for holder in open {
            self.timers.cancel(Timer::CancelSignal(holder));
            self.order(Effect::ReadToEnd(holder));
        }
        self.holders.forget_process(id);
    }

    /// Whether this is the worker's own process, which has not been reaped yet: its descendants are not ended yet.
    pub(super) fn is_the_running_worker(&self, process: ProcessId) -> bool {
        self.worker.process() == Some(process)
    }

    /// Whether jobs are with processes that may still work on them.
    pub(in crate::lifecycle) fn has_held_jobs(&self) -> bool {
        self.jobs.holders().next().is_some()
    }

    /// Whether new jobs may be given out: not once the worker ended, since whoever it left behind is being ended too.
    pub(in crate::lifecycle) fn is_taking_jobs(&self) -> bool {
        self.phase() == Phase::Running && self.worker.is_alive()
    }
}
