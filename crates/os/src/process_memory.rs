//! The memory and the processor time of processes, and their parents.

use std::fs;
use std::io;

use crate::process::{Pid, check_proc, numbers_in, stat_fields};

/// The memory and the processor time of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    pub pid: Pid,
    /// The number of its parent; 0: the parent is not visible here.
    pub parent: i32,
    /// The number of the process that leads its session.
    pub session: i32,
    /// Its pages in memory, including shared ones.
    pub pages: u64,
    /// Processor time of its threads, in clock ticks.
    pub own_ticks: u64,
    /// Processor time of the children that it has reaped, and of those that they had reaped.
    pub reaped_ticks: u64,
}

/// The visible processes, at most `most`, zombies included.
///
/// # Errors
///
/// `/proc` is missing, or shows another PID namespace.
pub fn visible(most: usize) -> io::Result<Vec<ProcessMemory>> {
    check_proc()?;
    let pids = numbers_in("/proc")?.take(most);
    Ok(pids.filter_map(|pid| of(Pid::new(pid))).collect())
}

/// This process. `None`: it ended meanwhile, and uses no memory.
pub fn of(pid: Pid) -> Option<ProcessMemory> {
    parse(pid.number(), &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Bytes of a page.
pub fn page_bytes() -> u64 {
    // SAFETY: takes a number and returns one.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The fields behind the command's name: state, parent, group, session,
/// from the 14th of the whole line on four times in ticks, and as the 24th the pages.
fn parse(pid: i32, line: &[u8]) -> Option<ProcessMemory> {
    let mut fields = stat_fields(line)?;
    let parent = fields.nth(1)?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let mut ticks = fields.by_ref().skip(7).take(4).map(|ticks| ticks.parse().unwrap_or(0));
    let own_ticks: u64 = ticks.next()? + ticks.next()?;
    let reaped_ticks: u64 = ticks.next()? + ticks.next()?;
    let pages = fields.nth(6)?.parse().ok()?;
    Some(ProcessMemory {
        pid: Pid::new(pid),
        parent,
        session,
        pages,
        own_ticks,
        reaped_ticks,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot look has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_counted_from_behind_the_name() {
        let line = b"12 (a b) 3) S 5 6 7 0 -1 4 9 9 9 9 100 20 3000 400 20 0 1 7 4711 8192 33 99";
        let expected = ProcessMemory {
            pid: Pid::new(12),
            parent: 5,
            session: 7,
            pages: 33,
            own_ticks: 120,
            reaped_ticks: 3400,
        };
        assert_eq!(parse(12, line), Some(expected));
        assert_eq!(parse(12, b"12 (a) S 5"), None);
    }

    #[test]
    fn we_take_memory_ourselves() {
        let own = visible(usize::MAX)
            .unwrap()
            .into_iter()
            .find(|process| process.pid == Pid::own())
            .unwrap();
        assert!(own.pages * page_bytes() > 100_000);
    }
}
