//! PURE. What to do, decided without doing it: events and the time go in, effects come out.
//!
//! No clock, no socket, no process, no randomness: the same input gives the same output, so everything hard is tested
//! here without waiting. The shell (`daemon`) drains the effects after each event and waits until the next deadline.
#![forbid(unsafe_code)]

mod agent;
pub mod answer;
mod backoff;
pub mod budget;
pub mod capacity;
mod connections;
mod conversation;
mod doubts;
pub mod effect;
pub mod end_cause;
pub mod ending;
pub mod event;
mod fetch_forms;
pub mod figures;
pub mod force;
pub mod forms;
mod handover;
pub mod health;
mod heartbeats;
pub mod ids;
mod intake;
mod jobs;
mod losses;
pub mod machine;
mod news;
mod operators;
pub mod options;
pub mod outage;
pub mod phase;
pub mod plain;
mod redelivery;
mod refusals;
mod registration;
mod reports;
mod resume;
mod setbacks;
mod shutdown;
pub mod snapshot;
pub mod status;
mod steps;
mod supervision;
pub mod time;
pub mod timers;
mod unhandled;
