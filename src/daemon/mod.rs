//! SHELL. Holds descriptors and processes, and does what the lifecycle says; it decides nothing itself.
#![forbid(unsafe_code)]

pub mod admission;
pub mod agent;
mod agent_options;
mod backend_http;
pub mod backend_lanes;
mod backend_tls;
mod backend_token;
mod control;
mod control_client;
pub mod control_commands;
mod descendants;
mod event_loop;
mod instances;
mod lane_pool;
pub mod log;
mod log_record;
mod narrate;
mod narrate_jobs;
mod outbound;
mod perform;
pub mod plain_loop;
pub mod prepare;
mod probe_link;
mod probe_links;
mod probe_listener;
mod resolver;
pub mod runtime_base;
pub mod runtime_dir;
mod seldom;
mod small_file;
mod start;
pub mod termination_log;
mod worker_link;
mod worker_links;
