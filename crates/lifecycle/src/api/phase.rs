//! The phases of a lifecycle.

/// The phase of a lifecycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Fetches and processes jobs.
    #[default]
    Running,
    /// Processes the present jobs, fetches none.
    Quiet,
    /// Terminate was requested, but the worker does not know yet (`shutdown.term_delay`).
    Delay,
    /// Jobs finish, until the deadline.
    Drain,
    /// No job is left. The worker ends, then the last heartbeat and the deregistration follow.
    EndGame,
    /// The deadline passed, or a request forced the end. Remaining jobs are cut off.
    Stop,
    /// The exit was ordered.
    Exited,
}

impl Phase {
    /// All phases, in their order.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Quiet,
        Self::Delay,
        Self::Drain,
        Self::EndGame,
        Self::Stop,
        Self::Exited,
    ];

    /// Whether the end has begun, which cannot be undone.
    pub fn is_terminating(self) -> bool {
        match self {
            Self::Running | Self::Quiet => false,
            Self::Delay | Self::Drain | Self::EndGame | Self::Stop | Self::Exited => true,
        }
    }
}
