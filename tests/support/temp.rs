//! A directory that goes away with its owner.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory of the test's own, which every user may write to: some children run as nobody.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes it; the name must be free.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir_all(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A file that cannot be removed is only litter in a temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
