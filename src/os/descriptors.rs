//! What other processes have open, as far as we may look.

use std::fs;
use std::io;
use std::path::Path;

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

    /// The descriptor by which this process has the socket with this number, as far as the looks reach.
    ///
    /// # Errors
    ///
    /// As for [`may_look_into`].
    pub fn descriptor_of(&mut self, pid: Pid, inode: u64) -> io::Result<Option<i32>> {
        check_proc()?;
        let wanted = socket_name(inode);
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
            let Some(left) = self.0.checked_sub(1) else {
                return Ok(None);
            };
            self.0 = left;
            let entry = entry?;
            if leads_to(&entry.path(), &wanted)? {
                return Ok(entry.file_name().to_str().and_then(|number| number.parse().ok()));
            }
        }
        Ok(None)
    }
}

/// Whether this descriptor of this process is one of the socket with this number. A single look, where [`Looks`] go through all.
///
/// # Errors
///
/// As for [`may_look_into`].
pub fn is_socket(pid: Pid, descriptor: i32, inode: u64) -> io::Result<bool> {
    leads_to(Path::new(&format!("/proc/{pid}/fd/{descriptor}")), &socket_name(inode))
}

fn socket_name(inode: u64) -> String {
    format!("socket:[{inode}]")
}

fn leads_to(link: &Path, wanted: &str) -> io::Result<bool> {
    match fs::read_link(link) {
        Ok(target) => Ok(target.as_os_str() == wanted),
        // Closed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
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
        let found = looks().descriptor_of(Pid::own(), inode).unwrap();
        assert_eq!(found, Some(one.as_raw_fd()));
        assert_eq!(looks().descriptor_of(Pid::own(), 1).unwrap(), None);
        let too_few = Looks::new(1).descriptor_of(Pid::own(), inode).unwrap();
        assert_eq!(too_few, None, "one look is not enough");
        assert!(is_socket(Pid::own(), one.as_raw_fd(), inode).unwrap());
        assert!(!is_socket(Pid::own(), one.as_raw_fd(), inode + 1).unwrap());
        assert!(!is_socket(Pid::own(), 1_000_000, inode).unwrap());
    }
}
