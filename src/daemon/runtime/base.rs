//! Whether a place can hold the runtime directory, and the error if none can.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use log::warn;
use nix::errno::Errno;
use thiserror::Error;

use crate::daemon::runtime::admission::Allowed;
use crate::daemon::runtime::candidate::Candidate;
use ojs_os::dirs::{self, Directory, Owner};
use ojs_os::socket::LONGEST_PATH;
use ojs_os::user::Credentials;

/// Mode of a base that ojs-init makes.
const BASE_MODE: u32 = 0o755;

/// The bit of a mode that lets others write.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// The bit of a mode that lets a file in a directory be replaced by its owner alone.
const STICKY: u32 = 0o1000;

/// None of the candidates works.
#[derive(Debug)]
pub struct NoRuntimeDir {
    /// Each candidate with its fault.
    pub tried: Vec<(PathBuf, Unusable)>,
    /// The user of ojs-init.
    pub uid: u32,
}

/// Why a candidate does not work.
#[derive(Debug, Error)]
pub enum Unusable {
    /// A system call failed.
    #[error("{step} {path}: {}", named(error))]
    Failed {
        /// The step that failed.
        step: &'static str,
        path: PathBuf,
        error: io::Error,
    },
    /// The path is a symbolic link, which may lead elsewhere tomorrow.
    #[error("{0} is a symbolic link; name what it leads to")]
    Link(PathBuf),
    /// The directory belongs to a user that is neither ojs-init's nor root, and that could replace
    /// its content.
    #[error("{path} belongs to user {uid}")]
    Foreign {
        path: PathBuf,
        /// The user whom it belongs to.
        uid: u32,
    },
    /// Any user may replace its files.
    #[error("everybody may replace files in {0}: chmod +t {0}")]
    Unprotected(PathBuf),
    /// The child cannot get there.
    #[error("user {uid}, which the worker runs as, may not pass {path}: chmod o+x {path}")]
    OutOfReach {
        /// The directory that the child may not pass.
        path: PathBuf,
        /// The child's user.
        uid: u32,
    },
    /// The path of a socket in it would be longer than the kernel accepts.
    #[error("{path} has {length} bytes, and the path of a socket at most {LONGEST_PATH}: use a shorter one")]
    TooLong {
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
}

impl Unusable {
    /// Returns a function for `map_err`.
    pub(in crate::daemon) fn because(step: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Failed {
            step,
            path: path.clone(),
            error,
        }
    }
}

/// An error with the name of its number, which people search for.
fn named(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => format!("{} ({errno:?})", errno.desc()),
        None => error.to_string(),
    }
}

impl fmt::Display for NoRuntimeDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no place for the sockets: ")?;
        for (path, unusable) in &self.tried {
            write!(f, "{}: {unusable}; ", path.display())?;
        }
        write!(
            f,
            "set paths.runtime_dir (OJS_RUNTIME_DIR) to a directory that user {} may write to, on a tmpfs for example",
            self.uid
        )
    }
}

impl std::error::Error for NoRuntimeDir {}

/// Opens a candidate, and returns it with its absolute path. A missing one is made if that is
/// allowed.
pub(in crate::daemon) fn open(candidate: &Candidate, allowed: &Allowed) -> Result<(Directory, PathBuf), Unusable> {
    let Some(name) = candidate.path.file_name() else {
        let path = resolve(&candidate.path)?;
        let base = check_way(&path, allowed, candidate)?;
        return Ok((base, path));
    };
    let parent = candidate.path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent_path = resolve(parent.unwrap_or(Path::new(".")))?;
    let path = parent_path.join(name);
    let parent = check_way(&parent_path, allowed, candidate)?;
    let base = match parent.open_in(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && candidate.make => make(&parent, name, &path)?,
        opened => opened.map_err(|error| not_opened(&path, error))?,
    };
    check(&base, &path, allowed, candidate)?;
    Ok((base, path))
}

/// The error for a directory that cannot be opened.
pub(in crate::daemon) fn not_opened(path: &Path, error: io::Error) -> Unusable {
    if path.is_symlink() {
        return Unusable::Link(path.to_owned());
    }
    Unusable::because("opening", path)(error)
}

fn resolve(path: &Path) -> Result<PathBuf, Unusable> {
    path.canonicalize().map_err(Unusable::because("looking up", path))
}

