//! Where we are in our life.

/// Where we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Fetching and processing.
    Running,
    /// Processing what is there, fetching nothing.
    Quiet,
    /// Terminate was asked for; the worker is not told yet (`shutdown.term_delay`).
    Delay,
    /// Jobs finish, up to the deadline.
    Drain,
    /// No job is left: the worker ends, then the last words to the backend.
    EndGame,
    /// The deadline came, or somebody forced it: what is left is cut off.
    Stop,
    /// Exit was ordered.
    Exited,
}

impl Phase {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Quiet,
        Self::Delay,
        Self::Drain,
        Self::EndGame,
        Self::Stop,
        Self::Exited,
    ];

    /// Whether there is no way back any more.
    #[must_use]
    pub fn is_terminating(self) -> bool {
        match self {
            Self::Running | Self::Quiet => false,
            Self::Delay | Self::Drain | Self::EndGame | Self::Stop | Self::Exited => true,
        }
    }
}
