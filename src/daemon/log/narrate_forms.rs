//! How requests have to be spelled for this backend, as records of the log.

use log::Level;

use crate::daemon::log::record::{LogRecord, RecordFields};
use ojs_lifecycle::api::{FetchForm, HeartbeatForm};

/// Heartbeats are tried in another form.
pub fn heartbeat(form: HeartbeatForm) -> LogRecord {
    let form = match form {
        HeartbeatForm::Full => "the full form",
        HeartbeatForm::Counted => "the form with active_jobs as a number",
        HeartbeatForm::Protocol => "the fields of the worker protocol and no others",
        HeartbeatForm::Bare => "the form of the bare JSON schema",
    };
    LogRecord::new(
        Level::Info,
        format_args!("the backend refuses this form of heartbeat; trying {form}"),
    )
}

/// None of the forms is taken.
pub fn heartbeats_refused(words: Option<&str>) -> LogRecord {
    let said = words.map_or(String::new(), |words| format!(" ({words})"));
    let why = "the backend refuses heartbeats in every form";
    let message = format!(
        "{why}{said}: it does not know that this worker is there, and jobs lapse; every form is tried again at each interval"
    );
    LogRecord::new(Level::Warn, message).about(RecordFields::of_error("refused", why))
}

/// FETCHes are taken in this form from now on.
pub fn fetch(form: FetchForm) -> LogRecord {
    match form {
        FetchForm::Full => LogRecord::new(Level::Info, "the backend takes a FETCH with a visibility timeout again"),
        FetchForm::WithoutVisibility => LogRecord::new(
            Level::Warn,
            "the backend refuses visibility_timeout_ms in a FETCH: until the first heartbeat jobs are reserved for as long as it likes",
        ),
        FetchForm::Bare => LogRecord::new(
            Level::Warn,
            "the backend refuses all of a FETCH but queues and count: until the first heartbeat jobs are reserved for as long as it likes",
        ),
    }
}
