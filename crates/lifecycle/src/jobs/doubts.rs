//! Answers to an outcome that leave the state of the job open, and the check that decides it.
//!
//! | the answer | what it can mean | what decides |
//! |---|---|---|
//! | none yet, but the reservation may have ended before a FAIL or a requeue | another worker has the job | a look |
//! | none, or 5xx, to a FAIL or a requeue | the backend carried it out | a look |
//! | 404 in the backend's own words | the job is gone, or the backend's store is away | time, and whether the store has shown itself since |
//! | 409 to an ACK, without the job's state | an earlier ACK got through, or another program has the job | a look |
//! | 5xx and nothing else to an ACK with a result, for minutes | the store is broken, or never accepts this result | another outcome, or a look |

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::ids::{Claim, JobId};
use crate::api::{
    About, Call, CancelReason, Delivery, ErrorCode, Failure, JobNotice, JobRequest, JobState, JobTimer, JobView,
    Moment, Outcome, Reply,
};
use crate::jobs::job::{Grant, Job, Missing, Place, Question, Report};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::reports::is_ours;
use crate::jobs::said::Said;
use crate::jobs::stages::ReportStage;

/// Time after which an outcome, or the look before it, is given up. An outcome: if every attempt
/// got an answer that seems to be from another program. It is the backend's then, which does not
/// know the job, and reports that in its own way. A look: if every one failed while the store was
/// there.
const FAILS_FOR_GOOD: Duration = Duration::from_secs(6 * 60);

/// A store that has shown itself within this time is there. Pauses between two looks are shorter.
const SEEN_LATELY: Duration = Duration::from_secs(60);

/// A store that is away for longer than this has lost the job's reservation when it is back.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(2 * 60);

/// The result may be the cause if every attempt to deliver it for this long met an error of the
/// backend.
const BROKEN_FOR_GOOD: Duration = Duration::from_secs(2 * 60);

/// Time without a heartbeat after which a backend gives the jobs of a worker to others, whatever
/// their visibility timeout (worker protocol 10). With long intervals it is the time of
/// `BEATS_UNTIL_DEAD` of them.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// No interval is longer than this part of the time after which the backend takes the worker for
/// dead.
const BEATS_UNTIL_DEAD: u32 = 3;

/// Assumed reservation of a job whose visibility timeout is unknown.
const UNSAID_VISIBILITY: Duration = Duration::from_secs(30);

/// Why the look after a FAIL or a requeue that may have been carried out decides nothing.
const CANNOT_BE_TOLD: &str = "whether the backend has its outcome cannot be told";

/// The part about jobs of a heartbeat that the backend has accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedHeartbeat<'a> {
    /// When the heartbeat was sent.
    pub(crate) at: Moment,
    /// The extension of the reservations that the heartbeat requested, if any.
    pub(crate) kept_for: Option<Duration>,
    pub(crate) named: &'a [(JobId, Claim)],
    /// The jobs whose reservations the backend has extended, if the reply names any.
    pub(crate) extended: Option<&'a BTreeSet<JobId>>,
}

impl Jobs {
    /// Notes whether the backend's store has shown itself since a job was not found. Called when an
    /// outcome, or a look at its job, is sent. On a busy worker the store shows itself again before
    /// the answer arrives.
    pub(super) fn note_store(&mut self, claim: Claim, cx: &Context) {
        let seen = cx.backend.store_seen();
        let report = self.ledger.report_mut(claim);
        if let Some(missing) = report.and_then(|report| report.missing.as_mut())
            && seen.is_some_and(|seen| missing.since < seen)
        {
            missing.asked_again.get_or_insert(cx.now);
        }
    }

    /// The backend accepted an outcome. `asked_at` is None if ojs-init cannot tell which request
    /// caused that.
    pub(super) fn outcome_was_taken(&mut self, asked_at: Option<Moment>) {
        self.say(Said::OutcomeTaken);
        if let Some(asked_at) = asked_at {
            self.say(Said::StoreSeen(asked_at));
        }
    }

    /// Notes until when the jobs that an accepted heartbeat names are reserved.
    pub(crate) fn note_extended(&mut self, accepted: &AcceptedHeartbeat, cx: &Context) {
        let AcceptedHeartbeat { named, extended, .. } = accepted;
        if extended.is_some_and(|extended| !extended.is_empty()) {
            self.say(Said::StoreSeen(accepted.at));
        }
        let until = accepted.at.after(accepted.kept_for.unwrap_or(UNSAID_VISIBILITY));
        let is_late = self.is_unheard(accepted.at, cx);
        self.backend.has_sent_lists |= extended.is_some();
        let has_sent_lists = self.backend.has_sent_lists;
        self.beaten_at = Some(accepted.at);
        for (id, claim) in *named {
            // A delivery since then is another reservation.
            let job = self.ledger.get_mut(*claim).filter(|job| job.claimed_at <= accepted.at);
            let Some(job) = job else { continue };
            let is_listed = extended.map(|extended| extended.contains(id));
            let is_extended = is_listed.unwrap_or(!has_sent_lists);
            job.suspicion.may_have_lapsed |= is_late || !is_extended || job.reserved_until <= accepted.at;
            if is_listed != Some(false) {
                job.reserved_until = until;
            }
        }
    }

