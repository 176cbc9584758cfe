//! The requests of the jobs to the shell and to the other parts.

use std::sync::Arc;

use crate::api::ids::{CallId, Claim, HolderId, JobId, ProcessId, PullId};
use crate::api::{
    About, Call, Effect, EndCause, ErrorCode, Failure, GivenJob, JobRequest, Moment, Notice, Subject, ToWorker,
};

/// A request of the jobs to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Do this.
    Order(Effect),
    /// Tell the log.
    Notify(Notice),
    /// Tell this holder, if it wants to know, that the backend has this of the job (`is_settled`),
    /// or that it is ours alone.
    Confirm {
        holder: HolderId,
        job: JobId,
        about: About,
        is_settled: bool,
    },
    /// Tell this holder that what it asked for is not done.
    Refuse {
        holder: HolderId,
        code: ErrorCode,
        message: &'static str,
        job: JobId,
    },
    /// Tell this holder to stop a job. Its process is woken up for that, if it asked for it.
    Cancel(HolderId, ToWorker),
    /// Send this request.
    Call {
        id: CallId,
        call: Call,
        request: JobRequest,
    },
    /// Send this request once more, beside the first one.
    Hedge(CallId),
    /// Nobody waits for the answer to this request any more.
    DropCall(CallId),
    /// The backend had its store at this moment.
    StoreSeen(Moment),
    /// The backend took an outcome.
    OutcomeTaken,
    /// The backend has taken ACKs in the bare form since this moment, or takes them in the full
    /// form.
    AcksAreBare(Option<Moment>),
    /// A checkpoint of this job is not saved. That the backend saves none is told once, and only of
    /// a job that needs it.
    CheckpointNotSaved(Arc<Subject>, Failure),
    /// Send no FETCH before a pause is over, because a job that was given back must not come
    /// straight back.
    PauseFetch,
    /// This holder has so many jobs. Nobody waits for so many of them any more.
    Holds(HolderId, usize, usize),
    /// This holder is given a job unasked.
    Give(HolderId, ToWorker),
    /// A job goes out with the answer to this pull.
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
    /// A job that came counts as the one of `--once`.
    Claimed,
    /// The handler of a job that is lost has not answered in time. What that means for its process
    /// is asked when the job counts so.
    Unanswered(Claim),
    /// The end cut this job off.
    CutOff(Arc<Subject>),
}
