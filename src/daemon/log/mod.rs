//! The texts for people: log records, their words, the termination log.
//!
//! Words. A *record* is one line with attributes. The *narrator* turns a notice of the lifecycle
//! into a record. The *sink* writes records to standard error and never makes PID 1 wait.
//!
//! | question | files |
//! |---|---|
//! | how is a record written? | `record`, `json_text`, `sink`, `throttle` |
//! | which words does a notice get? | `narrate`, `narrate_jobs`, `narrate_link`, `narrate_outage`, `narrate_stop`, `narrate_workers`, `words` |
//! | what are the last lines? | `last_words`, `termination`, `report` |
//! | what should a person do about an error? | `remedy` |
//! | lines of jobs | `job_line` |
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle::api` and `values`. Start with `narrate`;
//! `docs/log-records.md` lists every record.

pub(super) mod job_line;
pub(super) mod json_text;
#[cfg(feature = "agent")]
pub(super) mod last_words;
#[cfg(feature = "agent")]
pub(super) mod narrate;
#[cfg(feature = "agent")]
pub(super) mod narrate_jobs;
#[cfg(feature = "agent")]
pub(super) mod narrate_link;
#[cfg(feature = "agent")]
pub(super) mod narrate_outage;
#[cfg(feature = "agent")]
pub(super) mod narrate_stop;
#[cfg(feature = "agent")]
pub(super) mod narrate_workers;
pub mod record;
pub mod remedy;
pub mod report;
pub mod sink;
pub mod termination;
pub mod throttle;
#[cfg(feature = "agent")]
pub(super) mod words;
