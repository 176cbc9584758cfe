//! Answers to an outcome that leave open what became of the job, and how that is found out.
//!
//! | the answer | what it can mean | what decides |
//! |---|---|---|
//! | none, or 5xx, to a FAIL or a requeue | it was carried out | a look |
//! | 404 in the backend's own words | the job is gone, or the backend's store is away | time, and whether the store has shown itself since |
//! | 409 to an ACK, without the job's state | an earlier ACK got through, or the job is somebody else's | a look |
//! | 5xx and nothing else to an ACK with a result, for minutes | the store is broken, or never takes this result | another outcome, or a look |

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, JobId};
use crate::lifecycle::api::{
    About, Call, CancelReason, ErrorCode, Failure, FetchForm, HeartbeatForm, JobState, JobView, Moment, Notice,
    Outcome, Reply, Timer,
};
use crate::lifecycle::backend::heartbeat_state::SentHeartbeat;
use crate::lifecycle::backend::purpose::Purpose;
use crate::lifecycle::jobs::job::{Job, Missing, Place, Question, Report};
use crate::lifecycle::jobs::reports::is_ours;
use crate::lifecycle::jobs::stages::ReportStage;
use crate::lifecycle::machine::Lifecycle;

/// When every attempt to deliver an outcome has met somebody else for this long, there is nobody else: the backend does
/// not know the job, and says so in its own way.
const FOREIGN_FOR_GOOD: Duration = Duration::from_secs(6 * 60);

/// A store that is away for longer than this will not have the job's reservation when it is back.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(2 * 60);

/// When every attempt to deliver a result has met an error of the backend for this long, it may be the result.
const BROKEN_FOR_GOOD: Duration = Duration::from_secs(2 * 60);

/// How long backends reserve a job whose visibility timeout nobody has said.
const UNSAID_VISIBILITY: Duration = Duration::from_secs(30);

/// Why the look at a FAIL or a requeue that may have been carried out decides nothing.
const CANNOT_BE_TOLD: &str = "whether the backend has its outcome cannot be told";

impl Lifecycle {
    /// The backend's store is there: to a request of that moment another outcome was taken, jobs came, a reservation was
    /// extended. An answer that comes late tells of the time before the store went away.
    pub(in crate::lifecycle) fn store_was_seen(&mut self, asked_at: Moment) {
        self.link.agent_mut().showed_store(asked_at);
    }

    /// An outcome, or a look at its job, goes out. Of a job that was not found it is noted whether the store has shown itself since:
    /// on a worker with much to do it does so again before this is answered.
    pub(super) fn note_store(&mut self, claim: Claim, now: Moment) {
        let seen = self.link.agent().store_seen();
        let report = self.jobs.report_mut(claim);
        if let Some(missing) = report.and_then(|report| report.missing.as_mut())
            && seen.is_some_and(|seen| missing.since < seen)
        {
            missing.asked_again.get_or_insert(now);
        }
    }

    /// The backend took an outcome; None: it is not known which of its requests brought that about.
    pub(super) fn outcome_was_taken(&mut self, asked_at: Option<Moment>, now: Moment) {
        self.link.agent_mut().took_outcome(now);
        if let Some(asked_at) = asked_at {
            self.store_was_seen(asked_at);
        }
    }

    /// A heartbeat was accepted: until when what it named is reserved.
    pub(in crate::lifecycle) fn note_extended(
        &mut self,
        heartbeat: &SentHeartbeat,
        extended: Option<&BTreeSet<JobId>>,
        now: Moment,
    ) {
        if extended.is_some_and(|extended| !extended.is_empty()) {
            self.store_was_seen(heartbeat.at);
        }
        let kept_for = match heartbeat.form {
            HeartbeatForm::Full | HeartbeatForm::Counted | HeartbeatForm::Bare => heartbeat.kept_for,
            HeartbeatForm::Protocol => UNSAID_VISIBILITY,
        };
        for (id, claim) in &heartbeat.named {
            let is_extended = extended.is_none_or(|extended| extended.contains(id));
            if let Some(job) = self.jobs.get_mut(*claim).filter(|_| is_extended) {
                job.extended_until = Some(now.after(kept_for));
            }
        }
    }

