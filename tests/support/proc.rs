//! Facts of `/proc` about a process, as seen from the test.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// One line of `/proc/PID/status`, without its name.
pub fn status_field(pid: i32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field_of(&text, name)
}

/// One line of a text of `Name:\tvalue` lines.
pub fn field_of(text: &str, name: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// A mask of `/proc/PID/status`: `SigBlk`, `SigIgn`, `SigCgt`.
pub fn signal_mask(pid: i32, name: &str) -> Option<u64> {
    u64::from_str_radix(&status_field(pid, name)?, 16).ok()
}

/// A number of `/proc/PID/smaps_rollup` in KiB. Unlike `VmRSS` it is exact.
pub fn memory_kib(pid: i32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    field_of(&text, name)?.split_whitespace().next()?.parse().ok()
}

/// The fields of `/proc/PID/stat` that the tests need.
#[derive(Debug, Clone)]
pub struct Stat {
    /// The letter: R, S, T, Z ...
    pub state: char,
    /// The pid of its parent.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Foreground process group of its terminal, -1 without one.
    pub foreground: i32,
    /// Page faults without and with reading from a disk.
    pub faults: u64,
}

/// Reads it; `None` when there is no such process.
pub fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        foreground: i32::try_from(number(5)?).ok()?,
        faults: u64::try_from(number(7)? + number(9)?).ok()?,
    })
}

/// The children of a process, zombies included.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found = Vec::new();
    for task in tasks {
        let Ok(text) = std::fs::read_to_string(task.path().join("children")) else {
            return children_by_search(pid);
        };
        found.extend(text.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
    }
    found
}

/// For kernels without `/proc/PID/task/TID/children`.
fn children_by_search(pid: i32) -> Vec<i32> {
    everybody()
        .into_iter()
        .filter(|&other| stat(other).is_some_and(|stat| stat.parent == pid))
        .collect()
}

/// The process's descendants, nearest first.
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children(parent));
        next += 1;
    }
    found
}

/// Every process that we can see.
pub fn everybody() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Every process whose environment holds this entry.
pub fn with_environment(entry: &str) -> Vec<i32> {
    let holds = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|&byte| byte == 0).any(|found| found == entry.as_bytes()))
    };
    everybody().into_iter().filter(holds).collect()
}

/// Whether the process is there and not a zombie.
pub fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// The number that a process has in its innermost PID namespace.
pub fn inner_pid(pid: i32) -> Option<i32> {
    status_field(pid, "NSpid")?.split_whitespace().last()?.parse().ok()
}

/// Open descriptors and what they lead to.
pub fn descriptors(pid: impl std::fmt::Display) -> BTreeMap<i32, PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                std::fs::read_link(entry.path()).ok()?,
            ))
        })
        .collect()
}

/// The file that a process runs.
pub fn image(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}
