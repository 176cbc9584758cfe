//! Workers that have deregistered at the backend, and in which way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::{Failure, Farewell, Reply, WorkerId};

use super::promise::{Kept, promise};

/// The farewells so far.
#[derive(Debug, Default)]
pub struct Farewells {
    said: BTreeMap<WorkerId, Duration>,
    /// Workers whose first ways the backend does not have, or refuses.
    unheard: BTreeSet<WorkerId>,
    /// Workers whose first way it refuses.
    refused: BTreeSet<WorkerId>,
    /// Workers that the backend registered after their farewell, because the registration was slow.
    undone: BTreeSet<WorkerId>,
}

impl Farewells {
    pub fn at(&self, worker: &WorkerId) -> Option<Duration> {
        self.said.get(worker).copied()
    }

    pub fn said(&mut self, worker: &WorkerId, way: Farewell, now: Duration) -> Kept {
        match way {
            Farewell::Full => {
                let is_first = self.said.insert(worker.clone(), now).is_none();
                let is_due = is_first || self.undone.remove(worker);
                promise!("one farewell each", is_due, "{worker}");
            }
            Farewell::Bare => {
                let is_due = self.refused.remove(worker);
                promise!(
                    "the bare farewell only where the full one is refused",
                    is_due,
                    "{worker}"
                );
            }
            Farewell::Delete => {
                let is_due = self.unheard.remove(worker);
                promise!("the other farewell only where the first is missing", is_due, "{worker}");
            }
        }
        Ok(())
    }

    /// The backend counts this worker as registered.
    pub fn registered(&mut self, worker: &WorkerId) {
        if self.said.contains_key(worker) {
            self.undone.insert(worker.clone());
        }
    }

    pub fn answered(&mut self, worker: &WorkerId, way: Farewell, reply: &Reply) {
        let is_refused = *reply == Reply::Failed(Failure::Refused);
        let is_missing = *reply == Reply::Failed(Failure::Unsupported);
        if way == Farewell::Full && is_refused {
            self.refused.insert(worker.clone());
        } else if way != Farewell::Delete && (is_missing || is_refused) {
            self.unheard.insert(worker.clone());
        }
    }
}
