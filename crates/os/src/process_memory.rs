//! The memory of processes, and their parents.

use std::fs;
use std::io;

use crate::process::{Pid, check_proc};

/// The memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    pub pid: Pid,
    /// The number of its parent; 0: the parent is not visible here.
    pub parent: i32,
    /// The number of the process that leads its session.
    pub session: i32,
    /// Its pages in memory, including shared ones.
    pub pages: u64,
}

/// Every visible process.
///
/// # Errors
///
/// `/proc` is missing, or shows another PID namespace.
pub fn all() -> io::Result<Vec<ProcessMemory>> {
    check_proc()?;
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let pids = names
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter(|pid| *pid > 0);
    // A process that ended meanwhile uses no memory.
    let read = |pid: i32| parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?);
    Ok(pids.filter_map(read).collect())
}

/// Bytes of a page.
#[must_use]
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number and returns one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The fields behind the command's name, which may hold any byte: state, parent, group, session,
/// and as the 24th of the whole line the pages.
fn parse(pid: i32, line: &[u8]) -> Option<ProcessMemory> {
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(end_of_name + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let pages = fields.nth(17)?.parse().ok()?;
    Some(ProcessMemory {
        pid: Pid::new(pid),
        parent,
        session,
        pages,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot look has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_from_behind_the_name() {
        let line = b"12 (a b) 3) S 5 6 7 0 -1 4 9 9 9 9 9 9 9 9 20 0 1 7 4711 8192 33 99";
        let expected = ProcessMemory {
            pid: Pid::new(12),
            parent: 5,
            session: 7,
            pages: 33,
        };
        assert_eq!(parse(12, line), Some(expected));
        assert_eq!(parse(12, b"12 (a) S 5"), None);
    }

    #[test]
    fn we_take_memory_ourselves() {
        let own = all()
            .unwrap()
            .into_iter()
            .find(|process| process.pid == Pid::own())
            .unwrap();
        assert!(own.pages * page_bytes() > 100_000);
    }
}
