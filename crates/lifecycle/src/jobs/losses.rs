//! Lost reservations: what proves a loss, and what becomes of the handlers that still run.
//!
//! The reply to a heartbeat names the reservations that the backend extended. A job that is missing
//! there is looked at (requirements C-32). Only the look is believed, and "no such job" only if
//! nothing suggests that the backend's store is away.
//!
//! Backends leave an empty list out. A reply without a list is therefore a reason for a look, but a
//! rare one as long as no reply had a list, because the backend may never send one. Until then a
//! look counts only if it shows a cancelled job: nothing says that such a backend keeps a delivered
//! job where GET finds it.

use std::time::Duration;

use crate::api::ids::{Claim, HolderId, JobId, ProcessId};
use crate::api::{Call, CancelReason, JobNotice, JobRequest, JobState, JobTimer, Moment, Phase, Reply};
use crate::jobs::doubts::AcceptedHeartbeat;
use crate::jobs::job::{BeatRecord, Held, Job, Place};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::reports::is_ours;
use crate::jobs::said::Said;

/// Looks at jobs that a heartbeat did not extend, on their way at the same time; the next heartbeat
/// finds the others. This is also the most looks that one heartbeat leads to, however many jobs it
/// named.
const MAX_LOOKS_IN_FLIGHT: usize = 8;

/// Least time between two looks at a job while no reply has had a list of extended jobs.
const LOOK_WITHOUT_LIST_EVERY: Duration = Duration::from_secs(30);

/// Least time between a look at a job and one for which a stream of events is the only reason.
const LOOK_FOR_STREAM_EVERY: Duration = Duration::from_secs(1);

/// After this time a second look that finds no such job is believed. A store that is away for
/// longer has lost more than this.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(30);

/// Most lost jobs that are kept for an answer whose handlers have had their time.
const MOST_UNANSWERED: usize = 1_000;

