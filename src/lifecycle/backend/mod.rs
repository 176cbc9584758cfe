//! The backend: registration, heartbeats, FETCH, and what is done when it fails.

pub(super) mod agent;
pub(super) mod answer_times;
pub(super) mod backoff;
pub(super) mod calls;
pub(super) mod deafness;
pub(super) mod fetch;
pub(super) mod fetch_forms;
pub(super) mod hanging;
pub(super) mod heartbeat_state;
pub(super) mod heartbeats;
pub(super) mod hedges;
pub(super) mod last_heartbeat;
pub(super) mod memory_gate;
pub(super) mod memory_gate_state;
pub mod outage;
pub(super) mod outages;
pub(super) mod purpose;
pub(super) mod registration;
pub(super) mod resume;
pub(super) mod resumed;
pub(super) mod retry_state;
pub(super) mod siblings;
pub(super) mod streams;
pub(super) mod wake;
