//! Mode socket from outside: the real binary as PID 1 of its own PID namespace, real workers on its socket, and a
//! backend that does as it is told.
//!
//! Needs root (PID namespaces, other users) and python3. What happens is waited for; what must not happen is watched for
//! a short time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/backend.rs"]
mod backend;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;
use support::wait;

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "worker_socket/stage.rs"]
mod stage;

#[path = "worker_socket/admission.rs"]
mod admission;
#[path = "worker_socket/backend_trouble.rs"]
mod backend_trouble;
#[path = "worker_socket/deaths.rs"]
mod deaths;
#[path = "worker_socket/delivery.rs"]
mod delivery;
#[path = "worker_socket/floods.rs"]
mod floods;
#[path = "worker_socket/frames.rs"]
mod frames;
#[path = "worker_socket/hangs.rs"]
mod hangs;
#[path = "worker_socket/inheritance.rs"]
mod inheritance;
#[path = "worker_socket/redelivery.rs"]
mod redelivery;
#[path = "worker_socket/secrets.rs"]
mod secrets;
#[path = "worker_socket/short_limits.rs"]
mod short_limits;
#[path = "worker_socket/shutdown.rs"]
mod shutdown;
#[path = "worker_socket/stop_signals.rs"]
mod stop_signals;
