//! How long a request that failed or hangs waits for its next attempt when the end is near.

use std::time::Duration;

/// Longest pause in a drain, unless the backend asks for more, because the exit must not wait long
/// for the last ACK.
pub const LONGEST_RETRY_IN_A_DRAIN: Duration = Duration::from_secs(5);

/// When the end is near, an ACK without an answer for this long is sent again on another
/// connection, and a FAIL or a requeue is looked at. Four attempts fit into the usual time for the
/// outcomes.
pub const REPORT_HANGS_AFTER: Duration = Duration::from_millis(500);

/// Longest pause before a repeat in the stop phase: an ACK is tried to the last moment.
pub const LONGEST_RETRY_AT_THE_END: Duration = Duration::from_millis(500);

/// Longest pause of an outcome whose job the backend does not find. The next answer may end the
/// wait for it.
pub const LONGEST_RETRY_OF_A_MISSING_JOB: Duration = Duration::from_secs(1);
