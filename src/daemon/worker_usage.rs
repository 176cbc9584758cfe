//! The memory and the processor time of the worker with all its descendants, for metrics, for the
//! status, and for every other reader.
//!
//! The worker is everything below ojs-init, because ojs-init adopts the worker's orphans. The
//! second ojs-init of mode exec and of `worker.processes` does not count, but its descendants do.
//! A program that the orchestrator starts in the container, as `kubectl exec` does, is not below
//! ojs-init.
//!
//! Nothing is read before a reader asks. A thread reads, because the kernel needs 57 ms for eight
//! processes of 500 MiB, and waits for a process that hangs while it changes its memory map. The
//! loop waits for the thread for 5 ms. If the new numbers are not there by then, a page shows the
//! ones of the look before. A decision waits for the new ones: the thread wakes the loop.

use std::task::Poll;
use std::time::Duration;

use log::debug;

use ojs_lifecycle::api::Moment;
use ojs_os::family_usage;
use ojs_os::process::Pid;
use ojs_os::threads::{Helper, LoopWake};
use ojs_values::usage::WorkerUsage;

/// Longest that the loop waits for the numbers.
const WAIT: Duration = Duration::from_millis(5);

/// A reading that takes longer hangs. Callers get `None` from then on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// Reads what the worker uses.
pub struct UsageReader {
    /// The worker's process is a second ojs-init.
    starts_helper: bool,
    /// The pid of the second ojs-init.
    helper: Option<Pid>,
    /// Wakes the loop when a reading is done.
    wake: LoopWake,
    /// When the last reading began.
    looked_at: Option<Moment>,
    /// The thread of the reading in progress.
    coming: Option<Helper<Option<WorkerUsage>>>,
    /// The reading in progress began before [`Self::forget`]: its result is ignored.
    is_outdated: bool,
    last: Option<WorkerUsage>,
    /// The most processor time so far. A process that is reaped during a look may be missed by it.
    cpu: Duration,
}

impl UsageReader {
    /// `starts_helper`: the worker's process is a second ojs-init.
    pub fn new(starts_helper: bool, wake: LoopWake) -> Self {
        Self {
            starts_helper,
            helper: None,
            wake,
            looked_at: None,
            coming: None,
            is_outdated: false,
            last: None,
            cpu: Duration::ZERO,
        }
    }

    /// The worker was started with this pid.
    pub fn worker_started(&mut self, pid: Pid) {
        self.helper = self.starts_helper.then_some(pid);
        self.forget();
    }

    /// Discards all numbers, because they include a process that is no longer the worker's. Ignores
    /// the result of a reading in progress, too, and begins no second one: the first may hang.
    pub fn forget(&mut self) {
        self.last = None;
        self.is_outdated = self.coming.is_some();
        if !self.is_outdated {
            self.looked_at = None;
        }
    }

    /// For a page: the last numbers if the look for them began less than `every` ago, otherwise new
    /// ones, or those of the look before while one is under way. `None`: they cannot be read, or
    /// are not there yet.
    pub fn read(&mut self, every: Duration, now: Moment) -> Option<WorkerUsage> {
        self.take(Duration::ZERO);
        if self.coming.is_none() && self.looked_at.is_none_or(|at| at.elapsed(now) >= every) {
            self.begin_look(now);
            self.take(WAIT);
        }
        self.last.filter(|_| !self.hangs(now))
    }

    /// For a decision: the numbers of a look that began at `wanted` or later. Pending: it is under
    /// way, and the loop is woken at its end. `None`: they cannot be read.
    pub fn poll(&mut self, wanted: Moment, now: Moment) -> Poll<Option<WorkerUsage>> {
        self.take(Duration::ZERO);
        if self.coming.is_none() && self.looked_at.is_none_or(|at| at < wanted) {
            self.begin_look(now);
            self.take(Duration::ZERO);
        }
        match self.coming {
            None => Poll::Ready(self.last),
            Some(_) if self.hangs(now) => Poll::Ready(None),
            Some(_) => Poll::Pending,
        }
    }

    /// When the look that is under way counts as one that hangs.
    pub fn hangs_at(&self) -> Option<Moment> {
        let began = self.looked_at.filter(|_| self.coming.is_some())?;
        Some(began.after(PATIENCE))
    }

    fn hangs(&self, now: Moment) -> bool {
        self.hangs_at().is_some_and(|at| at <= now)
    }

    fn begin_look(&mut self, now: Moment) {
        self.looked_at = Some(now);
        let helper = self.helper;
        let look = move || {
            let usage = family_usage::below(Pid::own(), helper);
            let usage = usage.inspect_err(|error| debug!("cannot read what the worker uses: {error}"));
            usage.ok()
        };
        match Helper::start("usage", STACK_BYTES, self.wake.clone(), look) {
            Ok(thread) => self.coming = Some(thread),
            Err(error) => {
                debug!("no thread to read what the worker uses: {error}");
                self.last = None;
            }
        }
    }

    /// Takes the result of the look that goes on, if it is there within `wait`.
    fn take(&mut self, wait: Duration) {
        let Some(usage) = self.coming.as_ref().and_then(|coming| coming.take(wait)) else {
            return;
        };
        self.last = usage.flatten();
        self.coming = None;
        if let Some(usage) = &mut self.last {
            self.cpu = self.cpu.max(usage.cpu);
            usage.cpu = self.cpu;
        }
        if self.is_outdated {
            self.forget();
        }
    }
}
