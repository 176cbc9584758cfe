//! The search for the processes that own certain sockets. It is spread over turns of the loop,
//! because the worker may have many processes, and each of them many descriptors. Other processes
//! of the machine cost nothing if the kernel lists children by their parents.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::daemon::gateway::family::FamilyWalk;
use ojs_os::descriptors::{self, DescriptorList};
use ojs_os::process::{self, Parent, Pid};
use ojs_values::small;

/// Looks of one turn: a few milliseconds.
const LOOKS_PER_TURN: usize = 1024;

/// Cost of asking for the parent of a process, in looks.
const LOOKS_FOR_A_PARENT: usize = 8;

/// Cost of asking a thread for its children, in looks.
const LOOKS_FOR_CHILDREN: usize = 4;

/// Processes that are looked into before any search: the last ones to connect.
const LAST_KNOWN: usize = 2;

/// Most walks through the descendants of ojs-init that each find other ones than the walk before.
/// Then every process is asked for its parent.
const MOST_WALKS: usize = 4;

/// Most parents that are asked for theirs.
const MOST_GENERATIONS: usize = 256;

/// Longest search. It sees a million descriptors in that time.
const SEARCH_WITHIN: Duration = Duration::from_secs(5);

/// The place where a wanted socket was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) inode: u64,
    pub(super) pid: Pid,
    pub(super) descriptor: i32,
}

/// Why the search could not see everything.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Blind {
    /// A process of the worker, with its user, which ojs-init may not look into.
    #[error("process {0} of the worker keeps its memory to itself")]
    Closed(Pid),
    /// A look has failed.
    #[error("a look into /proc failed: {0}")]
    Failed(String),
    /// There is too much to look at.
    #[error("the worker has more descriptors than are looked at in {} s", SEARCH_WITHIN.as_secs())]
    TooMuch,
}

/// How further processes are found.
#[derive(Debug)]
enum Way {
    /// From ourselves downwards.
    Down {
        walk: FamilyWalk,
        /// The result of the walk before.
        last: Option<BTreeSet<Pid>>,
        walks: usize,
    },
    /// Every process is asked for its parent, because the kernel lists no children, or they keep
    /// changing.
    Up,
    /// There are no further ones.
    Over,
}

/// The subject of a search.
#[derive(Debug)]
pub(super) struct Sought {
    /// The worker's user.
    pub(super) uid: u32,
    /// The sockets.
    pub(super) wanted: BTreeSet<u64>,
    /// Processes that are known to be the worker's, the last one to connect first.
    pub(super) known: Vec<Pid>,
    /// A caller whose socket is not found is refused, so the search must not overlook it.
    pub(super) is_exact: bool,
    /// The kernel lists children by their parents.
    pub(super) has_lists: bool,
}

/// One search, for all sockets that were sought when it began.
#[derive(Debug)]
pub(super) struct Search {
    /// The worker's user.
    uid: u32,
    wanted: BTreeSet<u64>,
    is_exact: bool,
    way: Way,
    /// Known processes that were not looked into yet, the next one first.
    known: Vec<Pid>,
    /// Processes to look into, the next one last.
    left: Vec<Pid>,
    /// Processes that were ever in `left`.
    seen: BTreeSet<Pid>,
    /// Whether a process is a descendant of ojs-init, for those that were asked.
    is_ours: BTreeMap<Pid, bool>,
    /// The one that is looked into.
    open: Option<(Pid, DescriptorList)>,
    blind: Option<Blind>,
    /// The time limit of the search.
    until: Duration,
}

impl Way {
    fn down() -> Self {
        Self::Down {
            walk: FamilyWalk::begin(),
            last: None,
            walks: 0,
        }
    }
}

impl Search {
    /// Begins a search. The last known processes come first, then the unknown ones, the newest
    /// before the others, and then the rest of the known ones.
    pub(super) fn begin(sought: Sought, now: Duration) -> Self {
        let Sought {
            uid,
            wanted,
            mut known,
            is_exact,
            has_lists,
        } = sought;
        let others = known.split_off(LAST_KNOWN.min(known.len()));
        let first = known;
        let mut is_ours: BTreeMap<Pid, bool> = small::gather(first.iter().chain(&others).map(|pid| (*pid, true)));
        is_ours.insert(Pid::own(), true);
        Self {
            uid,
            wanted,
            is_exact,
            way: if has_lists { Way::down() } else { Way::Up },
            seen: first.iter().copied().collect(),
            left: first.into_iter().rev().collect(),
            known: others,
            is_ours,
            open: None,
            blind: None,
            until: now.saturating_add(SEARCH_WITHIN),
        }
    }

    /// Continues for one turn, and returns the sockets that were found.
    pub(super) fn go_on(&mut self) -> Vec<Sighting> {
        let mut found = Vec::new();
        let mut looks = LOOKS_PER_TURN;
        while looks > 0 && !self.is_over() {
            let Some((pid, list)) = &mut self.open else {
                match self.left.pop() {
                    Some(pid) => self.open(pid, &mut looks),
                    None => self.find_more(&mut looks),
                }
                continue;
            };
            looks -= 1;
            let pid = *pid;
            let Some(descriptor) = list.next() else {
                self.open = None;
                continue;
            };
            let seen = descriptor.and_then(|descriptor| Ok((descriptor, descriptors::socket_at(pid, descriptor)?)));
            match seen {
                Ok((descriptor, Some(inode))) if self.wanted.remove(&inode) => {
                    found.push(Sighting { inode, pid, descriptor })
                }
                Ok(_) => {}
                Err(error) => {
                    self.open = None;
                    self.could_not_look(pid, &error);
                }
            }
        }
        found
    }

