//! Times that the reference allows the machine and its shell.

use std::time::Duration;

/// Longest stall of the shell.
pub const SLACK: Duration = Duration::from_millis(60);

/// Within this time a stop signal counts as one request with the last counted one of its kind.
pub const SAME_REQUEST: Duration = Duration::from_millis(100);

/// How long the SIGKILL waits for clients of the control socket that have their answer.
pub const OPERATOR_LEAVE_LIMIT: Duration = Duration::from_millis(100);
