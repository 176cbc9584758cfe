//! The directories of jobs for temporary files.
//!
//! A job that leaves a million files must not hold up the others while they are removed, nor may a file system that hangs: one
//! thread removes what is not empty.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};

use log::{info, warn};

use crate::os::process::Pid;
use crate::os::threads;

/// Most directories that wait to be removed. What comes on top is left for the end of the container, with a warning.
const QUEUE_DIRECTORIES: usize = 1024;

/// Stack of the thread that removes, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Where jobs get their directories.
#[derive(Debug)]
pub struct TemporaryDirectories {
    /// None: there is no place for them.
    base: Option<PathBuf>,
    remover: Option<SyncSender<PathBuf>>,
}

impl TemporaryDirectories {
    /// Directories below this one, which is usually that for everybody.
    pub fn below(parent: &Path, are_for_others: bool) -> Self {
        let base = parent.join(format!("ojs-jobs-{}", Pid::own()));
        let mode = if are_for_others { 0o711 } else { 0o700 };
        let made = DirBuilder::new().mode(mode).create(&base);
        // Of an earlier runner with our number, which was ended before it could tidy up.
        let is_old = matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
        let made = if is_old {
            fs::remove_dir_all(&base).and_then(|()| DirBuilder::new().mode(mode).create(&base))
        } else {
            made
        };
        // The mask of new files may have taken something away.
        let made = made.and_then(|()| fs::set_permissions(&base, fs::Permissions::from_mode(mode)));
        if let Err(error) = &made {
            info!(
                "jobs get no temporary directories of their own: {}: {error}",
                base.display()
            );
        }
        Self {
            base: made.ok().map(|()| base),
            remover: None,
        }
    }

    /// A new directory for this job, and for nobody else but the superuser.
    pub fn make(&self, number: u64, user: Option<u32>) -> Option<PathBuf> {
        let path = self.base.as_ref()?.join(number.to_string());
        DirBuilder::new().mode(0o700).create(&path).ok()?;
        match user {
            Some(user) if chown(&path, Some(user), Some(user)).is_err() => {
                let _ = fs::remove_dir(&path);
                None
            }
            Some(_) | None => Some(path),
        }
    }

    /// Removes a job's directory: at once if it is empty, else soon.
    pub fn remove(&mut self, path: PathBuf) {
        if fs::remove_dir(&path).is_ok() {
            return;
        }
        if self.remover.is_none() {
            self.remover = start_remover();
        }
        let is_taken = self
            .remover
            .as_ref()
            .is_some_and(|remover| remover.try_send(path.clone()).is_ok());
        if !is_taken {
            warn!("a temporary directory is left: {}", path.display());
        }
    }

    /// Removes the place itself, and what is still in it.
    pub fn end(self) {
        if let Some(base) = self.base {
            let _ = fs::remove_dir_all(base);
        }
    }
}

fn start_remover() -> Option<SyncSender<PathBuf>> {
    let (sender, receiver) = mpsc::sync_channel::<PathBuf>(QUEUE_DIRECTORIES);
    let work = move || {
        for path in receiver {
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!("a temporary directory is left: {}: {error}", path.display());
                }
                Ok(()) | Err(_) => {}
            }
        }
    };
    threads::spawn("remover", STACK_BYTES, work).ok().map(|()| sender)
}
