//! The runtime directory: it holds the sockets of this instance.
//!
//! `BASE/ojs-init-UID/PID-RANDOM/`, where BASE is the first of several places that works. The last
//! part is the instance's own: ojs-init makes it, locks it while it runs, and removes it at the
//! end. The directory of a killed instance is not locked any more, so the next instance removes it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::daemon::runtime::admission::Allowed;
use crate::daemon::runtime::base::{self, NoRuntimeDir, Unusable};
use crate::daemon::runtime::candidate::{
    CONTROL_SOCKET, Candidate, LOCK, MOST_LOOKED_AT, home_name, instance_name, is_instance,
};
use ojs_os::dirs::{Directory, Lock};
use ojs_os::socket::{BoundSocket, LONGEST_PATH, Listener, SocketError};

/// The socket for the worker.
const WORKER_SOCKET: &str = "worker.sock";

/// Mode of the directory of all instances of one user. Others may pass, and reach only names that
/// they know.
const HOME_MODE: u32 = 0o711;

/// Most directories of dead instances that one start removes.
const MOST_REMOVED: usize = 64;

/// Most files in a directory of an instance; there are three.
const MOST_FILES: usize = 64;

/// Names that are tried before the error.
const MOST_NAMES: usize = 16;

/// The directory of this instance. Dropping this removes it.
#[derive(Debug)]
pub struct RuntimeDir {
    home: Directory,
    directory: Directory,
    name: OsString,
    path: PathBuf,
    allowed: Allowed,
    is_removed: bool,
    /// Held until the directory is gone: fields are dropped after `drop` has run.
    _lock: Lock,
}

impl RuntimeDir {
    /// Makes the directory in the first candidate that works, and removes those of dead instances
    /// there.
    ///
    /// # Errors
    ///
    /// None of them works: one error that gives the fault of each.
    pub fn open(candidates: &[Candidate], allowed: &Allowed) -> Result<Self, NoRuntimeDir> {
        let mut tried = Vec::new();
        for candidate in candidates {
            // Once more, because a rehearsal may have removed a directory that it had made and this
            // instance had found.
            match Self::open_in(candidate, allowed).or_else(|_| Self::open_in(candidate, allowed)) {
                Ok(found) => return Ok(found),
                Err(unusable) => tried.push((candidate.path.clone(), unusable)),
            }
        }
        Err(NoRuntimeDir {
            tried,
            uid: allowed.own(),
        })
    }

    /// Makes the directory and its sockets as a start does, and removes all of it again.
    ///
    /// # Errors
    ///
    /// The error that a start would have.
    pub fn rehearse(candidates: &[Candidate], allowed: &Allowed) -> Result<(), String> {
        let mut made = Vec::new();
        for candidate in candidates {
            // The innermost is removed first. Directories that exist already stay.
            let both = [candidate.path.join(home_name(allowed.own())), candidate.path.clone()];
            made.extend(both.into_iter().filter(|path| path.symlink_metadata().is_err()));
        }
        let result = Self::open(candidates, allowed)
            .map_err(|error| error.to_string())
            .and_then(|directory| {
                let listens = |listener: Result<Listener, SocketError>| listener.map(drop).map_err(|e| e.to_string());
                listens(directory.worker_socket()).and_then(|()| listens(directory.control_socket()))
            });
        for path in made {
            // Removes only an empty directory, because another instance may have found it
            // meanwhile.
            let _ = std::fs::remove_dir(path);
        }
        result
    }

    fn open_in(candidate: &Candidate, allowed: &Allowed) -> Result<Self, Unusable> {
        let (base, path) = base::open(candidate, allowed)?;
        let home_name = home_name(allowed.own());
        let home_path = path.join(&home_name);
        let home = open_home(&base, OsStr::new(&home_name), &home_path, allowed.own())?;
        remove_dead(&home, allowed.own());
        for _ in 0..MOST_NAMES {
            let name = OsString::from(instance_name());
            let path = home_path.join(&name);
            check_length(&path)?;
            let made = Self::make(&home, &name, allowed).map_err(Unusable::because("making", &path))?;
            if let Some((directory, lock)) = made {
                return Ok(Self {
                    home,
                    directory,
                    name,
                    path,
                    allowed: allowed.clone(),
                    is_removed: false,
                    _lock: lock,
                });
            }
        }
        Err(Unusable::because("making a directory in", &home_path)(
            Errno::EEXIST.into(),
        ))
    }

