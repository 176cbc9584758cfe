//! Lost reservations: the proof of a loss, and the handlers that still run after it.
//!
//! The reply to a heartbeat names the reservations that the backend extended. ojs-init looks at a
//! job that is missing there (requirements C-32). It believes only the look, and "no such job" only
//! if nothing suggests that the backend's store is away.
//!
//! Backends leave an empty list out. A reply without a list is therefore a reason for a look. That
//! look is rare as long as no reply had a list, because the backend may never send one. Until then
//! a look counts only if it shows a cancelled job, because GET of that backend may not find
//! delivered jobs.

use std::time::Duration;

use ojs_values::small;

use crate::api::ids::{Claim, HolderId, JobId, ProcessId};
use crate::api::{Call, CancelReason, JobNotice, JobRequest, JobState, JobTimer, Moment, Phase, Reply};
use crate::jobs::doubts::AcceptedHeartbeat;
use crate::jobs::job::{BeatRecord, Held, Job, Place};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::reports::is_ours;
use crate::jobs::said::Said;

/// Most looks in flight at jobs that a heartbeat did not extend. The next heartbeat finds the other
/// jobs. This is also the most looks that one heartbeat leads to, however many jobs it named.
const MAX_LOOKS_IN_FLIGHT: usize = 8;

/// Least time between two looks at a job while no reply has had a list of extended jobs.
const LOOK_WITHOUT_LIST_EVERY: Duration = Duration::from_secs(30);

/// Least time between a look at a job and one for which a stream of events is the only reason.
const LOOK_FOR_STREAM_EVERY: Duration = Duration::from_secs(1);

/// Time after which ojs-init believes a second look that finds no job. A store that is away for
/// longer has lost more than this job.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(30);

/// Most overdue jobs that are kept for an answer.
const MOST_UNANSWERED: usize = 1_000;

impl Jobs {
    /// Looks at the reservations that a heartbeat did not extend. A reply without a list extended
    /// none if an earlier reply had a list. If none had, the backend may extend without a list:
    /// ojs-init looks at each job once, and then every 30 s.
    pub(crate) fn look_for_lost(&mut self, accepted: &AcceptedHeartbeat, cx: &Context) {
        let AcceptedHeartbeat {
            at, named, extended, ..
        } = *accepted;
        let is_kept = |id: &JobId| extended.is_some_and(|extended| extended.contains(id));
        let (kept, missing): (Vec<_>, Vec<_>) = named.iter().partition(|(id, _)| is_kept(id));
        for (_, claim) in &kept {
            if let Some(job) = self.ledger.get_mut(*claim) {
                job.suspicion.missing_since = None;
            }
        }
        let is_backed = !kept.is_empty();
        let has_sent_lists = self.backend.has_sent_lists;
        let is_due = |last: Moment| has_sent_lists || last.elapsed(cx.now) >= LOOK_WITHOUT_LIST_EVERY;
        let room = MAX_LOOKS_IN_FLIGHT.saturating_sub(cx.backend.checks_on_their_way());
        let suspects = missing.into_iter().filter_map(|(_, claim)| {
            let job = self
                .ledger
                .get(*claim)
                .filter(|job| may_be_lost(job, at, is_backed, cx.now))
                .filter(|job| job.suspicion.looked_at.is_none_or(is_due))?;
            Some((job.suspicion.looked_at.unwrap_or(job.claimed_at), *claim))
        });
        // The job that has waited longest for a look is the first, because new jobs must not keep
        // an old one waiting.
        let mut suspects: Vec<(Moment, Claim)> = suspects.collect();
        small::sort_by(&mut suspects, |one, other| one < other);
        for (_, claim) in suspects.into_iter().take(room) {
            self.look_at_suspect(claim, is_backed, cx);
        }
    }

    fn look_at_suspect(&mut self, claim: Claim, is_backed: bool, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let call = Call::GetJob { job: job.id().clone() };
        let look = self.call(call, JobRequest::CheckUnextended(claim), cx);
        if let Some(job) = self.ledger.get_mut(claim) {
            job.suspicion.look = Some(look);
            job.suspicion.looked_at = Some(cx.now);
            job.suspicion.is_backed = is_backed;
        }
    }

