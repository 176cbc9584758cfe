//! PURE. What to do, decided without doing it: events and the time go in, effects come out.
//!
//! No clock, no socket, no process, no randomness: the same input gives the same output, so
//! everything hard is tested here without waiting. The shell (`daemon`) drains the effects after
//! each event and waits until the next deadline.
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
