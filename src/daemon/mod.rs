//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing itself.
#![forbid(unsafe_code)]

mod backend_http;
pub mod backend_lanes;
mod lane_pool;
pub mod log;
pub mod plain_loop;
mod resolver;
mod start;