    /// Looks at a job that a stream of events reports as cancelled, because only a look proves
    /// that. If there is no room for the look, the next heartbeat decides.
    pub(crate) fn is_said_to_be_cancelled(&mut self, id: &JobId, cx: &Context) {
        let room = MAX_LOOKS_IN_FLIGHT.saturating_sub(cx.backend.checks_on_their_way());
        let is_due = |last: Moment| last.elapsed(cx.now) >= LOOK_FOR_STREAM_EVERY;
        let may_be_looked_at = |job: &Job| {
            let suspicion = &job.suspicion;
            may_be_lost(job, cx.now, true, cx.now) && suspicion.looked_at.is_none_or(is_due)
        };
        let claims = self.ledger.claims_of(id);
        let suspects = claims.filter(|claim| self.ledger.get(*claim).is_some_and(may_be_looked_at));
        for claim in suspects.take(room).collect::<Vec<_>>() {
            self.look_at_suspect(claim, false, cx);
        }
    }

    pub(crate) fn looked_for_lost(&mut self, claim: Claim, reply: Reply, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        job.suspicion.look = None;
        if job.is_dropped {
            return;
        }
        let Reply::JobSeen(view) = reply else { return };
        if is_ours(job, &view) {
            job.suspicion.missing_since = None;
            job.suspicion.may_have_lapsed = false;
            return;
        }
        if view.state != JobState::Cancelled && !self.backend.has_sent_lists {
            return;
        }
        if view.state == JobState::Missing && !is_missed_for_good(job, cx.now) {
            return;
        }
        match view.state {
            JobState::Hidden => {}
            JobState::Cancelled => self.is_lost(claim, CancelReason::Cancelled, cx),
            JobState::Active | JobState::Completed | JobState::Elsewhere | JobState::Missing => {
                self.is_lost(claim, CancelReason::Lost, cx);
            }
        }
    }

    fn is_lost(&mut self, claim: Claim, reason: CancelReason, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let subject = job.subject();
        match job.place {
            Place::Reporting(_) => {}
            Place::Waiting => {
                self.finish(claim, cx);
                self.notify(JobNotice::ReservationLost(subject, reason));
            }
            Place::Held(_) => {
                self.ledger.lose(claim);
                self.notify(JobNotice::ReservationLost(subject, reason));
                let grace = cx.options.timeout_grace;
                self.cancel(claim, reason, grace, cx);
                self.timers.arm(JobTimer::LostGrace(claim), cx.now.after(grace));
            }
        }
    }

    /// Marks a lost job as ojs-init's again, with a new reservation, or a dropped job, perhaps with
    /// its old reservation. Arms the job's own timeout if no timer of that timeout runs.
    pub(super) fn regain(&mut self, claim: Claim, cx: &Context) {
        self.timers.cancel(JobTimer::LostGrace(claim));
        let was_dropped = self.ledger.get(claim).is_some_and(|job| job.is_dropped);
        self.is_ours_again(claim);
        if let Some(Place::Held(held)) = self.ledger.get(claim).map(|job| job.place.clone()) {
            // The first cancel of a lost job was about its reservation. A grace that goes on is
            // then that of an operator's cancel, because no other cancel of a lost job has one.
            let is_in_grace = self.timers.is_armed(JobTimer::JobGrace(claim));
            // Messages from here on are about the new reservation. The cancel of an operator or for
            // the job's timeout is about the handler, so it stays.
            let cancelled = match held.cancelled {
                Some(CancelReason::Operator | CancelReason::Timeout) => held.cancelled,
                Some(CancelReason::Lost | CancelReason::Cancelled) if is_in_grace => Some(CancelReason::Operator),
                Some(CancelReason::Lost | CancelReason::Cancelled | CancelReason::Shutdown) | None => None,
            };
            let mut beats = BeatRecord::named_at(cx.now);
            beats.was_adopted = was_dropped;
            let held = Held {
                cancelled,
                beats,
                ..held
            };
            self.place(claim, Place::Held(held));
            if was_dropped {
                self.listen_for_words(claim, held.holder, cx);
            }
        }
        let is_due = |timer| self.timers.is_armed(timer);
        let is_timed = is_due(JobTimer::JobTimeout(claim)) || is_due(JobTimer::JobGrace(claim));
        let times_out_at = self.ledger.get(claim).and_then(|job| {
            let (timeout, handover) = job.delivery.timeout.zip(job.handover)?;
            Some(handover.at.after(timeout).max(cx.now))
        });
        if let Some(at) = times_out_at.filter(|_| !is_timed) {
            self.timers.arm(JobTimer::JobTimeout(claim), at);
        }
    }

    /// Whether a delivery of a job that was lost or dropped is more than was asked for, since its
    /// credit was used for another one.
    pub(super) fn is_regained_beyond_credit(&self, claim: Claim, cx: &Context) -> bool {
        let is_free = self.ledger.get(claim).is_some_and(|job| job.is_lost || job.is_dropped);
        is_free && self.ledger.active() >= cx.most_active()
    }

