//! Processes that jobs leave behind.
//!
//! The runner adopts every orphan of a job. If a process of an ended job is left, one of the
//! runner's children is no job's process. So where all children are jobs' processes, nothing is
//! left of the jobs that have ended. A child keeps its number until the runner reaps it, so a
//! signal never reaches a stranger.

use log::debug;

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
    /// The job's own user, as whom nobody else runs.
    user: Option<u32>,
}

impl ProcessMarks {
    /// The marks of this job.
    pub fn new(id: &str, leader: Pid, user: Option<u32>) -> Self {
        let entry = format!("OJS_JOB_ID={id}").into_bytes();
        Self { leader, entry, user }
    }

    fn on(&self, pid: Pid) -> Belongs {
        if leftovers::session(pid) == Some(self.leader.number())
            || self.user.is_some_and(|user| leftovers::runs_as(pid, user))
        {
            return Belongs::Yes;
        }
        match leftovers::mark(pid, &self.entry) {
            MarkSeen::Yes => Belongs::Yes,
            MarkSeen::No => Belongs::No,
            MarkSeen::Hidden => Belongs::Perhaps,
            MarkSeen::Ending => Belongs::Ending,
        }
    }
}

/// Whether a process belongs to a job.
enum Belongs {
    Yes,
    No,
    /// The process has no mark, or none that can be read at this moment.
    Perhaps,
    /// The process is ending, and has no mark any more.
    Ending,
}

/// The result of a look for the processes of a job.
#[derive(Debug, Default)]
pub struct Found {
    /// Those who have its marks. They got their SIGKILL.
    pub marked: Vec<Pid>,
    /// Somebody may belong to it, and shows that in a moment.
    pub has_doubts: bool,
    /// Those who may belong to it and are on their way out: whom they have left behind is seen once
    /// they are gone.
    pub ending: Vec<Pid>,
}

/// Ends those who belong to a job: whoever of these strangers among our children has its marks, all
/// of its group, and all who run as its user.
pub fn end_marked(strangers: &[Pid], marks: &ProcessMarks) -> Found {
    // Until its leader is reaped, the group is no other one's.
    let _ = process::signal_group(marks.leader, Signal::KILL);
    if let Some(user) = marks.user
        && let Err(error) = leftovers::end_all_of(user)
    {
        debug!("cannot end everybody of user {user} at once: {error}");
    }
    let mut found = Found::default();
    for pid in strangers.iter().copied() {
        match marks.on(pid) {
            Belongs::Yes => found.marked.push(pid),
            Belongs::Perhaps => found.has_doubts = true,
            Belongs::Ending => found.ending.push(pid),
            Belongs::No => {}
        }
    }
    end(&found.marked);
    found
}

/// Ends these children of ours.
pub fn end(children: &[Pid]) {
    for pid in children {
        // An error means that it has ended in this moment.
        let _ = process::signal(*pid, Signal::KILL);
    }
}
