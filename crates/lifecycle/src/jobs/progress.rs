//! Progress and checkpoints. ojs-init passes them on if the backend accepts them. A failure here
//! never affects the job.

use std::time::Duration;

use crate::api::ids::{Claim, Text};
use crate::api::{
    About, Call, ErrorCode, Failure, JOB_FRAME_BYTES, JobNotice, JobRequest, JobTimer, Moment, Progress, Reply,
};
use crate::jobs::job::{Job, Place};
use crate::jobs::part::{Context, Jobs};

/// Least time between two updates of one job's progress (progress extension 10).
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Attempts to save a checkpoint before the worker gets the failure.
const CHECKPOINT_ATTEMPTS: u32 = 4;

/// Time for which ojs-init sends no request of a kind that the backend does not offer. A router
/// that has lost a route for a moment answers like such a backend.
const NOT_OFFERED_FOR: Duration = Duration::from_secs(10 * 60);

/// Most characters of a progress message that operators are shown.
const MOST_MESSAGE_CHARS: usize = 80;

impl Jobs {
    /// Stores the newest progress. At most one request a second is sent.
    pub(crate) fn progress(&mut self, claim: Claim, progress: Progress, cx: &Context) {
        if let Some(job) = self.ledger.get_mut(claim) {
            job.news.last_progress = Some(Box::new((for_operators(&progress), cx.now)));
        }
        if is_not_offered(self.backend.no_progress_at, cx) {
            return self.refuse_news(claim, ErrorCode::NotOffered, "the backend takes no progress");
        }
        if let Some(job) = self.ledger.get_mut(claim) {
            job.news.progress = Some(progress);
        }
        if !self.timers.is_armed(JobTimer::Progress(claim)) {
            self.send_progress(claim, cx);
        }
    }

    pub(crate) fn send_progress(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        // The outcome may have been carried out already, and the job may run elsewhere.
        let is_at_work = job.holder().is_some() && !job.is_lost && !job.is_dropped;
        let is_not_offered = is_not_offered(self.backend.no_progress_at, cx);
        if job.news.progress_call.is_some() || !is_at_work || is_not_offered {
            return;
        }
        let Some(progress) = job.news.progress.take() else {
            return;
        };
        let call = Call::Progress {
            job: job.id().clone(),
            progress,
        };
        let sent = self.call(call, JobRequest::Progress(claim), cx);
        if let Some(job) = self.ledger.get_mut(claim) {
            job.news.progress_call = Some(sent);
        }
        self.timers.arm(JobTimer::Progress(claim), cx.now.after(PROGRESS_EVERY));
    }

    pub(crate) fn progress_replied(&mut self, claim: Claim, reply: &Reply, cx: &Context) {
        if *reply == Reply::Failed(Failure::Unsupported) {
            self.backend.no_progress_at = Some(cx.now);
        }
        let Some(job) = self.ledger.get_mut(claim) else { return };
        job.news.progress_call = None;
        let (id, holder) = (job.id().clone(), job.holder());
        if *reply == Reply::Accepted {
            self.confirm(holder, id, About::Progress, true);
        }
        if !self.timers.is_armed(JobTimer::Progress(claim)) {
            self.send_progress(claim, cx);
        }
    }

    /// Stores the newest checkpoint, which replaces one that was not sent.
    pub(crate) fn checkpoint(&mut self, claim: Claim, state: Text, cx: &Context) {
        if is_not_offered(self.backend.no_checkpoints_at, cx) {
            // The log has a line about the answer of the backend.
            return self.refuse_checkpoint(claim, Failure::Unsupported);
        }
        if self.is_too_large_beside_its_job(claim, &state, cx) {
            return self.checkpoint_is_too_large(claim);
        }
        if let Some(job) = self.ledger.get_mut(claim) {
            // The new checkpoint replaces one that waits to be sent again.
            let is_replaced = job.news.checkpoint_failures > 0 && job.news.checkpoint_call.is_none();
            if is_replaced {
                job.news.checkpoints_replaced += 1;
                job.news.checkpoint_failures = 0;
            }
            job.news.checkpoint = Some(state);
        }
        self.timers.cancel(JobTimer::Checkpoint(claim));
        self.send_checkpoint(claim, cx);
    }

    /// Whether the next attempt of the job would not fit into a frame with this checkpoint, which
    /// is in the envelope then and beside it once more.
    fn is_too_large_beside_its_job(&self, claim: Claim, state: &Text, cx: &Context) -> bool {
        let handover = self.ledger.get(claim).and_then(|job| job.handover);
        let envelope = handover.map_or(0, |handover| handover.envelope_bytes);
        let bytes = envelope + 2 * state.len() + JOB_FRAME_BYTES;
        cx.takers.frame_limit().is_some_and(|most| bytes > most)
    }

