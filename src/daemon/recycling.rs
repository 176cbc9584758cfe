//! Recycling of the worker: its memory, and the next process beside the old one.

use std::time::Duration;

use log::debug;

use crate::daemon::event_loop::{EventLoop, now};
use crate::daemon::log::narrate::Narrator;
use crate::daemon::start::{self, NotStartedNow};
use crate::daemon::two_workers::Worker;
use ojs_lifecycle::api::ids::ProcessId;
use ojs_lifecycle::api::{Call, Event};

/// How old the memory of a worker may be that decides about a second one.
const USAGE_OF_NEXT: Duration = Duration::from_secs(5);

impl EventLoop {
    /// Reports the memory of the worker with each heartbeat, if there is a limit.
    pub(super) fn look_at_worker_memory(&mut self, call: &Call) {
        if self.two.watches_memory && matches!(call, Call::Heartbeat { .. }) {
            let usage = self.usage.read(Duration::ZERO, now());
            self.inbox
                .extend(usage.map(|usage| Event::WorkerMemory(usage.memory_bytes)));
        }
    }

    /// Starts the next worker process beside the present one, if there is memory for two.
    pub(super) fn start_next(&mut self) {
        let event = if self.has_memory_for_next() {
            match start::try_spawn(&self.plan, &self.program) {
                Ok(pid) => {
                    let process = self.processes.worker_started(pid, self.poll.registry());
                    self.processes.ends_with_its_group(process);
                    self.two.beside = Some(Worker { pid, process });
                    Narrator::next_started(pid);
                    Event::NextStarted(process)
                }
                // The old worker ends first, and the start of the next one says what is wrong.
                Err(NotStartedNow::Shortage(_) | NotStartedNow::Refused(_)) => Event::NextNotStarted,
            }
        } else {
            Event::NextNotStarted
        };
        self.inbox.push_back(event);
    }

    /// Whether the container has memory for one more worker process like the present one.
    fn has_memory_for_next(&mut self) -> bool {
        let Some(cgroup) = &self.two.container else {
            return true;
        };
        let Some((limit, taken)) = cgroup.limit().zip(cgroup.percent(0)) else {
            return true;
        };
        let Some(usage) = self.usage.read(USAGE_OF_NEXT, now()) else {
            return false;
        };
        let free = limit - limit.min(limit / 100 * u64::from(taken));
        // A tenth more, because a start may need more than a worker that runs.
        let has_memory = usage.memory_bytes.saturating_add(usage.memory_bytes / 10) < free;
        if !has_memory {
            debug!(
                "no memory for two workers: {free} bytes are free, the worker has {}",
                usage.memory_bytes
            );
        }
        has_memory
    }

    /// The process beside the worker is the worker from here on.
    pub(super) fn take_over(&mut self, process: ProcessId) {
        let Some(next) = self.two.beside.filter(|next| next.process == process) else {
            return;
        };
        self.two.beside = self.worker.replace(next);
        if let Some(old) = self.two.beside {
            self.processes.ends_with_its_group(old.process);
        }
        self.processes.ends_alone(next.process);
        self.metrics.worker_started(now(), true);
        self.usage.worker_started(next.pid);
    }
}
