//! The process of a job: the leader of its own group and session.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ojs_os::pidfd;
use ojs_os::process::{self, Pid};
use ojs_os::reaper::{self, Usage};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// A process that was started for a job and has not been reaped.
#[derive(Debug)]
pub struct JobProcess {
    pid: Pid,
    /// None if no descriptor was left, or the system has none of this kind. Then a SIGCHLD reports
    /// that some process has ended.
    watch: Option<OwnedFd>,
}

impl JobProcess {
    /// Holds on to a process that was just started.
    pub fn new(pid: Pid) -> Self {
        let watch = pidfd::descriptor(pid).ok();
        Self { pid, watch }
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable after the process has ended, if the system has these descriptors.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.watch.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Asks it and its group to end. A stopped process has to continue for that.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Ends it and its group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        // The process may have left its group.
        let _ = process::signal(self.pid, Signal::KILL);
    }

    /// Signals its group. Until it is reaped no other group can have its number. A failure is
    /// ignored, because the job's time ends in any case.
    fn signal(&self, signal: Signal) {
        let _ = process::signal_group(self.pid, signal);
    }

    /// Whether it has ended, and waits to be reaped.
    pub fn has_ended(&self) -> bool {
        reaper::has_ended(self.pid)
    }

    /// Reaps it, if it has ended.
    ///
    /// # Errors
    ///
    /// Another reaper has reaped it.
    pub fn reap(&self) -> io::Result<Option<(Ended, Usage)>> {
        reaper::reap(self.pid)
    }
}