    /// True if no socket is sought any more, or no process is left to look into.
    fn is_over(&self) -> bool {
        let has_more = self.open.is_some() || !self.left.is_empty() || !matches!(self.way, Way::Over);
        self.wanted.is_empty() || !has_more
    }

    /// After the end: the sockets that were not found, and why the search could not see everything.
    pub(super) fn end(&mut self, now: Duration) -> Option<(BTreeSet<u64>, Option<Blind>)> {
        if !self.is_over() {
            if now < self.until {
                return None;
            }
            self.blind.get_or_insert(Blind::TooMuch);
        }
        Some((std::mem::take(&mut self.wanted), self.blind.take()))
    }

    /// Makes one step towards further processes.
    fn find_more(&mut self, looks: &mut usize) {
        *looks = looks.saturating_sub(LOOKS_FOR_CHILDREN);
        let Way::Down { walk, last, walks } = &mut self.way else {
            return self.ask_everybody();
        };
        match walk.step() {
            Ok(true) => {}
            Ok(false) => {
                let found = walk.found().clone();
                *walks += 1;
                let walks = *walks;
                let is_sure = !self.is_exact || last.replace(found.clone()).as_ref() == Some(&found);
                if is_sure {
                    self.way = Way::Over;
                } else if walks == MOST_WALKS {
                    self.way = Way::Up;
                } else {
                    *walk = FamilyWalk::begin();
                }
                self.is_ours.extend(found.iter().map(|pid| (*pid, true)));
                self.add(found);
            }
            Err(error) => {
                self.way = Way::Over;
                self.blind.get_or_insert(Blind::Failed(error.to_string()));
            }
        }
    }

    fn ask_everybody(&mut self) {
        self.way = Way::Over;
        match process::everybody_else() {
            Ok(everybody) => self.add(everybody),
            Err(error) => {
                self.blind.get_or_insert(Blind::Failed(error.to_string()));
            }
        }
    }

    /// Queues these processes and the rest of the known ones, unless they were queued before.
    fn add(&mut self, pids: impl IntoIterator<Item = Pid>) {
        let known = std::mem::take(&mut self.known);
        let new: BTreeSet<Pid> = small::gather(pids);
        self.left
            .extend(known.iter().rev().filter(|pid| self.seen.insert(**pid)));
        self.left.extend(new.into_iter().filter(|pid| self.seen.insert(*pid)));
    }

    fn open(&mut self, pid: Pid, looks: &mut usize) {
        *looks = looks.saturating_sub(1);
        let opened = match self.is_descendant(pid, looks) {
            Ok(true) => DescriptorList::open(pid),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        match opened {
            Ok(list) => self.open = Some((pid, list)),
            Err(error) => self.could_not_look(pid, &error),
        }
    }

    /// True if a process is a descendant of ojs-init, or was a moment ago. An owner that is found
    /// is asked for that once more.
    fn is_descendant(&mut self, pid: Pid, looks: &mut usize) -> io::Result<bool> {
        let mut asked = Vec::new();
        let mut next = pid;
        let is_ours = loop {
            if let Some(is_ours) = self.is_ours.get(&next) {
                break *is_ours;
            }
            if asked.len() == MOST_GENERATIONS {
                break false;
            }
            *looks = looks.saturating_sub(LOOKS_FOR_A_PARENT);
            asked.push(next);
            match process::parent_of(next)? {
                Parent::Is(parent) => next = parent,
                Parent::NotHere => break false,
                // ojs-init may have adopted the orphan.
                Parent::Gone => return Ok(next != pid),
            }
        };
        self.is_ours.extend(asked.into_iter().map(|pid| (pid, is_ours)));
        Ok(is_ours)
    }

    /// Notes why a process could not be looked into. A gone process has no sockets, and one of
    /// another user has none of the sought ones. A zombie is gone too: its descriptors in `/proc`
    /// are root's, so only its state tells it from a process that hides its memory.
    fn could_not_look(&mut self, pid: Pid, error: &io::Error) {
        if process::is_gone(error) || matches!(process::start_time(pid), Ok(None)) {
            return;
        }
        let blind = if descriptors::is_refusal(error) {
            match process::user_of(pid) {
                Ok(user) if user == Some(self.uid) => Blind::Closed(pid),
                Ok(_) => return,
                Err(error) => Blind::Failed(error.to_string()),
            }
        } else {
            Blind::Failed(error.to_string())
        };
        self.blind.get_or_insert(blind);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its process has failed")]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
    fn a_process_that_keeps_its_memory_to_itself_makes_the_search_blind_and_a_zombie_does_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id().cast_signed();
        let descendants = process::descendants(1000).unwrap();
        let pid = descendants.into_iter().find(|pid| pid.number() == number).unwrap();
        let refusal = io::Error::from_raw_os_error(nix::libc::EACCES);
        let blind = || {
            let sought = Sought {
                uid: nix::unistd::geteuid().as_raw(),
                wanted: BTreeSet::from([1]),
                known: Vec::new(),
                is_exact: true,
                has_lists: true,
            };
            let mut search = Search::begin(sought, Duration::ZERO);
            search.could_not_look(pid, &refusal);
            search.blind
        };
        assert_eq!(blind(), Some(Blind::Closed(pid)));
        child.kill().unwrap();
        while process::start_time(pid).unwrap().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(blind(), None, "a zombie");
        child.wait().unwrap();
    }
}
