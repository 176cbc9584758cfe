//! Times that the reference allows the machine and its shell.

use std::time::Duration;

/// Longest stall of the shell.
pub const SLACK: Duration = Duration::from_millis(60);

/// Within this time a stop signal of the same kind as the last one that counted is the same
/// request.
pub const SAME_REQUEST: Duration = Duration::from_millis(100);

/// How long the SIGKILL waits for those on the control socket who have their answer.
pub const OPERATOR_LEAVE_LIMIT: Duration = Duration::from_millis(100);
