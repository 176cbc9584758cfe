//! Finds the mount of a file. The device number does not show it, because a bind mount of one file
//! system keeps the number.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::stat::fstat;

/// A mount, as far as this system distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    /// The number that the kernel gave it.
    Id(u64),
    /// The device of its file system. Used if the kernel does not return the number: before Linux
    /// 5.8 without `/proc`.
    Device(u64),
}

impl Mount {
    /// The mount that an open file is on.
    ///
    /// # Errors
    ///
    /// The error of `fstat`; none is known.
    pub fn of(file: &impl AsFd) -> io::Result<Self> {
        let descriptor = file.as_fd();
        if let Some(id) = by_statx(descriptor.as_raw_fd()).or_else(|| by_fdinfo(descriptor.as_raw_fd())) {
            return Ok(Self::Id(id));
        }
        Ok(Self::Device(fstat(descriptor)?.st_dev))
    }
}

/// The flag by which `statx` returns the number of the mount.
const STATX_MNT_ID: u32 = 0x1000;

/// The result of `statx`: 256 bytes, of which two fields count here. Not every C library has the
/// structure.
#[repr(C)]
struct Statx {
    mask: u32,
    others: [u8; 140],
    mount: u64,
    rest: [u8; 104],
}

/// `None`: the kernel is older than 5.8, or a seccomp profile forbids the call.
fn by_statx(descriptor: i32) -> Option<u64> {
    let mut found = Statx {
        mask: 0,
        others: [0; 140],
        mount: 0,
        rest: [0; 104],
    };
    // SAFETY: an open descriptor, an empty C string, numbers, and 256 bytes that are valid to write
    // to.
    let result = unsafe {
        let (path, room) = (c"".as_ptr(), &raw mut found);
        libc::syscall(
            libc::SYS_statx,
            descriptor,
            path,
            libc::AT_EMPTY_PATH,
            STATX_MNT_ID,
            room,
        )
    };
    (result == 0 && found.mask & STATX_MNT_ID != 0).then_some(found.mount)
}

/// `None`: `/proc` is not mounted.
fn by_fdinfo(descriptor: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}")).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    id.trim().parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its files has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_proc_name_the_same_mount_and_other_mounts_differ() {
        let (root, proc) = (fs::File::open("/").unwrap(), fs::File::open("/proc").unwrap());
        assert_eq!(
            Mount::of(&root).unwrap(),
            Mount::of(&fs::File::open("/.").unwrap()).unwrap()
        );
        assert_ne!(Mount::of(&root).unwrap(), Mount::of(&proc).unwrap());
        let number = root.as_raw_fd();
        assert_eq!(by_statx(number).or(by_fdinfo(number)), by_fdinfo(number));
    }
}
