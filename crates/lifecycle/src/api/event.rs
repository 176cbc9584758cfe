//! Facts, in the past tense. Everything that the machine can be told.

use std::time::Duration;

use crate::api::call::Reply;
use crate::api::frames::FromWorker;
use crate::api::health::Probe;
use crate::api::ids::{CallId, ClientId, HolderId, ProcessId, WorkerId};
use crate::api::manners::Manners;
use crate::api::stream::StreamNews;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// Somebody sent us this signal; never SIGCHLD.
    SignalArrived(Signal),
    /// A program has connected to the control socket.
    OperatorConnected(ClientId),
    /// An operator sent a request. The next one comes only after its reply.
    OperatorAsked(ClientId, OperatorRequest),
    /// An operator is gone, or has closed its connection. Its request does not matter any more.
    OperatorLeft(ClientId),
    /// The worker was started; `worker` is the new incarnation's name.
    WorkerStarted {
        process: ProcessId,
        worker: WorkerId,
    },
    /// There is no worker.
    WorkerNotStarted(NotStarted),
    /// Since the worker's start the kernel has killed so many processes of this container because
    /// memory ran out. Comes right before the end of a worker that may be one of them.
    MemoryRanOut(u64),
    WorkerEnded(Ended),
    /// Everything that had ended was reaped.
    Reaped {
        /// Whether any child is left, adopted ones included.
        children_left: bool,
    },
    /// Somebody is there who may get jobs. When its process is gone already, `ProcessGone` follows.
    HolderCame {
        holder: HolderId,
        /// The process behind it; none for one that belongs to the worker's own.
        process: Option<ProcessId>,
        manners: Manners,
    },
    /// The process of a holder that came without one of its own is known by now, and is another
    /// than the worker's. When it is gone already, `ProcessGone` follows.
    HolderRuns {
        holder: HolderId,
        process: ProcessId,
    },
    /// A frame came in.
    Said(HolderId, FromWorker),
    /// Bytes came in that end no frame. They show that the holder is alive, as a frame does.
    HeardPart(HolderId),
    /// Not everything that we wrote to this holder was taken at once; the rest waits in a buffer.
    OutboundFilled(HolderId),
    /// Everything that we wrote to this holder was taken. Follows each `OutboundFilled` and each
    /// job.
    OutboundEmptied(HolderId),
    /// So much waits to be taken from us that nothing that this holder says is read. Comes after
    /// `OutboundFilled`.
    ReadingStopped(HolderId),
    /// The shell reads from the holder again. Comes before `OutboundEmptied` or right after it.
    ReadingResumed(HolderId),
    /// The holder's connection was read to its end, or to the last byte that a process which is
    /// gone had written. Nothing more will come, and the shell has closed it.
    HungUp(HolderId),
    /// A process with holders is gone: it can do nothing any more, zombie or not.
    ProcessGone(ProcessId),
    /// A request was answered, or will never be.
    BackendReplied(CallId, Reply),
    /// A stream that we asked for, and that is not over, tells this. It may be untrue, late, or the
    /// same again and again.
    StreamSaid(CallId, StreamNews),
    /// The file with our credentials changed, or may have.
    CredentialsChanged,
    /// So much of the memory that the container may have is taken, in whole percent. Told when it
    /// has changed, and where there is a gate before it (`worker.memory_gate`).
    MemoryTaken(u8),
}

/// Requests of operators. The first four are signals, too, except that only signals start the
/// orchestrator's clock. Each gets one reply: `Effect::Answer`, or `Effect::Show` if it changes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperatorRequest {
    /// As SIGTSTP.
    Quiet,
    /// As SIGCONT.
    Resume,
    /// As SIGTERM, but the orchestrator's clock does not run yet.
    Terminate,
    /// As a second SIGTERM.
    Stop,
    /// The orchestrator's preStop hook runs: quiet, and its clock runs from now.
    Prestop,
    /// Nothing, but the answer comes only when the time is over, or what a drain may take, or when
    /// we are about to go.
    Wait {
        /// Also when no job is active.
        until_idle: bool,
        most: Duration,
    },
    /// Nothing; where we are and what everybody is doing is shown at once.
    Status {
        /// And once more, without being asked, before we end everybody and before we exit.
        until_end: bool,
    },
    /// Nothing; what a probe is told is shown at once.
    Health(Probe),
}

/// Why there is no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotStarted {
    /// The system has no process for us right now; trying again may help.
    Shortage,
    /// The worker cannot be started. The exit status says why (126, 127, 70, 2).
    Refused(u8),
}
