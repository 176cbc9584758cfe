//! The end: its phases and their triggers, its times, its steps, and its log lines.
//!
//! | to change | look into |
//! |---|---|
//! | how long a part of the end may last | `timeouts` |
//! | which trigger leads from which phase to which | `phase`, a table |
//! | what happens when a phase begins | `transitions`; in the other parts `router/end` |
//! | the order of the steps of the stop phase, and the event that each waits for | `steps`, a table |
//! | what a step does | `stop`; in the other parts `router/end` |
//! | what counts as a request to end, and as a repetition of one | `triggers`, `stop_signals` |
//! | when the end begins without a request | `idle` |
//!
//! Words. A *trigger* changes the phase, or leaves it unchanged. The *drain* lets jobs finish. The
//! *stop phase* has *steps*, each with its time. The *tally* counts outcomes from the beginning of
//! the end on.
//!
//! The part knows no other part. It may use `api`, `timers` and `values`. Start with
//! `phase` and `steps`; `ending` is the part itself.

pub(super) mod deadline;
pub(super) mod drain_log;
pub(super) mod end_report;
pub(super) mod ending;
pub(super) mod idle;
pub(super) mod idle_state;
pub mod phase;
pub(super) mod said;
pub(super) mod state;
pub mod steps;
pub(super) mod stop;
pub(super) mod stop_signals;
pub(super) mod timeouts;
pub(super) mod transitions;
pub(super) mod triggers;

#[cfg(test)]
mod exploration_tests;
#[cfg(test)]
mod walk_events_tests;
