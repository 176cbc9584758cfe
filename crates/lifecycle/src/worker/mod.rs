//! The worker: its process, the holders of jobs in it, and the credit that they give.
//!
//! Words. A *holder* has jobs: a connection of the worker socket, or a process that speaks HTTP
//! with the gateway. *Credit* is how many jobs a holder accepts. Pushed credit stands until it is
//! used up; a *pull* is a request for jobs that gets one reply. An *offer* is the types and the
//! frame limit that several holders have in common. The worker *is over* when its process and all
//! descendants have ended.
//!
//! | question | file |
//! |---|---|
//! | where does the part begin? | `workers`; its orders: `workers_said` |
//! | how does the process start, end and start again? | `supervise`, with the state in `supervision`; the cause of an end: `blame` |
//! | when is the process replaced while all is well? | `recycling`, with the state in `recycling_state`; with two processes at one time: `overlap`, `old_holders` |
//! | which messages does a holder send, and is it still connected? | `conversation` |
//! | which holder can accept a job? | `holders`, `holder`, `offers`; for pulls: `pulls`, `pulling`, `asks`, `takers` |
//! | how many jobs can the worker accept? | `capacity`; its log line: `capacity_news` |
//! | how does a blocked program notice a cancel? | `cancel_signals` |
//!
//! The part knows how many jobs a holder has, and no job. It may use `api`, `timers`, `groups` and
//! `values`. Start with `workers`, then `holders`.

pub(super) mod asks;
mod blame;
mod cancel_signals;
pub mod capacity;
mod capacity_news;
pub(super) mod conversation;
pub(super) mod holder;
pub(super) mod holders;
pub(super) mod offers;
mod old_holders;
mod overlap;
mod pulling;
pub(super) mod pulls;
mod recycling;
pub(super) mod recycling_state;
mod supervise;
pub(super) mod supervision;
mod takers;
pub(super) mod workers;
pub(super) mod workers_said;
