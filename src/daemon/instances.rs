//! The instances that run, as a subcommand finds them: by their runtime directories.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::daemon::runtime_dir::{
    CONTROL_SOCKET, Candidate, LOCK, MOST_LOOKED_AT, home_name, is_instance, uid_of_home,
};
use crate::os::dirs::Directory;
use crate::os::process::Pid;
use crate::os::socket::Stream;

/// Longest that a connection to an instance may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// An instance that runs, and a connection to it.
#[derive(Debug)]
pub struct Instance {
    /// Its runtime directory.
    pub path: PathBuf,
    /// Its pid.
    pub pid: Pid,
    /// The connection to its control socket.
    pub stream: Stream,
}

/// Why there is no instance to talk to. `Display` is for the user.
#[derive(Debug)]
pub enum NoInstance {
    /// None is there that we may talk to.
    None {
        /// Where one was looked for.
        looked: Vec<PathBuf>,
        /// What runs, and why it does not count.
        others: Vec<(PathBuf, Unreachable)>,
    },
    /// There are several, and only one can be meant.
    Several(Vec<(PathBuf, Pid)>),
}

/// Why an instance that runs cannot be talked to.
#[derive(Debug)]
pub enum Unreachable {
    /// It has no pid here: it is another container's.
    Elsewhere,
    /// It does not take the connection.
    Failed(io::Error),
}

impl fmt::Display for NoInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None { looked, others } => {
                let looked: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
                write!(
                    f,
                    "no ojs-init with an agent runs here; looked in {}",
                    looked.join(", ")
                )?;
                for (path, why) in others {
                    let path = path.display();
                    match why {
                        Unreachable::Elsewhere => write!(f, "; {path} belongs to another container")?,
                        Unreachable::Failed(error) => write!(f, "; {path} cannot be reached: {error}")?,
                    }
                }
                f.write_str(
                    "; if it was started with another runtime directory, name that with --runtime-dir, and use the user \
                     that it runs as",
                )
            }
            Self::Several(several) => {
                f.write_str("several instances run here:")?;
                for (path, pid) in several {
                    write!(f, " {} (pid {pid})", path.display())?;
                }
                f.write_str("; name one of these directories with --runtime-dir")
            }
        }
    }
}

impl std::error::Error for NoInstance {}

/// The one instance in these places that we can talk to. Each candidate may also be the directory of an instance itself.
///
/// # Errors
///
/// There is none, or more than one.
pub fn the_only(candidates: &[Candidate]) -> Result<Instance, NoInstance> {
    let mut search = Search::default();
    for candidate in candidates {
        search.look_in(&candidate.path);
    }
    let Search { mut found, others } = search;
    match (found.pop(), found.is_empty()) {
        (Some(instance), true) => Ok(instance),
        (Some(last), false) => Err(NoInstance::Several(
            found
                .iter()
                .chain([&last])
                .map(|one| (one.path.clone(), one.pid))
                .collect(),
        )),
        (None, _) => Err(NoInstance::None {
            looked: candidates.iter().map(|candidate| candidate.path.clone()).collect(),
            others,
        }),
    }
}

#[derive(Debug, Default)]
struct Search {
    found: Vec<Instance>,
    others: Vec<(PathBuf, Unreachable)>,
}

impl Search {
    /// What cannot be looked into holds no instance that we may talk to.
    fn look_in(&mut self, place: &Path) {
        let Ok(base) = Directory::open(place) else { return };
        let own = nix::unistd::geteuid().as_raw();
        if place.file_name().is_some_and(is_instance) {
            let uid = base.owner().map(|owner| owner.uid);
            if let Some(uid) = uid.ok().filter(|uid| own == 0 || own == *uid) {
                self.look_at(&base, place, uid);
            }
            return;
        }
        // Root may talk to everybody's.
        let names = if own == 0 {
            base.names(MOST_LOOKED_AT).unwrap_or_default()
        } else {
            Vec::new()
        };
        let homes = names.iter().filter_map(|name| uid_of_home(name));
        let mut uids: Vec<u32> = homes.chain([own]).collect();
        uids.sort_unstable();
        uids.dedup();
        for uid in uids {
            self.look_at_home(&base, &place.join(home_name(uid)), uid);
        }
    }

    fn look_at_home(&mut self, base: &Directory, path: &Path, uid: u32) {
        let Ok(home) = base.open_in(OsStr::new(&home_name(uid))) else {
            return;
        };
        if home.owner().is_ok_and(|owner| owner.uid != uid) {
            return;
        }
        let names = home.names(MOST_LOOKED_AT).unwrap_or_default();
        for name in names.iter().filter(|name| is_instance(name)) {
            if let Ok(directory) = home.open_in(name) {
                self.look_at(&directory, &path.join(name), uid);
            }
        }
    }

    /// Only the directory of an instance that runs is locked.
    fn look_at(&mut self, directory: &Directory, path: &Path, uid: u32) {
        let is_ours = directory.owner().is_ok_and(|owner| owner.uid == uid);
        if !is_ours || !matches!(directory.lock(OsStr::new(LOCK)), Ok(None)) {
            return;
        }
        let path = path.to_owned();
        let connected = Stream::connect(&path.join(CONTROL_SOCKET), CONNECT_WITHIN);
        match connected.and_then(|stream| Ok((stream.peer()?, stream))) {
            Ok((peer, stream)) => match peer.pid.filter(|_| peer.uid == uid) {
                Some(pid) => self.found.push(Instance { path, pid, stream }),
                None => self.others.push((path, Unreachable::Elsewhere)),
            },
            Err(error) => self.others.push((path, Unreachable::Failed(error))),
        }
    }
}
