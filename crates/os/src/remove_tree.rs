//! Removes a directory with everything in it, regardless of owner and content.

use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::clock;
use crate::mounts::Mount;

/// A directory, and no symbolic link to one.
const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The text of the error for a mount.
const MOUNTED: &str = "something is mounted";

/// Removes this directory with everything in it; times out after `limit`. Symbolic links are
/// removed and never followed. Anything that is mounted over the directory or below it is left
/// alone. A deep tree needs only a handful of descriptors and no stack: entries of a directory in a
/// directory are moved up, and the empty one is removed.
///
/// # Errors
///
/// `TimedOut`; or an entry cannot be removed (a mount, another user's), which the error names.
/// Everything else in it is removed.
pub fn remove_tree(path: &Path, limit: Duration) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = nix::fcntl::open(
        parent,
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let top = openat(&above, name, OFlag::O_RDONLY | DIRECTORY, Mode::empty())?;
    let mount = Mount::of(&above)?;
    if Mount::of(&top)? != mount {
        return Err(io::Error::other(format!("{MOUNTED} over it; unmount that first")));
    }
    let mut removal = Removal {
        top,
        mount,
        give_up: clock::monotonic().saturating_add(limit),
        moved: 0,
        problem: None,
    };
    loop {
        let has_changed = removal.pass()?;
        match unlinkat(&above, name, UnlinkatFlags::RemoveDir) {
            Ok(()) => return Ok(()),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) if has_changed => {}
            Err(error) => return Err(removal.problem.unwrap_or_else(|| error.into())),
        }
    }
}

struct Removal {
    top: OwnedFd,
    /// The only mount on which entries are removed.
    mount: Mount,
    /// By the monotonic clock.
    give_up: Duration,
    /// Directories that were moved up; each has its number as its new name.
    moved: u64,
    /// Why an entry could not be removed.
    problem: Option<io::Error>,
}

