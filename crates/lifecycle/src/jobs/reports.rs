//! Outcomes in flight to the backend: exactly one for each job, however often the network fails.
//!
//! An ACK may be repeated, because a backend that has it already reports that. A FAIL or a requeue
//! may not. If the first one was carried out, the job may already run elsewhere, and no backend
//! checks whose job a second one hits. It is repeated only after a look shows that the job is still
//! active and its reservation still belongs to ojs-init.

use std::time::Duration;

use crate::api::ids::{CallId, Claim, HolderId};
use crate::api::{
    About, Call, CancelReason, Failure, JobError, JobNotice, JobRequest, JobState, JobTimer, JobView, Moment, Notice,
    Outcome, Reply,
};
use crate::jobs::brake::{Braked, GivenBackBy};
use crate::jobs::job::{Again, Hold, Job, LookStep, Place, Question, Report};
use crate::jobs::memory::Remembered;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;
use crate::jobs::stages::{AfterFailure, ReportEvent, ReportStage, ReportStep, ReportVerdict};
use crate::jobs::stages::{after_failure, stage_verdict};
use crate::retry::patience::{LONGEST_RETRY_IN_A_DRAIN, LONGEST_RETRY_OF_A_MISSING_JOB, REPORT_HANGS_AFTER};
use crate::retry::state::RetryState;

/// Most reports in flight at one time.
const MAX_REPORTS_IN_FLIGHT: usize = 64;

/// Most requests of one ACK in flight at one time. More than one is in flight only at the end.
const MOST_ACKS_AT_ONCE: usize = 4;

