//! The lines on standard error about an error that ends the program, also for subcommands, which
//! have no log.

use std::time::Duration;

use crate::daemon::log::sink;
use ojs_os::stdio;

/// Longest that an error message at the end may wait for a slow reader of standard error.
const REPORT_LIMIT: Duration = Duration::from_secs(1);

/// Reports on standard error why ojs-init cannot continue: as a record if there is a log, and as
/// `ojs-init: ...` before that and in subcommands.
pub fn report(message: &str) {
    report_all(&[message]);
}

/// Reports several reasons as [`report`] does, each on a separate line.
pub fn report_all(messages: &[impl AsRef<str>]) {
    let line = |message: &str| sink::fatal(message).unwrap_or_else(|| format!("ojs-init: {message}\n"));
    let lines: String = messages.iter().map(|message| line(message.as_ref())).collect();
    // A failure of standard error has no other channel; the exit status still shows the error.
    let _ = stdio::write_error(lines.as_bytes(), REPORT_LIMIT);
}
