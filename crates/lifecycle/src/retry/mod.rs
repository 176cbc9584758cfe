//! Repetition of requests: how often a request has failed, and how long it waits for its next
//! attempt.
//!
//! Words. *Draws* give the next number of a request and the next random part of a pause, from one
//! seed. *Jitter* is that part: it spreads the requests of many instances. *Patience* bounds a
//! pause when the end is near.
//!
//! The folder does not know to which requests the numbers belong. It may use `api`. Start with
//! `state`.

pub mod draws;
pub mod jitter;
pub mod patience;
pub mod state;
