//! The state of the memory gate.

/// Whether the memory lets us ask for jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct MemoryGate {
    /// The last reading of the shell, in percent. None: no reading yet.
    pub(super) taken: Option<u8>,
    pub(super) is_closed: bool,
}

impl MemoryGate {
    /// The share of the memory that is taken, as far as it was told, in percent.
    pub(crate) fn taken(&self) -> Option<u8> {
        self.taken
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