    /// Until when a job is reserved, as far as we were told.
    pub(super) fn reserved_until(&self, job: &Job) -> Moment {
        let claimed_until = job.claimed_at.after(self.granted(job));
        job.extended_until
            .map_or(claimed_until, |extended| extended.max(claimed_until))
    }

    /// The visibility timeout with which the backend gave us the job.
    pub(super) fn granted(&self, job: &Job) -> Duration {
        match self.link.agent().fetch_forms.sent() {
            FetchForm::Full => self.options.visibility_timeout,
            FetchForm::WithoutVisibility | FetchForm::Bare => job.delivery.visibility.unwrap_or(UNSAID_VISIBILITY),
        }
    }

    /// The backend says that there is no such job, to a request of this moment. It is believed when the reservation is over,
    /// and sooner when the store has shown itself since the first time and says the same afterwards.
    pub(super) fn job_not_found(&mut self, claim: Claim, asked_at: Moment, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let until = self.reserved_until(job).min(now.after(MISSING_FOR_GOOD));
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let missing = *report.missing.get_or_insert(Missing {
            since: now,
            until,
            asked_again: None,
        });
        let is_backed = missing.asked_again.is_some_and(|again| again <= asked_at);
        if now >= missing.until || is_backed {
            return self.report_is_lost(claim);
        }
        let step = match (&report.what, report.question) {
            (Outcome::Acked { .. }, Question::Done | Question::ResultTaken) => ReportStage::Pausing,
            (Outcome::Acked { .. }, Question::Completed) | (Outcome::Failed { .. } | Outcome::Requeued { .. }, _) => {
                ReportStage::Doubtful
            }
        };
        self.pause_report(claim, step, Failure::NotFound, now);
    }

    /// A conflict that does not say the job's state: only a look tells whether an earlier ACK got through.
    pub(super) fn ack_is_in_conflict(&mut self, claim: Claim, was_sent_twice: bool, now: Moment) {
        if let Some(report) = self.jobs.report_mut(claim) {
            report.sent = report.sent.saturating_add(u32::from(was_sent_twice));
            report.question = Question::Completed;
        }
        let conflict = Failure::Conflict { was_sent_twice };
        self.pause_report(claim, ReportStage::Doubtful, conflict, now);
    }

    /// The job is completed: by an earlier ACK of ours, or, where this was the only one, by somebody else.
    pub(super) fn job_is_completed(&mut self, claim: Claim, now: Moment) {
        let is_repeat = self.jobs.report_mut(claim).is_some_and(|report| report.sent > 1);
        if is_repeat {
            self.reported(claim, now);
        } else if let Some(job) = self.finish(claim) {
            self.notify(Notice::DoneTwice(job.subject()));
            if job.any_may_answer {
                // That it is completed is all that such a program wants to know.
                self.remember_settled(&job);
                let listener = job.report().and_then(|report| report.listener);
                return self.confirm(listener, job.id().clone(), About::Ack, true);
            }
            let message = "the job was completed by somebody else: the backend takes no other outcome of it";
            self.tell_of_loss(&job, message);
        }
    }

    pub(super) fn report_is_lost(&mut self, claim: Claim) {
        let Some(job) = self.finish(claim) else { return };
        self.notify(Notice::ReservationLost(job.subject(), CancelReason::Lost));
        let message = "the reservation was lost: the backend no longer takes an outcome of this job from us";
        self.tell_of_loss(&job, message);
    }

    fn tell_of_loss(&mut self, job: &Job, message: &str) {
        self.remember_refusal(job, ErrorCode::Lost);
        if let Place::Reporting(report) = &job.place
            && let Some(listener) = report.listener
        {
            self.refuse(listener, ErrorCode::Lost, message, Some(job.id().clone()));
        }
    }