impl Removal {
    /// Visits every entry of the top directory once; returns whether it removed or moved one.
    fn pass(&mut self) -> io::Result<bool> {
        let mut has_changed = false;
        let again = openat(&self.top, ".", OFlag::O_RDONLY | DIRECTORY, Mode::empty())?;
        for entry in Dir::from_fd(again)?.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if is_link_to_itself(name) {
                continue;
            }
            self.check_time()?;
            match remove(self.top.as_fd(), name) {
                Ok(()) => has_changed = true,
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => has_changed |= self.flatten(name)?,
                Err(error) => self.problem = Some(problem(name, error)),
            }
        }
        Ok(has_changed)
    }

    /// Removes the entries of this directory of the top one, but moves up directories that are not
    /// empty.
    fn flatten(&mut self, name: &CStr) -> io::Result<bool> {
        let directory = match self.open(self.top.as_fd(), name) {
            Ok(directory) => directory,
            Err(error) => {
                self.problem = Some(problem(name, error));
                return Ok(false);
            }
        };
        let again = openat(&directory, ".", OFlag::O_RDONLY | DIRECTORY, Mode::empty())?;
        let mut has_changed = false;
        for entry in Dir::from_fd(again)?.iter() {
            let entry = entry?;
            let inner = entry.file_name();
            if is_link_to_itself(inner) {
                continue;
            }
            self.check_time()?;
            let result = match remove(directory.as_fd(), inner) {
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                    self.moved += 1;
                    // A directory that may not be written cannot be moved either, so it is opened
                    // first.
                    let opened = self.open(directory.as_fd(), inner);
                    match opened.and_then(|_| renameat(&directory, inner, &self.top, self.moved.to_string().as_str())) {
                        // The job has used that name: the next pass tries another number.
                        Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => Ok(()),
                        result => result,
                    }
                }
                result => result,
            };
            match result {
                Ok(()) => has_changed = true,
                Err(error) => self.problem = Some(problem(inner, error)),
            }
        }
        Ok(has_changed)
    }

    /// Opens a directory on the tree's mount. Makes it readable, writable and enterable first, if
    /// its maker has not.
    fn open(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
        let found = openat(parent, name, OFlag::O_PATH | DIRECTORY, Mode::empty())?;
        if !Mount::of(&found).is_ok_and(|mount| mount == self.mount) {
            return Err(Errno::EXDEV);
        }
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        // If this fails, the call that needs the permission fails too and reports the reason.
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        openat(&found, ".", OFlag::O_RDONLY | DIRECTORY, Mode::empty())
    }

    fn check_time(&self) -> io::Result<()> {
        if clock::monotonic() < self.give_up {
            Ok(())
        } else {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// Removes a file, a link or an empty directory.
fn remove(directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
        // The error for a directory differs between file systems.
        Err(Errno::EISDIR | Errno::EPERM) => unlinkat(directory, name, UnlinkatFlags::RemoveDir),
        result => result,
    }
}

/// Why this cannot be removed, with its name.
fn problem(name: &CStr, error: Errno) -> io::Error {
    let name = name.to_string_lossy();
    let words = if matches!(error, Errno::EBUSY | Errno::EXDEV) {
        format!("{MOUNTED} over {name:?} in it; unmount that first")
    } else {
        format!("{name:?} in it: {}", error.desc())
    };
    io::Error::new(io::Error::from(error).kind(), words)
}

fn is_link_to_itself(name: &CStr) -> bool {
    [c".", c".."].contains(&name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its files has failed")]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn scene(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ojs-remove-tree-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn everything_goes_and_what_links_lead_to_stays() {
        let outside = scene("outside");
        fs::write(outside.join("kept"), "x").unwrap();
        let path = scene("links");
        symlink(&outside, path.join("link")).unwrap();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        for file in ["1", "file", "a/file", "a/b/file", "a/b/c/file"] {
            fs::write(path.join(file), "x").unwrap();
        }
        symlink(&outside, path.join("a/b/link")).unwrap();
        remove_tree(&path, LONG).unwrap();
        assert!(!path.exists());
        assert!(outside.join("kept").exists());
        remove_tree(&outside, LONG).unwrap();
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let outside = scene("target");
        fs::write(outside.join("kept"), "x").unwrap();
        let link = std::env::temp_dir().join(format!("ojs-remove-tree-{}-link", std::process::id()));
        symlink(&outside, &link).unwrap();
        assert!(remove_tree(&link, LONG).is_err());
        assert!(outside.join("kept").exists());
        fs::remove_file(link).unwrap();
        remove_tree(&outside, LONG).unwrap();
    }

    #[test]
    fn a_tree_deeper_than_descriptors_and_stacks_reach_is_removed() {
        let path = scene("deep");
        // A small stack, like those of this program's threads.
        let of_small_stack = std::thread::Builder::new().stack_size(64 << 10);
        let deep = path.clone();
        let work = move || {
            let mut inner: OwnedFd = fs::File::open(&deep).unwrap().into();
            for _ in 0..5_000 {
                nix::sys::stat::mkdirat(&inner, "d", Mode::S_IRWXU).unwrap();
                inner = openat(&inner, "d", OFlag::O_RDONLY | DIRECTORY, Mode::empty()).unwrap();
            }
            remove_tree(&deep, LONG).unwrap();
        };
        of_small_stack.spawn(work).unwrap().join().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn directories_with_the_names_that_moved_ones_get_are_removed_too() {
        for directories in [
            &["1/x"][..],
            &["1/1/1"],
            &["1/2/3/4", "2/x"],
            &["1/x/1/2", "1/y/3", "2/2/2/2", "3"],
        ] {
            let path = scene("numbers");
            for directory in directories {
                fs::create_dir_all(path.join(directory)).unwrap();
                fs::write(path.join(directory).join("file"), "x").unwrap();
            }
            remove_tree(&path, LONG).unwrap();
            assert!(!path.exists());
        }
    }

    #[test]
    fn what_its_maker_has_closed_is_removed_too() {
        let path = scene("closed");
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            fs::write(path.join(closed).join("file"), "x").unwrap();
            fs::set_permissions(path.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&path, LONG).unwrap();
        assert!(!path.exists());
    }

    /// Runs `work` with private mounts; false: this process may not mount.
    fn with_own_mounts(work: impl FnOnce() + Send + 'static) -> bool {
        use nix::mount::{MsFlags, mount};
        let own = move || {
            let nothing = None::<&str>;
            let is_own = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_ok()
                && mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).is_ok();
            if is_own {
                work();
            }
            is_own
        };
        std::thread::spawn(own).join().unwrap()
    }

    fn bind(from: &Path, over: &Path) {
        let nothing = None::<&str>;
        nix::mount::mount(Some(from), over, nothing, nix::mount::MsFlags::MS_BIND, nothing).unwrap();
    }

    #[test]
    fn nothing_is_touched_that_is_mounted_over_it_or_below_it() {
        let data = scene("data");
        fs::create_dir_all(data.join("sub/deep/deeper")).unwrap();
        let files = ["file", "sub/file", "sub/deep/file", "sub/deep/deeper/file"];
        for file in files {
            fs::write(data.join(file), "x").unwrap();
        }
        let (kept, over, below) = (data.clone(), scene("over"), scene("below"));
        let are_mounted = with_own_mounts(move || {
            bind(&kept, &over);
            let error = remove_tree(&over, LONG).unwrap_err().to_string();
            assert!(error.contains("mounted over it"), "{error}");
            fs::create_dir_all(below.join("a/b/mounted")).unwrap();
            fs::write(below.join("a/file"), "x").unwrap();
            bind(&kept, &below.join("a/b/mounted"));
            let error = remove_tree(&below, LONG).unwrap_err().to_string();
            assert!(error.contains("mounted over \"mounted\" in it"), "{error}");
            assert!(!below.join("a/file").exists(), "what is not mounted goes");
            assert!(files.iter().all(|file| kept.join(file).exists()));
        });
        assert!(are_mounted || !nix::unistd::geteuid().is_root());
        assert!(files.iter().all(|file| data.join(file).exists()));
        for rest in [
            data,
            std::env::temp_dir().join(format!("ojs-remove-tree-{}-over", std::process::id())),
        ] {
            remove_tree(&rest, LONG).unwrap();
        }
        let _ = remove_tree(
            &std::env::temp_dir().join(format!("ojs-remove-tree-{}-below", std::process::id())),
            LONG,
        );
    }

    #[test]
    fn when_the_time_is_over_it_says_so() {
        let path = scene("late");
        fs::write(path.join("file"), "x").unwrap();
        let error = remove_tree(&path, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        remove_tree(&path, LONG).unwrap();
    }
}
