//! Being told that a file was replaced, without looking.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Symbolic links that are followed from the file's name to the file, as many as the kernel allows are not needed.
const MAX_LINKS: usize = 8;

/// Reads in one turn, each of dozens of notices; the rest waits for the next turn.
const READS_PER_TURN: usize = 16;

/// What Kubernetes swaps when a secret changes: a link to the directory with the files, which their links go through.
const KUBERNETES_LINK: &str = "..data";

/// The directories in which a file can be replaced: that of its name, and where its name is a link, those of what it
/// leads to.
#[derive(Debug)]
pub struct FileWatch {
    inotify: Inotify,
    names: Vec<OsString>,
}

impl FileWatch {
    /// Watches the file of this name, there or not. A change that another machine makes on a network file system is not
    /// noticed.
    ///
    /// # Errors
    ///
    /// The directory is not there or not readable; the system has no inotify instance or watch left
    /// (`fs.inotify.max_user_instances`, `max_user_watches`).
    pub fn new(path: &Path) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let changes = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_ONLYDIR;
        let mut names = vec![OsString::from(KUBERNETES_LINK)];
        let mut next = Some(path.to_owned());
        for _ in 0..MAX_LINKS {
            let Some(path) = next.take() else { break };
            let (Some(name), directory) = (path.file_name(), parent(&path)) else {
                break;
            };
            match inotify.add_watch(&directory, changes) {
                Ok(_) => names.push(name.to_owned()),
                Err(error) if names.len() == 1 => return Err(error.into()),
                // A link that leads nowhere, for now.
                Err(_) => break,
            }
            next = path.read_link().ok().map(|target| directory.join(target));
        }
        Ok(Self { inotify, names })
    }

    /// Whether anything happened to the file since the last time, as far as that can be told by its name; and whether
    /// there may be more to read.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be read.
    pub fn take(&self) -> io::Result<(bool, bool)> {
        let mut is_changed = false;
        for _ in 0..READS_PER_TURN {
            match self.inotify.read_events() {
                // Without a name: notices were lost, or the directory itself is meant.
                Ok(events) => is_changed |= events.iter().any(|event| self.is_ours(event.name.as_deref())),
                Err(Errno::EAGAIN) => return Ok((is_changed, false)),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok((is_changed, true))
    }

    fn is_ours(&self, name: Option<&OsStr>) -> bool {
        name.is_none_or(|name| self.names.iter().any(|ours| ours == name))
    }
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
        let watch = FileWatch::new(&place.at("token")).unwrap();
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
        let direct = FileWatch::new(&place.at("mount/token")).unwrap();
        let linked = FileWatch::new(&place.at("etc/token")).unwrap();
        symlink("..2", place.at("mount/..data_tmp")).unwrap();
        fs::rename(place.at("mount/..data_tmp"), place.at("mount/..data")).unwrap();
        assert!(direct.take().unwrap().0, "by its own name");
        assert!(linked.take().unwrap().0, "by a link");
    }

    #[test]
    fn a_directory_that_is_not_there_cannot_be_watched() {
        let error = FileWatch::new(Path::new("/nowhere/at/all/token")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_flood_of_notices_is_read_in_portions() {
        let place = Place::new("flood");
        let watch = FileWatch::new(&place.at("token")).unwrap();
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
