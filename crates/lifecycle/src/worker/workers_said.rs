//! The requests of the workers to the shell and to the other parts.

use crate::api::ids::{HolderId, Text, WorkerId};
use crate::api::{Effect, WorkerNotice};

/// A request of the workers to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// An order for the shell.
    Order(Effect),
    /// Write this notice to the log.
    Notify(WorkerNotice),
    /// A worker process runs, under a new worker id.
    Began(WorkerId),
    /// The last worker process and its descendants have ended, and the next one starts after a
    /// pause. No holder accepts jobs until then.
    NobodyWorks,
    /// The worker process and its descendants have ended, and there will be no other.
    Lost,
    /// SIGKILL is sent to processes of the worker.
    Killed,
    /// The process of these holders is about to get SIGTERM, and SIGKILL a moment later. Only a
    /// cancel ends their handlers in time.
    Ending(Vec<HolderId>),
    /// Descendants of the ended worker process have had their time, and some still exist.
    DescendantsStay,
    /// The pause after the last SIGURG has ended. Send the next one if this holder still has a
    /// cancelled job.
    SignalPauseIsOver(HolderId),
    /// A holder asks for jobs of these queues.
    QueuesAskedFor(Vec<Text>),
    /// The holders ask for so many jobs, together.
    JobsAskedFor(usize),
}
