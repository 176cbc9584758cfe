//! Notices that a file was replaced, without polling it.
//!
//! A notice is only a hint: some file systems send none, so the caller also reads the file.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

/// Most symbolic links followed from the file's name to the file. No real setup needs as many as
/// the kernel allows.
const MAX_LINKS: usize = 8;

/// Places that are watched: names in directories.
const MAX_PLACES: usize = 32;

/// Reads in one turn, each of dozens of notices; the rest waits for the next turn.
const READS_PER_TURN: usize = 16;

/// The directories in which a file can be replaced. One is the directory of its name. If its name
/// or a directory above it is a link, as in a mounted Kubernetes secret, the directories of the
/// links count too.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    inotify: Inotify,
    watches: Vec<WatchDescriptor>,
    names: Vec<OsString>,
}

impl FileWatch {
    /// Watches the file of this name, there or not. A change that another machine makes on a
    /// network file system is not noticed, nor is it when a directory is replaced that is no link.
    ///
    /// # Errors
    ///
    /// The directory is not there or not readable; the system has no inotify instance or watch left
    /// (`fs.inotify.max_user_instances`, `max_user_watches`).
    pub fn new(path: &Path) -> io::Result<Self> {
        let mut watch = Self {
            path: path.to_owned(),
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            watches: Vec::new(),
            names: Vec::new(),
        };
        watch.watch_places()?;
        Ok(watch)
    }

    /// Returns whether the file changed since the last call, as far as its name shows it, and
    /// whether there may be more notices to read.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be read.
    pub fn take(&mut self) -> io::Result<(bool, bool)> {
        let mut is_changed = false;
        let mut has_more = true;
        for _ in 0..READS_PER_TURN {
            match self.inotify.read_events() {
                Ok(events) => is_changed |= events.iter().any(|event| self.is_ours(event)),
                Err(Errno::EAGAIN) => {
                    has_more = false;
                    break;
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if is_changed {
            // Links may lead elsewhere now. If a place cannot be watched any more, the next read of
            // the file finds the change.
            let _ = self.watch_places();
        }
        Ok((is_changed, has_more))
    }

    /// Watches every place in which the file can be replaced as things are now, and no other. The
    /// first is a must.
    fn watch_places(&mut self) -> io::Result<()> {
        let changes = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_ONLYDIR;
        let (mut watches, mut names) = (Vec::new(), Vec::new());
        for (directory, name) in places(&self.path).into_iter().take(MAX_PLACES) {
            match self.inotify.add_watch(&directory, changes) {
                Ok(watch) => watches.push(watch),
                Err(error) if names.is_empty() => return Err(error.into()),
                // A link that leads nowhere, for now.
                Err(_) => {}
            }
            names.push(name);
        }
        for old in self.watches.iter().filter(|old| !watches.contains(old)) {
            // The kernel has already removed the watch of a removed directory.
            let _ = self.inotify.rm_watch(*old);
        }
        (self.watches, self.names) = (watches, names);
        Ok(())
    }

    /// An event without a name means lost notices or a change of the directory itself, unless this
    /// watch was just removed.
    fn is_ours(&self, event: &InotifyEvent) -> bool {
        let is_farewell = event.mask.contains(AddWatchFlags::IN_IGNORED) && !self.watches.contains(&event.wd);
        let name = event.name.as_deref();
        !is_farewell && name.is_none_or(|name| self.names.iter().any(|ours| ours == name))
    }
}

/// The file's name in its directory, then the target of the link; each with the links among the
/// directories above it.
fn places(path: &Path) -> Vec<(PathBuf, OsString)> {
    let place = |path: &Path| Some((parent(path), path.file_name()?.to_owned()));
    let mut found = Vec::new();
    let mut next = Some(path.to_owned());
    for _ in 0..MAX_LINKS {
        let Some(path) = next.take() else { break };
        found.extend(place(&path));
        // A link whose target is missing leads through directories that may be made later.
        let is_link = |directory: &&Path| directory.is_symlink() || !directory.exists();
        let links = path.ancestors().skip(1).filter(is_link);
        found.extend(links.filter_map(place));
        next = path.read_link().ok().map(|target| parent(&path).join(target));
    }
    found
}

impl AsRawFd for FileWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("file-watch-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_that_appears_or_is_written_or_replaced_is_noticed() {
        let place = Place::new("replaced");
        let mut watch = FileWatch::new(&place.at("token")).unwrap();
        assert_eq!(watch.take().unwrap(), (false, false));
        fs::write(place.at("token"), "1").unwrap();
        assert!(watch.take().unwrap().0, "appeared");
        fs::write(place.at("token"), "2").unwrap();
        assert!(watch.take().unwrap().0, "written");
        fs::write(place.at("new"), "3").unwrap();
        assert!(!watch.take().unwrap().0, "another file");
        fs::rename(place.at("new"), place.at("token")).unwrap();
        assert!(watch.take().unwrap().0, "replaced");
        assert_eq!(watch.take().unwrap(), (false, false));
    }

    #[test]
    fn a_secret_of_kubernetes_that_is_swapped_is_noticed_also_through_a_link_from_elsewhere() {
        let place = Place::new("kubernetes");
        for directory in ["mount", "mount/..1", "mount/..2", "etc"] {
            fs::create_dir(place.at(directory)).unwrap();
        }
        symlink("..1", place.at("mount/..data")).unwrap();
        symlink("..data/token", place.at("mount/token")).unwrap();
        symlink("../mount/token", place.at("etc/token")).unwrap();
        let mut direct = FileWatch::new(&place.at("mount/token")).unwrap();
        let mut linked = FileWatch::new(&place.at("etc/token")).unwrap();
        symlink("..2", place.at("mount/..data_tmp")).unwrap();
        fs::rename(place.at("mount/..data_tmp"), place.at("mount/..data")).unwrap();
        assert!(direct.take().unwrap().0, "by its own name");
        assert!(linked.take().unwrap().0, "by a link");
    }

    #[test]
    fn a_link_among_the_directories_that_is_swapped_is_noticed_and_so_is_what_happens_behind_it() {
        let place = Place::new("current");
        for directory in ["1", "2", "3"] {
            fs::create_dir(place.at(directory)).unwrap();
        }
        symlink("1", place.at("current")).unwrap();
        let mut watch = FileWatch::new(&place.at("current/token")).unwrap();
        for to in ["2", "3"] {
            symlink(to, place.at("new")).unwrap();
            fs::rename(place.at("new"), place.at("current")).unwrap();
            assert!(watch.take().unwrap().0, "swapped");
            assert_eq!(watch.take().unwrap(), (false, false), "nothing since");
            fs::write(place.at(to).join("token"), "1").unwrap();
            assert!(watch.take().unwrap().0, "written behind the new link");
        }
        fs::write(place.at("1").join("token"), "1").unwrap();
        assert!(!watch.take().unwrap().0, "behind an old link");
    }

    #[test]
    fn a_directory_that_is_not_there_cannot_be_watched() {
        let error = FileWatch::new(Path::new("/nowhere/at/all/token")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_flood_of_notices_is_read_in_portions() {
        let place = Place::new("flood");
        let mut watch = FileWatch::new(&place.at("token")).unwrap();
        for number in 0..3000 {
            fs::write(place.at(&format!("other-{number:04}-{}", "x".repeat(150))), "").unwrap();
        }
        let (is_changed, has_more) = watch.take().unwrap();
        assert!(!is_changed && has_more);
        while watch.take().unwrap().1 {}
        fs::write(place.at("token"), "1").unwrap();
        assert_eq!(watch.take().unwrap(), (true, false));
    }
}
