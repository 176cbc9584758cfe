//! What other processes have open, as far as we may look.

use std::fs;
use std::io;

use crate::os::process::{Pid, check_proc};

/// Whether we may see what this process has open. Another user's process is closed to us without `CAP_SYS_PTRACE`, and so is one that
/// keeps its memory to itself.
///
/// # Errors
///
/// EACCES: we may not. ENOENT: there is no such process. Others: `/proc` is not there, or not ours.
pub fn may_look_into(pid: Pid) -> io::Result<()> {
    check_proc()?;
    // The kernel asks the same before it shows where a descriptor leads, and each process has a working directory.
    fs::read_link(format!("/proc/{pid}/cwd"))?;
    fs::read_dir(format!("/proc/{pid}/fd")).map(drop)
}

/// A bounded number of looks at descriptors.
#[derive(Debug)]
pub struct Looks(usize);

impl Looks {
    /// So many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self(most)
    }

    /// Whether this process has a descriptor of the socket with this number, as far as the looks reach.
    ///
    /// # Errors
    ///
    /// As for [`may_look_into`].
    pub fn has_socket(&mut self, pid: Pid, inode: u64) -> io::Result<bool> {
        check_proc()?;
        let wanted = format!("socket:[{inode}]");
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let Some(left) = self.0.checked_sub(1) else {
                return Ok(false);
            };
            self.0 = left;
            match fs::read_link(entry?.path()) {
                Ok(target) if target.as_os_str() == wanted.as_str() => return Ok(true),
                Ok(_) => {}
                // Closed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot look has failed")]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_has_the_sockets_that_it_has_and_no_others() {
        let (one, _other) = UnixStream::pair().unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", one.as_raw_fd()))
            .unwrap()
            .ino();
        may_look_into(Pid::own()).unwrap();
        let looks = || Looks::new(10_000);
        assert!(looks().has_socket(Pid::own(), inode).unwrap());
        assert!(!looks().has_socket(Pid::own(), 1).unwrap());
        assert!(
            !Looks::new(1).has_socket(Pid::own(), inode).unwrap(),
            "one look is not enough"
        );
    }
}
