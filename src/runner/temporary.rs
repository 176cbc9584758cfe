//! The directories of jobs for temporary files.
//!
//! The removal of a million files must not delay other jobs, nor may a file system that hangs. So a
//! thread removes directories that are not empty.

use std::fmt::Display;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::time::Duration;

use log::warn;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;

use ojs_os::clock;
use ojs_os::errno::is_shortage;
use ojs_os::process::Pid;
use ojs_os::remove_tree::remove_tree;
use ojs_os::threads;

/// Most directories that wait to be removed. Further ones stay until the end of the container, with
/// a warning.
const QUEUE_DIRECTORIES: usize = 1024;

/// Longest removal of a job's directory, however much is in it.
const REMOVAL_LIMIT: Duration = Duration::from_secs(600);

/// Longest removal at the runner's own start and end, because PID 1 waits for it.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Stack of the thread that removes, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// The beginning of the name of a runner's place for its jobs' directories.
const PREFIX: &str = "ojs-jobs-";

/// The name of a file for a moment.
const INPUT: &str = "input";

/// Most places of earlier runners that are removed at a start.
const MOST_STALE: usize = 64;

/// The place of the jobs' directories.
#[derive(Debug)]
pub struct TemporaryDirectories {
    /// None: there is no place for them.
    base: Option<PathBuf>,
    /// The mode of the place.
    mode: u32,
    has_warned: bool,
    /// Held for the runner's life, so no other runner takes the place for a stale one.
    lock: Option<Flock<File>>,
    remover: Option<SyncSender<PathBuf>>,
}

impl TemporaryDirectories {
    /// Directories below the first of these that is writable. The remains of earlier runners there
    /// are removed.
    pub fn below(parents: &[&Path], are_for_others: bool) -> Self {
        let mut directories = Self {
            base: None,
            mode: if are_for_others { 0o711 } else { 0o700 },
            has_warned: false,
            lock: None,
            remover: None,
        };
        let name = format!("{PREFIX}{}-{:x}", Pid::own(), clock::since_1970().as_micros());
        for parent in parents {
            let stale: Vec<PathBuf> = stale(parent).take(MOST_STALE).collect();
            for path in stale {
                directories.remove(path);
            }
            let base = parent.join(&name);
            match make_base(&base, directories.mode) {
                Ok(lock) => {
                    directories.base = Some(base);
                    directories.lock = lock;
                    return directories;
                }
                Err(error) => warn!(
                    "no directories for jobs can be made in {}: {error}; mount something writable there, or set TMPDIR",
                    parent.display()
                ),
            }
        }
        warn!(
            "jobs get no temporary directories of their own and share the container's: mount something writable at /tmp, or name a \
             directory that is in TMPDIR"
        );
        directories
    }

