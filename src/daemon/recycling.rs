//! Recycling of the worker: its memory, and the next process beside the old one.

use std::task::Poll;

use log::{debug, info, warn};

use crate::daemon::event_loop::{EventLoop, now};
use crate::daemon::log::narrate::Narrator;
use crate::daemon::start::{NotStartedNow, StartFailure};
use crate::daemon::two_workers::Worker;
use ojs_lifecycle::api::ids::ProcessId;
use ojs_lifecycle::api::{Call, Event, Moment, NotStarted, WorkerEnd};
use ojs_os::cgroup::OomKills;
use ojs_os::process::{self, Parent};
use ojs_values::exit::Ended;

impl EventLoop {
    /// Has the memory of the worker reported with each heartbeat, if there is a limit.
    pub(super) fn look_at_worker_memory(&mut self, call: &Call) {
        if self.two.watches_memory && matches!(call, Call::Heartbeat { .. }) {
            // A look may last longer than the time between two heartbeats.
            self.two.memory_wanted.get_or_insert(now());
            self.serve_recycling();
        }
    }

    /// Has the next worker process started beside the present one.
    pub(super) fn start_next(&mut self) {
        self.two.next_wanted = Some(now());
        self.serve_recycling();
    }

    /// Reports the memory of the worker, and starts the next one, once the look that this waits for
    /// has ended. A look may last longer than a turn.
    pub(super) fn serve_recycling(&mut self) {
        if let Some(wanted) = self.two.memory_wanted
            && let Poll::Ready(usage) = self.usage.poll(wanted, now())
        {
            self.two.memory_wanted = None;
            self.inbox
                .extend(usage.map(|usage| Event::WorkerMemory(usage.memory_bytes)));
        }
        // The old process of the last recycling may have ended without having been reaped.
        if let Some(wanted) = self.two.next_wanted.filter(|_| self.two.beside.is_none())
            && let Poll::Ready(has_memory) = self.has_memory_for_next(wanted)
        {
            self.two.next_wanted = None;
            let next = if has_memory {
                self.try_start_next()
            } else {
                Err(NotStarted::Shortage)
            };
            self.inbox
                .push_back(next.map_or_else(Event::NextNotStarted, Event::NextStarted));
        }
    }

    /// Time at which an awaited start gives up on a look that hangs.
    pub(super) fn recycling_deadline(&self) -> Option<Moment> {
        self.two.next_wanted.and(self.usage.hangs_at())
    }

    /// Starts the next worker process. After a shortage the old one ends first. After a refusal the
    /// old one goes on.
    fn try_start_next(&mut self) -> Result<ProcessId, NotStarted> {
        // A shutdown that began meanwhile wants no other process.
        if self.machine.snapshot().phase.is_terminating() {
            return Err(NotStarted::Shortage);
        }
        let worker = self.worker.ok_or(NotStarted::Shortage)?;
        // A process of the old worker is told from one of the next by its parents.
        if !matches!(process::parent_of(worker.pid), Ok(Parent::Is(_))) {
            debug!("no second worker: /proc does not show process {}", worker.pid);
            return Err(NotStarted::Shortage);
        }
        let pid = self.spawn_worker().map_err(|failure| match failure {
            NotStartedNow::Shortage(_) => NotStarted::Shortage,
            NotStartedNow::Refused(StartFailure { message, exit }) => {
                warn!("the next worker cannot be started, so the old one goes on; another attempt follows: {message}");
                NotStarted::Refused(exit.code())
            }
        })?;
        let process = self.processes.worker_started(pid, self.poll.registry());
        self.processes.ends_with_its_group(process, &mut self.inbox);
        self.two.beside = Some(Worker { pid, process });
        Narrator::next_started(pid);
        Ok(process)
    }

    /// Whether the container has memory for one more worker process like the present one.
    fn has_memory_for_next(&mut self, wanted: Moment) -> Poll<bool> {
        let Some(container) = &self.two.container else {
            return Poll::Ready(true);
        };
        let Some(limit) = container.limit() else {
            return Poll::Ready(true);
        };
        self.usage.poll(wanted, now()).map(|usage| {
            let Some(taken) = container.percent(0) else {
                return true;
            };
            let Some(memory) = usage.map(|usage| usage.memory_bytes) else {
                return false;
            };
            let free = limit - limit.min(limit / 100 * u64::from(taken));
            // A tenth more, because a start may need more than a worker that runs.
            let has_memory = memory.saturating_add(memory / 10) < free;
            if !has_memory {
                debug!("no memory for two workers: {free} bytes are free, the worker has {memory}");
            }
            has_memory
        })
    }

    /// The process beside the worker has ended like this and is reaped.
    pub(super) fn beside_is_reaped(&mut self, beside: Worker, ended: Ended) {
        // One that ended after the loop looked. No other process has its number yet: the kernel
        // gives all others out first.
        self.processes.ended(beside.process, &mut self.inbox);
        self.processes.worker_reaped(beside.process);
        self.descendants.forget(beside.pid);
        // The machine decides without the status. An operator wants to know it.
        let oom_kills = self.oom_kills_of(ended);
        info!(
            "process {}, one of two of the worker, ended: {}",
            beside.pid,
            WorkerEnd { ended, oom_kills }
        );
        self.usage.forget();
        // Its own end by the kernel explains no later end of the other one.
        if WorkerEnd::is_like_oom(ended) {
            self.oom_kills.iter_mut().for_each(OomKills::begin);
        }
    }

    /// The process beside the worker is the worker from here on.
    pub(super) fn take_over(&mut self, process: ProcessId) {
        let Some(next) = self.two.beside.filter(|next| next.process == process) else {
            return;
        };
        self.two.beside = self.worker.replace(next);
        if let Some(old) = self.two.beside {
            self.processes.ends_with_its_group(old.process, &mut self.inbox);
        }
        self.processes.ends_alone(next.process);
        self.metrics.worker_started(now(), true);
        self.usage.worker_started(next.pid);
        self.oom_kills.iter_mut().for_each(OomKills::begin);
    }
}
