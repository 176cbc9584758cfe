//! The outside view of the machine: the status, the probes, the metrics, and the replies to
//! operators.
//!
//! These files read the parts by their getters and change nothing but two small states of their
//! own: the clients that wait on the control socket (`operator_state`), and the memory of the
//! probes (`health_state`).
//!
//! | question | file |
//! |---|---|
//! | what does `status` show? | `status`; which jobs: `job_list` |
//! | what do `/livez`, `/readyz` and `/healthz` reply? | `health` |
//! | what is counted for `/metrics`? | `metrics`: it reads orders and replies, and the machine does not know it |
//! | which spans does a collector get? | `traces`: it reads orders and replies as `metrics` does; their fields: `spans` |
//! | when does an operator get a reply? | `operators` |
//!
//! The folder may use everything of the machine, and changes none of it. Start with `status`.

pub mod health;
pub(super) mod health_state;
pub mod job_list;
pub mod metrics;
pub(super) mod operator_state;
pub(super) mod operators;
pub mod spans;
pub mod status;
pub mod traces;