    /// A new directory for this job, accessible only to it and the superuser. None if there is no
    /// place, or if the directory cannot be made, which is logged once.
    ///
    /// # Errors
    ///
    /// A shortage: another attempt may succeed.
    pub fn make(&mut self, number: u64, user: Option<u32>) -> io::Result<Option<PathBuf>> {
        let Some(base) = self.base.clone() else {
            return Ok(None);
        };
        let path = base.join(number.to_string());
        let is_there = match base.symlink_metadata() {
            // A job, or a person, has removed the place.
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_base(&base, self.mode).map(|lock| {
                self.lock = lock;
            }),
            Ok(found) if self.lock.as_ref().is_some_and(|lock| !is_same(lock, &found)) => {
                Err(io::Error::other("another directory has taken its place"))
            }
            found => found.map(|_| ()),
        };
        match is_there.and_then(|()| make_directory(&path, user)) {
            Ok(()) => Ok(Some(path)),
            // Jobs run without a disk that is full.
            Err(error) if is_shortage(&error) && !is_disk_full(&error) => Err(error),
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    warn!(
                        "no directory for a job can be made in {}: {error}; such jobs share the container's; look at the owner \
                         and the mode of that directory",
                        base.display()
                    );
                }
                Ok(None)
            }
        }
    }

    /// A file that has no name any more, with these bytes, to be read from its beginning.
    ///
    /// # Errors
    ///
    /// There is no place for it, or no space.
    pub fn file(&self, bytes: &[u8]) -> io::Result<OwnedFd> {
        let base = self.base.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let path = base.join(INPUT);
        let make = || {
            let mut written = File::create_new(&path)?;
            // The job may open it by a name like /dev/stdin as well. No other process knows its
            // name.
            written.set_permissions(fs::Permissions::from_mode(0o444))?;
            written.write_all(bytes)?;
            let read = File::open(&path)?;
            if is_same(&written, &read.metadata()?) {
                Ok(read)
            } else {
                Err(io::Error::other("another file has taken its place"))
            }
        };
        let made = make();
        let _ = fs::remove_file(&path);
        made.map(OwnedFd::from)
    }

    /// True if there is a place for directories.
    pub fn has_place(&self) -> bool {
        self.base.is_some()
    }

    /// Removes a job's directory: at once if it is empty, else soon.
    pub fn remove(&mut self, path: PathBuf) {
        if fs::remove_dir(&path).is_ok() {
            return;
        }
        let remover = match self.remover.take().map_or_else(start_remover, Ok) {
            Ok(remover) => self.remover.insert(remover),
            Err(error) => return is_left(&path, &format_args!("no thread to remove it: {error}")),
        };
        match remover.try_send(path) {
            Ok(()) => {}
            Err(TrySendError::Full(path)) => {
                is_left(&path, &format_args!("{QUEUE_DIRECTORIES} others wait to be removed"));
            }
            Err(TrySendError::Disconnected(path)) => is_left(&path, &"the thread that removes them has ended"),
        }
    }

    /// Removes the place itself with its directories.
    pub fn end(self) {
        if let Some(base) = self.base
            && let Err(error) = remove_tree(&base, END_LIMIT)
        {
            is_left(&base, &error);
        }
    }
}

fn make_directory(path: &Path, user: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    let made = with_mode(path, 0o700);
    let made = made.and_then(|()| match user {
        Some(user) => fchown(open(path)?, Some(user), Some(user)),
        None => Ok(()),
    });
    if made.is_err() {
        let _ = fs::remove_dir(path);
    }
    made
}

fn make_base(base: &Path, mode: u32) -> io::Result<Option<Flock<File>>> {
    DirBuilder::new().mode(mode).create(base)?;
    with_mode(base, mode)?;
    Ok(open(base).ok().and_then(locked))
}

fn locked(base: File) -> Option<Flock<File>> {
    Flock::lock(base, FlockArg::LockExclusiveNonblock).ok()
}

/// Gives a new directory the permissions that the mask of new files has removed. Few masks do: its
/// name may be a link by now, made by a job that can write beside it.
fn with_mode(path: &Path, mode: u32) -> io::Result<()> {
    if path.symlink_metadata()?.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// The directory behind this name, and nothing that a link names.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}

fn is_same(file: &File, other: &Metadata) -> bool {
    let is_same = |file: Metadata| (file.dev(), file.ino()) == (other.dev(), other.ino());
    file.metadata().is_ok_and(is_same)
}

fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The places of runners that were killed before they could remove them: no process holds their
/// lock.
fn stale(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_ours = || {
            entry
                .metadata()
                .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
        };
        is_named && is_ours()
    });
    ours.map(|entry| entry.path())
        .filter(|path| File::open(path).ok().and_then(locked).is_some())
}

/// Warns of a directory that was not removed.
fn is_left(path: &Path, why: &dyn Display) {
    warn!(
        "a temporary directory is left: {}: {why}; the next start tries again; look at the owner and the mode of its files",
        path.display()
    );
}

