//! The one line on standard error that says why there is nothing more to do: also of subcommands,
//! which have no log.

use std::time::Duration;

use crate::daemon::log::sink;
use ojs_os::stdio;

/// Longest that an error message at the end may wait for a slow reader of standard error.
const REPORT_LIMIT: Duration = Duration::from_secs(1);

/// Tells the user on standard error why we cannot go on: as a record of the log once there is one,
/// before that and in subcommands as `ojs-init: ...`.
pub fn report(message: &str) {
    let line = sink::fatal(message).unwrap_or_else(|| format!("ojs-init: {message}\n"));
    // Nothing can be said about a standard error that takes nothing; the exit status still tells.
    let _ = stdio::write_error(line.as_bytes(), REPORT_LIMIT);
}
