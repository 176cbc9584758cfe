//! The purpose of a request: which part handles its answer.

use std::sync::Arc;

use crate::api::ids::{PullId, Text, WorkerId};
use crate::api::{Delivery, Farewell, HeartbeatForm, JobRequest, Moment, WorkerState};
use crate::backend::heartbeat_state::SentHeartbeat;

/// The purpose of a request to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Register(WorkerId),
    Heartbeat(SentHeartbeat),
    FinalHeartbeat { state: WorkerState, form: HeartbeatForm },
    Fetch(SentFetch),
    OfJob(JobRequest),
    Manifest,
    Deregister(WorkerId, Farewell),
}

/// A FETCH in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentFetch {
    /// The worker that it is sent for.
    pub(crate) worker: WorkerId,
    /// When it was sent.
    pub(crate) at: Moment,
    /// Most jobs that it returns.
    pub(crate) count: usize,
    /// The queues that it names; none: the configured queues.
    pub(crate) queues: Option<Vec<Text>>,
    /// The newest of the pulls that it is for.
    pub(crate) pull: Option<PullId>,
    /// A stream of events brought the FETCH forward.
    pub(crate) is_woken: bool,
    /// The FETCH is for pushed credit as well.
    pub(crate) is_for_pushed: bool,
    /// Another FETCH was in flight when this one was sent.
    pub(crate) is_second: bool,
}

impl SentFetch {
    /// Names a queue for each job whose envelope names none. The FETCH brought it, so it is of one
    /// of the queues of that FETCH, and a pull of that FETCH gets it.
    pub(crate) fn name_queue_of(&self, deliveries: &mut [Delivery]) {
        let Some(first) = self.queues.as_ref().and_then(|queues| queues.first()) else {
            return;
        };
        for delivery in deliveries {
            if delivery.subject.queue.is_empty() {
                Arc::make_mut(&mut delivery.subject).queue = first.clone();
            }
        }
    }
}

/// The rule for a request that hangs while the backend answers others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenItHangs {
    /// Send the request again on another connection, because it may arrive twice. A FAIL and a
    /// requeue may not.
    Again,
    /// Send a newer request with the present state.
    Newer,
    /// Close its connection. A check then finds out the result.
    Reset,
    /// Do nothing until the request times out.
    Wait,
}

impl Purpose {
    /// The rule for this request if it hangs. An ACK may be sent twice, a FAIL or a requeue may
    /// not.
    pub(super) fn when_it_hangs(&self, may_be_sent_twice: bool) -> WhenItHangs {
        match self {
            Self::OfJob(JobRequest::Report(_)) if !may_be_sent_twice => WhenItHangs::Reset,
            Self::OfJob(
                JobRequest::Report(_)
                | JobRequest::LookBeforeRepeat(_)
                | JobRequest::LookAgain(_)
                | JobRequest::CheckUnextended(_),
            )
            | Self::Manifest
            | Self::FinalHeartbeat { .. } => WhenItHangs::Again,
            Self::Heartbeat(_) => WhenItHangs::Newer,
            // A second FETCH would claim other jobs. The other requests can wait because no job
            // depends on them.
            Self::Register(_)
            | Self::Fetch(..)
            | Self::OfJob(JobRequest::Progress(_) | JobRequest::Checkpoint(_))
            | Self::Deregister(..) => WhenItHangs::Wait,
        }
    }
}

/// The subject of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Topic {
    /// No single job.
    General,
    /// An outcome, or a delivery that arrived while an outcome was in flight.
    Report,
    /// Whether the worker still holds a reservation.
    Check,
    /// Progress or a checkpoint.
    News,
}

impl Purpose {
    /// Whether this is a registration or a heartbeat. Its answer shows whether the backend works.
    pub(super) fn is_greeting(&self) -> bool {
        matches!(
            self,
            Self::Register(_) | Self::Heartbeat(_) | Self::FinalHeartbeat { .. }
        )
    }

    pub(super) fn topic(&self) -> Topic {
        match self {
            Self::Register(_)
            | Self::Heartbeat(_)
            | Self::FinalHeartbeat { .. }
            | Self::Fetch(..)
            | Self::Manifest
            | Self::Deregister(..) => Topic::General,
            Self::OfJob(JobRequest::Report(_) | JobRequest::LookBeforeRepeat(_) | JobRequest::LookAgain(_)) => {
                Topic::Report
            }
            Self::OfJob(JobRequest::CheckUnextended(_)) => Topic::Check,
            Self::OfJob(JobRequest::Progress(_) | JobRequest::Checkpoint(_)) => Topic::News,
        }
    }
}
