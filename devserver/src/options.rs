//! Options of a server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::dialect::Dialect;

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address at which the server listens; port 0: any free one.
    pub listen: SocketAddr,
    /// Whether `listen` may be an address that other machines reach.
    pub allow_remote: bool,
    /// How the server speaks with workers.
    pub dialect: Dialect,
    /// The bearer token that every request but `/ojs/v1/health` must show; `None`: nothing.
    pub token: Option<String>,
    /// How long a job is reserved if neither the job nor the worker names a time.
    pub visibility_timeout: Duration,
    /// The heartbeat interval that a registering worker receives.
    pub heartbeat_interval: Duration,
    /// How long a worker may be silent before it is declared dead.
    pub heartbeat_timeout: Duration,
    /// Most jobs: beyond it finished ones are dropped, oldest first. If all are unfinished, new
    /// jobs are refused.
    pub max_jobs: usize,
    /// Most events; older ones are forgotten.
    pub max_events: usize,
    /// Most connections at once; more wait in the kernel.
    pub max_connections: usize,
    /// Longest silence of a stream of events; then the server sends a comment line.
    pub stream_heartbeat: Duration,
    /// The seed that decides the jitter of retries.
    pub seed: u64,
}

impl Default for Options {
    /// Any free port of 127.0.0.1, the specification's dialect and its times.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
            dialect: Dialect::Spec,
            token: None,
            visibility_timeout: Duration::from_secs(1800),
            heartbeat_interval: Duration::from_secs(5),
            heartbeat_timeout: Duration::from_secs(30),
            max_jobs: 100_000,
            max_events: 10_000,
            max_connections: 1_024,
            stream_heartbeat: Duration::from_secs(15),
            seed: 0,
        }
    }
}
