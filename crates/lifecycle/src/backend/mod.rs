//! The link to the backend: registration, heartbeats, FETCH, event streams, and the reaction to
//! failures.
//!
//! Words. A *call* is a request with a number. Its *purpose* selects the part that handles the
//! answer. A *form* is one way to write a request, because backends accept different ones. A
//! *hedge* is the same request sent again on another connection. An *outage* begins when requests
//! fail and ends with the first answer. A *poll* is a FETCH that no event asked for.
//!
//! | question | file |
//! |---|---|
//! | where does the part begin? | `link`; its orders: `link_said`; news from other parts: `told` |
//! | which calls are in flight? | `calls`, `purpose` |
//! | which worker does the backend know? | `registration`, `session` |
//! | heartbeats | `heartbeats`, `heartbeat_state`, `last_heartbeat`, `resume`, `resumed` |
//! | FETCH: when, how many | `fetch`, `fetch_pace`, `memory_gate` |
//! | the form of heartbeats and FETCH | `forms` |
//! | event streams | `wake`, `streams`, `deafness`, `wake_ups`, `window_step`, `poll_pace` |
//! | failures | `answers`, `retries`, `hanging`, `answer_times`, `outage`, `outages` |
//!
//! The part may use `api`, `timers`, `groups` and `retry`. Start with `link`, then `fetch`.

pub(super) mod answer_times;
pub(super) mod answers;
pub(super) mod calls;
pub(super) mod deafness;
pub(super) mod fetch;
pub(super) mod fetch_pace;
pub(super) mod forms;
pub(super) mod hanging;
pub(super) mod heartbeat_state;
pub(super) mod heartbeats;
pub(super) mod last_heartbeat;
pub(super) mod link;
pub(super) mod link_said;
pub(super) mod memory_gate;
pub mod outage;
pub(super) mod outages;
pub(super) mod poll_pace;
pub(super) mod purpose;
pub(super) mod registration;
pub(super) mod resume;
pub(super) mod resumed;
pub(super) mod retries;
pub(super) mod session;
pub(super) mod streams;
mod told;
pub(super) mod wake;
pub(super) mod wake_ups;
mod window_step;
