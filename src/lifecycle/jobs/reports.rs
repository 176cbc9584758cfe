//! Outcomes on their way to the backend: each job exactly one, however often the network fails.
//!
//! An ACK may be repeated: a backend that has it already says so. A FAIL or a requeue may not: if the first one was
//! carried out, the job may already run elsewhere, and nobody checks whose job a second one hits. It is repeated only
//! after a look shows that the job is still active and still ours.

use std::time::Duration;

use crate::lifecycle::api::ids::{CallId, Claim, HolderId};
use crate::lifecycle::api::patience::{LONGEST_RETRY_IN_A_DRAIN, LONGEST_RETRY_OF_A_MISSING_JOB, REPORT_HANGS_AFTER};
use crate::lifecycle::api::{About, Call, Failure, JobState, JobView, Moment, Notice, Outcome, Reply, Timer};
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::backend::retry_state::RetryState;
use crate::lifecycle::jobs::brake::{Braked, GivenBackBy};
use crate::lifecycle::jobs::job::{Hold, Job, Place, Question, Report};
use crate::lifecycle::jobs::stages::{AfterFailure, ReportEvent, ReportStage, ReportStep, ReportVerdict};
use crate::lifecycle::jobs::stages::{after_failure, stage_verdict};
use crate::lifecycle::machine::Lifecycle;

/// Most reports on their way at the same time.
const MAX_REPORTS_IN_FLIGHT: usize = 64;

/// Most requests of one ACK on their way at the same time, which is so only at the end.
const MOST_ACKS_AT_ONCE: usize = 4;

impl Lifecycle {
    /// The outcome of a job is decided.
    pub(in crate::lifecycle) fn decide(
        &mut self,
        claim: Claim,
        what: Outcome,
        listener: Option<HolderId>,
        is_surplus: bool,
        now: Moment,
    ) {
        let is_ack = what.is_ack();
        if let Some(job) = self.jobs.get(claim)
            && job.holder().is_some()
        {
            self.suspects.forget(job.id());
        }
        let mut hold = None;
        if let Outcome::Requeued { after, .. } = &what {
            let by = match (listener, is_surplus) {
                (Some(_), _) => GivenBackBy::Worker(*after),
                (None, false) => GivenBackBy::Us,
                (None, true) => GivenBackBy::UsUnstarted,
            };
            let Some(job) = self.jobs.get(claim) else { return };
            let why_not = job.why_not_requeue(self.link.agent().traits());
            let id = job.id().clone();
            let braked = if why_not.is_none() {
                self.brake(claim, by, now)
            } else {
                Braked::default()
            };
            hold = braked.hold;
            if !braked.is_pause_enough {
                self.pause_fetch(now);
                self.link
                    .streams_mut()
                    .hold_until(now.after(self.options.poll_interval));
            }
            if let Some(why) = why_not {
                self.let_reservation_expire(claim, why);
                return self.confirm(listener, id, About::Release, false);
            }
        }
        // A dropped job is on nobody's credit. Once its reservation is over somebody else may have it, whom a FAIL would hit.
        let Some(job) = self.jobs.get(claim) else { return };
        let was_dropped = job.is_dropped;
        let may_be_elsewhere = was_dropped && !is_ack && self.reserved_until(job) <= now;
        self.put_report(claim, what, listener, is_surplus || was_dropped, now);
        if may_be_elsewhere {
            self.look_first(claim, now);
        } else if let Some(hold) = hold {
            self.hold(claim, hold, now);
        }
        self.limit_the_wait(claim, now);
        // A checkpoint that waits to be sent again is for the next attempt of the job: there is one after all but an ACK.
        self.timers.cancel(Timer::Checkpoint(claim));
        if !is_ack {
            self.send_checkpoint(claim, now);
        }
    }

