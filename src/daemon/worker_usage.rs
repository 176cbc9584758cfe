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
//! loop waits for the thread for 5 ms. If the new numbers are not there by then, it takes the ones
//! of the look before.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use log::debug;

use ojs_lifecycle::api::Moment;
use ojs_os::process::Pid;
use ojs_os::{family_usage, threads};
use ojs_values::usage::WorkerUsage;

/// Longest that the loop waits for the numbers.
const WAIT: Duration = Duration::from_millis(5);

/// How long the numbers of the last time count while a look goes on: it may hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// Reads what the worker uses.
#[derive(Debug)]
pub struct UsageReader {
    /// The worker's process is a second ojs-init.
    starts_helper: bool,
    /// That process.
    helper: Option<Pid>,
    /// When the last look began.
    looked_at: Option<Moment>,
    /// The result of a look that goes on.
    coming: Option<Receiver<Option<WorkerUsage>>>,
    last: Option<WorkerUsage>,
    /// The most processor time so far. A process that is reaped during a look may be missed by it.
    cpu: Duration,
}

impl UsageReader {
    /// `starts_helper`: the worker's process is a second ojs-init.
    #[must_use]
    pub fn new(starts_helper: bool) -> Self {
        Self {
            starts_helper,
            helper: None,
            looked_at: None,
            coming: None,
            last: None,
            cpu: Duration::ZERO,
        }
    }

    /// The worker was started with this pid. The numbers of the one before it count no more.
    pub fn worker_started(&mut self, pid: Pid) {
        self.helper = self.starts_helper.then_some(pid);
        self.looked_at = None;
        self.coming = None;
        self.last = None;
    }

    /// The last numbers if the look for them began less than `every` ago,
    /// otherwise new ones. `None`: they cannot be read, or are not there yet.
    pub fn read(&mut self, every: Duration, now: Moment) -> Option<WorkerUsage> {
        self.take(Duration::ZERO);
        let since = self.looked_at.map(|at| at.elapsed(now));
        if self.coming.is_some() {
            return self.last.filter(|_| since.is_some_and(|since| since < PATIENCE));
        }
        if since.is_none_or(|since| since >= every) {
            self.looked_at = Some(now);
            self.coming = Some(self.look());
            self.take(WAIT);
        }
        self.last
    }

    /// Begins a look.
    fn look(&self) -> Receiver<Option<WorkerUsage>> {
        let (sender, receiver) = mpsc::channel();
        let helper = self.helper;
        let work = move || {
            let usage = family_usage::below(Pid::own(), helper);
            let usage = usage.inspect_err(|error| debug!("cannot read what the worker uses: {error}"));
            // If a new worker was started meanwhile, nobody waits for it.
            let _ = sender.send(usage.ok());
        };
        if let Err(error) = threads::spawn("usage", STACK_BYTES, work) {
            debug!("no thread to read what the worker uses: {error}");
        }
        receiver
    }

    /// Takes the result of the look that goes on, if it is there within `wait`.
    fn take(&mut self, wait: Duration) {
        let Some(coming) = &self.coming else { return };
        self.last = match coming.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(usage) => usage,
        };
        self.coming = None;
        if let Some(usage) = &mut self.last {
            self.cpu = self.cpu.max(usage.cpu);
            usage.cpu = self.cpu;
        }
    }
}