impl Jobs {
    /// The outcome of a job is decided.
    pub(crate) fn decide(
        &mut self,
        claim: Claim,
        what: Outcome,
        listener: Option<HolderId>,
        is_surplus: bool,
        cx: &Context,
    ) {
        let what = match listener {
            Some(_) => self.meant_after_a_timeout(claim, what),
            None => what,
        };
        let is_ack = what.is_ack();
        if let Some(job) = self.ledger.get(claim)
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
            let Some(job) = self.ledger.get(claim) else { return };
            let why_not = job.why_not_requeue(cx.backend.traits());
            let id = job.id().clone();
            let braked = if why_not.is_none() {
                self.brake(claim, by, cx)
            } else {
                Braked::default()
            };
            hold = braked.hold;
            if !braked.is_pause_enough {
                self.say(Said::PauseFetch);
            }
            if let Some(why) = why_not {
                let is_shared = self.ledger.get(claim).is_some_and(|job| job.any_may_answer);
                self.let_reservation_expire(claim, why, cx);
                if is_shared && listener.is_some() {
                    // The holder's outcome decided, and a repeated one gets the same reply.
                    let decided = Remembered::Decided(About::Release, false);
                    self.memory.remember(id.clone(), decided);
                }
                return self.confirm(listener, id, About::Release, false);
            }
        }
        // A dropped job counts against no holder's credit.
        let Some(job) = self.ledger.get(claim) else { return };
        let was_dropped = job.is_dropped;
        self.put_report(claim, what, listener, is_surplus || was_dropped, cx);
        if let Some(hold) = hold {
            self.hold(claim, hold, cx);
        }
        self.limit_the_wait(claim, cx);
        // A checkpoint that waits to be sent again is for the next attempt of the job. Every
        // outcome but an ACK can have a next attempt.
        self.timers.cancel(JobTimer::Checkpoint(claim));
        if !is_ack {
            self.send_checkpoint(claim, cx);
        }
    }

    /// Turns a release into a failure if the job was cancelled for its timeout. A release costs no
    /// attempt, and the next attempt would run into that timeout again, for ever. If the shutdown
    /// cancelled the job as well, the worker may have released it because of that.
    fn meant_after_a_timeout(&self, claim: Claim, what: Outcome) -> Outcome {
        let held = self.ledger.get(claim).and_then(Job::held);
        let has_timed_out =
            held.is_some_and(|held| held.cancelled == Some(CancelReason::Timeout) && !held.is_told_of_shutdown);
        match what {
            Outcome::Requeued { reason, .. } if has_timed_out => {
                let message = format!("timed out, and was given back after that ({reason})");
                let error = JobError {
                    code: Some("timeout".into()),
                    kind: Some("timeout".into()),
                    ..JobError::new(message)
                };
                Outcome::Failed { error }
            }
            Outcome::Acked { .. } | Outcome::Failed { .. } | Outcome::Requeued { .. } => what,
        }
    }

    /// Sends an outcome that has room. Looks at the job first if another worker may have it.
    fn send_if_ours(&mut self, claim: Claim, cx: &Context) {
        if !self.may_be_elsewhere(claim, cx) {
            return self.send_report(claim, cx);
        }
        if let Some(report) = self.ledger.report_mut(claim) {
            report.question = Question::StillOurs;
        }
        // The worker's part ends here, not behind the look.
        self.measure(claim, cx);
        self.look_before_repeat(claim, cx);
    }

    /// Whether another worker may have the job, so that a FAIL or a requeue would hit the attempt
    /// of that worker: no backend checks whose job an outcome is about. An ACK does no harm,
    /// because the job is done.
    fn may_be_elsewhere(&self, claim: Claim, cx: &Context) -> bool {
        let Some(job) = self.ledger.get(claim) else {
            return false;
        };
        let is_to_check = |report: &Report| !report.what.is_ack() && !report.is_seen_ours;
        let is_over = job.suspicion.may_have_lapsed || job.reserved_until <= cx.now || self.is_unheard(cx.now, cx);
        is_over && job.report().is_some_and(is_to_check)
    }

    fn put_report(&mut self, claim: Claim, what: Outcome, listener: Option<HolderId>, is_surplus: bool, cx: &Context) {
        self.forget_timers(claim);
        // Another outcome in the place of a refused one gets no further time.
        let before = self.ledger.get(claim).and_then(Job::report);
        let other_answer_until = before.and_then(|report| report.other_answer_until);
        let report = Report {
            is_bare: self.is_bare_at_first(&what, cx),
            what,
            step: ReportStage::Due,
            setbacks: RetryState::default(),
            listener,
            is_surplus,
            hold: Hold::No,
            sent: 0,
            question: Question::Done,
            looks_fail_since: None,
            is_seen_ours: false,
            missing: None,
            other_answer_until,
        };
        self.place(claim, Place::Reporting(Box::new(report)));
    }

    /// Cancels the timers that only matter while a job waits or is held.
    pub(crate) fn forget_timers(&mut self, claim: Claim) {
        let timers = [
            JobTimer::JobTimeout(claim),
            JobTimer::JobGrace(claim),
            JobTimer::LostGrace(claim),
            JobTimer::Silence(claim),
            JobTimer::NoHandler(claim),
            JobTimer::WithoutResult(claim),
            JobTimer::AnswerBy(claim),
            JobTimer::Report(claim),
            JobTimer::Progress(claim),
        ];
        for timer in timers {
            self.timers.cancel(timer);
        }
    }

    /// Removes a job for good.
    pub(crate) fn finish(&mut self, claim: Claim, cx: &Context) -> Option<Job> {
        self.forget_timers(claim);
        self.timers.cancel(JobTimer::Checkpoint(claim));
        self.timers.cancel(JobTimer::LookAgain(claim));
        let job = self.strike_out(claim);
        if let Some(job) = &job {
            self.checkpoint_is_left(job, cx);
            self.remember_end(job);
        }
        job
    }

    /// Sends the reports that are due, as far as there is room.
    pub(crate) fn send_reports(&mut self, cx: &Context) {
        for _ in 0..self.room_for_reports(cx) {
            let Some(claim) = self.ledger.next_due(cx.end.goes_without_checkpoints) else {
                return;
            };
            self.report_event(claim, ReportEvent::Room, cx);
        }
    }

    fn send_report(&mut self, claim: Claim, cx: &Context) {
        let Some(call) = self.report_call(claim) else { return };
        self.measure(claim, cx);
        let sent = self.call(call, JobRequest::Report(claim), cx);
        self.ledger.step(claim, ReportStage::Sent(sent, cx.now));
        if let Some(report) = self.ledger.report_mut(claim) {
            report.goes_out();
            report.is_seen_ours = false;
        }
        self.note_store(claim, cx);
        if cx.end.is_reporting {
            self.timers
                .arm(JobTimer::Report(claim), cx.now.after(REPORT_HANGS_AFTER));
        }
    }

    /// The request that reports the outcome to the backend.
    pub(crate) fn report_call(&self, claim: Claim) -> Option<Call> {
        let job = self.ledger.get(claim)?;
        let report = job.report()?;
        Some(Call::Report {
            worker: job.worker.clone(),
            job: job.id().clone(),
            outcome: report.what.clone(),
            is_bare: report.is_bare,
        })
    }

    /// Reports once how long a worker had the job, with the first request of its outcome.
    pub(super) fn measure(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let (subject, took) = (job.subject(), job.worked_for(cx.now));
        if let (Some(handover), Place::Reporting(report)) = (&mut job.handover, &job.place)
            && let Some(took) = took.filter(|_| !handover.is_measured)
        {
            handover.is_measured = true;
            let end = report.what.end();
            self.notify(JobNotice::OutcomeSent {
                job: subject,
                end,
                took,
            });
        }
    }

    /// Most reports in flight. The number doubles near the end, because requests that hang must not
    /// hold up the others.
    fn report_room(&self, cx: &Context) -> usize {
        let room = cx.most_active().clamp(1, MAX_REPORTS_IN_FLIGHT);
        if cx.end.is_reporting { room * 2 } else { room }
    }

    /// How many more requests about outcomes may be in flight. Requests that a shutdown stopped
    /// waiting for do not count.
    pub(super) fn room_for_reports(&self, cx: &Context) -> usize {
        self.report_room(cx).saturating_sub(cx.backend.reports_on_their_way())
    }

    pub(crate) fn report_replied(&mut self, claim: Claim, call: CallId, reply: Reply, cx: &Context) {
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let sent_at = report.step.sent_as(call);
        if reply == Reply::Accepted {
            self.outcome_was_taken(sent_at);
            return self.report_event(claim, ReportEvent::Taken, cx);
        }
        let failure = reply.failure();
        self.report_event(claim, ReportEvent::Failed { call, failure }, cx);
    }

    /// Looks the event up in the table, and carries out its verdict.
    pub(crate) fn report_event(&mut self, claim: Claim, event: ReportEvent, cx: &Context) {
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let ReportVerdict::Do(step) = stage_verdict(report.step, event) else {
            return;
        };
        match step {
            ReportStep::Send => self.send_if_ours(claim, cx),
            ReportStep::Settle => self.reported(claim, cx),
            ReportStep::Weigh { failure, asked_at } => self.report_failed(claim, failure, asked_at, cx),
            ReportStep::Repeat => self.pause_is_over(claim),
            ReportStep::Look => self.look_before_repeat(claim, cx),
            ReportStep::EndPause => self.timers.arm_at_latest(JobTimer::Report(claim), cx.now),
            ReportStep::Hedge(call, sent_at) => self.hedge_at_the_end(claim, call, sent_at, cx),
            ReportStep::DropResult => self.drop_result(claim, cx),
        }
    }

    /// Ends the pause after a hold or a failed attempt: the outcome may be sent.
    fn pause_is_over(&mut self, claim: Claim) {
        if let Some(report) = self.ledger.report_mut(claim) {
            report.end_hold();
        }
        self.ledger.step(claim, ReportStage::Due);
    }

    fn report_failed(&mut self, claim: Claim, failure: Failure, asked_at: Moment, cx: &Context) {
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        if failure.was_never_sent() {
            report.did_not_get_there();
        }
        report.question = Question::Done;
        match after_failure(report.what.is_ack(), failure) {
            AfterFailure::Repeat => self.pause_report(claim, ReportStage::Pausing, failure, cx),
            AfterFailure::RepeatUnlessForGood => {
                self.pause_report(claim, ReportStage::Pausing, failure, cx);
                self.give_up_on_foreign(claim, cx);
            }
            AfterFailure::RepeatOrDoubtResult => self.ack_meets_server_error(claim, cx),
            AfterFailure::Look => self.pause_report(claim, ReportStage::Doubtful, failure, cx),
            AfterFailure::LookWhetherCompleted { was_sent_twice } => {
                self.ack_is_in_conflict(claim, was_sent_twice, cx);
            }
            AfterFailure::Missing => self.job_not_found(claim, asked_at, cx),
            AfterFailure::Completed => self.job_is_completed(claim, cx),
            AfterFailure::OtherForm { .. } => self.report_is_refused(claim, cx),
            AfterFailure::Gone => self.report_is_lost(claim, cx),
        }
    }

    /// Starts the pause before the next attempt, or before the look that precedes it.
    pub(super) fn pause_report(&mut self, claim: Claim, step: ReportStage, failure: Failure, cx: &Context) {
        let job = self.ledger.get(claim).map(Job::subject);
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let before = report.setbacks.add(failure, cx.now);
        let (what, missing) = (name(&report.what), report.missing);
        let pause = cx.retry_pause(before, failure);
        // The last attempt of those that are made while the backend's store may be away is made at
        // `until`.
        let last = missing.filter(|_| failure == Failure::NotFound);
        let mut pause = last.map_or(pause, |missing| pause.min(missing.until.remaining(cx.now)));
        if last.is_some() && cx.end.phase.is_terminating() {
            pause = pause.min(LONGEST_RETRY_OF_A_MISSING_JOB);
        }
        self.ledger.step(claim, step);
        self.timers.arm(JobTimer::Report(claim), cx.now.after(pause));
        self.notify(Notice::CallFailed {
            what,
            job,
            failure,
            retry_in: Some(pause),
        });
    }

    pub(crate) fn let_reservation_expire(&mut self, claim: Claim, why: &'static str, cx: &Context) {
        if let Some(job) = self.finish(claim, cx) {
            self.notify(JobNotice::Abandoned(job.subject(), why));
            self.tell_whoever_waits(&job, cx);
        }
    }

    /// Finishes a job whose outcome the backend has.
    pub(super) fn reported(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.finish(claim, cx) else { return };
        self.remember_settled(&job);
        let (id, subject, took) = (job.id().clone(), job.subject(), job.worked_for(cx.now));
        let Place::Reporting(report) = job.place else { return };
        let (is_ack, about) = (report.what.is_ack(), report.what.about());
        if is_ack {
            self.note_ack_form(report.is_bare, cx);
        }
        self.notify(JobNotice::Settled {
            job: subject,
            outcome: report.what,
            took,
        });
        if is_ack {
            self.done_as_well(&id, cx);
        }
        self.confirm(report.listener, id, about, true);
    }

    /// Shortens all pauses of outcomes and looks, because the end waits for the last outcome. A
    /// pause that the backend asked for stays.
    pub(crate) fn shorten_pauses(&mut self, cx: &Context) {
        let longest = |setbacks: &RetryState, usual: Duration| {
            let longest = setbacks.asked_for().unwrap_or_default().max(usual);
            cx.now.after(longest)
        };
        for (claim, report) in self.ledger.reports().filter(|(_, report)| report.step.is_pause()) {
            let usual = match report.missing {
                Some(_) => LONGEST_RETRY_OF_A_MISSING_JOB,
                None => LONGEST_RETRY_IN_A_DRAIN,
            };
            let at = longest(&report.setbacks, usual);
            self.timers.arm_at_latest(JobTimer::Report(claim), at);
        }
        let pausing = |(_, again): &(Claim, &mut Again)| again.step == LookStep::Pausing;
        for (claim, again) in self.ledger.agains().filter(pausing) {
            let at = longest(&again.setbacks, LONGEST_RETRY_IN_A_DRAIN);
            self.timers.arm_at_latest(JobTimer::LookAgain(claim), at);
        }
    }

    /// Ends all pauses, because little time is left. Sends an ACK that hangs again beside the first
    /// one.
    pub(crate) fn hurry_reports(&mut self, cx: &Context) {
        let all: Vec<Claim> = self.ledger.reports().map(|(claim, _)| claim).collect();
        for claim in all {
            self.report_event(claim, ReportEvent::TimeIsShort, cx);
        }
    }

    /// Sends an ACK again beside one that hangs, or arms a timer for the moment at which it counts
    /// as hung. Only an ACK may be repeated like that. The connection of a FAIL that hangs is
    /// closed, see `look_for_hanging`.
    fn hedge_at_the_end(&mut self, claim: Claim, call: CallId, sent_at: Moment, cx: &Context) {
        let is_ack = |report: &mut Report| report.what.is_ack();
        if !self.ledger.report_mut(claim).is_some_and(is_ack) || cx.backend.times_sent(call) >= MOST_ACKS_AT_ONCE {
            return;
        }
        let newest = cx.backend.newest_sending(call).unwrap_or(sent_at);
        let mut next = newest.after(REPORT_HANGS_AFTER);
        if next <= cx.now {
            self.say(Said::Hedge(call));
            next = cx.now.after(REPORT_HANGS_AFTER);
        }
        self.timers.arm(JobTimer::Report(claim), next);
    }
}

/// Whether the backend shows the very reservation that ojs-init has.
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