    /// An ACK met an error of the backend. When nothing else is met for minutes, and the backend takes other outcomes or shows
    /// this very job, it is the result that it never takes.
    pub(super) fn ack_meets_server_error(&mut self, claim: Claim, now: Moment) {
        self.pause_report(claim, ReportStage::Pausing, Failure::ServerError, now);
        let taken_at = self.link.agent().outcome_taken_at();
        let Some(report) = self.jobs.report_mut(claim) else {
            return;
        };
        let has_result = matches!(report.what, Outcome::Acked { result: Some(_) });
        let Some(since) = report.setbacks.same_kind_since() else {
            return;
        };
        if !has_result || since.elapsed(now) < BROKEN_FOR_GOOD {
            return;
        }
        if taken_at.is_some_and(|taken| taken > since) {
            self.go_without_result(claim, now);
        } else {
            report.question = Question::ResultTaken;
            self.jobs.step(claim, ReportStage::Doubtful);
        }
    }

    fn go_without_result(&mut self, claim: Claim, now: Moment) {
        self.timers.cancel(Timer::Report(claim));
        self.jobs.step(claim, ReportStage::ResultRefused);
        self.drop_result(claim, now);
    }

    pub(super) fn give_up_on_foreign(&mut self, claim: Claim, now: Moment) {
        let is_over = |report: &mut Report| report.setbacks.same_kind_for(now) >= FOREIGN_FOR_GOOD;
        if self.jobs.report_mut(claim).is_some_and(is_over) {
            self.report_is_lost(claim);
        }
    }

    pub(super) fn look_before_repeat(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let call = Call::GetJob { job: job.id().clone() };
        let purpose = Purpose::LookBeforeRepeat(claim);
        let sent = self.call(call, purpose, self.options.request_timeout, now);
        self.jobs.step(claim, ReportStage::Looking(sent, now));
        self.note_store(claim, now);
    }

    pub(in crate::lifecycle) fn looked_before_repeat(&mut self, claim: Claim, reply: Reply, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let Some(report) = job.report() else { return };
        let ReportStage::Looking(_, asked_at) = report.step else {
            return;
        };
        let question = report.question;
        if let Reply::JobSeen(view) = reply {
            return self.looked_at_report(claim, question, &view, asked_at, now);
        }
        let failure = reply.failure();
        if question == Question::ResultTaken {
            // Whatever a look meets: the ACK itself is tried again, with its result.
            self.jobs.step(claim, ReportStage::Due);
        } else if failure.may_pass() {
            self.pause_report(claim, ReportStage::Doubtful, failure, now);
            if failure == Failure::NotFromBackend {
                self.give_up_on_foreign(claim, now);
            }
        } else {
            self.nobody_shows_it(claim, question);
        }
    }

    fn looked_at_report(&mut self, claim: Claim, question: Question, view: &JobView, asked_at: Moment, now: Moment) {
        let is_ours = self.jobs.get(claim).is_some_and(|job| is_ours(job, view));
        match (question, view.state) {
            (Question::Done | Question::Completed, JobState::Missing) => self.job_not_found(claim, asked_at, now),
            (Question::Completed | Question::ResultTaken, JobState::Completed) => self.job_is_completed(claim, now),
            // A FAIL or a requeue without an answer: repeated only if the job is as it was before.
            (Question::Done, JobState::Active) if is_ours => self.jobs.step(claim, ReportStage::Due),
            (Question::ResultTaken, JobState::Active) if is_ours => self.go_without_result(claim, now),
            (Question::ResultTaken, _) => self.jobs.step(claim, ReportStage::Due),
            (Question::Done | Question::Completed, _) => self.nobody_shows_it(claim, question),
        }
    }

    /// A look that does not show what the outcome hangs on.
    fn nobody_shows_it(&mut self, claim: Claim, question: Question) {
        match question {
            Question::Done => self.let_reservation_expire(claim, CANNOT_BE_TOLD),
            // The conflict stands.
            Question::Completed => self.report_is_lost(claim),
            Question::ResultTaken => self.jobs.step(claim, ReportStage::Due),
        }
    }
}
