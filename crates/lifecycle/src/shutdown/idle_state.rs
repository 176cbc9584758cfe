//! The state behind the ends that begin without a request.

use crate::api::Moment;

/// The begin of the idle time, and the progress of the one job of `--once`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Idle {
    /// When the idle time began, if the machine is idle.
    pub(crate) since: Option<Moment>,
    /// When the last FETCH was sent that returned no job.
    pub(super) asked_at: Option<Moment>,
    /// A job was claimed that a worker may be given.
    pub(crate) has_claimed: bool,
    /// The backend accepted an ACK.
    pub(super) has_acked: bool,
}
