//! The questions of the jobs about the other parts. Nothing here changes anything.

use std::time::Duration;

use crate::api::ids::{CallId, Claim, HolderId, ProcessId, Text};
use crate::api::{BackendTraits, EndCause, Moment, OfPull, Phase, Subject, WorkerState};

/// Facts about the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndFacts {
    pub(crate) phase: Phase,
    /// The state that the worker was told last.
    pub(crate) told: WorkerState,
    /// The one job of `--once` was claimed.
    pub(crate) has_its_one_job: bool,
    /// The stop phase sends the last outcomes.
    pub(crate) is_reporting: bool,
    /// Outcomes are sent although the last checkpoint of their job has no answer.
    pub(crate) goes_without_checkpoints: bool,
    /// How long a job that is cancelled now has at most, where the end is planned.
    pub(crate) cancel_grace_left: Option<Duration>,
}

/// Questions about the backend.
pub(crate) trait BackendFacts {
    fn traits(&self) -> BackendTraits;
    /// The time between two heartbeats.
    fn heartbeat_interval(&self) -> Duration;
    /// When its store last showed itself.
    fn store_seen(&self) -> Option<Moment>;
    /// When the backend last accepted an outcome.
    fn outcome_taken_at(&self) -> Option<Moment>;
    /// Whether FETCH states the visibility timeout.
    fn is_told_visibility(&self) -> bool;
    /// How many requests are in flight for which an outcome, or a repeated delivery, waits.
    fn reports_on_their_way(&self) -> usize;
    /// Number of looks in flight at jobs that a heartbeat did not extend.
    fn checks_on_their_way(&self) -> usize;
    /// When this request was last sent once more.
    fn newest_sending(&self, call: CallId) -> Option<Moment>;
    /// How often this request was sent.
    fn times_sent(&self, call: CallId) -> usize;
}

/// A job as the possible takers see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered<'a> {
    pub(crate) subject: &'a Subject,
    /// Bytes of the frame in which the job is given to a worker.
    pub(crate) bytes: usize,
}

/// Finds the oldest job of these types (None: of any type) whose frame has at most this many bytes
/// (None: any number).
pub(crate) type OldestOf<'a> = &'a dyn Fn(Option<&[Text]>, Option<usize>) -> Option<Claim>;

/// Questions about the holders.
pub(crate) trait Takers {
    /// How long a holder may wait for the reply to an outcome. None if the holder does not wait for
    /// that alone.
    fn answer_limit(&self, holder: HolderId) -> Option<Duration>;
    /// Whether only the messages of the holder show that it still has its jobs.
    fn is_known_by_words_alone(&self, holder: HolderId) -> bool;
    /// When the holder last sent a message, if only its messages show that it is there.
    fn last_said(&self, holder: HolderId) -> Option<Moment>;
    fn process_of(&self, holder: HolderId) -> Option<ProcessId>;
    /// Whether ojs-init can send messages to the holder, and its process has not ended and is not
    /// being ended. True also for the old one of two workers.
    fn is_at_work(&self, holder: HolderId) -> bool;
    /// Whether its connection is open.
    fn is_open(&self, holder: HolderId) -> bool;
    /// Whether the holder receives messages that it has not asked for.
    fn hears(&self, holder: HolderId) -> bool;

    /// Whether overdue jobs occupy the process, so that it can accept no other job.
    fn is_stuck(&self, process: ProcessId) -> bool;
    /// A holder of this process with an overdue job.
    fn overdue_of(&self, process: ProcessId) -> Option<HolderId>;
    /// Why ojs-init asked this process to end, if it did.
    fn ending(&self, process: ProcessId) -> Option<&EndCause>;
    /// Why the last worker process was ended, if ojs-init ended it.
    fn worker_ended_for(&self) -> Option<&EndCause>;

    /// The longest frame that any connected holder accepts. None if one of them has no limit, or if
    /// there is no holder.
    fn frame_limit(&self) -> Option<usize>;
    /// How many more jobs all holders may get without a request.
    fn free(&self) -> usize;
    /// Whether any holder accepts jobs.
    fn are_ready(&self) -> bool;
    /// Whether any holder asks for jobs by itself.
    fn pull(&self) -> bool;
    /// Whether a pull waits for a job.
    fn want_jobs(&self) -> bool;
    /// Whether any holder accepts this job.
    fn take(&self, job: Offered) -> bool;
    /// Types that holders accept. Only some of them if there are many.
    fn types_taken(&self) -> Vec<Text>;
    /// The oldest of the jobs that the holders with free credit can get now.
    fn oldest_for_the_idle(&self, oldest: OldestOf) -> Option<Claim>;
    /// The holder that gets this job now.
    fn choose(&self, job: Offered) -> Option<HolderId>;
    /// The latest moment at which the present worker process has to send ready. None if it has done
    /// so.
    fn ready_by(&self, timeout: Duration) -> Option<Moment>;

    /// How many jobs the holders of this process have.
    fn jobs_of(&self, process: ProcessId) -> usize;
    /// The holders of one process.
    fn holders_of(&self, process: ProcessId) -> Vec<HolderId>;
    /// Whether a holder of this process accepts this job, now or later.
    fn is_taken_in(&self, process: ProcessId, job: Offered) -> bool;
    /// A holder of this process that can be given this job now.
    fn idle_in(&self, process: ProcessId, job: Offered) -> Option<HolderId>;
    /// A pull of this process for this job.
    fn pull_in(&self, process: ProcessId, job: Offered) -> Option<OfPull>;
    /// The process with the fewest jobs that accepts this job. None if no process accepts the job,
    /// or only processes with one job at a time.
    fn emptiest_taker(&self, job: Offered) -> Option<ProcessId>;
}