    /// Looks at the job before its outcome goes out, as if that had been sent before.
    pub(super) fn look_first(&mut self, claim: Claim, now: Moment) {
        self.jobs.step(claim, ReportStage::Doubtful);
        self.report_event(claim, ReportEvent::TimerDue, now);
    }

    fn put_report(&mut self, claim: Claim, what: Outcome, listener: Option<HolderId>, is_surplus: bool, now: Moment) {
        self.forget_timers(claim);
        let report = Report {
            is_bare: self.is_bare_at_first(&what, now),
            what,
            step: ReportStage::Due,
            setbacks: RetryState::default(),
            listener,
            is_surplus,
            hold: Hold::No,
            sent: 0,
            question: Question::Done,
            missing: None,
        };
        self.place(claim, Place::Reporting(Box::new(report)));
    }

    /// Clears what only matters while a job waits or is held.
    pub(in crate::lifecycle) fn forget_timers(&mut self, claim: Claim) {
        let timers = [
            Timer::JobTimeout(claim),
            Timer::JobGrace(claim),
            Timer::LostGrace(claim),
            Timer::Silence(claim),
            Timer::NoHandler(claim),
            Timer::WithoutResult(claim),
            Timer::AnswerBy(claim),
            Timer::Report(claim),
            Timer::Progress(claim),
        ];
        for timer in timers {
            self.timers.cancel(timer);
        }
    }

    /// Strikes a job out, for good.
    pub(in crate::lifecycle) fn finish(&mut self, claim: Claim) -> Option<Job> {
        self.forget_timers(claim);
        self.timers.cancel(Timer::Checkpoint(claim));
        self.timers.cancel(Timer::LookAgain(claim));
        let job = self.strike_out(claim);
        if let Some(job) = &job {
            self.checkpoint_is_left(job);
            self.remember_end(job);
        }
        job
    }

    /// Sends what is due, as far as there is room.
    pub(in crate::lifecycle) fn send_reports(&mut self, now: Moment) {
        for _ in 0..self.room_for_reports() {
            let Some(claim) = self.jobs.next_due(self.ending.shutdown().goes_without_checkpoints()) else {
                return;
            };
            self.report_event(claim, ReportEvent::Room, now);
        }
    }

    fn send_report(&mut self, claim: Claim, now: Moment) {
        let Some(call) = self.report_call(claim) else { return };
        self.measure(claim, now);
        let sent = self.call(call, Purpose::Report(claim), self.options.request_timeout, now);
        self.jobs.step(claim, ReportStage::Sent(sent, now));
        self.jobs.report_mut(claim).into_iter().for_each(Report::goes_out);
        self.note_store(claim, now);
        if self.ending.shutdown().is_reporting() {
            self.timers.arm(Timer::Report(claim), now.after(REPORT_HANGS_AFTER));
        }
    }

    /// The request that tells the backend the outcome.
    pub(in crate::lifecycle) fn report_call(&self, claim: Claim) -> Option<Call> {
        let job = self.jobs.get(claim)?;
        let report = job.report()?;
        Some(Call::Report {
            worker: job.worker.clone(),
            job: job.id().clone(),
            outcome: report.what.clone(),
            is_bare: report.is_bare,
        })
    }

    /// How long a worker had the job is told once, with the first request of its outcome.
    pub(super) fn measure(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get_mut(claim) else { return };
        let (subject, took) = (job.subject(), job.worked_for(now));
        if let (Some(handover), Place::Reporting(report)) = (&mut job.handover, &job.place)
            && let Some(took) = took.filter(|_| !handover.is_measured)
        {
            handover.is_measured = true;
            let end = report.what.end();
            self.notify(Notice::OutcomeSent {
                job: subject,
                end,
                took,
            });
        }
    }

    /// When the end is near there is room for as many again: those that hang must not hold up the others.
    fn report_room(&self) -> usize {
        let room = self.most_active().clamp(1, MAX_REPORTS_IN_FLIGHT);
        if self.ending.shutdown().is_reporting() {
            room * 2
        } else {
            room
        }
    }

