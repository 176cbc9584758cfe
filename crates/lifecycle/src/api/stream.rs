//! Streams of events: the backend reports changes of its jobs as they happen. Each event is only a
//! hint.

use crate::api::ids::{JobId, Text};

/// Most queues with a stream each. Further queues have none, and are polled like all others.
pub const MOST_STREAMS: usize = 16;

/// The subject of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StreamTopic {
    /// The events of the jobs of a queue (real-time extension 2.2).
    Queue(Text),
    /// Which of these queues have available jobs. One backend has such a stream.
    Queues(Vec<Text>),
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamNews {
    /// The stream is open: the answer to the request. Events follow as they happen.
    Opened,
    /// A job is available. The backend may name it. `came_due`: it was scheduled or waited for its
    /// retry.
    JobAvailable { job: Option<JobId>, came_due: bool },
    /// A worker has fetched this job.
    JobTaken(JobId),
    /// A job is scheduled, or waits for its retry.
    JobComesLater,
    /// This job was cancelled.
    JobCancelled(JobId),
    /// The backend shuts down. It announces that on the stream, or its address refuses connections,
    /// or the peer closed every kept connection to that address. A backend that stops in good order
    /// waits for the end of each stream.
    BackendLeaves,
}