impl Jobs {
    /// Looks at the reservations that a heartbeat did not extend. A reply without a list extended
    /// none where an earlier reply had a list. Where none had, the backend may extend without a
    /// list: ojs-init looks at each job once, and then every 30 s.
    pub(crate) fn look_for_lost(&mut self, accepted: &AcceptedHeartbeat, cx: &Context) {
        let AcceptedHeartbeat {
            at,
            named,
            extended,
            has_sent_lists,
            ..
        } = *accepted;
        let is_kept = |id: &JobId| extended.is_some_and(|extended| extended.contains(id));
        let (kept, missing): (Vec<_>, Vec<_>) = named.iter().partition(|(id, _)| is_kept(id));
        for (_, claim) in &kept {
            if let Some(job) = self.ledger.get_mut(*claim) {
                job.suspicion.missing_since = None;
            }
        }
        let is_backed = !kept.is_empty();
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
        // The job that has waited longest for a look comes first, so that new jobs do not keep an
        // old one waiting.
        let mut suspects: Vec<(Moment, Claim)> = suspects.collect();
        suspects.sort();
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

    /// A stream of events says that this job was cancelled: a look tells whether that is so. One
    /// that there is no room for is left to the next heartbeat.
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
        if view.state != JobState::Cancelled && !cx.backend.has_told_extended() {
            return;
        }
        if view.state == JobState::Missing && !is_missed_for_good(job, cx.now) {
            return;
        }
        if is_ours(job, &view) {
            job.suspicion.missing_since = None;
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

    /// A job that was lost is ours again, with a new reservation; or one that was dropped, perhaps
    /// with the same one. When its own timeout was over meanwhile nothing has been made of that
    /// yet.
    pub(super) fn regain(&mut self, claim: Claim, cx: &Context) {
        self.timers.cancel(JobTimer::LostGrace(claim));
        let was_dropped = self.ledger.get(claim).is_some_and(|job| job.is_dropped);
        self.is_ours_again(claim);
        if let Some(Place::Held(held)) = self.ledger.get(claim).map(|job| job.place.clone()) {
            // Messages from here on are about the new reservation.
            let cancelled = None;
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
        let is_due = |timer| self.timers.deadline_of(timer).is_some();
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

    /// A heartbeat names a job. If it was dropped, its holder has it again, as long as nothing else
    /// can have happened to the job: its reservation lasts, and its place was not given to another
    /// job.
    pub(crate) fn take_back_dropped(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim).filter(|job| job.is_dropped) else {
            return;
        };
        let is_reserved = self.reserved_until(job, cx) > cx.now;
        if is_reserved && cx.end.phase != Phase::Stop && !self.is_regained_beyond_credit(claim, cx) {
            let subject = job.subject();
            self.regain(claim, cx);
            self.notify(JobNotice::NamedAgain(subject));
        }
    }

    /// Whether a job was dropped, came again and was adopted, and was dropped once more without a
    /// word of it in between.
    pub(super) fn is_dropped_once_more(&self, claim: Claim) -> bool {
        let job = self.ledger.get(claim).filter(|job| job.is_dropped);
        job.is_some_and(|job| matches!(&job.place, Place::Held(held) if held.beats.was_adopted))
    }

    /// The handler of a lost job has had its time. It holds a slot of its holder, and nobody but
    /// its process can be ended for that.
    pub(crate) fn lost_job_outlived_grace(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let Place::Held(held) = job.place else { return };
        // One that is not there is being ended already.
        if cx.end.phase == Phase::Stop || !cx.takers.is_there(held.holder) {
            return;
        }
        let (subject, reason) = (job.subject(), held.cancelled.unwrap_or(CancelReason::Lost));
        self.is_overdue(claim);
        self.notify(JobNotice::Unanswered(subject, reason));
        self.say(Said::Unanswered(claim));
    }

    /// A handler has not answered in time. Where no process is ended for that, jobs that nobody
    /// answers any more would become more and more.
    pub(crate) fn is_unanswered(&mut self, claim: Claim, cx: &Context) {
        self.end_if_stuck(claim, cx);
        if self.ledger.unanswered() > MOST_UNANSWERED
            && let Some(claim) = self.ledger.oldest_unanswered()
        {
            self.finish(claim, cx);
        }
    }

    /// Ends the process that has a job whose handler has not answered in time, when the job's own
    /// timeout is over as well, or when the process can take no other job.
    pub(super) fn end_if_stuck(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim).filter(|job| job.is_overdue) else {
            return;
        };
        if !job.holder().is_some_and(|holder| may_end_for_a_job(holder, cx)) {
            return;
        }
        let has_a_timeout = job.delivery.timeout.is_some();
        let is_timed_out = has_a_timeout && self.timers.deadline_of(JobTimer::JobTimeout(claim)).is_none();
        let process = job.holder().and_then(|holder| cx.takers.process_of(holder));
        if is_timed_out || process.is_some_and(|process| cx.takers.is_stuck(process)) {
            self.ignored_cancel(claim, cx);
        }
    }

    /// Ends the process of a holder whose slots have changed, if a handler is stuck.
    pub(crate) fn end_if_a_handler_is_stuck(&mut self, id: HolderId, cx: &Context) {
        if let Some(process) = cx.takers.process_of(id) {
            self.end_process_if_stuck(process, cx);
        }
    }

    /// Ends the process of a holder that is over, if a handler is stuck.
    pub(crate) fn end_process_if_stuck(&mut self, process: ProcessId, cx: &Context) {
        let holder = cx.takers.overdue_of(process);
        let overdue = holder.and_then(|holder| self.ledger.overdue_of(holder).first().copied());
        if let Some(claim) = overdue {
            self.end_if_stuck(claim, cx);
        }
    }
}

/// Whether the process of a holder is ended where nothing else stops a job.
pub(super) fn may_end_for_a_job(holder: HolderId, cx: &Context) -> bool {
    cx.options.enforce_timeouts || cx.takers.hears(holder)
}

/// Whether what a heartbeat of that time did not extend may be lost, and a look could prove it now.
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

/// Whether it is believed that there is no such job.
fn is_missed_for_good(job: &mut Job, now: Moment) -> bool {
    let suspicion = &mut job.suspicion;
    let since = *suspicion.missing_since.get_or_insert(now);
    suspicion.is_backed || since.elapsed(now) >= MISSING_FOR_GOOD
}