    /// Whether the backend may take the worker for dead at this moment, because it has accepted no
    /// heartbeat for so long.
    pub(super) fn is_unheard(&self, at: Moment, cx: &Context) -> bool {
        let timeout = HEARTBEAT_TIMEOUT.max(cx.backend.heartbeat_interval().saturating_mul(BEATS_UNTIL_DEAD));
        self.beaten_at.is_some_and(|beaten| beaten.elapsed(at) >= timeout)
    }

    /// The backend replied to a request of this moment that the job does not exist. ojs-init
    /// believes that when the reservation has expired, or after `MISSING_FOR_GOOD`. It believes it
    /// sooner if the store has shown itself since the first such reply and the backend repeats the
    /// reply afterwards.
    pub(super) fn job_not_found(&mut self, claim: Claim, asked_at: Moment, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let reserved_until = job.reserved_until;
        let for_good = cx.now.after(MISSING_FOR_GOOD);
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        // A store that has just come back may still hide a job whose reservation is over.
        let until = match report.question {
            Question::StillOurs => for_good,
            Question::Done | Question::Completed | Question::ResultTaken => reserved_until.min(for_good),
        };
        let missing = *report.missing.get_or_insert(Missing {
            since: cx.now,
            until,
            asked_again: None,
        });
        let is_backed = missing.asked_again.is_some_and(|again| again <= asked_at);
        if cx.now >= missing.until || is_backed {
            return self.report_is_lost(claim, cx);
        }
        let step = match (&report.what, report.question) {
            (Outcome::Acked { .. }, Question::Done | Question::StillOurs | Question::ResultTaken) => {
                ReportStage::Pausing
            }
            (Outcome::Acked { .. }, Question::Completed) | (Outcome::Failed { .. } | Outcome::Requeued { .. }, _) => {
                ReportStage::Doubtful
            }
        };
        self.pause_report(claim, step, Failure::NotFound, cx);
    }

    /// Starts a look after a conflict that does not contain the job's state. Only a look shows
    /// whether an earlier ACK got through.
    pub(super) fn ack_is_in_conflict(&mut self, claim: Claim, was_sent_twice: bool, cx: &Context) {
        if let Some(report) = self.ledger.report_mut(claim) {
            report.sent = report.sent.saturating_add(u32::from(was_sent_twice));
            report.question = Question::Completed;
        }
        let conflict = Failure::Conflict { was_sent_twice };
        self.pause_report(claim, ReportStage::Doubtful, conflict, cx);
    }

    /// The job is completed: by an earlier ACK of ojs-init, or by another program if this ACK was
    /// the only one.
    pub(super) fn job_is_completed(&mut self, claim: Claim, cx: &Context) {
        let is_repeat = self.ledger.report_mut(claim).is_some_and(|report| report.sent > 1);
        if is_repeat {
            self.reported(claim, cx);
        } else if let Some(job) = self.finish(claim, cx) {
            self.notify(JobNotice::DoneTwice(job.subject()));
            if job.any_may_answer {
                // A holder that waits for replies needs only the fact that the job is completed.
                self.remember_settled(&job);
                let listener = job.report().and_then(|report| report.listener);
                return self.confirm(listener, job.id().clone(), About::Ack, true);
            }
            let message = "the job was completed by somebody else: the backend takes no other outcome of it";
            self.tell_of_loss(&job, message);
        }
    }

    pub(super) fn report_is_lost(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.finish(claim, cx) else { return };
        self.notify(JobNotice::ReservationLost(job.subject(), CancelReason::Lost));
        let message = "the reservation was lost: the backend no longer takes an outcome of this job from us";
        self.tell_of_loss(&job, message);
    }

    fn tell_of_loss(&mut self, job: &Job, message: &'static str) {
        self.remember_refusal(job, ErrorCode::Lost);
        if let Place::Reporting(report) = &job.place
            && let Some(listener) = report.listener
        {
            self.refuse(listener, ErrorCode::Lost, message, job.id().clone());
        }
    }

    /// An ACK met an error of the backend. ojs-init blames the result if every attempt for minutes
    /// met this error, and the backend accepts other outcomes or shows this very job.
    pub(super) fn ack_meets_server_error(&mut self, claim: Claim, cx: &Context) {
        self.pause_report(claim, ReportStage::Pausing, Failure::ServerError, cx);
        let taken_at = cx.backend.outcome_taken_at();
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let has_result = matches!(report.what, Outcome::Acked { result: Some(_) });
        let Some(since) = report.setbacks.same_kind_since() else {
            return;
        };
        if !has_result || since.elapsed(cx.now) < BROKEN_FOR_GOOD {
            return;
        }
        if taken_at.is_some_and(|taken| taken > since) {
            self.go_without_result(claim, cx);
        } else {
            report.question = Question::ResultTaken;
            self.ledger.step(claim, ReportStage::Doubtful);
        }
    }

