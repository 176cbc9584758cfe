//! The manners of a holder. The machine knows no kinds of holders, only their manners.

use std::time::Duration;

/// The manners of a holder, fixed from its first moment on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Manners {
    /// The holder receives messages that it did not ask for: hello, lifecycle, cancel. If it does
    /// not, only the end of its process stops a job. Every holder receives jobs, and replies to its
    /// own messages.
    pub hears: bool,
    /// The holder answers pings. A holder that receives no messages cannot.
    pub answers_pings: bool,
    /// The longest frame that the holder accepts, in bytes. None: the holder uses no frames, so no
    /// frame is too long for it and none from it is malformed.
    pub frame_limit: Option<usize>,
    /// The holder waits for the reply to each outcome and gets it within this time, whatever the
    /// backend does. From then on ojs-init alone is responsible for the outcome. A holder with this
    /// manner may report the jobs of every other one that has it too. None: the holder gets its
    /// reply once the backend has the outcome, however late, and reports its own jobs only.
    pub answer_within: Option<Duration>,
}
