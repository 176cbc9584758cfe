//! The processes that the child leaves behind: asked to end one by one, killed together.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use log::{debug, info, warn};

use crate::daemon::log::remedy::remedy_of_signal;
use ojs_os::clock;
use ojs_os::init;
use ojs_os::process::{self, Pid};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Longest that the exit waits for the remaining processes to end. After a complete shutdown none
/// remain. Five generations took longer than 100 ms while this process had a fifth of a processor.
const KILL_WITHIN: Duration = Duration::from_millis(250);

/// Longest wait after SIGKILL when the orchestrator's limit is near.
const KILL_WITHIN_AT_THE_LIMIT: Duration = Duration::from_millis(100);

/// Time for the last lines of the log after that.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// How soon after a SIGKILL the orphans of the killed process become children of this one.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// The descendants that have been asked to end.
#[derive(Debug, Default)]
pub struct Descendants {
    /// Processes that got their SIGTERM. There are never more than children, because each is
    /// removed when it is reaped.
    asked: BTreeSet<Pid>,
    /// Process groups that got a SIGTERM, by their leaders, and when. A group outlives its leader.
    asked_groups: BTreeMap<Pid, Duration>,
    /// All got it at once because they could not be listed. Many programs act differently on a
    /// second one.
    everybody_was_asked: bool,
}

impl Descendants {
    /// Another worker begins. Its descendants were not asked to end with those of the one before.
    pub fn worker_begins(&mut self) {
        self.everybody_was_asked = false;
    }

    /// Notes a signal to the process group that this child leads: after a SIGTERM its members get
    /// no other one as leftovers.
    pub fn group_is_signalled(&mut self, leader: Pid, signal: Signal) {
        if signal == Signal::TERM {
            self.asked_groups.retain(|leader, _| process::has_group(*leader));
            self.asked_groups.insert(leader, clock::monotonic());
        }
    }

    /// This process was reaped, so another may get its pid from now on. With `warn`, its parent's
    /// neglect is a warning.
    pub fn reaped(&mut self, pid: Pid, ended: Ended, warn: bool) {
        self.asked.remove(&pid);
        if warn {
            warn!("reaped adopted process {pid}: {ended}; its parent did not wait for it");
        } else {
            debug!("reaped adopted process {pid}: {ended}");
        }
    }

    /// The process was reaped elsewhere, so another may get its pid from now on.
    pub fn forget(&mut self, pid: Pid) {
        self.asked.remove(&pid);
    }

    /// Sends SIGTERM and SIGCONT to each child that has not got them yet, here or elsewhere
    /// (`was_asked`). A child that got its SIGTERM with its group needs only the SIGCONT.
    pub fn terminate(&mut self, was_asked: impl Fn(Pid) -> bool) {
        match process::children() {
            Ok(children) => {
                let unasked = children.into_iter().filter(|pid| !was_asked(*pid));
                for pid in unasked.filter(|pid| self.asked.insert(*pid)) {
                    let mut groups = self.asked_groups.iter();
                    if !groups.any(|(leader, at)| process::was_in_group(pid, *leader, *at)) {
                        info!("SIGTERM to leftover process {pid}");
                        forgive(pid, process::signal(pid, Signal::TERM));
                    }
                    forgive(pid, process::signal(pid, Signal::CONT));
                }
            }
            // Without /proc the children cannot be listed, but PID 1 can still reach all processes
            // at once.
            Err(error) if !self.everybody_was_asked => {
                self.everybody_was_asked = true;
                debug!("cannot list leftover processes: {error}");
                let _ = process::signal_namespace(Signal::TERM);
                let _ = process::signal_namespace(Signal::CONT);
            }
            Err(_) => {}
        }
    }
}

/// SIGKILL to the child and its group. Not for a reaped child, because another process may have its
/// pid.
pub fn kill_group(child: Pid) {
    forgive(child, process::signal_group(child, Signal::KILL));
    forgive(child, process::signal(child, Signal::KILL));
}

/// SIGKILL to each child. Without /proc PID 1 kills all processes, because no worker runs then that
/// must go on: there are never two.
pub fn kill_children() {
    match process::children() {
        Ok(children) => {
            for pid in children {
                forgive(pid, process::signal(pid, Signal::KILL));
            }
        }
        Err(error) => {
            debug!("cannot list leftover processes: {error}");
            let _ = process::signal_namespace(Signal::KILL);
        }
    }
}

/// SIGKILL to each child, and to its children after they are adopted, until none is left or the
/// time ends. For the very end, when no loop runs any more. PID 1 does nothing, because its
/// namespace ends with it. `time_left`: to the orchestrator's limit, if there is one.
pub fn kill_all_generations(time_left: Option<Duration>) {
    if init::is_pid_1() {
        return;
    }
    let room = time_left.map_or(KILL_WITHIN, |left| left.saturating_sub(AFTERWARDS));
    let end = clock::monotonic() + room.clamp(KILL_WITHIN_AT_THE_LIMIT, KILL_WITHIN);
    while let Ok(children) = process::children()
        && !children.is_empty()
        && clock::monotonic() < end
    {
        for pid in children {
            forgive(pid, process::signal(pid, Signal::KILL));
        }
        clock::pause(LOOK_AGAIN_AFTER);
    }
}

/// SIGKILL to all other processes: for PID 1 those of its namespace, otherwise its children.
pub fn kill_everybody() {
    if init::is_pid_1() {
        // ESRCH means that no other process is there, as wanted.
        let _ = process::signal_namespace(Signal::KILL);
    } else {
        kill_children();
    }
}

/// A process that has just ended is no error; one that may not be signalled is worth a line.
pub fn forgive(pid: Pid, result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        warn!("cannot signal process {pid}: {error}; {}", remedy_of_signal(&error));
    }
}
