//! Facts, in the past tense: every event that the machine can receive.

use std::time::Duration;

use crate::api::call::Reply;
use crate::api::frames::FromWorker;
use crate::api::health::Probe;
use crate::api::ids::{CallId, ClientId, HolderId, ProcessId, Text, WorkerId};
use crate::api::manners::Manners;
use crate::api::stream::StreamNews;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// An event for the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// ojs-init received this signal; never SIGCHLD.
    SignalArrived(Signal),
    /// A program has connected to the control socket.
    OperatorConnected(ClientId),
    /// An operator sent a request. The next event of the operator follows only after the reply.
    OperatorAsked(ClientId, OperatorRequest),
    /// An operator's connection is closed. Its request does not matter any more.
    OperatorLeft(ClientId),
    /// The worker was started; `worker` is the new incarnation's name.
    WorkerStarted {
        process: ProcessId,
        worker: WorkerId,
    },
    /// One more worker process runs beside the present one.
    NextStarted(ProcessId),
    /// One more worker process could not be started.
    NextNotStarted(NotStarted),
    /// The worker could not be started.
    WorkerNotStarted(NotStarted),
    /// The worker and all its descendants use so many bytes of memory. Reported about once for each
    /// heartbeat if there is a limit (`worker.max_memory`).
    WorkerMemory(u64),
    /// The number of processes of this container that the kernel has killed since the worker's
    /// start because memory ran out. Reported right before the end of a worker that may be one of
    /// them.
    MemoryRanOut(u64),
    WorkerEnded(Ended),
    /// All processes that had ended were reaped.
    Reaped {
        /// Whether any child is left, adopted ones included.
        children_left: bool,
    },
    /// A new holder may get jobs. If its process has ended already, `ProcessGone` follows.
    HolderCame {
        holder: HolderId,
        /// The process behind the holder; none for a holder that belongs to the worker's own
        /// process.
        process: Option<ProcessId>,
        manners: Manners,
    },
    /// Two worker processes run, and this one that has just connected belongs to the older one,
    /// which may have started it a moment ago. Follows `HolderCame`.
    ProcessIsOld(ProcessId),
    /// A frame arrived.
    Said(HolderId, FromWorker),
    /// Bytes arrived that end no frame. They show that the holder is alive, as a frame does.
    HeardPart(HolderId),
    /// The holder's connection did not accept all bytes at once; the rest waits in a buffer.
    OutboundFilled(HolderId),
    /// The holder's connection has accepted all bytes; the holder may not have read them yet.
    /// Follows each `OutboundFilled` and each job.
    OutboundEmptied(HolderId),
    /// The shell stopped reading from the holder because too many bytes wait to be sent to the
    /// holder. Follows `OutboundFilled`.
    ReadingStopped(HolderId),
    /// The shell reads from the holder again. Precedes `OutboundEmptied` or follows right after it.
    ReadingResumed(HolderId),
    /// The shell has read the holder's connection to its end and closed it. If the holder's process
    /// has ended, the end is the last byte that it had written. No further event of the holder
    /// follows.
    HungUp(HolderId),
    /// A process with holders has ended. It can do nothing any more, zombie or not.
    ProcessGone(ProcessId),
    /// A request was answered, or will never be answered.
    BackendReplied(CallId, Reply),
    /// An open stream reports this. The news may be untrue, late or repeated.
    StreamSaid(CallId, StreamNews),
    /// The file with the credentials changed, or may have changed.
    CredentialsChanged,
    /// The container uses this share of its memory limit, in whole percent. Reported at a change if
    /// there is a memory gate (`worker.memory_gate`).
    MemoryTaken(u8),
}

/// Requests of operators. The first four equal signals, but only signals start the orchestrator's
/// clock. Each request gets one reply: `Effect::Answer`, or `Effect::Show` if it is about jobs or
/// changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperatorRequest {
    /// As SIGTSTP.
    Quiet,
    /// As SIGCONT.
    Resume,
    /// As SIGTERM, but the orchestrator's clock does not run yet.
    Terminate,
    /// As a second SIGTERM.
    Stop,
    /// Recycle the worker.
    Recycle,
    /// The orchestrator's preStop hook runs: quiet, and the clock runs from now.
    Prestop,
    /// Changes nothing. The reply waits until the time or the longest possible drain has passed, or
    /// until the drain ends.
    Wait {
        /// The reply is also sent if no job is active.
        until_idle: bool,
        most: Duration,
    },
    /// Changes nothing. The phase and the status of all parts are shown at once.
    Status {
        /// The status is shown again before ojs-init kills all processes, and before it exits.
        until_end: bool,
    },
    /// Changes nothing. The answer of a probe is shown at once.
    Health(Probe),
    /// Changes nothing. The jobs are shown at once.
    Jobs,
    /// Cancel the job with this id, or the only one whose id begins with this text.
    Cancel(Text),
}

/// Why the worker did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotStarted {
    /// The system cannot create a process at the moment; trying again may help.
    Shortage,
    /// The worker cannot be started. The exit status shows why (126, 127, 70, 2).
    Refused(u8),
}
