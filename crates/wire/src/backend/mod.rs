//! The protocol of the backend: requests and answers (HTTP binding of the Open Job Spec).
//!
//! Words. A *delivery* is one job in the answer to a FETCH, with its reservation. The *envelope* is
//! the job's own JSON, which ojs-init never changes. The *words* of an answer are its texts for the
//! log.
//!
//! | question | files |
//! |---|---|
//! | how is a request written? | `request`; the error of a FAIL: `failure`; traces: `trace` |
//! | what does an answer mean? | `reply`, with the texts of `words` |
//! | how is a FETCH read? | `delivery`, `elements`, `envelope`; while it arrives: `split`, `spare` |
//! | how is an event stream read? | `stream` |
//!
//! The folder may use the rest of the crate. Start with `request`.

pub(super) mod delivery;
pub(super) mod elements;
pub mod envelope;
pub(super) mod error;
pub mod failure;
pub(super) mod raw_json;
pub(super) mod reply;
pub mod request;
pub mod spare;
pub mod split;
pub mod stream;
pub(super) mod timestamp;
pub(super) mod trace;
pub(super) mod words;
