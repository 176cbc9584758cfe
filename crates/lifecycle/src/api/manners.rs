//! The manners of a holder. The machine knows no kinds of holders, only their manners.

use std::time::Duration;

/// The manners of a holder, which it has from its first moment and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Manners {
    /// The holder receives messages that it did not ask for: hello, lifecycle, cancel. If it does
    /// not, only the end of its process stops a job. Every holder gets jobs, and replies to its own
    /// messages.
    pub hears: bool,
    /// The holder answers pings. One that receives no messages cannot.
    pub answers_pings: bool,
    /// The longest frame that can be given to it, in bytes. None: it is not spoken to in frames, so
    /// that nothing is too long for it, and nothing that it says is a malformed frame.
    pub frame_limit: Option<usize>,
    /// The holder waits for the reply to each outcome, and gets it within this time, whatever the
    /// backend does. From then on ojs-init alone is responsible for the outcome. A holder with this
    /// manner may report the jobs of every other one that has it too. None: the holder is told when
    /// the backend has the outcome, however late, and reports its own jobs only.
    pub answer_within: Option<Duration>,
}
