//! The open descriptors of other processes, as far as this process may see them.

use std::fs::{self, ReadDir};
use std::io::{self, Write};

use crate::process::{Pid, check_proc, is_gone};

/// Bytes of the longest path of a descriptor, and a zero.
const LONGEST_PATH: usize = "/proc/2147483647/fd/2147483647".len() + 1;

/// Bytes of the longest name of a socket, and one more: a longer name is another one.
const LONGEST_SOCKET_NAME: usize = "socket:[18446744073709551615]".len() + 1;

/// Whether this process may see another process's open descriptors.
#[derive(Debug)]
pub enum Sight {
    /// This process may look.
    Open,
    /// This process may not look: without `CAP_SYS_PTRACE` it cannot see another user's process,
    /// nor one that protects its memory. Or no `/proc` shows the process.
    Closed(io::Error),
    /// The look failed: for example no descriptor was left, or there is no such process.
    Unknown(io::Error),
}

/// Whether this process may see the open descriptors of `pid`.
pub fn sight_of(pid: Pid) -> Sight {
    if let Err(error) = check_proc() {
        return Sight::Closed(error);
    }
    // The kernel makes this check before it shows a descriptor's target, and each process has a
    // working directory.
    let looked = fs::read_link(format!("/proc/{pid}/cwd")).and_then(|_| fs::read_dir(format!("/proc/{pid}/fd")));
    match looked {
        Ok(_) => Sight::Open,
        Err(error) if is_refusal(&error) => Sight::Closed(error),
        Err(error) => Sight::Unknown(error),
    }
}

/// True if the error means that this process may not look.
pub fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The numbers of the descriptors that a process has, one after the other.
#[derive(Debug)]
pub struct DescriptorList(ReadDir);

impl DescriptorList {
    /// The descriptors of this process.
    ///
    /// # Errors
    ///
    /// EACCES: this process may not look. ENOENT: there is no such process. Or no descriptor is
    /// left.
    pub fn open(pid: Pid) -> io::Result<Self> {
        fs::read_dir(format!("/proc/{pid}/fd")).map(Self)
    }
}

impl Iterator for DescriptorList {
    type Item = io::Result<i32>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = match self.0.next()? {
                Ok(entry) => entry.file_name(),
                Err(error) => return Some(Err(error)),
            };
            if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
                return Some(Ok(number));
            }
        }
    }
}

/// The number of the socket behind this descriptor of this process. `None`: the descriptor is no
/// socket, or does not exist.
///
/// # Errors
///
/// EACCES: this process may not look.
pub fn socket_at(pid: Pid, descriptor: i32) -> io::Result<Option<u64>> {
    let mut path = [0_u8; LONGEST_PATH];
    // The zero behind it has to stay.
    let mut room = path.split_last_mut().map_or(&mut [][..], |(_, room)| room);
    write!(room, "/proc/{pid}/fd/{descriptor}")?;
    let mut found = [0_u8; LONGEST_SOCKET_NAME];
    // SAFETY: the path ends with a zero, and no more is written than the buffer has room for.
    let length = unsafe { libc::readlink(path.as_ptr().cast(), found.as_mut_ptr().cast(), found.len()) };
    let Ok(length) = usize::try_from(length) else {
        let error = io::Error::last_os_error();
        return if is_gone(&error) { Ok(None) } else { Err(error) };
    };
    Ok(found.get(..length).and_then(number_of_socket))
}

fn number_of_socket(name: &[u8]) -> Option<u64> {
    let number = name.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot look has failed")]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn socket() -> (UnixStream, u64) {
        let (one, _other) = UnixStream::pair().unwrap();
        let path = format!("/proc/self/fd/{}", one.as_raw_fd());
        let inode = fs::metadata(path).unwrap().ino();
        (one, inode)
    }

    #[test]
    fn a_process_has_the_sockets_that_it_has_and_no_others() {
        let (one, inode) = socket();
        assert!(matches!(sight_of(Pid::own()), Sight::Open));
        let list = DescriptorList::open(Pid::own()).unwrap().map(Result::unwrap);
        let of_it: Vec<i32> = list
            .filter(|number| socket_at(Pid::own(), *number).unwrap() == Some(inode))
            .collect();
        assert_eq!(of_it, [one.as_raw_fd()]);
        assert_eq!(socket_at(Pid::own(), 1_000_000).unwrap(), None);
        assert_eq!(
            socket_at(Pid::new(i32::MAX), i32::MAX).unwrap(),
            None,
            "the longest path"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a child of the test, which has no reaper")]
    fn of_a_process_that_has_ended_nothing_is_shown() {
        let (one, inode) = socket();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(one))
            .spawn()
            .unwrap();
        let pid = Pid::new(child.id().cast_signed());
        assert_eq!(socket_at(pid, 0).unwrap(), Some(inode));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(socket_at(pid, 0).unwrap(), None);
        assert!(matches!(sight_of(pid), Sight::Unknown(_)));
        assert!(is_gone(&DescriptorList::open(pid).unwrap_err()));
    }
}
