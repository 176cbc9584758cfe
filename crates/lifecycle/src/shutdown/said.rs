//! The requests of the end to the shell and to the other parts.

use std::time::Duration;

use crate::api::{EndingNotice, Force, Phase, Reason, ToWorker, WorkerState};
use ojs_values::signal::Signal;

/// A request of the end to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Tell the log.
    Notify(EndingNotice),
    /// Send this signal to the worker, if it is alive.
    SignalWorker(Signal),
    /// Tell this to each holder.
    TellAll(ToWorker),
    /// Send a heartbeat now.
    Heartbeat,
    /// The worker runs again: a heartbeat has to be answered before the next FETCH.
    Resumed(Reason),
    /// Jobs are taken no more, until somebody resumes.
    QuietBegins,
    /// The end begins: no FETCH, no start of a worker, no wait of a holder for the backend's
    /// answer.
    TerminateBegins,
    /// Tell the backend that the end begins. Before it the phase was this one.
    TellBackend { from: Phase },
    /// Requests that wait for their next attempt may not wait as long as before.
    DrainBegins,
    /// Log how many jobs are left, if the worker is alive or a job is left. It is the first such
    /// line or not.
    DrainLine { is_first: bool, left: Duration },
    /// The stop phase begins: log it with the number of held jobs. It was forced, or its time had
    /// come.
    StopBegins(Option<Force>),
    /// Write what is known of the end by now, in case that somebody ends us before its end.
    WriteAccount,
    /// Cancel each held job. Its handler has this much time to answer.
    CancelJobs(Duration),
    /// Ask the worker to end.
    AskWorkerToEnd,
    /// End everybody by SIGKILL.
    Kill,
    /// Send what is left to the backend, quickly.
    Report,
    /// Give up on outcomes that the backend has not accepted by now, for this reason.
    GiveUpOnOutcomes(&'static str),
    /// Send the last heartbeat.
    SayLast(WorkerState),
    /// Tell the backend that each worker that it knows leaves.
    Deregister,
    /// Show the end to operators who watch.
    ShowEnd,
    /// No job has come for the whole idle time. Ask once more, or begin the end if nobody could
    /// take a job.
    AskOnceMore { idle_for: Duration },
    /// Everything is done, or has had its time.
    Exit,
}
