//! What we know of the backend, and it of us.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lifecycle::api::call::{BackendTraits, Directive};
use crate::lifecycle::api::ids::WorkerId;
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::backend::beats::HeartbeatState;
use crate::lifecycle::backend::fetch_forms::FetchForms;
use crate::lifecycle::backend::retry_state::RetryState;

/// The backend's store has shown itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct StoreSeen {
    /// When the request went out that showed it: the store was there at that time or later.
    pub(in crate::lifecycle) asked_at: Moment,
    /// When it was answered.
    pub(in crate::lifecycle) at: Moment,
}

/// What we know of the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::lifecycle) struct Agent {
    /// Our name; another one for each incarnation of the worker.
    pub(in crate::lifecycle) worker: Option<WorkerId>,
    /// Whether registration was answered, one way or the other.
    pub(super) is_registration_answered: bool,
    /// Whether the backend has accepted anything from this incarnation: only then does it have to hear of our end.
    pub(in crate::lifecycle) is_known: bool,
    /// When and how heartbeats go out.
    pub(in crate::lifecycle) heartbeats: HeartbeatState,
    /// What this kind of backend does differently.
    pub(in crate::lifecycle) traits: BackendTraits,
    /// Whether it was asked, and did answer, or does not answer.
    pub(super) knows_traits: bool,
    /// How often it was asked in vain.
    pub(super) manifest_failures: u32,
    /// When it refused the full form of an ACK and took the bare one (requirements C-24).
    pub(in crate::lifecycle) bare_acks_since: Option<Moment>,
    /// FETCHes in a row that failed.
    pub(super) fetches: RetryState,
    /// How they are spelled.
    pub(in crate::lifecycle) fetch_forms: FetchForms,
    /// Registrations in a row that failed.
    pub(super) registrations: RetryState,
    /// What the last heartbeat's reply asked for.
    pub(in crate::lifecycle) last_directive: Option<Directive>,
    /// When the backend last showed that its store is there: it took an outcome, brought jobs or extended a reservation.
    pub(in crate::lifecycle) store_seen: Option<StoreSeen>,
    /// When it last took an outcome.
    pub(in crate::lifecycle) outcome_taken_at: Option<Moment>,
    /// When something was last brought forward.
    pub(super) retried_now_at: Option<Moment>,
    /// The backend takes no progress.
    pub(in crate::lifecycle) has_no_progress: bool,
    /// The backend saves no checkpoints.
    pub(in crate::lifecycle) has_no_checkpoints: bool,
    /// The present incarnation was deregistered: a late answer does not make it known again.
    pub(super) has_left: bool,
    /// Former incarnations that still have outcomes to deliver or requests to be answered, and whether the backend
    /// knows them.
    pub(super) retired: BTreeMap<WorkerId, bool>,
}

impl Agent {
    pub(in crate::lifecycle) fn new(interval: Duration) -> Self {
        Self {
            worker: None,
            is_registration_answered: false,
            is_known: false,
            heartbeats: HeartbeatState::new(interval),
            traits: BackendTraits::default(),
            knows_traits: false,
            manifest_failures: 0,
            bare_acks_since: None,
            fetches: RetryState::default(),
            fetch_forms: FetchForms::default(),
            registrations: RetryState::default(),
            last_directive: None,
            store_seen: None,
            outcome_taken_at: None,
            retried_now_at: None,
            has_no_progress: false,
            has_no_checkpoints: false,
            has_left: false,
            retired: BTreeMap::new(),
        }
    }
}