    /// Makes and locks the directory of an instance. `None`: the name is in use, or another
    /// instance looked between the two steps and removed it as a dead one's. Try another name.
    fn make(home: &Directory, name: &OsStr, allowed: &Allowed) -> io::Result<Option<(Directory, Lock)>> {
        let is_for_others = allowed.other_child().is_some() || allowed.has_others();
        let mode = if is_for_others { 0o711 } else { 0o700 };
        let made = home.create_in(name, mode).and_then(|()| home.open_in(name));
        let locked = made.and_then(|directory| {
            let lock = directory.make_and_lock(OsStr::new(LOCK));
            if lock.is_err() {
                // Best effort, because only the earlier error counts.
                let _ = directory.remove(OsStr::new(LOCK));
                let _ = home.remove_directory(name);
            }
            Ok(lock?.map(|lock| (directory, lock)))
        });
        match locked.as_ref().map_err(io::Error::kind) {
            Err(io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => Ok(None),
            Ok(_) | Err(_) => locked,
        }
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens for workers of the child's user: by the socket's owner if that can be set. Otherwise
    /// every user can connect, and has to pass
    /// [`may_connect`](crate::daemon::runtime::admission::may_connect).
    ///
    /// # Errors
    ///
    /// See [`SocketError`].
    pub fn worker_socket(&self) -> Result<Listener, SocketError> {
        let socket = BoundSocket::bind(&self.path.join(WORKER_SOCKET))?;
        let is_given = |uid: u32| socket.give_to(uid).is_ok();
        let is_enough = self.allowed.other_child().is_none_or(|child| is_given(child.uid));
        if self.allowed.has_others() || !is_enough {
            socket.open_to_all()?;
        }
        socket.listen()
    }

    /// Listens for subcommands, only for the user of ojs-init.
    ///
    /// # Errors
    ///
    /// See [`SocketError`].
    pub fn control_socket(&self) -> Result<Listener, SocketError> {
        BoundSocket::bind(&self.path.join(CONTROL_SOCKET))?.listen()
    }

    /// Removes the directory with its files, as dropping does, and returns the result.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn remove(mut self) -> io::Result<()> {
        self.is_removed = true;
        clear(&self.home, &self.directory, &self.name)
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        if !self.is_removed {
            // The next instance tries again.
            let _ = clear(&self.home, &self.directory, &self.name);
        }
    }
}

/// Opens the directory of this user's instances in a base. A missing one is made.
fn open_home(base: &Directory, name: &OsStr, path: &Path, own: u32) -> Result<Directory, Unusable> {
    match base.create_in(name, HOME_MODE) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Unusable::because("making", path)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let home = base.open_in(name).map_err(|error| base::not_opened(path, error))?;
    let owner = home.owner().map_err(Unusable::because("looking at", path))?;
    if owner.uid != own {
        return Err(Unusable::Foreign {
            path: path.to_owned(),
            uid: owner.uid,
        });
    }
    if owner.mode != HOME_MODE {
        base.set_mode_of(name, HOME_MODE)
            .map_err(Unusable::because("changing the mode of", path))?;
    }
    Ok(home)
}

fn check_length(path: &Path) -> Result<(), Unusable> {
    let longest = path.join(CONTROL_SOCKET);
    let length = longest.as_os_str().len();
    if length > LONGEST_PATH {
        return Err(Unusable::TooLong { path: longest, length });
    }
    Ok(())
}

/// Removes the directories of instances that are not running any more. Best effort: failures are
/// ignored.
fn remove_dead(home: &Directory, own: u32) {
    let instances = home.names(is_instance, MOST_LOOKED_AT).unwrap_or_default();
    let removed = instances
        .iter()
        .filter(|name| remove_if_dead(home, name, own).unwrap_or(false));
    removed.take(MOST_REMOVED).for_each(drop);
}

fn remove_if_dead(home: &Directory, name: &OsStr, own: u32) -> io::Result<bool> {
    let directory = home.open_in(name)?;
    // A mount over the directory is not the directory that an instance has made.
    if directory.owner()?.uid != own || !directory.is_on_the_mount_of(home)? {
        return Ok(false);
    }
    match directory.lock(OsStr::new(LOCK)) {
        Ok(Some(_lock)) => clear(home, &directory, name).map(|()| true),
        Ok(None) => Ok(false),
        // The lock is the first file that is made and the last one that is removed. Its owner may
        // be between two steps: one that has just made the directory tries another name, one that
        // is about to remove it ignores the error.
        Err(error) if error.kind() == io::ErrorKind::NotFound => home.remove_directory(name).map(|()| true),
        Err(error) => Err(error),
    }
}

/// Removes the directory of an instance whose lock is held.
fn clear(home: &Directory, directory: &Directory, name: &OsStr) -> io::Result<()> {
    for file in directory.names(|name| name != LOCK, MOST_FILES)? {
        directory.remove(&file)?;
    }
    // The lock is last: while it exists this instance holds it, and no other one touches the
    // directory.
    directory.remove(OsStr::new(LOCK))?;
    match home.remove_directory(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
