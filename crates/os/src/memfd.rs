//! Files in memory that no process can change any more.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The seals of a file: no write, no growth, no shrinking, and no change of the seals.
const SEALS: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

/// A file with these bytes, to be read from its beginning. The kernel removes it with its last
/// descriptor; `name` is for people who look into `/proc`.
///
/// # Errors
///
/// No descriptor or no memory is left (EMFILE, ENFILE, ENOMEM, ENOSPC).
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string; the call returns a new descriptor or an error.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and no other code owns it.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    file.write_all(bytes)?;
    file.rewind()?;
    // SAFETY: an open descriptor and numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } < 0 {
        return Err(io::Error::last_os_error());
    }
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
    }
}
