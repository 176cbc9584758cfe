//! The purpose of a request: where its answer goes.

use crate::api::ids::{PullId, Text, WorkerId};
use crate::api::{Farewell, HeartbeatForm, JobRequest, Moment, WorkerState};
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

/// A FETCH that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentFetch {
    /// On whose behalf.
    pub(crate) worker: WorkerId,
    /// When it went out.
    pub(crate) at: Moment,
    /// Most jobs that it brings.
    pub(crate) count: usize,
    /// The queues that it names; none: those that are configured.
    pub(crate) queues: Option<Vec<Text>>,
    /// The newest of the pulls that it is for.
    pub(crate) pull: Option<PullId>,
    /// A stream of events brought it forward.
    pub(crate) is_woken: bool,
    /// The FETCH is for pushed credit as well.
    pub(crate) is_for_pushed: bool,
    /// Another one was on its way when it went out.
    pub(crate) is_second: bool,
}

/// The rule for a request that hangs while the backend answers others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenItHangs {
    /// The request goes out once more, on another connection, because it may arrive twice. Of the
    /// reports, a FAIL and a requeue may not.
    Again,
    /// A newer one goes out, which says what is so by then.
    Newer,
    /// Its connection is closed, and a look finds out what became of it.
    Reset,
    /// Nothing: its time has to be over.
    Wait,
}

impl Purpose {
    /// The rule for such a request if it hangs. An ACK may be sent twice, a FAIL or a requeue may
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
            // A FETCH would claim other jobs, and what no job depends on can wait.
            Self::Register(_)
            | Self::Fetch(..)
            | Self::OfJob(JobRequest::Progress(_) | JobRequest::Checkpoint(_))
            | Self::Deregister(..) => WhenItHangs::Wait,
        }
    }
}

/// The subject of such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// No single job.
    General,
    /// An outcome, or a delivery that came while one was on its way.
    Report,
    /// Whether a reservation is still ours.
    Check,
    /// Progress or a checkpoint.
    News,
}

impl Purpose {
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
