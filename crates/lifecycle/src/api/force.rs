//! Requests that force the end.

use std::time::Duration;

use crate::api::words::Reason;

/// A request that forced the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Force {
    /// A stop signal, or the operator.
    pub by: Reason,
    /// Which stop signal it is, counted from 1; 0 where it is none.
    pub nth: u8,
    /// The stop signal before it, and how long before.
    pub after: Option<(Reason, Duration)>,
}

impl Force {
    /// The operator's.
    pub const BY_OPERATOR: Self = Self {
        by: Reason::Control,
        nth: 0,
        after: None,
    };
}
