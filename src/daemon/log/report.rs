//! The lines on standard error that say why there is nothing more to do: also of subcommands,
//! which have no log.

use std::time::Duration;

use crate::daemon::log::sink;
use ojs_os::stdio;

/// Longest that an error message at the end may wait for a slow reader of standard error.
const REPORT_LIMIT: Duration = Duration::from_secs(1);

/// Tells the user on standard error why we cannot go on: as a record of the log once there is one,
/// before that and in subcommands as `ojs-init: ...`.
pub fn report(message: &str) {
    report_all(&[message]);
}

/// Tells the user several reasons as [`report`] does, each on a line of its own.
pub fn report_all(messages: &[impl AsRef<str>]) {
    let line = |message: &str| sink::fatal(message).unwrap_or_else(|| format!("ojs-init: {message}\n"));
    let lines: String = messages.iter().map(|message| line(message.as_ref())).collect();
    // Nothing can be said about a standard error that takes nothing; the exit status still tells.
    let _ = stdio::write_error(lines.as_bytes(), REPORT_LIMIT);
}
