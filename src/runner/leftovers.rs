//! Processes that jobs leave behind.
//!
//! The runner adopts every orphan of a job. If a process of an ended job is left, one of the
//! runner's children is no job's process. So if all children are jobs' processes, the ended jobs
//! have left none. A child keeps its number until the runner reaps it, so a signal never reaches
//! another process.

use std::io;

use log::debug;

use crate::runner::job::RunningJob;
use ojs_os::leftovers::{self, MarkSeen};
use ojs_os::process::{self, Pid};
use ojs_values::signal::Signal;

/// The marks by which the processes of a job are known.
#[derive(Debug)]
pub struct ProcessMarks {
    /// The job's process, which leads a group and a session.
    leader: Pid,
    /// A variable that every process of the job has which did not clear its environment.
    entry: Vec<u8>,
    /// The job's own user, which no other process has.
    user: Option<u32>,
}

impl ProcessMarks {
    /// The marks of this job.
    pub fn of(job: &RunningJob) -> Self {
        Self {
            leader: job.process.pid(),
            entry: format!("OJS_JOB_ID={}", job.subject.id.0).into_bytes(),
            user: job.belongings.user,
        }
    }

    fn on(&self, pid: Pid) -> MarkSeen {
        if leftovers::session(pid) == Some(self.leader.number())
            || self.user.is_some_and(|user| leftovers::runs_as(pid, user))
        {
            return MarkSeen::Yes;
        }
        leftovers::mark(pid, &self.entry)
    }
}

/// The result of a look for the processes of a job.
#[derive(Debug, Default)]
pub struct Found {
    /// Processes with its marks. They got their SIGKILL.
    pub marked: Vec<Pid>,
    /// A process may belong to it, and will soon show that.
    pub has_doubts: bool,
    /// Ending processes that may belong to it. Their children become visible only after they are
    /// gone.
    pub ending: Vec<Pid>,
}

/// Ends the processes of a job that can be ended without a list: all of its group, and all that run
/// as its user.
///
/// # Errors
///
/// Those that run as its user could not be ended.
pub fn end_unlisted(marks: &ProcessMarks) -> io::Result<()> {
    // The group's number is reused only after its leader is reaped.
    let _ = process::signal_group(marks.leader, Signal::KILL);
    marks.user.map_or(Ok(()), leftovers::end_all_of)
}

/// Ends the processes of a job: all of its group, all that run as its user, and the strangers among
/// the runner's children that have its marks.
pub fn end_marked(strangers: &[Pid], marks: &ProcessMarks) -> Found {
    if let Err(error) = end_unlisted(marks) {
        debug!("cannot end all processes of a job's user at once: {error}");
    }
    let mut found = Found::default();
    for pid in strangers.iter().copied() {
        match marks.on(pid) {
            MarkSeen::Yes => found.marked.push(pid),
            MarkSeen::Hidden => found.has_doubts = true,
            MarkSeen::Ending => found.ending.push(pid),
            MarkSeen::No => {}
        }
    }
    end(&found.marked);
    found
}

/// Ends these children.
pub fn end(children: &[Pid]) {
    for pid in children {
        // An error means that it has ended in this moment.
        let _ = process::signal(*pid, Signal::KILL);
    }
}