    fn go_without_result(&mut self, claim: Claim, cx: &Context) {
        self.timers.cancel(JobTimer::Report(claim));
        self.ledger.step(claim, ReportStage::ResultRefused);
        self.drop_result(claim, cx);
    }

    pub(super) fn give_up_on_foreign(&mut self, claim: Claim, cx: &Context) {
        let is_over = |report: &mut Report| report.setbacks.same_kind_for(cx.now) >= FAILS_FOR_GOOD;
        if self.ledger.report_mut(claim).is_some_and(is_over) {
            self.report_is_lost(claim, cx);
        }
    }

    pub(super) fn look_before_repeat(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let call = Call::GetJob { job: job.id().clone() };
        let purpose = JobRequest::LookBeforeRepeat(claim);
        let sent = self.call(call, purpose, cx);
        self.ledger.step(claim, ReportStage::Looking(sent, cx.now));
        self.note_store(claim, cx);
    }

    pub(crate) fn looked_before_repeat(&mut self, claim: Claim, reply: Reply, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Some(report) = job.report() else { return };
        let ReportStage::Looking(_, asked_at) = report.step else {
            return;
        };
        let question = report.question;
        if let Reply::JobSeen(view) = reply {
            return self.looked_at_report(claim, question, &view, asked_at, cx);
        }
        let failure = reply.failure();
        if question == Question::ResultTaken {
            // The ACK is tried again with its result, whatever the look meets.
            self.ledger.step(claim, ReportStage::Due);
        } else if failure.may_pass() {
            self.look_failed_again(claim, failure, cx);
        } else if question == Question::StillOurs {
            // The backend offers no look.
            self.may_be_sent(claim);
        } else {
            self.nobody_shows_it(claim, question, cx);
        }
    }

    /// A look failed. Ends it if looks have failed for minutes, and if the answers are not from the
    /// backend, or the backend's store has shown itself lately.
    fn look_failed_again(&mut self, claim: Claim, failure: Failure, cx: &Context) {
        self.pause_report(claim, ReportStage::Doubtful, failure, cx);
        if failure == Failure::NotFromBackend {
            self.give_up_on_foreign(claim, cx);
        }
        let Some(report) = self.ledger.report_mut(claim) else {
            return;
        };
        let since = *report.looks_fail_since.get_or_insert(cx.now);
        let question = report.question;
        let is_there = cx
            .backend
            .store_seen()
            .is_some_and(|seen| seen.elapsed(cx.now) < SEEN_LATELY);
        if since.elapsed(cx.now) >= FAILS_FOR_GOOD && is_there {
            self.nobody_shows_it(claim, question, cx);
        }
    }

    fn looked_at_report(&mut self, claim: Claim, question: Question, view: &JobView, asked_at: Moment, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let is_ours = is_ours(job, view);
        job.suspicion.may_have_lapsed &= !is_ours;
        if let Some(report) = self.ledger.report_mut(claim) {
            report.looks_fail_since = None;
            // A job that is there was not missing: a later 404 begins the doubt anew.
            report.missing = report.missing.filter(|_| !is_ours);
        }
        match (question, view.state) {
            (Question::Done | Question::StillOurs | Question::Completed, JobState::Missing) => {
                self.job_not_found(claim, asked_at, cx);
            }
            (Question::Completed | Question::ResultTaken, JobState::Completed) => self.job_is_completed(claim, cx),
            // A FAIL or a requeue without an answer is repeated only if the job's state has not
            // changed.
            (Question::Done | Question::StillOurs, JobState::Active) if is_ours => self.may_be_sent(claim),
            (Question::StillOurs, JobState::Hidden) => self.may_be_sent(claim),
            (Question::ResultTaken, JobState::Active) if is_ours => self.go_without_result(claim, cx),
            (Question::ResultTaken, _) => self.ledger.step(claim, ReportStage::Due),
            (Question::Done | Question::StillOurs | Question::Completed, _) => {
                self.nobody_shows_it(claim, question, cx)
            }
        }
    }

    /// The outcome goes out as soon as there is room, without another look.
    fn may_be_sent(&mut self, claim: Claim) {
        if let Some(report) = self.ledger.report_mut(claim) {
            report.is_seen_ours = true;
        }
        self.ledger.step(claim, ReportStage::Due);
    }

    /// Decides after a look that does not show the state on which the outcome depends.
    fn nobody_shows_it(&mut self, claim: Claim, question: Question, cx: &Context) {
        match question {
            Question::Done => self.let_reservation_expire(claim, CANNOT_BE_TOLD, cx),
            // The conflict stands, or another worker has the job.
            Question::Completed | Question::StillOurs => self.report_is_lost(claim, cx),
            Question::ResultTaken => self.ledger.step(claim, ReportStage::Due),
        }
    }
}

/// The reservation with which the backend delivers a job in the answer to a FETCH of this moment.
pub(super) fn grant(delivery: &Delivery, asked_at: Moment, cx: &Context) -> Grant {
    let lasts = if cx.backend.is_told_visibility() {
        cx.options.visibility_timeout
    } else {
        delivery.visibility.unwrap_or(UNSAID_VISIBILITY)
    };
    let until = asked_at.after(lasts);
    Grant { lasts, until }
}
