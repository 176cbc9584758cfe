//! The requests of the jobs to the shell and to the other parts.

use std::sync::Arc;

use crate::api::ids::{CallId, Claim, HolderId, ProcessId, PullId};
use crate::api::{Call, Effect, EndCause, GivenJob, JobRequest, Moment, Notice, Subject, ToWorker};

/// A request of the jobs to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// An order for the shell.
    Order(Effect),
    /// Write this notice to the log.
    Notify(Notice),
    /// Send this message to this holder. A cancel also wakes up its process, if the holder asked
    /// for it.
    Tell(HolderId, ToWorker),
    /// Send this request.
    Call {
        id: CallId,
        call: Call,
        request: JobRequest,
    },
    /// Send this request once more, beside the first one.
    Hedge(CallId),
    /// The reply to this request is not needed any more.
    DropCall(CallId),
    /// The backend had its store at this moment.
    StoreSeen(Moment),
    /// The backend accepted an outcome.
    OutcomeTaken,
    /// Send no FETCH before a pause ends, because the backend must not deliver a returned job again
    /// at once.
    PauseFetch,
    /// This holder has this many jobs, and this many of them are overdue.
    Holds(HolderId, usize, usize),
    /// This holder gets a job without a request.
    Give(HolderId, ToWorker),
    /// Spend credit of this pull for a job in its answer.
    Spend(PullId),
    /// Answer this pull with these jobs.
    AnswerPull(PullId, Vec<GivenJob>),
    /// This holder gets no jobs for now: answer its pulls with none.
    EndPullsOf(HolderId),
    /// Keep this process for one job.
    Keep(ProcessId),
    /// Keep no process for one job.
    KeepNone,
    /// End this process.
    EndProcess(ProcessId, EndCause),
    /// A new job counts as the one of `--once`.
    Claimed,
    /// The handler of a lost job has not answered in time. The consequence for its process is
    /// decided after the job counts as overdue.
    Unanswered(Claim),
    /// The end cut this job off.
    CutOff(Arc<Subject>),
}
