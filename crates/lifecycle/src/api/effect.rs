//! Orders, in the imperative: every action that the machine can ask of the shell.

use crate::api::answer::{OperatorAnswer, ShownToOperator};
use crate::api::call::Call;
use crate::api::end_report::EndReport;
use crate::api::frames::{GivenJob, ToWorker};
use crate::api::ids::{CallId, ClientId, HolderId, JobId, ProcessId, PullId};
use crate::api::notice::Notice;
use crate::api::time::Moment;
use crate::api::words::WorkerState;
use ojs_values::signal::Signal;

/// An order for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the worker; answer with `WorkerStarted` or `WorkerNotStarted`.
    StartWorker {
        /// The process is one more of the same worker: it keeps the name of the one before.
        keeps_name: bool,
    },
    /// Start one more worker process beside the present one; answer with `NextStarted` or
    /// `NextNotStarted`.
    StartNext,
    /// The process of `NextStarted` is the worker from here on. The process that was the worker is
    /// another process like any other, and its end is reported as `ProcessGone`, once more if that
    /// was reported already.
    TakeOver(ProcessId),
    /// Signal the worker, or its process group with `-g`. The machine orders it only between the
    /// worker's start and its end.
    SignalWorker(Signal),
    /// Signal a process that is, or has, holders. One of two worker processes gets it with its
    /// process group with `-g`.
    SignalProcess(ProcessId, Signal),
    /// Send SIGTERM and SIGCONT to each descendant that is a child of ojs-init by now and has not
    /// got them yet.
    TerminateDescendants,
    /// Send SIGKILL to each descendant that is a child of ojs-init by now.
    KillDescendants,
    /// Send SIGKILL to all remaining processes. For PID 1 that is the whole namespace, otherwise
    /// the worker's group and the descendants of ojs-init.
    KillEverything,
    /// Send this frame to a holder, without waiting.
    Tell(HolderId, ToWorker),
    /// Answer a holder's request for jobs with these; an empty list: no jobs for now. Each request
    /// is answered once, unless the holder closes before.
    AnswerPull {
        /// The holder that asked.
        holder: HolderId,
        /// The request.
        pull: PullId,
        /// The jobs, which the holder holds from now on.
        jobs: Vec<GivenJob>,
    },
    /// Answer a holder's `Beats`. Each is answered once and in order, unless the holder closes
    /// before.
    AnswerBeat {
        holder: HolderId,
        /// The state for the reply.
        state: WorkerState,
        /// The jobs whose reservations ojs-init keeps. If the heartbeat lists jobs, these are the
        /// listed ones that any holder has. If it lists none (an empty list), there are none. If it
        /// has no list, these are all jobs of its holder.
        jobs: Vec<JobId>,
    },
    /// The process behind the holder has ended. Read the bytes that it left, then report `HungUp`.
    ReadToEnd(HolderId),
    /// Close this holder without reading it, then report `HungUp`. The reason is for the log: the
    /// frames of the holder are malformed, or no holder is expected there.
    Close(HolderId, &'static str),
    /// Send a request to the backend, and report `BackendReplied` at `give_up` at the latest. For a
    /// stream report `StreamSaid` by then, and `BackendReplied` at its end, at any time.
    CallBackend {
        id: CallId,
        call: Call,
        /// When to give up waiting.
        give_up: Moment,
        /// An equal request is in flight and hangs. Send this one on a connection that does not
        /// hang.
        is_again: bool,
    },
    /// Close the connection of a request that hangs or is no longer needed. If it has no answer
    /// yet, report one now: the request may have been carried out.
    AbandonCall(CallId),
    /// Answer a program on the control socket, without waiting.
    Answer(ClientId, OperatorAnswer),
    /// Send the status to such a program, without waiting.
    Show(ClientId, ShownToOperator),
    /// Close the connection of such a program, whose time is over. Report no further event about
    /// it.
    DropClient(ClientId),
    /// Write to the log.
    Notify(Notice),
    /// Replace the contents of the termination log, if there is one.
    WriteTerminationLog(Box<EndReport>),
    /// Exit with this status. No other order follows.
    Exit(u8),
}

/// Bytes of a `job` frame around its envelope and checkpoint. `wire::worker` spells the frame and
/// must keep to this number.
pub const JOB_FRAME_BYTES: usize = 35;

/// Longest id of a job that a worker can answer, in bytes. `wire::worker` accepts no longer one.
pub const MOST_JOB_ID_BYTES: usize = 1024;
