//! The processes that the child leaves behind: asked to end one by one, killed together.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use log::{debug, info, warn};

use crate::daemon::log::remedy::remedy_of_signal;
use ojs_os::clock;
use ojs_os::init;
use ojs_os::process::{self, Pid};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Longest that the exit waits for what is left to be gone; nothing is, after a shutdown that ran
/// to its end. Five generations of processes took longer than 100 ms where this process had a fifth
/// of a processor.
const KILL_WITHIN: Duration = Duration::from_millis(250);

/// Longest wait after SIGKILL when the orchestrator's limit is near.
const KILL_WITHIN_AT_THE_LIMIT: Duration = Duration::from_millis(100);

/// Time for the last lines of the log after that.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// How soon after a SIGKILL the children of who had it have become ours.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// The descendants that have been asked to end.
#[derive(Debug, Default)]
pub struct Descendants {
    /// Those that had their SIGTERM. Never more than there are children: each is removed when it is
    /// reaped.
    asked: BTreeSet<Pid>,
    /// Everybody had it at once, because nobody could be named; a second one would mean something
    /// else to many.
    everybody_was_asked: bool,
}

impl Descendants {
    /// This one was reaped: its pid is somebody else's from now on. With `warn`, its parent's
    /// neglect is a warning.
    pub fn reaped(&mut self, pid: Pid, ended: Ended, warn: bool) {
        self.asked.remove(&pid);
        if warn {
            warn!("reaped adopted process {pid}: {ended}; its parent did not wait for it");
        } else {
            debug!("reaped adopted process {pid}: {ended}");
        }
    }

    /// SIGTERM and SIGCONT to each of our children that has not had them yet.
    pub fn terminate(&mut self) {
        match process::children() {
            Ok(children) => {
                for pid in children.into_iter().filter(|pid| self.asked.insert(*pid)) {
                    info!("SIGTERM to leftover process {pid}");
                    forgive(pid, process::signal(pid, Signal::TERM));
                    forgive(pid, process::signal(pid, Signal::CONT));
                }
            }
            // Without /proc nobody can be named: PID 1 can still reach everybody at once.
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

/// SIGKILL to the child and its group. Not for one that was reaped: then the pid may be anybody's.
pub fn kill_group(child: Pid) {
    forgive(child, process::signal_group(child, Signal::KILL));
    forgive(child, process::signal(child, Signal::KILL));
}

/// SIGKILL to each of our children.
pub fn kill_children() {
    for pid in process::children().unwrap_or_default() {
        forgive(pid, process::signal(pid, Signal::KILL));
    }
}

/// SIGKILL to each of our children, and to theirs once they are ours, until none is left; for the
/// very end, when no loop runs any more. The namespace of PID 1 ends with it: there nothing is left
/// to do. `time_left`: to the orchestrator's limit, where there is one.
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

/// SIGKILL to everything else that is ours: all of the namespace for PID 1, else our children.
pub fn kill_everybody() {
    if init::is_pid_1() {
        // ESRCH: nobody else is there, which is what we want.
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
