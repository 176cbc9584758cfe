//! Numbers that cannot be guessed.

use std::fs::File;
use std::io::{self, Read};

/// The source if there is no system call.
const DEVICE: &str = "/dev/urandom";

/// Fills these bytes. Never waits: a machine that has just started and has no randomness yet
/// returns an error.
///
/// # Errors
///
/// The kernel has no randomness.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: the pointer and the length are those of the rest, which no other code has.
        let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), libc::GRND_NONBLOCK) };
        match usize::try_from(count) {
            Ok(count) => filled += count,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // Before Linux 3.17, or forbidden by a seccomp filter.
            Err(_) => return File::open(DEVICE)?.read_exact(rest),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without randomness has failed")]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let mut both = [[0; 32]; 2];
        for bytes in &mut both {
            fill(bytes).unwrap();
        }
        assert!(both[0] != both[1] && both[0] != [0; 32]);
    }
}
