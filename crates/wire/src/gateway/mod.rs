//! The requests of a worker that is built on an OJS SDK, over HTTP, and the answers to it.
//!
//! Requests are read more leniently than any backend reads them: a field of the wrong type is a
//! missing field, and a failure with an unreadable error is a failure. Answers have the words of
//! every generation of backends, so that each SDK finds the one it reads.
//!
//! The folder may use the rest of the crate. Start with `route`: it separates the requests that
//! ojs-init answers from those that it passes on. Then read `bodies` and `answers`.

mod answers;
mod bodies;
mod route;

pub use answers::{
    AnswerForm, CONTINUE, GatewayError, beat, failed, fetched, handed_on, outcome, outcome_not_taken, passed_head,
    registration, status_line,
};
pub use bodies::{
    BadBody, BeatBody, FetchBody, OutcomeBody, read_beat, read_fetch, read_outcome, read_worker, with_worker,
};
pub use route::{RequestKind, route};
