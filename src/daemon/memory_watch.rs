//! Reads the memory of the container for its gate, often enough that no FETCH relies on old values,
//! and no more often.

use std::time::Duration;

use log::warn;

use crate::config::{Config, keys};
use ojs_lifecycle::api::Moment;
use ojs_os::cgroup_memory::MemoryCgroup;

/// Between two looks at least: a busy loop turns a thousand times a second, and the kernel adds up
/// numbers for each look.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Below the gate by more than this, in points, the number has no effect and need not be exact.
const MATTERS_FROM: u8 = 5;

/// The memory of this container, and the last value that was reported.
#[derive(Debug)]
pub struct MemoryWatch {
    cgroup: MemoryCgroup,
    no_matter_below: u8,
    looked_at: Option<Moment>,
    told: Option<u8>,
}

impl MemoryWatch {
    /// For the configured gate; none without a gate, or without a limit to be a share of, which is
    /// a warning.
    pub fn of(config: &Config) -> Option<Self> {
        let most = config.worker.memory_gate?;
        let cgroup = MemoryCgroup::find().filter(|cgroup| cgroup.limit().is_some());
        if cgroup.is_none() {
            warn!(
                "{}: this container has no memory limit of which that could be a share; the gate is off; set a memory limit",
                config.settings.describe(&keys::MEMORY_GATE)
            );
        }
        Some(Self {
            cgroup: cgroup?,
            no_matter_below: most.0.saturating_sub(MATTERS_FROM),
            looked_at: None,
            told: None,
        })
    }

    /// The used share in percent, if a look is due and the value has changed. A lifted limit counts
    /// as no use.
    pub fn look(&mut self, now: Moment) -> Option<u8> {
        if self.looked_at.is_some_and(|at| at.elapsed(now) < LOOK_EVERY) {
            return None;
        }
        self.looked_at = Some(now);
        let taken = match self.cgroup.percent(self.no_matter_below) {
            Some(taken) => taken,
            // The file could not be read just now.
            None if self.cgroup.limit().is_some() => return None,
            None => 0,
        };
        let is_news = self.told.replace(taken) != Some(taken);
        is_news.then_some(taken)
    }
}
