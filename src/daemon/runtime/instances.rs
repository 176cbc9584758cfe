//! The running instances, as a subcommand finds them: by their runtime directories.
//!
//! Those of the subcommand's user come first. Root may talk to all, but looks at other users'
//! directories only if it has none of its own. A job's process, perhaps of another user, could put
//! anything there.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::daemon::runtime::base::{Unusable, not_opened};
use crate::daemon::runtime::candidate::{
    CONTROL_SOCKET, Candidate, LOCK, MOST_LOOKED_AT, home_name, is_instance, uid_of_home,
};
use ojs_os::clock;
use ojs_os::dirs::Directory;
use ojs_os::process::Pid;
use ojs_os::socket::Stream;

/// Between two attempts to connect to an instance whose queue is full.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Most reasons that are shown why there is no instance.
const MOST_REASONS: usize = 16;

/// An instance that runs, and a connection to it.
#[derive(Debug)]
pub struct Instance {
    /// Its runtime directory.
    pub path: PathBuf,
    pub pid: Pid,
    /// The connection to its control socket.
    pub stream: Stream,
}

/// Why there is no instance to talk to. `Display` is for the user.
#[derive(Debug)]
pub enum NoInstance {
    /// No instance is there that this user may talk to. Holds the places, each with the reason.
    None(Vec<(PathBuf, Unreachable)>),
    /// There are several, and only one can be meant.
    Several(Vec<(PathBuf, Pid)>),
    /// None has the pid that is asked for. These run.
    OtherPids(i32, Vec<(PathBuf, Pid)>),
}

/// Why there is no instance to talk to in a place.
#[derive(Debug, Error)]
pub enum Unreachable {
    /// The place cannot be looked into.
    #[error("{0}")]
    Place(Unusable),
    /// No instance of this user has a directory there.
    #[error("there is no instance of user {0}")]
    Empty(u32),
    /// The instance does not run any more.
    #[error("it does not run any more")]
    Dead,
    /// The instance has no pid here: it is another container's.
    #[error("it belongs to another container")]
    Elsewhere,
    /// A process of another user listens there.
    #[error("user {0} listens there")]
    Foreign(u32),
    /// The queue of connections to be accepted is full.
    #[error("it does not answer: too many others wait for it")]
    Full,
    /// The instance does not accept the connection.
    #[error("it cannot be reached: {0}")]
    Failed(io::Error),
}

impl fmt::Display for NoInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(reasons) => {
                f.write_str("no ojs-init was found running here (a plain init cannot be asked): ")?;
                for (path, why) in reasons {
                    write!(f, "{}: {why}; ", path.display())?;
                }
                f.write_str(
                    "if it was started with another runtime directory, name that with --runtime-dir, and use the user that \
                     it runs as",
                )
            }
            Self::Several(several) => {
                write!(f, "several instances run here: {}", listed(several))?;
                if let Some((_, pid)) = several.first() {
                    write!(
                        f,
                        "; choose one by its pid, as with --pid {pid}, or name its directory with --runtime-dir"
                    )?;
                }
                f.write_str("; for hooks, give each container an OJS_RUNTIME_DIR of its own")
            }
            Self::OtherPids(pid, others) => {
                write!(
                    f,
                    "no ojs-init with pid {pid} runs here; these run here: {}",
                    listed(others)
                )
            }
        }
    }
}

impl std::error::Error for NoInstance {}

