//! A resume whose heartbeat was not answered yet.

/// A resume that the backend has not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Resumed {
    /// An operator asked for it, and the backend's last word was quiet: it may not agree.
    pub(super) is_contested: bool,
}
