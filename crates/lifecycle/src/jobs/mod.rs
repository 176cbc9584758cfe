//! The jobs: the holder of each job, the choice of the next holder, and the way of the outcome to
//! the backend.
//!
//! Words. A *claim* is a job that a FETCH brought. A *holder* has jobs (a connection, or a process
//! behind the gateway). A job *waits* until it is given to a holder, is *held* until its outcome is
//! known, and is *reporting* until the backend has the outcome. The reservation of a *lost* job has
//! ended or belongs to another worker. No heartbeat names a *dropped* job any more. A *suspect*
//! was in a process that crashed. A *look* is a GET of the job that shows the effect of an outcome.
//! A *hold* keeps a job that is given back too often.
//!
//! | question | file |
//! |---|---|
//! | where does the part begin, and what does it remember? | `part`; one job: `job`; their lists: `ledger`, `marks` |
//! | which job goes to which holder? | `dispatch`, `waiting`; for holders that ask: `pulled`; suspects: `isolation`, `suspects` |
//! | what changes when a job changes hands? | `moves` |
//! | how does an outcome reach the backend? | `reports`, with the tables of `stages`; doubts: `doubts`, `ack_fallback` |
//! | what happens to a job that is delivered again, lost, or dropped? | `redelivery`, `losses`, `beats` |
//! | who answers a holder that waits? | `answers`, `memory` |
//! | what slows a job that is given back again and again? | `brake`, `returns` |
//! | what happens at the end? | `at_the_end` |
//! | what happens to a job that an operator cancels? | `operator_cancel` |
//!
//! The part asks about the others by `facts` and answers with `said`. It may use `api`, `timers`,
//! `groups` and `retry`. Start with `part` and `job`, then `dispatch`.

pub(super) mod ack_fallback;
pub(super) mod answers;
mod at_the_end;
mod beats;
pub mod brake;
pub(super) mod dispatch;
pub(super) mod doubts;
pub(super) mod facts;
pub(super) mod isolation;
pub(super) mod job;
pub(super) mod ledger;
pub(super) mod losses;
mod marks;
pub(super) mod memory;
mod moves;
mod operator_cancel;
pub(super) mod part;
pub(super) mod progress;
pub(super) mod pulled;
pub(super) mod redelivery;
pub(super) mod reports;
mod retries;
pub(super) mod returns;
pub(super) mod said;
pub mod stages;
pub(super) mod suspects;
pub(super) mod unhandled;
pub(super) mod waiting;
