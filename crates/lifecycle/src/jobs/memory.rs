//! The memory of finished jobs, so that a late outcome gets the reply of the first one. It is
//! bounded in number and in bytes; the oldest entry is removed first.

use std::collections::BTreeMap;

use crate::api::ids::{JobId, WorkerId};
use crate::api::{About, Delivery, ErrorCode};

/// Most jobs that are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// Most bytes of the remembered entries, counted with their names.
const MOST_REMEMBERED_BYTES: usize = 2 * 1024 * 1024;

/// Approximate bytes of an entry without its names.
const ENTRY_BYTES: usize = 64;

/// Most entries that are counted again after each event, in debug builds and tests.
const MOST_COUNTED: usize = 100;

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Remembered {
    /// The decided outcome, and whether the backend has it.
    Decided(About, bool),
    /// No outcome of the job is accepted, for this reason.
    Refused(ErrorCode),
    /// The job was dropped and removed from the ledger. A late outcome is sent to the backend.
    Dropped(Box<Delivery>, WorkerId),
}

/// One remembered job, with its number in the order of the ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    what: Remembered,
    number: u64,
}

/// All remembered jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    by_id: BTreeMap<JobId, Entry>,
    /// The oldest first.
    by_age: BTreeMap<u64, JobId>,
    bytes: usize,
    next: u64,
}

impl Memory {
    /// Remembers the end of this job.
    pub(super) fn remember(&mut self, id: JobId, what: Remembered) {
        self.forget(&id);
        self.next += 1;
        self.bytes += bytes(&id, &what);
        self.by_age.insert(self.next, id.clone());
        let number = self.next;
        self.by_id.insert(id, Entry { what, number });
        while (self.by_id.len() > MOST_REMEMBERED || self.bytes > MOST_REMEMBERED_BYTES)
            && let Some((_, oldest)) = self.by_age.first_key_value()
        {
            let oldest = oldest.clone();
            self.forget(&oldest);
        }
    }

    /// Forgets a job that was given out again or entered again. Its earlier outcome does not count
    /// any more.
    pub(super) fn forget(&mut self, id: &JobId) -> Option<Remembered> {
        let Entry { what, number } = self.by_id.remove(id)?;
        self.by_age.remove(&number);
        self.bytes -= bytes(id, &what);
        Some(what)
    }

    /// The end of a job.
    pub fn of(&self, id: &JobId) -> Option<&Remembered> {
        self.by_id.get(id).map(|entry| &entry.what)
    }

    /// Checks the bounds and the counters.
    ///
    /// # Errors
    ///
    /// A bound is exceeded, or a counter is wrong.
    pub fn check(&self) -> Result<(), String> {
        let all = if self.by_id.len() > MOST_COUNTED {
            self.bytes
        } else {
            self.by_id.iter().map(|(id, entry)| bytes(id, &entry.what)).sum()
        };
        let is_counted = all == self.bytes && self.by_id.len() == self.by_age.len();
        if is_counted && self.by_id.len() <= MOST_REMEMBERED && all <= MOST_REMEMBERED_BYTES {
            Ok(())
        } else {
            Err(format!(
                "what is remembered of jobs is counted wrongly: {all} bytes are not {}",
                self.bytes
            ))
        }
    }
}

fn bytes(id: &JobId, what: &Remembered) -> usize {
    let more = match what {
        Remembered::Decided(..) | Remembered::Refused(_) => 0,
        Remembered::Dropped(delivery, worker) => {
            let subject = &delivery.subject;
            subject.kind.len() + subject.queue.len() + worker.0.len() + ENTRY_BYTES
        }
    };
    2 * id.0.len() + ENTRY_BYTES + more
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECIDED: Remembered = Remembered::Decided(About::Ack, true);

    fn id(name: &str) -> JobId {
        JobId(name.into())
    }

    #[test]
    fn what_was_learnt_last_counts_until_it_is_forgotten() {
        let mut memory = Memory::default();
        memory.remember(id("1"), DECIDED);
        memory.remember(id("1"), Remembered::Refused(ErrorCode::Lost));
        assert_eq!(memory.of(&id("1")), Some(&Remembered::Refused(ErrorCode::Lost)));
        assert_eq!(memory.check(), Ok(()));
        memory.forget(&id("1"));
        assert_eq!(memory.of(&id("1")), None);
        assert_eq!(memory.check(), Ok(()));
    }

    #[test]
    fn the_oldest_is_forgotten_first_beyond_the_number() {
        let mut memory = Memory::default();
        for number in 0..=MOST_REMEMBERED {
            memory.remember(id(&number.to_string()), DECIDED);
        }
        assert_eq!(memory.of(&id("0")), None);
        assert_eq!(memory.of(&id("1")), Some(&DECIDED));
        assert_eq!(memory.check(), Ok(()));
    }

    #[test]
    fn long_names_are_forgotten_sooner() {
        let mut memory = Memory::default();
        let long = "x".repeat(1_000);
        for number in 0..MOST_REMEMBERED_BYTES / 1_000 {
            memory.remember(id(&format!("{number}-{long}")), DECIDED);
        }
        assert_eq!(memory.of(&id(&format!("0-{long}"))), None);
        assert_eq!(memory.check(), Ok(()));
    }
}
