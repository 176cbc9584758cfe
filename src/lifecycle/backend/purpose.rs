//! What a request to the backend was for: where its answer goes.

use crate::lifecycle::api::ids::{Claim, WorkerId};
use crate::lifecycle::api::{Farewell, HeartbeatForm, Moment, WorkerState};
use crate::lifecycle::backend::heartbeat_state::SentHeartbeat;

/// What a request to the backend was for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) enum Purpose {
    Register(WorkerId),
    Heartbeat(SentHeartbeat),
    FinalHeartbeat {
        state: WorkerState,
        form: HeartbeatForm,
    },
    /// And when it went out.
    Fetch(WorkerId, Moment),
    Report(Claim),
    LookBeforeRepeat(Claim),
    LookAgain(Claim),
    CheckUnextended(Claim),
    Progress(Claim),
    Checkpoint(Claim),
    Manifest,
    Deregister(WorkerId, Farewell),
}
