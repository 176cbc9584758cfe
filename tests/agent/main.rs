//! The whole binary from outside: PID 1 of its own PID namespace, real workers on its socket, and a
//! backend that does as it is told. `cargo test --test agent control::` runs one part of it.
//!
//! Needs root (PID and network namespaces, other users), python3 and promtool. What happens is
//! waited for; what must not happen is watched for a short time.
//!
//! All parts share this process: whatever belongs to a whole process (its user, directory,
//! environment, limits, signals) is changed in a process that is started for that.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/backend/mod.rs"]
mod backend;
#[path = "../support/forked.rs"]
mod forked;
#[path = "../support/name_server.rs"]
mod name_server;
#[path = "../support/network.rs"]
mod network;
#[path = "../support/operator.rs"]
mod operator;
#[path = "../support/probe_client.rs"]
mod probe_client;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/runtime.rs"]
mod runtime;
#[path = "../support/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/system_calls.rs"]
mod system_calls;

mod cgroup;
mod control;
mod cost;
mod exec;
mod gateway;
mod idle;
mod kernel;
mod logging;
mod metrics;
mod probes;
mod reach;
mod requirements;
mod status;
mod termination_log;
mod traces;
mod worker_socket;