    /// How many more requests about outcomes may be on their way. Those that a shutdown stopped waiting for do not count.
    pub(super) fn room_for_reports(&self) -> usize {
        self.report_room().saturating_sub(self.link.calls().reports())
    }

    pub(in crate::lifecycle) fn report_replied(&mut self, claim: Claim, call: CallId, reply: Reply, now: Moment) {
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let sent_at = report.step.sent_as(call);
        if reply == Reply::Accepted {
            self.outcome_was_taken(sent_at, now);
            return self.report_event(claim, ReportEvent::Taken, now);
        }
        let failure = reply.failure();
        self.report_event(claim, ReportEvent::Failed { call, failure }, now);
    }

    /// Asks the table, and does what it says.
    pub(in crate::lifecycle) fn report_event(&mut self, claim: Claim, event: ReportEvent, now: Moment) {
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let ReportVerdict::Do(step) = stage_verdict(report.step, event) else {
            return;
        };
        match step {
            ReportStep::Send => self.send_report(claim, now),
            ReportStep::Settle => self.reported(claim, now),
            ReportStep::Weigh { failure, asked_at } => self.report_failed(claim, failure, asked_at, now),
            ReportStep::Repeat => self.pause_is_over(claim, now),
            ReportStep::Look => self.look_before_repeat(claim, now),
            ReportStep::EndPause => self.timers.arm_at_latest(Timer::Report(claim), now),
            ReportStep::Hedge(call, sent_at) => self.hedge_at_the_end(claim, call, sent_at, now),
            ReportStep::DropResult => self.drop_result(claim, now),
        }
    }

    /// The outcome may go out, after a hold or a failed attempt.
    fn pause_is_over(&mut self, claim: Claim, now: Moment) {
        if self.was_held_too_long(claim, now) {
            self.look_first(claim, now);
        } else {
            self.jobs.step(claim, ReportStage::Due);
        }
    }

    fn report_failed(&mut self, claim: Claim, failure: Failure, asked_at: Moment, now: Moment) {
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        if failure.was_never_sent() {
            report.did_not_get_there();
        }
        report.question = Question::Done;
        match after_failure(report.what.is_ack(), failure) {
            AfterFailure::Repeat => self.pause_report(claim, ReportStage::Pausing, failure, now),
            AfterFailure::RepeatUnlessForGood => {
                self.pause_report(claim, ReportStage::Pausing, failure, now);
                self.give_up_on_foreign(claim, now);
            }
            AfterFailure::RepeatOrDoubtResult => self.ack_meets_server_error(claim, now),
            AfterFailure::Look => self.pause_report(claim, ReportStage::Doubtful, failure, now),
            AfterFailure::LookWhetherCompleted { was_sent_twice } => {
                self.ack_is_in_conflict(claim, was_sent_twice, now);
            }
            AfterFailure::Missing => self.job_not_found(claim, asked_at, now),
            AfterFailure::Completed => self.job_is_completed(claim, now),
            AfterFailure::OtherForm => self.report_is_refused(claim, now),
            AfterFailure::Gone => self.report_is_lost(claim),
        }
    }

    /// The next attempt, or the look before it, comes after a pause.
    pub(super) fn pause_report(&mut self, claim: Claim, step: ReportStage, failure: Failure, now: Moment) {
        let job = self.jobs.get(claim).map(Job::subject);
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let before = report.setbacks.add(failure, now);
        let (what, missing) = (name(&report.what), report.missing);
        let pause = self.retry_pause(before, failure);
        // The last attempt of those that are made while the backend's store may be away.
        let last = missing.filter(|_| failure == Failure::NotFound);
        let mut pause = last.map_or(pause, |missing| pause.min(missing.until.remaining(now)));
        if last.is_some() && self.phase().is_terminating() {
            pause = pause.min(LONGEST_RETRY_OF_A_MISSING_JOB);
        }
        self.jobs.step(claim, step);
        self.timers.arm(Timer::Report(claim), now.after(pause));
        self.notify(Notice::CallFailed {
            what,
            job,
            failure,
            retry_in: Some(pause),
        });
    }

