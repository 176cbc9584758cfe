//! PURE. What to do, decided without doing it: events and the time go in, effects come out.
//!
//! No clock, no socket, no process, no randomness: the same input gives the same output, so everything hard is tested
//! here without waiting. The shell (`daemon`) drains the effects after each event and waits until the next deadline.
#![forbid(unsafe_code)]

pub mod api;
pub mod backend;
mod consequences;
mod credit;
mod deaths;
pub mod groups;
mod invariants;
mod job_consequences;
mod job_facts;
pub mod jobs;
mod link_consequences;
pub mod machine;
pub mod plain;
pub mod retry;
pub mod shutdown;
pub mod timers;
pub mod view;
pub mod worker;
mod worker_consequences;
