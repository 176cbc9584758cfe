//! PURE. Decides, and does nothing: its input is events and the time, its output is effects.
//!
//! The crate has no clock, no socket, no process and no randomness. The same input gives the same
//! output, so everything hard is tested here without waiting. The shell (`daemon`) carries out the
//! effects after each event and waits until the next deadline.
//!
//! Words. An *event* is a fact, in the past tense. An *effect* is an order to the shell, in the
//! imperative. A *part* of the machine owns one share of the state and knows no other part. The
//! *router* carries out the orders of a part. A *notice* is a fact for the log that decides
//! nothing.
//!
//! The crate may use `ojs_values`. Start with `machine`, then read the events (`api::event`) and
//! the effects (`api::effect`). `plain` is a machine of its own, for mode none. `docs/machine.md`
//! shows the way of a job and of a SIGTERM.
#![forbid(unsafe_code)]

pub mod api;
pub mod backend;
pub mod groups;
mod invariants;
pub mod jobs;
pub mod machine;
pub mod plain;
pub mod retry;
mod router;
pub mod shutdown;
pub mod timers;
pub mod view;
pub mod worker;

#[cfg(test)]
#[path = "part_walk_tests.rs"]
mod part_walk;

// Helpers that the tests of the whole machine have as well, where the crate is `ojs_lifecycle`.
#[cfg(test)]
extern crate self as ojs_lifecycle;
#[cfg(test)]
#[path = "../tests/support/script/defaults.rs"]
mod default_options;
