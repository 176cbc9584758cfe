//! The jobs as one part of the machine: the holder of each, the choice of the next holder, and the
//! delivery of outcomes to the backend.
//!
//! The part knows no other part. It asks [`BackendFacts`] and [`Takers`] about them. The part
//! returns a list of [`Said`]: orders for the shell and requests to the other parts, in the order
//! in which the router carries them out.

use std::cell::Cell;
use std::time::Duration;

use crate::api::ids::{CallId, HolderId, JobId};
use crate::api::{About, Call, ErrorCode, Failure, JobError, JobRequest, JobTimer, Moment, Notice, Options, ToWorker};
use crate::jobs::facts::{BackendFacts, EndFacts, Takers};
use crate::jobs::job::LookStep;
use crate::jobs::ledger::Ledger;
use crate::jobs::memory::Memory;
use crate::jobs::returns::Returns;
use crate::jobs::said::Said;
use crate::jobs::stages::ReportEvent;
use crate::jobs::suspects::Suspects;
use crate::retry::draws::Draws;
use crate::timers::Timers;

/// All jobs, and the memory of former jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Jobs {
    pub(crate) ledger: Ledger,
    pub(crate) memory: Memory,
    pub(crate) suspects: Suspects,
    pub(crate) returns: Returns,
    pub(crate) backend: KnownBackend,
    /// When the last heartbeat was sent that the backend has accepted.
    pub(super) beaten_at: Option<Moment>,
    pub(crate) timers: Timers<JobTimer>,
    pub(crate) said: Vec<Said>,
}

/// Facts about the backend that the jobs have found since the last answer to a registration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct KnownBackend {
    /// Since when the backend refuses the full form of an ACK and accepts the bare one
    /// (requirements C-24).
    pub(super) bare_acks_since: Option<Moment>,
    /// When the backend last answered that it accepts no progress.
    pub(super) no_progress_at: Option<Moment>,
    /// When the backend last answered that it saves no checkpoints.
    pub(super) no_checkpoints_at: Option<Moment>,
    /// A reply to a heartbeat had a list of the extended reservations.
    pub(super) has_sent_lists: bool,
}

/// The facts of a decision besides the state of the jobs.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) end: EndFacts,
    /// The error with which a job fails that the end cuts off.
    pub(crate) shutdown_error: &'a dyn Fn() -> JobError,
    /// New jobs may be given out: the phase is running and the worker is alive.
    pub(crate) takes_jobs: bool,
    pub(crate) backend: &'a dyn BackendFacts,
    pub(crate) takers: &'a dyn Takers,
    /// Shared with the link to the backend, so that no number is drawn twice.
    pub(crate) draws: &'a Cell<Draws>,
    pub(crate) now: Moment,
}

impl Context<'_> {
    /// How many jobs may be active.
    pub(super) fn most_active(&self) -> usize {
        usize::try_from(self.options.concurrency).unwrap_or(usize::MAX)
    }

    /// How long to wait before a request is repeated that has failed `before` times, and like this
    /// now.
    pub(super) fn retry_pause(&self, before: u32, failure: Failure) -> Duration {
        let mut draws = self.draws.get();
        let pause = draws.retry_pause(before, failure, self.end.phase);
        self.draws.set(draws);
        pause
    }
}

/// Questions of the other parts.
impl Jobs {
    /// Whether this holder has a cancelled job.
    pub(crate) fn has_cancelled(&self, holder: HolderId) -> bool {
        let held = self.ledger.held_by(holder).iter();
        let mut held = held.filter_map(|claim| self.ledger.get(*claim));
        held.any(|job| job.cancelled().is_some())
    }

    /// Whether a suspect waits, or has a process for itself.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.isolation.is_some() || !self.ledger.suspects().is_empty()
    }
}

/// Timers.
impl Jobs {
    /// Acts on a timer.
    pub(crate) fn due(&mut self, timer: JobTimer, cx: &Context) {
        match timer {
            JobTimer::JobTimeout(claim) => self.job_timed_out(claim, cx),
            JobTimer::JobGrace(claim) => self.ignored_cancel(claim, cx),
            JobTimer::LostGrace(claim) => self.lost_job_outlived_grace(claim, cx),
            JobTimer::Silence(claim) => self.silence_is_over(claim, cx),
            JobTimer::NoHandler(claim) => self.no_handler(claim, cx),
            JobTimer::Suspect => self.isolation_is_over(cx),
            JobTimer::WithoutResult(claim) => self.report_event(claim, ReportEvent::NoOtherAnswer, cx),
            JobTimer::AnswerBy(claim) => self.outcome_is_ours(claim),
            JobTimer::Report(claim) => self.report_event(claim, ReportEvent::TimerDue, cx),
            JobTimer::LookAgain(claim) => self.ledger.look_step(claim, LookStep::Due),
            JobTimer::Progress(claim) => self.send_progress(claim, cx),
            JobTimer::Checkpoint(claim) => self.send_checkpoint(claim, cx),
        }
    }
}

/// Orders to the shell and to the other parts.
impl Jobs {
    pub(super) fn say(&mut self, said: Said) {
        self.said.push(said);
    }

    pub(super) fn notify(&mut self, notice: impl Into<Notice>) {
        self.say(Said::Notify(notice.into()));
    }

    /// Confirms to a holder that the backend has this of a job (`is_settled`), or that ojs-init
    /// alone is responsible for it.
    pub(super) fn confirm(&mut self, holder: Option<HolderId>, job: JobId, about: About, is_settled: bool) {
        if let Some(holder) = holder {
            self.say(Said::Tell(holder, ToWorker::Ok { job, about, is_settled }));
        }
    }

    pub(super) fn refuse(&mut self, holder: HolderId, code: ErrorCode, message: &'static str, job: JobId) {
        let (message, job) = (message.into(), Some(job));
        self.say(Said::Tell(holder, ToWorker::Error { code, message, job }));
    }

    /// Sends a request about a job.
    pub(super) fn call(&mut self, call: Call, request: JobRequest, cx: &Context) -> CallId {
        let mut draws = cx.draws.get();
        let id = draws.call();
        cx.draws.set(draws);
        self.say(Said::Call { id, call, request });
        id
    }
}
