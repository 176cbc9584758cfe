//! Directories held open, so that an operation stays in that directory even if another process
//! renames a path meanwhile. No symbolic link is followed in the last step of a path.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::dir::Dir;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmod, fchmodat, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::mounts::Mount;

/// Flags of a directory in which names are looked up, which needs no permission to read it.
const LOOK_UP: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Flags of a file that is locked.
const LOCKABLE: OFlag = OFlag::O_RDWR
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// Most entries of one directory that are read.
const MOST_PASSED_OVER: usize = 1 << 16;

/// The permission bits with set-id and sticky.
const PERMISSIONS: u32 = 0o7777;

/// A directory held open.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// The owner and the mode of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits, with set-id and sticky.
    pub mode: u32,
}

/// A locked file, until this is dropped or the process ends in any way.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] Flock<OwnedFd>);

impl Directory {
    /// Opens a directory by its path.
    ///
    /// # Errors
    ///
    /// ENOENT, EACCES ...; ENOTDIR or ELOOP for a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(AT_FDCWD, path, LOOK_UP, Mode::empty())?))
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn open_in(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(openat(&self.0, name, LOOK_UP, Mode::empty())?))
    }

    /// Makes a directory in this one, with exactly this mode, regardless of the umask. Other users
    /// must not be able to replace entries of this one.
    ///
    /// # Errors
    ///
    /// EEXIST: an entry of any kind has the name. Else the error of the file system.
    pub fn create_in(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        mkdirat(&self.0, name, Mode::S_IRWXU)?;
        self.set_mode_of(name, mode).inspect_err(|_| {
            // Best effort: the error that counts is the other one.
            let _ = self.remove_directory(name);
        })
    }

    /// Sets the mode of a directory in this one. Other users must not be able to replace entries of
    /// this one.
    ///
    /// # Errors
    ///
    /// EPERM: it does not belong to this process's user.
    pub fn set_mode_of(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(mode);
        Ok(fchmodat(&self.0, name, mode, FchmodatFlags::FollowSymlink)?)
    }

    /// Owner and mode of the directory.
    ///
    /// # Errors
    ///
    /// The error of `fstat`; none is known.
    pub fn owner(&self) -> io::Result<Owner> {
        let FileStat {
            st_uid: uid,
            st_gid: gid,
            st_mode,
            ..
        } = fstat(&self.0)?;
        let mode = st_mode & PERMISSIONS;
        Ok(Owner { uid, gid, mode })
    }

    /// True if both directories are on one mount: nothing is mounted over either of them in the
    /// other.
    ///
    /// # Errors
    ///
    /// The error of `fstat`; none is known.
    pub fn is_on_the_mount_of(&self, other: &Self) -> io::Result<bool> {
        Ok(Mount::of(&self.0)? == Mount::of(&other.0)?)
    }

    /// The wanted names in it, at most `most` of them, in no order. At most [`MOST_PASSED_OVER`]
    /// other names are skipped.
    ///
    /// # Errors
    ///
    /// EACCES: this process may not read it.
    pub fn names(&self, is_wanted: impl Fn(&OsStr) -> bool, most: usize) -> io::Result<Vec<OsString>> {
        let readable = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = Dir::from_fd(openat(&self.0, ".", readable, Mode::empty())?)?;
        let names = listing.iter().flatten().map(|entry| entry.file_name().to_owned());
        let is_entry = |name: &CString| !matches!(name.as_bytes(), b"." | b"..");
        let names = names.filter(is_entry).take(MOST_PASSED_OVER);
        let names = names.map(|name| OsString::from_vec(name.into_bytes()));
        Ok(names.filter(|name| is_wanted(name)).take(most).collect())
    }

    /// Removes an entry that is no directory. A symbolic link is removed itself.
    ///
    /// # Errors
    ///
    /// ENOENT, EISDIR ...
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir)?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// ENOTEMPTY, ENOENT ...
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, UnlinkatFlags::RemoveDir)?)
    }

    /// Makes a file in this directory if it is missing, and locks it. `None`: another process has
    /// locked it, or removed it during this call.
    ///
    /// # Errors
    ///
    /// The file cannot be made or opened, or the file system has no locks.
    pub fn make_and_lock(&self, name: &OsStr) -> io::Result<Option<Lock>> {
        let private = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(&self.0, name, LOCKABLE | OFlag::O_CREAT, private)?;
        // The umask may have removed the rights that the next process needs to open the file.
        fchmod(&file, private)?;
        Self::lock_file(file)
    }

    /// Locks a file in this directory. `None`: as for [`make_and_lock`](Self::make_and_lock).
    ///
    /// # Errors
    ///
    /// ENOENT: there is no such file. Else as for [`make_and_lock`](Self::make_and_lock).
    pub fn lock(&self, name: &OsStr) -> io::Result<Option<Lock>> {
        Self::lock_file(openat(&self.0, name, LOCKABLE, Mode::empty())?)
    }

    fn lock_file(file: OwnedFd) -> io::Result<Option<Lock>> {
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, nix::Error::EWOULDBLOCK)) => return Ok(None),
            Err((_, error)) => return Err(error.into()),
        };
        let is_still_there = fstat(&*lock)?.st_nlink > 0;
        Ok(is_still_there.then_some(Lock(lock)))
    }
}

