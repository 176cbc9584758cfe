//! Files in memory that no process can change any more.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The seals of a file: no write, no growth, no shrinking, and no change of the seals. A kernel
/// refuses those that it does not know, so none that are newer than `memfd_create`.
const SEALS: SealFlag = SealFlag::F_SEAL_WRITE
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_SEAL);

/// A file with these bytes, to be read from its beginning. The kernel removes it with its last
/// descriptor; `name` is for people who look into `/proc`.
///
/// # Errors
///
/// No descriptor or no memory is left (EMFILE, ENFILE, ENOMEM, ENOSPC).
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(bytes)?;
    file.rewind()?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its file has failed")]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn it_is_read_from_its_beginning_and_cannot_be_changed() {
        let mut file = File::from(sealed(c"test", b"what is in it").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "what is in it");
        let refused = file.write_all(b"x").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), Some(libc::EPERM));
        // A kernel of 3.17 knows these four and no others.
        assert_eq!(fcntl(&file, FcntlArg::F_GET_SEALS), Ok(0xf));
    }
}