    /// Returns a dropped job to its holder, because a heartbeat names it. This requires that the
    /// job's reservation lasts and that its place was not given to another job.
    pub(crate) fn take_back_dropped(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim).filter(|job| job.is_dropped) else {
            return;
        };
        let is_reserved = job.reserved_until > cx.now;
        if is_reserved && cx.end.phase != Phase::Stop && !self.is_regained_beyond_credit(claim, cx) {
            let subject = job.subject();
            self.regain(claim, cx);
            self.notify(JobNotice::NamedAgain(subject));
        }
    }

    /// Whether a job was dropped, delivered again and adopted, and dropped once more without a
    /// heartbeat that named it in between.
    pub(super) fn is_dropped_once_more(&self, claim: Claim) -> bool {
        let job = self.ledger.get(claim).filter(|job| job.is_dropped);
        job.and_then(Job::held).is_some_and(|held| held.beats.was_adopted)
    }

    /// The handler of a lost job has had its time to answer. It occupies a slot of its holder, and
    /// only the end of its process can free that slot.
    pub(crate) fn lost_job_outlived_grace(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Place::Held(held) = job.place else { return };
        // A holder that has left, or whose process is being ended, gives its slot back soon.
        if cx.end.phase == Phase::Stop || !cx.takers.is_at_work(held.holder) {
            return;
        }
        let (subject, reason) = (job.subject(), held.cancelled.unwrap_or(CancelReason::Lost));
        self.is_overdue(claim);
        self.notify(JobNotice::Unanswered(subject, reason));
        self.say(Said::Unanswered(claim));
    }

    /// Handles an overdue job. If no process is ended for overdue jobs, their number is bounded
    /// here.
    pub(crate) fn is_unanswered(&mut self, claim: Claim, cx: &Context) {
        self.end_if_stuck(claim, cx);
        if self.ledger.unanswered() > MOST_UNANSWERED
            && let Some(claim) = self.ledger.oldest_unanswered()
        {
            self.finish(claim, cx);
        }
    }

    /// Ends the process of an overdue job if the job's own timeout has expired as well, or if the
    /// process can accept no other job.
    pub(super) fn end_if_stuck(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim).filter(|job| job.is_overdue) else {
            return;
        };
        if !job.holder().is_some_and(|holder| may_end_for_a_job(holder, cx)) {
            return;
        }
        let has_a_timeout = job.delivery.timeout.is_some();
        let is_timed_out = has_a_timeout && !self.timers.is_armed(JobTimer::JobTimeout(claim));
        let process = job.holder().and_then(|holder| cx.takers.process_of(holder));
        if is_timed_out || process.is_some_and(|process| cx.takers.is_stuck(process)) {
            self.ignored_cancel(claim, cx);
        }
    }

    /// Ends the process of this holder, whose slots have changed, if a handler is stuck.
    pub(crate) fn end_if_a_handler_is_stuck(&mut self, id: HolderId, cx: &Context) {
        if let Some(process) = cx.takers.process_of(id) {
            self.end_process_if_stuck(process, cx);
        }
    }

    /// Ends this process if one of its handlers is stuck.
    pub(crate) fn end_process_if_stuck(&mut self, process: ProcessId, cx: &Context) {
        let holder = cx.takers.overdue_of(process);
        let overdue = holder.and_then(|holder| self.ledger.overdue_of(holder).first().copied());
        if let Some(claim) = overdue {
            self.end_if_stuck(claim, cx);
        }
    }
}

/// Whether the process of a holder may be ended to stop one job.
pub(super) fn may_end_for_a_job(holder: HolderId, cx: &Context) -> bool {
    cx.options.enforce_timeouts || cx.takers.hears(holder)
}

/// Whether a job that a heartbeat of that time did not extend may be lost, and a look could prove
/// the loss now.
fn may_be_lost(job: &Job, beaten_at: Moment, is_backed: bool, now: Moment) -> bool {
    let suspicion = &job.suspicion;
    let can_be_proved = |since: Moment| is_backed || since.elapsed(now) >= MISSING_FOR_GOOD;
    let is_here = matches!(job.place, Place::Waiting | Place::Held(_)) && job.again.is_none();
    // A delivery since then is another reservation.
    is_here
        && !job.is_lost
        && !job.is_dropped
        && suspicion.look.is_none()
        && job.claimed_at <= beaten_at
        && suspicion.missing_since.is_none_or(can_be_proved)
}

/// Whether ojs-init believes that the job does not exist.
fn is_missed_for_good(job: &mut Job, now: Moment) -> bool {
    let suspicion = &mut job.suspicion;
    let since = *suspicion.missing_since.get_or_insert(now);
    suspicion.is_backed || since.elapsed(now) >= MISSING_FOR_GOOD
}