fn listed(instances: &[(PathBuf, Pid)]) -> String {
    let shown = |(path, pid): &(PathBuf, Pid)| format!("{} (pid {pid})", path.display());
    instances.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The one instance in these places that this user can talk to, found within `limit`. Each
/// candidate may also be the directory of one user's instances, or of an instance itself.
///
/// # Errors
///
/// There is none, or more than one.
pub fn the_only(candidates: &[Candidate], limit: Duration) -> Result<Instance, NoInstance> {
    find(candidates, None, limit)
}

/// Like [`the_only`], but finds the instance with this pid, if one is given.
///
/// # Errors
///
/// There is none, or more than one and no pid is given.
pub fn find(candidates: &[Candidate], wanted: Option<i32>, limit: Duration) -> Result<Instance, NoInstance> {
    let give_up = clock::monotonic().saturating_add(limit);
    let own = nix::unistd::geteuid().as_raw();
    let mut before: Option<Search> = None;
    loop {
        let mut search = Search::new(wanted, give_up);
        for candidate in candidates {
            search.look_for_own(&candidate.path, own);
        }
        // Root may talk to all instances.
        if own == 0 && search.found.is_empty() && !search.is_any_full {
            for candidate in candidates {
                search.look_for_others(&candidate.path, own);
            }
        }
        // Not at the last moment, because a search without time finds no instance.
        let next = clock::monotonic().saturating_add(TRY_AGAIN_AFTER);
        if search.is_any_full && search.found.is_empty() && next.saturating_add(TRY_AGAIN_AFTER) < give_up {
            before = Some(search);
            clock::pause_until(next);
        } else {
            // On a busy machine the time may still run out. Then the search before knows more.
            let is_cut_short = search.found.is_empty() && search.is_out_of_time();
            return before.filter(|_| is_cut_short).unwrap_or(search).decide();
        }
    }
}

#[derive(Debug)]
struct Search {
    /// The pid that is asked for.
    wanted: Option<i32>,
    give_up: Duration,
    found: Vec<Instance>,
    /// Instances with pids other than the requested one.
    others: Vec<(PathBuf, Pid)>,
    /// PID 1 was found, or the requested pid. No other instance can have it, so the search ends.
    is_over: bool,
    is_any_full: bool,
    reasons: Vec<(PathBuf, Unreachable)>,
}

impl Search {
    fn new(wanted: Option<i32>, give_up: Duration) -> Self {
        Self {
            wanted,
            give_up,
            found: Vec::new(),
            others: Vec::new(),
            is_over: false,
            is_any_full: false,
            reasons: Vec::new(),
        }
    }

    fn decide(mut self) -> Result<Instance, NoInstance> {
        if let Some(init) = self.found.iter().position(|instance| instance.pid == Pid::INIT) {
            return Ok(self.found.swap_remove(init));
        }
        match (self.found.pop(), self.found.is_empty()) {
            (Some(instance), true) => Ok(instance),
            (Some(last), false) => {
                let all = self.found.iter().chain([&last]);
                Err(NoInstance::Several(
                    all.map(|one| (one.path.clone(), one.pid)).collect(),
                ))
            }
            (None, _) => match self.wanted.filter(|_| !self.others.is_empty()) {
                Some(wanted) => Err(NoInstance::OtherPids(wanted, self.others)),
                None => Err(NoInstance::None(self.reasons)),
            },
        }
    }

    fn note(&mut self, path: &Path, why: Unreachable) {
        self.is_any_full |= matches!(why, Unreachable::Full);
        if self.reasons.len() < MOST_REASONS {
            self.reasons.push((path.to_owned(), why));
        }
    }

    fn is_over(&self) -> bool {
        self.is_over || self.is_out_of_time()
    }

    fn is_out_of_time(&self) -> bool {
        clock::monotonic() >= self.give_up
    }

    /// Finds the instances of this user. The place may itself be the directory of an instance, or
    /// of all instances of a user: then root finds those of any user.
    fn look_for_own(&mut self, place: &Path, own: u32) {
        let base = match Directory::open(place) {
            Ok(base) => base,
            Err(error) => return self.note(place, Unreachable::Place(not_opened(place, error))),
        };
        let is_ours = |uid: &u32| own == 0 || own == *uid;
        let resolved = place.canonicalize().ok();
        let name = resolved.as_deref().and_then(Path::file_name).unwrap_or_default();
        if is_instance(name) {
            let uid = base.owner().map_or(own, |owner| owner.uid);
            return self.look_at(&base, place, Some(uid).filter(is_ours).unwrap_or(own));
        }
        if let Some(uid) = uid_of_home(name).filter(is_ours) {
            self.look_at_all(&base, place, uid);
        }
        self.look_at_home(&base, place, own);
    }

    fn look_for_others(&mut self, place: &Path, own: u32) {
        let Ok(base) = Directory::open(place) else { return };
        let other = |name: &OsStr| uid_of_home(name).filter(|uid| *uid != own);
        match base.names(|name| other(name).is_some(), MOST_LOOKED_AT) {
            Ok(names) => {
                for uid in names.iter().filter_map(|name| other(name)) {
                    self.look_at_home(&base, place, uid);
                }
            }
            Err(error) => self.note(place, Unreachable::Place(Unusable::because("reading", place)(error))),
        }
    }

    fn look_at_home(&mut self, base: &Directory, place: &Path, uid: u32) {
        let name = OsString::from(home_name(uid));
        let path = place.join(&name);
        match base.open_in(&name) {
            Ok(home) => self.look_at_all(&home, &path, uid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.note(place, Unreachable::Empty(uid)),
            Err(error) => self.note(&path, Unreachable::Place(not_opened(&path, error))),
        }
    }

    /// The instances of one user.
    fn look_at_all(&mut self, home: &Directory, path: &Path, uid: u32) {
        if let Some(other) = other_owner(home, uid) {
            return self.note(path, Unreachable::Foreign(other));
        }
        let names = match home.names(is_instance, MOST_LOOKED_AT) {
            Ok(names) => names,
            Err(error) => return self.note(path, Unreachable::Place(Unusable::because("reading", path)(error))),
        };
        if names.is_empty() {
            self.note(path, Unreachable::Empty(uid));
        }
        for name in names {
            if self.is_over() {
                return;
            }
            let path = path.join(&name);
            match home.open_in(&name) {
                Ok(directory) => self.look_at(&directory, &path, uid),
                Err(error) => self.note(&path, Unreachable::Place(not_opened(&path, error))),
            }
        }
    }

    /// Only the directory of an instance that runs is locked.
    fn look_at(&mut self, directory: &Directory, path: &Path, uid: u32) {
        if let Some(other) = other_owner(directory, uid) {
            return self.note(path, Unreachable::Foreign(other));
        }
        match directory.lock(OsStr::new(LOCK)) {
            Ok(None) => {}
            Ok(Some(_lock)) => return self.note(path, Unreachable::Dead),
            Err(error) => {
                let unusable = Unusable::because("looking at the lock in", path)(error);
                return self.note(path, Unreachable::Place(unusable));
            }
        }
        match Stream::connect(&path.join(CONTROL_SOCKET)).and_then(|stream| Ok((stream.peer()?, stream))) {
            Ok((peer, _)) if peer.uid != uid => self.note(path, Unreachable::Foreign(peer.uid)),
            Ok((peer, stream)) => match peer.pid {
                Some(pid) if self.wanted.is_some_and(|wanted| wanted != pid.number()) => {
                    self.others.push((path.to_owned(), pid));
                }
                Some(pid) => {
                    self.is_over |= pid == Pid::INIT || self.wanted.is_some();
                    let path = path.to_owned();
                    self.found.push(Instance { path, pid, stream });
                }
                None => self.note(path, Unreachable::Elsewhere),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.note(path, Unreachable::Full),
            Err(error) => self.note(path, Unreachable::Failed(error)),
        }
    }
}

/// The user whom a directory belongs to, when that is not this one.
fn other_owner(directory: &Directory, uid: u32) -> Option<u32> {
    let owner = directory.owner().ok()?.uid;
    (owner != uid).then_some(owner)
}
