//! The search for the processes that have certain sockets, spread over turns of the loop: the worker may have many processes, and each
//! of them many descriptors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::time::Duration;

use crate::os::descriptors::{self, DescriptorList};
use crate::os::process::{self, Parent, Pid};

/// Looks of one turn: a few milliseconds.
const LOOKS_PER_TURN: usize = 1024;

/// As many looks as it costs to ask for the parent of a process.
const LOOKS_FOR_A_PARENT: usize = 8;

/// Most parents that are asked for theirs.
const MOST_GENERATIONS: usize = 256;

/// Longest search. It sees a million descriptors in that time.
const SEARCH_WITHIN: Duration = Duration::from_secs(5);

/// Where a wanted socket was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) inode: u64,
    pub(super) pid: Pid,
    pub(super) descriptor: i32,
}

/// Why not everything was seen that there is to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blind {
    /// A process of the worker, with its user, which we may not look into.
    Closed(Pid),
    /// A look has failed.
    Failed(String),
    /// There is too much to look at.
    TooMuch,
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(pid) => write!(f, "process {pid} of the worker keeps its memory to itself"),
            Self::Failed(error) => write!(f, "a look into /proc failed: {error}"),
            Self::TooMuch => {
                let seconds = SEARCH_WITHIN.as_secs();
                write!(f, "the worker has more descriptors than are looked at in {seconds} s")
            }
        }
    }
}

/// One search, for all sockets that were sought when it began.
#[derive(Debug)]
pub(super) struct Search {
    /// The worker's user.
    uid: u32,
    wanted: BTreeSet<u64>,
    /// Processes to look into, the next one last.
    left: Vec<Pid>,
    /// Whether a process is ours, as far as that was asked.
    is_ours: BTreeMap<Pid, bool>,
    /// The one that is looked into.
    open: Option<(Pid, DescriptorList)>,
    blind: Option<Blind>,
    /// When it has taken too long.
    until: Duration,
}

impl Search {
    /// Begins one. Processes that nobody has met yet come first, the newest before the others, and then those that are `known` to be
    /// the worker's, in their order.
    pub(super) fn begin(uid: u32, wanted: BTreeSet<u64>, known: Vec<Pid>, now: Duration) -> Self {
        let mut search = Self {
            uid,
            wanted,
            left: known,
            is_ours: BTreeMap::new(),
            open: None,
            blind: None,
            until: now.saturating_add(SEARCH_WITHIN),
        };
        search.left.reverse();
        search.is_ours = search.left.iter().map(|pid| (*pid, true)).collect();
        match process::everybody_else() {
            Ok(mut others) => {
                others.retain(|pid| !search.is_ours.contains_key(pid));
                others.sort();
                search.left.extend(others);
            }
            Err(error) => search.blind = Some(Blind::Failed(error.to_string())),
        }
        search.is_ours.insert(Pid::own(), true);
        search
    }

    /// Goes on for one turn; what was seen.
    pub(super) fn go_on(&mut self) -> Vec<Sighting> {
        let mut found = Vec::new();
        let mut looks = LOOKS_PER_TURN;
        while looks > 0 && !self.is_over() {
            let Some((pid, list)) = &mut self.open else {
                self.open_next(&mut looks);
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

    /// Whether there is nothing left to look for, or to look at.
    fn is_over(&self) -> bool {
        self.wanted.is_empty() || (self.open.is_none() && self.left.is_empty())
    }

    /// The sockets that were not seen when it is over, and why not everything could be.
    pub(super) fn end(&mut self, now: Duration) -> Option<(BTreeSet<u64>, Option<Blind>)> {
        if !self.is_over() {
            if now < self.until {
                return None;
            }
            self.blind.get_or_insert(Blind::TooMuch);
        }
        Some((std::mem::take(&mut self.wanted), self.blind.take()))
    }

    fn open_next(&mut self, looks: &mut usize) {
        let Some(pid) = self.left.pop() else { return };
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

    /// Whether a process is a descendant of ours, or was a moment ago: whoever is found is asked for that once more.
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
                // An orphan may have become ours.
                Parent::Gone => return Ok(next != pid),
            }
        };
        self.is_ours.extend(asked.into_iter().map(|pid| (pid, is_ours)));
        Ok(is_ours)
    }

    /// A process that is gone has nothing any more, and one of another user none of the sockets that are sought.
    fn could_not_look(&mut self, pid: Pid, error: &io::Error) {
        if descriptors::is_gone(error) {
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