fn start_remover() -> io::Result<SyncSender<PathBuf>> {
    let (sender, receiver) = mpsc::sync_channel::<PathBuf>(QUEUE_DIRECTORIES);
    let work = move || {
        for path in receiver {
            match remove_tree(&path, REMOVAL_LIMIT) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    is_left(&path, &error);
                }
                Ok(()) | Err(_) => {}
            }
        }
    };
    threads::spawn("remover", STACK_BYTES, work).map(|()| sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let parent = std::env::temp_dir().join(format!("ojs-init-temporary-{name}-{}", Pid::own()));
        fs::create_dir(&parent).unwrap();
        parent
    }

    fn count(parent: &Path) -> usize {
        fs::read_dir(parent).unwrap().count()
    }

    #[test]
    fn each_job_has_a_directory_of_its_own_that_goes_with_it() {
        let parent = parent("own");
        let mut directories = TemporaryDirectories::below(&[&parent], false);
        let [one, other] = [1, 2].map(|number| directories.make(number, None).unwrap().unwrap());
        assert_ne!(one, other);
        fs::create_dir(other.join("full")).unwrap();
        fs::write(other.join("full/file"), "x").unwrap();
        directories.remove(one.clone());
        directories.remove(other.clone());
        assert!(!one.exists());
        while other.exists() {
            std::thread::yield_now();
        }
        directories.end();
        assert_eq!(count(&parent), 0);
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn the_first_place_that_can_be_written_is_taken() {
        let parent = parent("second");
        let nowhere = parent.join("missing");
        let mut directories = TemporaryDirectories::below(&[&nowhere, &parent], false);
        let made = directories.make(1, None).unwrap();
        assert!(made.is_some_and(|path| path.starts_with(&parent)));
        directories.end();
        let mut none = TemporaryDirectories::below(&[&nowhere], false);
        assert!(!none.has_place() && none.make(1, None).unwrap().is_none() && none.file(b"x").is_err());
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn a_place_that_was_removed_is_made_again_and_is_nobody_elses() {
        let parent = parent("removed");
        let mut directories = TemporaryDirectories::below(&[&parent], false);
        let first = directories.make(1, None).unwrap().unwrap();
        fs::remove_dir_all(first.parent().unwrap()).unwrap();
        let second = directories.make(2, None).unwrap().unwrap();
        assert!(second.exists());
        assert!(directories.file(b"x").is_ok());
        assert_eq!(stale(&parent).count(), 0, "it is locked");
        fs::remove_dir_all(&parent).unwrap();
        assert!(
            directories.make(3, None).unwrap().is_none(),
            "there is no place any more"
        );
    }

    #[test]
    fn a_stranger_s_directory_in_the_place_is_not_used() {
        let parent = parent("stranger");
        let mut directories = TemporaryDirectories::below(&[&parent], false);
        let place = directories.make(1, None).unwrap().unwrap().parent().unwrap().to_owned();
        fs::rename(&place, parent.join("away")).unwrap();
        fs::create_dir(&place).unwrap();
        assert!(directories.make(2, None).unwrap().is_none());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        fs::remove_dir(&place).unwrap();
        std::os::unix::fs::symlink(parent.join("away"), &place).unwrap();
        assert!(directories.make(3, None).unwrap().is_none());
        assert_eq!(fs::read_dir(parent.join("away")).unwrap().count(), 1);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_file_is_read_from_its_beginning_and_has_no_name() {
        let parent = parent("file");
        let directories = TemporaryDirectories::below(&[&parent], false);
        for text in ["first", "second"] {
            let file = File::from(directories.file(text.as_bytes()).unwrap());
            assert_eq!(io::read_to_string(&file).unwrap(), text);
            assert_eq!(file.metadata().unwrap().nlink(), 0);
        }
        directories.end();
        fs::remove_dir(parent).unwrap();
    }

    #[test]
    fn what_an_earlier_runner_has_left_is_removed_and_what_another_one_uses_is_not() {
        let parent = parent("stale");
        fs::create_dir_all(parent.join("ojs-jobs-1-1/3/x")).unwrap();
        let mut living = TemporaryDirectories::below(&[&parent], false);
        let used = living.make(1, None).unwrap().unwrap();
        let next = TemporaryDirectories::below(&[&parent], false);
        while parent.join("ojs-jobs-1-1").exists() {
            std::thread::yield_now();
        }
        assert!(used.exists());
        assert_eq!(count(&parent), 2);
        living.end();
        next.end();
        fs::remove_dir(parent).unwrap();
    }
}