fn make(parent: &Directory, name: &OsStr, path: &Path) -> Result<Directory, Unusable> {
    match parent.create_in(name, BASE_MODE) {
        // Another instance was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(Unusable::because("making", path))?,
    }
    parent.open_in(name).map_err(|error| not_opened(path, error))
}

/// Checks every directory on the way to this one, which is absolute and has no links, and returns
/// it.
fn check_way(path: &Path, allowed: &Allowed, candidate: &Candidate) -> Result<Directory, Unusable> {
    let mut ways: Vec<&Path> = path.ancestors().collect();
    ways.reverse();
    let mut last = Err(Unusable::because("looking up", path)(Errno::ENOENT.into()));
    for way in ways {
        let directory = Directory::open(way).map_err(|error| not_opened(way, error))?;
        check(&directory, way, allowed, candidate)?;
        last = Ok(directory);
    }
    last
}

fn check(directory: &Directory, path: &Path, allowed: &Allowed, candidate: &Candidate) -> Result<(), Unusable> {
    let owner = directory.owner().map_err(Unusable::because("looking at", path))?;
    let path = path.to_owned();
    let is_trusted = [0, allowed.own()].contains(&owner.uid) || dirs::is_from_above(owner.uid);
    if !is_trusted {
        let uid = owner.uid;
        return Err(Unusable::Foreign { path, uid });
    }
    if owner.mode & WRITABLE_BY_OTHERS != 0 && owner.mode & STICKY == 0 {
        let unprotected = Unusable::Unprotected(path.clone());
        if !candidate.is_configured {
            return Err(unprotected);
        }
        // Every volume that Kubernetes makes (emptyDir) is like that, and only root could change
        // it: no error.
        warn!(
            "paths.runtime_dir: {unprotected}, or name a directory of mode 0700. Whoever else can write there can take the \
             place of the worker's socket; in a volume of this container alone nobody else can"
        );
    }
    match allowed.other_child().filter(|child| !may_pass(owner, child)) {
        Some(child) => Err(Unusable::OutOfReach { path, uid: child.uid }),
        None => Ok(()),
    }
}

/// Whether a user may pass a directory, by its mode; access control lists are not looked at.
fn may_pass(directory: Owner, user: &Credentials) -> bool {
    let is_member = user.gid == directory.gid || user.groups.contains(&directory.gid);
    let needed = if user.uid == directory.uid {
        0o100
    } else if is_member {
        0o010
    } else {
        0o001
    };
    user.uid == 0 || directory.mode & needed != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_a_user_is_in_decides_whether_it_may_pass() {
        let user = |uid, gid, groups: &[u32]| Credentials {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        let directory = |mode| Owner { uid: 7, gid: 8, mode };
        let cases = [
            (0o100, user(7, 1, &[]), true),
            (0o011, user(7, 8, &[]), false),
            (0o010, user(1, 8, &[]), true),
            (0o010, user(1, 1, &[2, 8]), true),
            (0o101, user(1, 8, &[]), false),
            (0o001, user(1, 1, &[]), true),
            (0o110, user(1, 1, &[]), false),
            (0o000, user(0, 0, &[]), true),
        ];
        for (mode, user, expected) in cases {
            assert_eq!(may_pass(directory(mode), &user), expected, "{mode:o} {user:?}");
        }
    }

    #[test]
    fn one_error_lists_each_place_with_its_errno_and_says_what_to_do() {
        let failed = |path: &str, errno: Errno| Unusable::because("making", Path::new(path))(errno.into());
        let error = NoRuntimeDir {
            tried: vec![
                ("/run/ojs-init".into(), failed("/run/ojs-init", Errno::EACCES)),
                ("/tmp".into(), failed("/tmp/ojs-init-7", Errno::EROFS)),
                ("/dev/shm".into(), Unusable::Unprotected("/dev/shm".into())),
            ],
            uid: 7,
        };
        assert_eq!(
            error.to_string(),
            "there is no place for the sockets: /run/ojs-init: making /run/ojs-init: Permission denied (EACCES); \
             /tmp: making /tmp/ojs-init-7: Read-only file system (EROFS); \
             /dev/shm: everybody may replace files in /dev/shm: chmod +t /dev/shm; \
             set paths.runtime_dir (OJS_RUNTIME_DIR) to a directory that user 7 may write to, on a tmpfs for example"
        );
    }
}
