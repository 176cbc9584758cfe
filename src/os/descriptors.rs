//! What other processes have open, as far as we may look.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::os::process::{Pid, check_proc};

/// Bytes of the longest number of a descriptor, and a zero.
const LONGEST_NUMBER: usize = 12;

/// Bytes of the longest name of a socket, and one more: a longer name is another one.
const LONGEST_SOCKET_NAME: usize = "socket:[18446744073709551615]".len() + 1;

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

/// The descriptors of one process, at hand: a look at one costs less than by its path. Of a process that has ended, and of the next one
/// with its pid, they show nothing.
#[derive(Debug)]
pub struct DescriptorsOf(OwnedFd);

impl DescriptorsOf {
    /// Those of this process.
    ///
    /// # Errors
    ///
    /// As for [`may_look_into`], or no descriptor is left.
    pub fn open(pid: Pid) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/fd")).map(|folder| Self(folder.into()))
    }

    /// Whether this one is one of the socket with this number; not where we may not look.
    #[must_use]
    pub fn is_socket(&self, descriptor: i32, inode: u64) -> bool {
        let mut name = [0_u8; LONGEST_NUMBER];
        // The zero behind it has to stay.
        let mut room = name.split_last_mut().map_or(&mut [][..], |(_, room)| room);
        if write!(room, "{descriptor}").is_err() {
            return false;
        }
        let mut found = [0_u8; LONGEST_SOCKET_NAME];
        // SAFETY: the name ends with a zero, and no more is written than the buffer has room for.
        let length = unsafe {
            libc::readlinkat(
                self.0.as_raw_fd(),
                name.as_ptr().cast(),
                found.as_mut_ptr().cast(),
                found.len(),
            )
        };
        let found = usize::try_from(length).ok().and_then(|length| found.get(..length));
        found.and_then(number_of_socket) == Some(inode)
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

/// The other way round.
fn number_of_socket(name: &[u8]) -> Option<u64> {
    let number = name.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
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
        let at_hand = DescriptorsOf::open(Pid::own()).unwrap();
        assert!(at_hand.is_socket(one.as_raw_fd(), inode));
        for (descriptor, other) in [
            (one.as_raw_fd(), inode + 1),
            (one.as_raw_fd(), inode / 10),
            (1_000_000, inode),
        ] {
            assert!(!at_hand.is_socket(descriptor, other), "{descriptor} {other}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
    fn of_a_process_that_has_ended_nothing_is_shown() {
        let (one, _other) = UnixStream::pair().unwrap();
        let inode = fs::metadata(format!("/proc/self/fd/{}", one.as_raw_fd()))
            .unwrap()
            .ino();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(one))
            .spawn()
            .unwrap();
        let at_hand = DescriptorsOf::open(Pid::new(child.id().cast_signed())).unwrap();
        assert!(at_hand.is_socket(0, inode));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!at_hand.is_socket(0, inode));
    }
}
