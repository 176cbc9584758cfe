//! Files of a known size at most: certificates, keys, tokens.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Reads a whole file. A pipe without a writer does not block.
///
/// # Errors
/// The file cannot be read, or holds more than `most` bytes.
pub(in crate::daemon) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read <= most) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!(
        "it is larger than {} KiB, which is the most that is accepted",
        most >> 10
    )))
}
