//! The processes of one worker: usually one, and two while the next one takes over from the old
//! one.

use crate::config::values::enums::RecycleOverlap;
use crate::config::{Config, keys};
use ojs_lifecycle::api::ids::ProcessId;
use ojs_lifecycle::api::{Moment, WorkerId};
use ojs_os::cgroup_memory::MemoryCgroup;
use ojs_os::process::Pid;

/// The worker that runs.
#[derive(Debug, Clone, Copy)]
pub struct Worker {
    pub pid: Pid,
    /// The lifecycle's name of the process.
    pub process: ProcessId,
}

/// The worker processes of one worker.
#[derive(Debug)]
pub(super) struct TwoWorkers {
    /// The name of the worker at the backend; a recycled worker keeps it.
    pub(super) name: Option<WorkerId>,
    /// The other one, while two worker processes run (`worker.recycle_overlap`).
    pub(super) beside: Option<Worker>,
    /// The memory of this container, if it decides whether two may run.
    pub(super) container: Option<MemoryCgroup>,
    /// The machine wants to know the memory of the worker (`worker.max_memory`).
    pub(super) watches_memory: bool,
    /// When a heartbeat asked for that; none: no report is due.
    pub(super) memory_wanted: Option<Moment>,
    /// When the machine asked for the next process beside the present one; none: it waits for none.
    pub(super) next_wanted: Option<Moment>,
}

impl TwoWorkers {
    /// Before the first worker process.
    pub(super) fn of(config: &Config) -> Self {
        let overlap = config.settings.value(&keys::RECYCLE_OVERLAP);
        Self {
            name: None,
            beside: None,
            container: (overlap == RecycleOverlap::Auto).then(MemoryCgroup::find).flatten(),
            watches_memory: config.worker.max_memory.is_some(),
            memory_wanted: None,
            next_wanted: None,
        }
    }
}
