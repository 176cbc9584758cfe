//! How often a request has failed, and how long it waits for its next attempt, whoever sent it.

pub mod draws;
pub mod jitter;
pub mod patience;
pub mod state;
