//! Requests that force the end.

use std::time::Duration;

use crate::api::words::Reason;

/// A request that forced the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Force {
    /// A stop signal, or the operator.
    pub by: Reason,
    /// The number of the stop signal, counted from 1; 0 if it is not a stop signal.
    pub nth: u8,
    /// The stop signal before it, and the time between the two.
    pub after: Option<(Reason, Duration)>,
}

impl Force {
    /// A force by the operator.
    pub const BY_OPERATOR: Self = Self {
        by: Reason::Control,
        nth: 0,
        after: None,
    };
}