    pub(in crate::lifecycle) fn let_reservation_expire(&mut self, claim: Claim, why: &'static str) {
        if let Some(job) = self.finish(claim) {
            self.notify(Notice::Abandoned(job.subject(), why));
            self.tell_whoever_waits(&job);
        }
    }

    /// The backend has it.
    pub(super) fn reported(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.finish(claim) else { return };
        self.remember_settled(&job);
        let (id, subject, took) = (job.id().clone(), job.subject(), job.worked_for(now));
        let Place::Reporting(report) = job.place else { return };
        let (is_ack, about) = (report.what.is_ack(), report.what.about());
        if is_ack {
            self.note_ack_form(report.is_bare, now);
        }
        self.notify(Notice::Settled {
            job: subject,
            outcome: report.what,
            took,
        });
        if is_ack {
            self.done_as_well(&id);
        }
        self.confirm(report.listener, id, about, true);
    }

    /// Somebody waits for the last outcome: no pause is long from here on, unless the backend asked for it.
    pub(in crate::lifecycle) fn shorten_pauses(&mut self, now: Moment) {
        let pausing = self.jobs.reports().filter(|(_, report)| report.step.is_pause());
        let longest = |report: &Report| {
            let usual = match report.missing {
                Some(_) => LONGEST_RETRY_OF_A_MISSING_JOB,
                None => LONGEST_RETRY_IN_A_DRAIN,
            };
            report.setbacks.asked_for().unwrap_or_default().max(usual)
        };
        let pausing: Vec<(Claim, Duration)> = pausing.map(|(claim, report)| (claim, longest(report))).collect();
        for (claim, longest) in pausing {
            self.timers.arm_at_latest(Timer::Report(claim), now.after(longest));
        }
    }

    /// Time is short: what waits for a second chance gets it now, and an ACK that hangs is sent again beside it.
    pub(in crate::lifecycle) fn hurry_reports(&mut self, now: Moment) {
        let all: Vec<Claim> = self.jobs.reports().map(|(claim, _)| claim).collect();
        for claim in all {
            self.report_event(claim, ReportEvent::TimeIsShort, now);
        }
    }

    /// Sends an ACK again beside one that hangs, or comes back when it may be said to hang. Only an ACK may be repeated like
    /// that: of a FAIL that hangs the connection is closed, see `look_for_hanging`.
    fn hedge_at_the_end(&mut self, claim: Claim, call: CallId, sent_at: Moment, now: Moment) {
        let is_ack = |report: &mut Report| report.what.is_ack();
        if !self.jobs.report_mut(claim).is_some_and(is_ack)
            || self.link.hedges().siblings.sent(call) >= MOST_ACKS_AT_ONCE
        {
            return;
        }
        let newest = self.link.hedges().newest(call).unwrap_or(sent_at);
        let mut next = newest.after(REPORT_HANGS_AFTER);
        if next <= now {
            self.link(now, |link, cx| link.hedge(call, cx));
            next = now.after(REPORT_HANGS_AFTER);
        }
        self.timers.arm(Timer::Report(claim), next);
    }
}

/// Whether what the backend shows is the very reservation that we have.
pub(super) fn is_ours(job: &Job, view: &JobView) -> bool {
    let same_worker = view.worker.as_ref().is_none_or(|worker| *worker == job.worker);
    view.state == JobState::Active && same_worker && !view.reservation.differs_from(&job.delivery.reservation)
}

fn name(what: &Outcome) -> &'static str {
    match what {
        Outcome::Acked { .. } => "ACK",
        Outcome::Failed { .. } => "FAIL",
        Outcome::Requeued { .. } => "requeue",
    }
}
