//! The state of the memory gate.

/// Whether the memory allows a FETCH.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct MemoryGate {
    /// The last reading of the shell, in percent. None: no reading yet.
    pub(super) taken: Option<u8>,
    pub(super) is_closed: bool,
}

impl MemoryGate {
    /// The share of the memory in use, in percent. None: no reading yet.
    pub(crate) fn taken(&self) -> Option<u8> {
        self.taken
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }
}