    fn checkpoint_is_too_large(&mut self, claim: Claim) {
        let Some(job) = self.ledger.get(claim).map(Job::subject) else {
            return;
        };
        self.notify(JobNotice::CheckpointTooLarge { job, is_saved: false });
        let message = "the checkpoint is too large: a frame of the next attempt has it twice, beside the job";
        self.refuse_news(claim, ErrorCode::Refused, message);
    }

    pub(crate) fn send_checkpoint(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get_mut(claim) else { return };
        if job.news.checkpoint_call.is_some() || job.is_lost {
            return;
        }
        let Some(state) = job.news.checkpoint.take() else {
            return;
        };
        let call = Call::Checkpoint {
            job: job.id().clone(),
            state: state.clone(),
        };
        let sent = self.call(call, JobRequest::Checkpoint(claim), cx);
        self.ledger.checkpoint_sent(claim, sent, state);
    }

    pub(crate) fn checkpoint_replied(&mut self, claim: Claim, reply: &Reply, cx: &Context) {
        if *reply == Reply::Failed(Failure::Unsupported) {
            self.backend.no_checkpoints_at = Some(cx.now);
        }
        let Some(state) = self.ledger.checkpoint_answered(claim) else {
            return;
        };
        let Some(job) = self.ledger.get_mut(claim) else { return };
        let (id, is_held) = (job.id().clone(), matches!(job.place, Place::Held(_)));
        let holder = job.holder();
        let failure = reply.failure();
        let failures = job.news.checkpoint_failures + 1;
        let has_newer = job.news.checkpoint.is_some();
        let is_saved = *reply == Reply::Accepted;
        let may_pass = !is_saved && failure.may_pass();
        let may_go_again = may_pass && !has_newer && is_held && failures < CHECKPOINT_ATTEMPTS;
        if may_go_again {
            job.news.checkpoint_failures = failures;
            job.news.checkpoint = Some(state);
            let pause = cx.retry_pause(failures, failure);
            self.timers.arm(JobTimer::Checkpoint(claim), cx.now.after(pause));
            return;
        }
        job.news.checkpoint_failures = 0;
        if is_saved {
            job.news.checkpoints_replaced = 0;
            self.confirm(holder, id, About::Checkpoint, true);
        } else if may_pass && has_newer && job.news.checkpoints_replaced + 1 < CHECKPOINT_ATTEMPTS {
            // The newer checkpoint replaces the old one, unless that keeps happening.
            job.news.checkpoints_replaced += 1;
        } else {
            job.news.checkpoints_replaced = 0;
            self.checkpoint_is_not_saved(claim, failure);
        }
        self.send_checkpoint(claim, cx);
    }

    /// Reports the unsaved checkpoint to the log and to the holder of the job.
    fn checkpoint_is_not_saved(&mut self, claim: Claim, failure: Failure) {
        if let Some(job) = self.ledger.get(claim).filter(|job| job.needs_its_checkpoint()) {
            let subject = job.subject();
            self.notify(JobNotice::CheckpointNotSaved(subject, failure));
        }
        self.refuse_checkpoint(claim, failure);
    }

    fn refuse_checkpoint(&mut self, claim: Claim, failure: Failure) {
        let (code, message) = if failure == Failure::Unsupported {
            (ErrorCode::NotOffered, "the backend saves no checkpoints")
        } else if failure.may_pass() {
            (
                ErrorCode::Unavailable,
                "the backend could not be reached; the checkpoint is not saved",
            )
        } else {
            (ErrorCode::Refused, "the backend refuses the checkpoint")
        };
        self.refuse_news(claim, code, message);
    }

    /// Tells the holder of a job, if it has one, that its progress or checkpoint goes no further.
    fn refuse_news(&mut self, claim: Claim, code: ErrorCode, message: &'static str) {
        let Some(job) = self.ledger.get(claim) else { return };
        if let Some(holder) = job.holder() {
            self.refuse(holder, code, message, job.id().clone());
        }
    }

    /// Reports a pending checkpoint of a job that is removed at the end, because its result will
    /// never be known.
    pub(super) fn checkpoint_is_left(&mut self, job: &Job, cx: &Context) {
        let is_late = cx.end.goes_without_checkpoints;
        let is_pending = job.news.checkpoint.is_some() || job.news.checkpoint_call.is_some();
        if is_late && is_pending && job.needs_its_checkpoint() {
            self.notify(JobNotice::CheckpointNotSaved(job.subject(), Failure::Unanswered));
        }
    }
}

/// Whether the backend answered a moment ago that it does not offer a request.
fn is_not_offered(answered_at: Option<Moment>, cx: &Context) -> bool {
    answered_at.is_some_and(|at| at.elapsed(cx.now) < NOT_OFFERED_FOR)
}

/// The part of progress that the status shows.
fn for_operators(progress: &Progress) -> Progress {
    let clipped = |message: &Text| message.chars().take(MOST_MESSAGE_CHARS).collect::<String>().into();
    Progress {
        fraction: progress.fraction.clone(),
        message: progress.message.as_ref().map(clipped),
        data: None,
    }
}
