//! The questions of the jobs about the other parts. Nothing here changes anything.

use std::time::Duration;

use crate::api::ids::{CallId, Claim, HolderId, ProcessId, PullId, Text};
use crate::api::{BackendTraits, EndCause, Moment, Phase, Subject, WorkerState};

/// Facts about the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndFacts {
    pub(crate) phase: Phase,
    /// The phase as the worker knows it.
    pub(crate) state: WorkerState,
    /// The one job of `--once` was claimed.
    pub(crate) has_its_one_job: bool,
    /// The stop phase sends the last outcomes.
    pub(crate) is_reporting: bool,
    /// Outcomes go out although the last checkpoint of their job has no answer.
    pub(crate) goes_without_checkpoints: bool,
    /// How long a job that is cancelled now has at most, where the end is planned.
    pub(crate) cancel_grace_left: Option<Duration>,
}

/// Questions about the backend.
pub(crate) trait BackendFacts {
    fn traits(&self) -> BackendTraits;
    /// Since when it takes ACKs in the bare form, if an ACK was sent like that within this time.
    fn bare_acks_since(&self, within: Duration, now: Moment) -> Option<Moment>;
    fn has_no_progress(&self) -> bool;
    fn has_no_checkpoints(&self) -> bool;
    /// When its store last showed itself.
    fn store_seen(&self) -> Option<Moment>;
    /// When it last took an outcome.
    fn outcome_taken_at(&self) -> Option<Moment>;
    /// The backend has named the jobs that a heartbeat extended, at least once.
    fn has_told_extended(&self) -> bool;
    /// FETCH says the visibility timeout.
    fn is_told_visibility(&self) -> bool;
    /// How many requests are on their way that an outcome, or a delivery that came again, waits
    /// for.
    fn reports_on_their_way(&self) -> usize;
    /// How many look at a job that a heartbeat did not extend.
    fn checks_on_their_way(&self) -> usize;
    /// When this request was last sent once more.
    fn newest_sending(&self, call: CallId) -> Option<Moment>;
    /// How often this request was sent.
    fn times_sent(&self, call: CallId) -> usize;
}

/// A job as those see it who may take it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offered<'a> {
    pub(crate) subject: &'a Subject,
    /// Bytes of the frame in which it is given to a worker.
    pub(crate) bytes: usize,
}

/// A pull and who has made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfPull {
    pub(crate) pull: PullId,
    pub(crate) holder: HolderId,
}

/// A pull that has just come and waits for jobs.
#[derive(Debug, Clone)]
pub(crate) struct WaitingPull {
    pub(crate) of: OfPull,
    /// Most jobs that it is answered with.
    pub(crate) left: usize,
    /// The queues that it names; none: those that are configured.
    pub(crate) queues: Option<Vec<Text>>,
}

/// Finds the oldest job of these types (None: of any type) whose frame has at most so many bytes
/// (None: any number).
pub(crate) type OldestOf<'a> = &'a dyn Fn(Option<&[Text]>, Option<usize>) -> Option<Claim>;

/// Questions about the holders.
pub(crate) trait Takers {
    /// How long a holder may wait for the answer to an outcome; none where it does not wait for
    /// that alone.
    fn answer_limit(&self, holder: HolderId) -> Option<Duration>;
    /// Whether nothing but what it says tells that it still has its jobs.
    fn is_known_by_words_alone(&self, holder: HolderId) -> bool;
    /// When it last said something, where that is all that tells that it is there.
    fn last_said(&self, holder: HolderId) -> Option<Moment>;
    fn process_of(&self, holder: HolderId) -> Option<ProcessId>;
    /// Whether it can be talked to.
    fn is_there(&self, holder: HolderId) -> bool;
    /// Whether its connection is open.
    fn is_open(&self, holder: HolderId) -> bool;
    /// Whether it hears what it is told unasked.
    fn hears(&self, holder: HolderId) -> bool;

    /// Whether a process can take no other job because of jobs that nobody waits for any more.
    fn is_stuck(&self, process: ProcessId) -> bool;
    /// A holder of this process that has a job which nobody waits for any more.
    fn overdue_of(&self, process: ProcessId) -> Option<HolderId>;
    /// Why this process was told to end, if it was.
    fn ending(&self, process: ProcessId) -> Option<&EndCause>;
    /// Why the last worker process was ended, if ojs-init ended it.
    fn worker_ended_for(&self) -> Option<&EndCause>;

    /// The longest frame that any of those who are there takes; none where one takes everything, or
    /// nobody is there.
    fn frame_limit(&self) -> Option<usize>;
    /// How many more jobs all of them may get unasked.
    fn free(&self) -> usize;
    /// Whether anybody takes jobs.
    fn are_ready(&self) -> bool;
    /// Whether anybody is there who asks for jobs itself.
    fn pull(&self) -> bool;
    /// Whether a pull waits for a job.
    fn want_jobs(&self) -> bool;
    /// Whether anybody takes jobs like this.
    fn take(&self, job: Offered) -> bool;
    /// Types that are taken; of many some.
    fn types_taken(&self) -> Vec<Text>;
    /// Of those who can be given a job now, the oldest job for each; of these the oldest.
    fn oldest_for_the_idle(&self, oldest: OldestOf) -> Option<Claim>;
    /// The holder to give such a job to now.
    fn choose(&self, job: Offered) -> Option<HolderId>;
    /// When the present worker process has had its time to say ready; none where it has said so.
    fn ready_by(&self, timeout: Duration) -> Option<Moment>;

    /// How many jobs the holders of this process have.
    fn jobs_of(&self, process: ProcessId) -> usize;
    /// The holders of one process.
    fn holders_of(&self, process: ProcessId) -> Vec<HolderId>;
    /// Whether a holder of this process takes this job, now or later.
    fn is_taken_in(&self, process: ProcessId, job: Offered) -> bool;
    /// A holder of this process that can be given this job now.
    fn idle_in(&self, process: ProcessId, job: Offered) -> Option<HolderId>;
    /// A pull of this process for this job.
    fn pull_in(&self, process: ProcessId, job: Offered) -> Option<OfPull>;
    /// The process with the fewest jobs that takes this job; none where nobody takes it, or only
    /// processes that take one at a time.
    fn emptiest_taker(&self, job: Offered) -> Option<ProcessId>;
}
