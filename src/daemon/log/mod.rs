//! What people read afterwards: log records, the words in them, the termination log.

pub(super) mod last_words;
pub(super) mod narrate;
pub(super) mod narrate_answers;
pub(super) mod narrate_forms;
pub(super) mod narrate_jobs;
pub(super) mod narrate_outage;
pub(super) mod narrate_stop;
pub(super) mod record;
pub mod report;
pub mod sink;
pub mod termination;
pub(super) mod throttle;
pub(super) mod words;
