//! What can be expected of a holder. The machine knows no kinds of holders: it asks for these.

use std::time::Duration;

/// The manners of a holder, which it has from its first moment and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Manners {
    /// It hears what it is told unasked: hello, lifecycle, cancel. Where it does not, nothing but
    /// the end of its process stops a job. What it says itself is answered in any case, and a job
    /// is given to it in any case.
    pub hears: bool,
    /// It can be asked whether it is there. One that hears nothing cannot.
    pub answers_pings: bool,
    /// The longest frame that can be given to it, in bytes. None: it is not spoken to in frames, so
    /// that nothing is too long for it, and nothing that it says is a malformed frame.
    pub frame_limit: Option<usize>,
    /// It waits for the answer to each outcome, and must have it within this time, whatever the
    /// backend does: then the outcome is ours. Such a holder answers for the jobs of every other
    /// one with this manner, which may be other ends of the same program. None: it is told when the
    /// backend has the outcome, however late, and answers for its own jobs alone.
    pub answer_within: Option<Duration>,
}
