//! The runtime directory: where the sockets end up, and who may do what to them.
//!
//! Needs root, because it plays other users and mounts things: in forked processes, which hold
//! whatever the others hold open. So this is a program of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "the test is the outside world, and one that cannot make its directories has failed"
)]

#[path = "../support/forked.rs"]
mod forked;
#[path = "../support/runtime.rs"]
mod runtime;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod places;
mod rules;
