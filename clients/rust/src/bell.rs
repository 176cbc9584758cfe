//! Wakes the thread that runs the worker: something has changed, look again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_all();
    }

    /// Whether it rang, and nobody has looked since.
    #[cfg(test)]
    pub(crate) fn has_rung(&self) -> bool {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it rings, or rang since the last call, or the time is over; without a time, for
    /// ever.
    pub(crate) fn wait(&self, patience: Option<Duration>) {
        let guard = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = match patience {
            None => self.rings.wait_while(guard, |has_rung| !*has_rung).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.rings.wait_timeout_while(guard, patience, |has_rung| !*has_rung);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *guard = false;
    }
}
