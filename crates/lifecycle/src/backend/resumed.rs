//! A resume whose heartbeat has no answer yet.

/// A resume that the backend has not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Resumed {
    /// An operator asked for the resume, but the backend's last directive was quiet and may still
    /// apply.
    pub(super) is_contested: bool,
}
