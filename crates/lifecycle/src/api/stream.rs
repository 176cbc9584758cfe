//! Streams of events: the backend tells what its jobs go through, as it happens. Whatever comes of
//! them is a hint.

use crate::api::ids::{JobId, Text};

/// Most queues of which each has a stream of its own; of further ones nothing is heard, and they
/// are polled like all others.
pub const MOST_STREAMS: usize = 16;

/// The subject of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StreamTopic {
    /// The events of the jobs of a queue (real-time extension 2.2).
    Queue(Text),
    /// In which of these queues there are jobs to be fetched: one backend has that.
    Queues(Vec<Text>),
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamNews {
    /// The backend offers such a stream: this is the answer to the request, and what follows comes
    /// as it happens.
    Opened,
    /// There is a job to be fetched: this one, where the backend says which. It may have been
    /// waiting for its time, as a scheduled job or a retry does.
    JobAvailable { job: Option<JobId>, came_due: bool },
    /// Somebody has fetched this job.
    JobTaken(JobId),
    /// A job waits for its time: it is scheduled, or will be tried again.
    JobComesLater,
    /// This job was cancelled.
    JobCancelled(JobId),
    /// The backend leaves: it says so on the stream, or the stream's address refuses connections,
    /// or every connection that was kept to that address was closed by the peer. A backend that
    /// stops in good order waits for the end of each stream.
    BackendLeaves,
}
