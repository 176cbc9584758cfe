//! The jobs: who has each, to whom it goes, and its outcome's way to the backend.

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
