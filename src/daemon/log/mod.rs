//! The texts that people read afterwards: log records, their words, the termination log.

pub(super) mod job_line;
pub(super) mod json_text;
pub(super) mod last_words;
pub(super) mod narrate;
pub(super) mod narrate_jobs;
pub(super) mod narrate_link;
pub(super) mod narrate_outage;
pub(super) mod narrate_stop;
pub(super) mod narrate_workers;
pub mod record;
pub mod remedy;
pub mod report;
pub mod sink;
pub mod termination;
pub mod throttle;
pub(super) mod words;
