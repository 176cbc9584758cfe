//! The holder of each of the worker's programs, and the connections that wait for words of the
//! lifecycle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::daemon::workers::processes::Processes;
use ojs_lifecycle::api::{Event, HolderId, JobId, Manners, ProcessId, PullId};
use ojs_values::small;

/// An outcome is answered within this time, whatever the backend does: every SDK waits for 30 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(25);

/// Most holders. A further program shares a holder of its process, if there is one.
const MOST_HOLDERS: usize = 4096;

/// The number of a connection; never used again.
pub(super) type LinkId = u64;

/// The identity of a program: its process, and the name that its SDK gives itself in it.
type Program = (Option<ProcessId>, String);

/// The connections that wait for the answer to an outcome. One of them sent it.
#[derive(Debug)]
struct WaitingLinks {
    said_by: HolderId,
    links: Vec<LinkId>,
}

/// The connections that waited for messages to a holder that is gone.
#[derive(Debug)]
pub(super) struct Forgotten {
    /// Requests for jobs.
    pub(super) pulls: Vec<PullId>,
    /// Connections with a heartbeat.
    pub(super) beats: VecDeque<LinkId>,
    /// Jobs whose outcome it has reported.
    pub(super) outcomes: Vec<JobId>,
}

/// The tables.
#[derive(Debug, Default)]
pub(super) struct Book {
    holders: BTreeMap<Program, HolderId>,
    programs: BTreeMap<HolderId, Program>,
    newest_holder: u64,
    newest_pull: u64,
    /// Holders whose process is gone, and whose connections may hold unread bytes.
    left_behind: BTreeSet<HolderId>,
    pulls: BTreeMap<PullId, (HolderId, LinkId)>,
    outcomes: BTreeMap<JobId, WaitingLinks>,
    beats: BTreeMap<HolderId, VecDeque<LinkId>>,
}

impl Book {
    /// The holder of a program: by the name in its request, or else any of its process.
    pub(super) fn holder(
        &mut self,
        process: Option<ProcessId>,
        name: Option<&str>,
        processes: &mut Processes,
        events: &mut VecDeque<Event>,
    ) -> HolderId {
        let program = (process, name.unwrap_or_default().to_owned());
        if let Some(holder) = self.holders.get(&program) {
            return *holder;
        }
        let is_full = self.holders.len() >= MOST_HOLDERS;
        if let Some(holder) = self.any_of(process).filter(|_| is_full) {
            return holder;
        }
        self.newest_holder += 1;
        let holder = HolderId(self.newest_holder);
        self.holders.insert(program.clone(), holder);
        self.programs.insert(holder, program);
        events.push_back(Event::HolderCame {
            holder,
            process,
            manners: Manners {
                hears: false,
                answers_pings: false,
                frame_limit: None,
                answer_within: Some(ANSWER_WITHIN),
            },
        });
        if let Some(process) = process {
            processes.tell_if_old(process, events);
            processes.got_job(process);
            if processes.is_gone(process) {
                // The process was reported as gone before any component knew it.
                events.push_back(Event::ProcessGone(process));
            }
        }
        holder
    }

    /// The holder of this name in this process.
    pub(super) fn known(&self, process: Option<ProcessId>, name: &str) -> Option<HolderId> {
        self.holders.get(&(process, name.to_owned())).copied()
    }

    /// Some holder of this process.
    pub(super) fn any_of(&self, process: Option<ProcessId>) -> Option<HolderId> {
        let (_, holder) = self.holders.range((process, String::new())..).next()?;
        let (found, _) = self.programs.get(holder)?;
        (*found == process).then_some(*holder)
    }

    /// The process of a holder.
    pub(super) fn process_of(&self, holder: HolderId) -> Option<Option<ProcessId>> {
        self.programs.get(&holder).map(|(process, _)| *process)
    }

    /// Marks the holder as one whose process is gone.
    pub(super) fn leave_behind(&mut self, holder: HolderId) {
        if self.programs.contains_key(&holder) {
            self.left_behind.insert(holder);
        }
    }

    /// The holders of this process, which end after its last bytes are read.
    pub(super) fn left_behind_of(&self, process: Option<ProcessId>) -> Vec<HolderId> {
        let is_of_it = |holder: &&HolderId| self.process_of(**holder) == Some(process);
        self.left_behind.iter().filter(is_of_it).copied().collect()
    }

    /// The gone processes whose connections may hold unread bytes.
    pub(super) fn processes_left_behind(&self) -> BTreeSet<Option<ProcessId>> {
        let processes = self.left_behind.iter().filter_map(|holder| self.process_of(*holder));
        small::gather(processes)
    }

    /// Removes a holder. Returns the connections that waited for a message to it.
    pub(super) fn forget(&mut self, holder: HolderId) -> Forgotten {
        if let Some(program) = self.programs.remove(&holder) {
            self.holders.remove(&program);
        }
        self.left_behind.remove(&holder);
        let pulls = self.pulls.iter().filter(|(_, (of, _))| *of == holder);
        let outcomes = self.outcomes.iter().filter(|(_, waiting)| waiting.said_by == holder);
        Forgotten {
            pulls: pulls.map(|(pull, _)| *pull).collect(),
            outcomes: outcomes.map(|(job, _)| job.clone()).collect(),
            beats: self.beats.remove(&holder).unwrap_or_default(),
        }
    }

    /// A new request for jobs.
    pub(super) fn pull(&mut self, holder: HolderId, link: LinkId) -> PullId {
        self.newest_pull += 1;
        let pull = PullId(self.newest_pull);
        self.pulls.insert(pull, (holder, link));
        pull
    }

    /// The connection that asked for jobs with this request; it is asked once.
    pub(super) fn take_pull(&mut self, pull: PullId) -> Option<LinkId> {
        self.pulls.remove(&pull).map(|(_, link)| link)
    }

    /// Queues a connection for the answer to an outcome. Returns true if the outcome must be sent
    /// to the lifecycle, because no other connection waits for the answer about this job.
    pub(super) fn wait_for_outcome(&mut self, job: &JobId, said_by: HolderId, link: LinkId) -> bool {
        if let Some(waiting) = self.outcomes.get_mut(job) {
            waiting.links.push(link);
            return false;
        }
        let waiting = WaitingLinks {
            said_by,
            links: vec![link],
        };
        self.outcomes.insert(job.clone(), waiting);
        true
    }

    /// Takes the connections that wait for the answer about this job.
    pub(super) fn take_outcome(&mut self, job: &JobId) -> Vec<LinkId> {
        self.outcomes.remove(job).map_or(Vec::new(), |waiting| waiting.links)
    }

    /// A connection waits for the answer to a heartbeat of this holder.
    pub(super) fn wait_for_beat(&mut self, holder: HolderId, link: LinkId) {
        self.beats.entry(holder).or_default().push_back(link);
    }

    /// Takes the connection whose heartbeat is answered: the oldest of this holder.
    pub(super) fn take_beat(&mut self, holder: HolderId) -> Option<LinkId> {
        let waiting = self.beats.get_mut(&holder)?;
        let link = waiting.pop_front();
        if waiting.is_empty() {
            self.beats.remove(&holder);
        }
        link
    }
}
