//! The requests of the end to the shell and to the other parts.

use std::time::Duration;

use crate::api::{EndingNotice, Force, Phase, Reason, ToWorker, WorkerState};
use ojs_values::signal::Signal;

/// A request of the end to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Write this notice to the log.
    Notify(EndingNotice),
    /// Send this signal to the worker, if it is alive.
    SignalWorker(Signal),
    /// Send this message to each holder.
    TellAll(ToWorker),
    /// Send a heartbeat now.
    Heartbeat,
    /// The worker runs again: a heartbeat has to be answered before the next FETCH.
    Resumed(Reason),
    /// No jobs are accepted until a resume.
    QuietBegins,
    /// Begin the end: send no FETCH, start no worker, and answer the holders that wait for the
    /// backend.
    TerminateBegins,
    /// Report the start of the end to the backend. `from` is the phase before it.
    TellBackend { from: Phase },
    /// Requests that wait for their next attempt may not wait as long as before.
    DrainBegins,
    /// Log how many jobs are left, if the worker is alive or a job is left. `is_first` marks the
    /// first such line.
    DrainLine { is_first: bool, left: Duration },
    /// Log the start of the stop phase with the number of held jobs. It was forced, or the deadline
    /// passed.
    StopBegins(Option<Force>),
    /// Write the facts of the end known so far, in case ojs-init is killed before its end.
    WriteAccount,
    /// Cancel each held job. Its handler has this much time to answer.
    CancelJobs(Duration),
    /// Ask the worker to end.
    AskWorkerToEnd,
    /// End every process by SIGKILL.
    Kill,
    /// Send the remaining outcomes to the backend, quickly.
    Report,
    /// Give up on outcomes that the backend has not accepted by now, for this reason.
    GiveUpOnOutcomes(&'static str),
    /// Send the last heartbeat.
    SayLast(WorkerState),
    /// Deregister each worker that the backend knows.
    Deregister,
    /// Show the end to operators that watch the status.
    ShowEnd,
    /// No job has arrived for the whole idle time. Send one more FETCH, or begin the end if no
    /// holder could accept a job.
    AskOnceMore { idle_for: Duration },
    /// All work is done, or has had its time.
    Exit,
}
