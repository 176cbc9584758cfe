//! The holders of the old one of two worker processes.

use crate::api::ids::ProcessId;
use crate::worker::holders::Holders;

impl Holders {
    /// The next worker process runs: the present ones are the old ones from here on.
    pub fn all_are_old(&mut self) {
        self.held_by_old = 0;
        for process in self.processes.values_mut() {
            process.is_old = true;
            self.held_by_old += process.held;
        }
    }

    /// This process belongs to the old ones.
    pub fn is_old_as_well(&mut self, process: ProcessId) {
        if let Some(process) = self.processes.get_mut(&process).filter(|process| !process.is_old) {
            process.is_old = true;
            self.held_by_old += process.held;
        }
    }

    /// One worker process runs again.
    pub fn none_is_old(&mut self) {
        self.held_by_old = 0;
        for process in self.processes.values_mut() {
            process.is_old = false;
        }
    }

    /// Whether this process belongs to the old worker process.
    pub fn is_old(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_some_and(|process| process.is_old)
    }

    /// The processes that belong to the old worker process.
    pub fn old_processes(&self) -> Vec<ProcessId> {
        let old = self.processes.iter().filter(|(_, process)| process.is_old);
        old.map(|(id, _)| *id).collect()
    }

    /// Every process.
    pub fn processes(&self) -> impl Iterator<Item = ProcessId> {
        self.processes.keys().copied()
    }
}
