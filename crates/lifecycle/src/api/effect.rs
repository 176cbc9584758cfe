//! Orders, in the imperative. Everything that the machine can ask of the shell.

use crate::api::answer::{OperatorAnswer, ShownToOperator};
use crate::api::call::Call;
use crate::api::end_report::EndReport;
use crate::api::frames::{GivenJob, ToWorker};
use crate::api::ids::{CallId, ClientId, HolderId, JobId, ProcessId, PullId};
use crate::api::notice::Notice;
use crate::api::time::Moment;
use crate::api::words::WorkerState;
use ojs_values::signal::Signal;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the worker; answer with `WorkerStarted` or `WorkerNotStarted`.
    StartWorker,
    /// Signal the worker, or its process group with `-g`. Only ever ordered between its start and
    /// its end.
    SignalWorker(Signal),
    /// Signal a process that is, or has, holders.
    SignalProcess(ProcessId, Signal),
    /// SIGTERM and SIGCONT to each descendant that is our child by now and has not had them yet.
    TerminateDescendants,
    /// SIGKILL to each descendant that is our child by now.
    KillDescendants,
    /// SIGKILL to everything else that is ours: all of the namespace for PID 1, else the worker's
    /// group and our descendants.
    KillEverything,
    /// Tell a holder this, without waiting.
    Tell(HolderId, ToWorker),
    /// Answer this request of a holder for jobs, with these; none: there are none for it now. Each
    /// is answered once, unless the holder is gone before.
    AnswerPull {
        /// The holder that asked.
        holder: HolderId,
        /// Which request.
        pull: PullId,
        /// The jobs, which it holds from now on.
        jobs: Vec<GivenJob>,
    },
    /// Answer the heartbeat of a holder that said `Beats`: each is answered once, in their order,
    /// unless the holder is gone before.
    AnswerBeat {
        holder: HolderId,
        /// The state for the reply.
        state: WorkerState,
        /// The jobs whose reservations ojs-init keeps. If the heartbeat lists jobs: those of the
        /// list that any holder has, and none for an empty list. If it does not say which jobs it
        /// has: all of its holder.
        jobs: Vec<JobId>,
    },
    /// The process at the other end is gone: read what it left, then `HungUp`.
    ReadToEnd(HolderId),
    /// Let this holder go, unread, then `HungUp`; why is for the log. The two sides do not
    /// understand each other, or nobody is expected there.
    Close(HolderId, &'static str),
    /// Send a request to the backend, and answer with `BackendReplied` at `give_up` at the latest;
    /// a stream with `StreamSaid` by then, and with `BackendReplied` at its end, whenever that is.
    CallBackend {
        id: CallId,
        call: Call,
        /// When we stop waiting.
        give_up: Moment,
        /// An equal request is on its way and hangs. This one goes on a connection that does not
        /// hang as well.
        is_again: bool,
    },
    /// Nobody waits for the answer to this request any more, or it hangs: close its connection.
    /// Where it has no answer yet, it is answered now: it may have been carried out.
    AbandonCall(CallId),
    /// Answer a program on the control socket, without waiting.
    Answer(ClientId, OperatorAnswer),
    /// Show such a program what it asked for, without waiting.
    Show(ClientId, ShownToOperator),
    /// Close the connection of such a program: it had its time. Nothing more is told of it.
    DropClient(ClientId),
    /// Tell the person who reads the log.
    Notify(Notice),
    /// Write this to the termination log in place of what is there, if there is one.
    WriteTerminationLog(Box<EndReport>),
    /// End with this status. Nothing follows.
    Exit(u8),
}

/// Bytes of a `job` frame around its envelope and checkpoint; `wire::worker`, which spells it, is
/// held to this number.
pub const JOB_FRAME_BYTES: usize = 35;

/// Longest id of a job that a worker can answer, in bytes; `wire::worker` takes no longer one.
pub const MOST_JOB_ID_BYTES: usize = 1024;