/// Whether the user id that stands for "nobody of this user namespace" really means that here. If
/// so, a file with that id belongs to a user outside the namespace. An example is the root
/// directory of a container whose user is not mapped.
pub fn is_from_above(uid: u32) -> bool {
    let read = |path| std::fs::read_to_string(path).ok();
    let overflow = read("/proc/sys/kernel/overflowuid").and_then(|text| text.trim().parse().ok());
    overflow == Some(uid) && read("/proc/self/uid_map").is_some_and(|map| !is_mapped(&map, uid))
}

/// Whether the lines of a `uid_map`, each first id inside, first id outside and count, cover this
/// id.
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => (first..first.saturating_add(count)).contains(&u64::from(uid)),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_mapped_when_a_line_covers_it() {
        assert!(is_mapped("         0          0 4294967295\n", 65_534));
        assert!(!is_mapped("0 1000 1\n", 65_534));
        assert!(is_mapped("0 1000 1\n1 100000 65536\n", 65_534));
        assert!(!is_mapped("0 1000 1\n1 100000 65533\n", 65_534));
        assert!(!is_mapped("", 0));
    }

    #[test]
    fn a_locked_file_is_locked_until_its_lock_is_dropped() {
        let path = std::env::temp_dir().join(format!("ojs-dirs-{}", std::process::id()));
        let (parent, name) = (path.parent().unwrap(), path.file_name().unwrap());
        let parent = Directory::open(parent).unwrap();
        parent.create_in(name, 0o711).unwrap();
        let directory = parent.open_in(name).unwrap();
        assert_eq!(directory.owner().unwrap().mode, 0o711);

        let lock_name = OsStr::new("lock");
        assert_eq!(directory.lock(lock_name).unwrap_err().kind(), io::ErrorKind::NotFound);
        let lock = directory.make_and_lock(lock_name).unwrap();
        assert!(lock.is_some());
        assert!(directory.make_and_lock(lock_name).unwrap().is_none());
        assert!(directory.lock(lock_name).unwrap().is_none());
        drop(lock);
        assert!(directory.lock(lock_name).unwrap().is_some());

        let all = |most| directory.names(|_| true, most).unwrap();
        assert_eq!(all(10), [lock_name]);
        assert_eq!(all(0), [""; 0]);
        assert_eq!(directory.names(|name| name != lock_name, 10).unwrap(), [""; 0]);
        parent.remove_directory(name).unwrap_err();
        directory.remove(lock_name).unwrap();
        parent.remove_directory(name).unwrap();
    }
}
