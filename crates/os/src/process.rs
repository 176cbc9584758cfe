//! Other processes: their ids, signals to them, and the children of this process.

use std::fmt;
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Read};
use std::str::SplitAsciiWhitespace;
use std::time::Duration;

use crate::clock;
use crate::errno::check;
use ojs_values::signal::Signal;

/// A process id, always positive: 0 and negative numbers have another meaning for `kill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid(i32);

impl Pid {
    /// A pid as the kernel returned it.
    pub(crate) fn new(pid: i32) -> Self {
        debug_assert!(pid > 0, "the kernel names processes by positive numbers");
        Self(pid)
    }

    /// The init of this PID namespace.
    pub const INIT: Self = Self(1);

    /// The pid of this process.
    pub fn own() -> Self {
        Self::new(std::process::id().cast_signed())
    }

    /// The pid as a number.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Longest line of `/proc/PID/stat` in bytes: a name of 64 and some 50 numbers of at most 20
/// digits.
const LONGEST_STAT_LINE: usize = 2 << 10;

/// Most parents that are asked for theirs.
const MOST_GENERATIONS: usize = 256;

/// Signals one process. Only for a process that was not reaped: another process may have a reaped
/// pid.
///
/// # Errors
///
/// ESRCH: it has ended. EPERM: it runs as another user and this process lacks `CAP_KILL`.
pub fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
    send(pid.0, signal)
}

/// Signals every member of the process group that this process leads.
///
/// # Errors
///
/// ESRCH: no such group. EPERM: none of the members may be signalled.
pub fn signal_group(leader: Pid, signal: Signal) -> io::Result<()> {
    send(-leader.0, signal)
}

/// Whether this process group has members.
pub fn has_group(leader: Pid) -> bool {
    exists(-leader.0)
}

/// Signals every other process in the PID namespace. For PID 1 only: elsewhere the signal would
/// reach strangers.
///
/// # Errors
///
/// ESRCH: there is no other process. EPERM: no process may be signalled. EINVAL: this process is
/// not PID 1; no signal was sent.
pub fn signal_namespace(signal: Signal) -> io::Result<()> {
    if Pid::own().0 != 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    send(-1, signal)
}

fn send(target: i32, signal: Signal) -> io::Result<()> {
    // The raw call: the C library's wrapper need not know every signal number.
    // SAFETY: kill takes two numbers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_kill, target, signal.number()) })?;
    Ok(())
}

/// The direct children of this process, adopted ones included, without zombies. A pid belongs to
/// its child until this process reaps it, so signalling it is safe.
///
/// # Errors
///
/// `/proc` is missing, or shows another PID namespace: its numbers would name strangers.
pub fn children() -> io::Result<Vec<Pid>> {
    Ok(of_ours(everybody(false)?))
}

/// The children of this process, also those that have ended and are not reaped.
///
/// # Errors
///
/// As for [`children`].
pub(crate) fn children_and_zombies() -> io::Result<Vec<Pid>> {
    Ok(of_ours(everybody(true)?))
}

fn of_ours(processes: Vec<(Pid, i32)>) -> Vec<Pid> {
    let own = Pid::own().0;
    let ours = processes.into_iter().filter(|(_, parent)| *parent == own);
    ours.map(|(pid, _)| pid).collect()
}

/// The descendants of this process, the nearest first, without zombies, at most `most`. A process
/// whose parent has ended becomes a child of this process if it adopts orphans. Otherwise it counts
/// as no descendant.
///
/// # Errors
///
/// As for [`children`].
pub fn descendants(most: usize) -> io::Result<Vec<Pid>> {
    let living = everybody(false)?;
    let mut found: Vec<Pid> = Vec::new();
    let mut parent = Pid::own();
    let mut next = 0;
    loop {
        let of_parent = living.iter().filter(|(_, of)| *of == parent.0).map(|(pid, _)| *pid);
        found.extend(of_parent);
        if found.len() >= most {
            found.truncate(most);
            return Ok(found);
        }
        match found.get(next) {
            Some(pid) => parent = *pid,
            None => return Ok(found),
        }
        next += 1;
    }
}

/// Whether this process is a child of the calling process, or a child's child, and so on.
///
/// # Errors
///
/// As for [`children`].
pub fn is_descendant(pid: Pid) -> io::Result<bool> {
    check_proc()?;
    let own = Pid::own().0;
    any_ancestor(pid, |_, stat| stat.parent == own)
}

/// Whether this process is in the process group of `leader`, or was started by it or by a process
/// that it has started. False if `/proc` does not say so.
pub fn belongs_to(pid: Pid, leader: Pid) -> bool {
    any_ancestor(pid, |pid, stat| pid == leader || stat.group == leader.0).unwrap_or(false)
}

/// Whether this process is in the process group that `leader` leads or led, and was started before
/// this moment on the clock of [`clock::monotonic`]. False in doubt: the kernel counts starts in
/// ticks of 10 ms.
pub fn was_in_group(pid: Pid, leader: Pid, at: Duration) -> bool {
    let stat = Stat::read(pid).ok().flatten();
    let started = stat.filter(|stat| stat.group == leader.0).and_then(|stat| stat.started);
    started.is_some_and(|started| clock::ticks(started.saturating_add(1)) <= at)
}

/// Whether `is_so` holds for the process, its parent, or the parent's parent, and so on. False if
/// one of them ends meanwhile.
fn any_ancestor(pid: Pid, is_so: impl Fn(Pid, &Stat) -> bool) -> io::Result<bool> {
    let mut pid = pid;
    for _ in 0..MOST_GENERATIONS {
        let stat = match Stat::read(pid) {
            Err(error) if is_gone(&error) => None,
            stat => stat?,
        };
        let Some(stat) = stat else { return Ok(false) };
        if is_so(pid, &stat) {
            return Ok(true);
        }
        if stat.parent <= 0 {
            return Ok(false);
        }
        pid = Pid::new(stat.parent);
    }
    Ok(false)
}

/// The parent of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    Is(Pid),
    /// The parent is not visible here.
    NotHere,
    /// There is no such process.
    Gone,
}

/// The parent of this process.
///
/// # Errors
///
/// No descriptor is left to read `/proc`, for example.
pub fn parent_of(pid: Pid) -> io::Result<Parent> {
    let stat = match Stat::read(pid) {
        Err(error) if is_gone(&error) => return Ok(Parent::Gone),
        stat => stat?,
    };
    Ok(match stat.map(|stat| stat.parent) {
        Some(parent @ 1..) => Parent::Is(Pid::new(parent)),
        Some(_) | None => Parent::NotHere,
    })
}

/// The user who owns the files and sockets that this process makes (`fsuid`). `None`: there is no
/// such process.
///
/// # Errors
///
/// No descriptor is left to read `/proc`, for example.
pub fn user_of(pid: Pid) -> io::Result<Option<u32>> {
    Ok(users_of(pid)?.last().copied())
}

/// The users of this process: real, effective, saved, and the owner of what it makes. Empty if
/// there is no such process.
pub(crate) fn users_of(pid: Pid) -> io::Result<Vec<u32>> {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        status => status?,
    };
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let users = users.unwrap_or_default().split_ascii_whitespace();
    Ok(users.filter_map(|user| user.parse().ok()).collect())
}

/// Whether the process ended before its file was opened, or before it was read.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// All visible processes except this one.
///
/// # Errors
///
/// As for [`children`], or no descriptor is left.
pub fn everybody_else() -> io::Result<Vec<Pid>> {
    check_proc()?;
    let others = numbers_in("/proc")?.map(Pid::new);
    Ok(others.filter(|pid| *pid != Pid::own()).collect())
}

/// The numbers of processes or threads that a directory of `/proc` has as names.
#[derive(Debug)]
pub struct Numbers(ReadDir);

impl Iterator for Numbers {
    type Item = i32;

    fn next(&mut self) -> Option<i32> {
        // If the directory of a process cannot be read any further, the process has ended.
        let names = self.0.by_ref().map_while(Result::ok);
        let mut numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.find(|number| *number > 0)
    }
}

pub(crate) fn numbers_in(path: &str) -> io::Result<Numbers> {
    fs::read_dir(path).map(Numbers)
}

/// All visible processes, each with its parent's number; with zombies if `with_zombies` is set.
fn everybody(with_zombies: bool) -> io::Result<Vec<(Pid, i32)>> {
    check_proc()?;
    let mut found = Vec::new();
    for pid in numbers_in("/proc")? {
        // The process ended meanwhile. It was no child of this process, because a child stays until
        // it is reaped.
        let pid = Pid::new(pid);
        let Ok(Some(stat)) = Stat::read(pid) else { continue };
        if with_zombies || !stat.has_ended {
            found.push((pid, stat.parent));
        }
    }
    Ok(found)
}

/// When this process started, in clock ticks since the machine started. With the pid this
/// identifies a process. `None`: it has ended, a zombie included.
///
/// # Errors
///
/// `/proc` is missing, shows another PID namespace or hides this process, or there is no descriptor
/// left to read it.
pub fn start_time(pid: Pid) -> io::Result<Option<u64>> {
    check_proc()?;
    match Stat::read(pid) {
        Ok(stat) => {
            let stat = stat.ok_or_else(|| io::Error::other("/proc/PID/stat makes no sense"))?;
            let known = stat
                .started
                .ok_or_else(|| io::Error::other("/proc/PID/stat is cut short"));
            if stat.has_ended { Ok(None) } else { known.map(Some) }
        }
        // The process ended between open and read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if exists(pid.0) {
                Err(io::Error::other("/proc hides processes of other users (hidepid)"))
            } else {
                Ok(None)
            }
        }
        Err(error) => Err(error),
    }
}

/// How much of a process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitProgress {
    /// The process lives, or nothing can be seen.
    No,
    /// Its first thread has ended or is ending. Others are there, and may be for long.
    FirstThread,
    /// All of the process has ended or is ending, or the process is gone. The process may have
    /// started others before, but starts none any more.
    Whole,
}

/// Whether this process is ending or has ended.
pub fn ending(pid: Pid) -> ExitProgress {
    match Stat::read(pid).ok().flatten() {
        Some(stat) => stat.ending,
        // If /proc hides processes of other users, the process may still live.
        None if exists(pid.0) => ExitProgress::No,
        None => ExitProgress::Whole,
    }
}

/// The threads of a process without the first one, by numbers under which `/proc` shows them like
/// processes. At most `most`.
pub(crate) fn threads(pid: Pid, most: usize) -> Vec<Pid> {
    let numbers = numbers_in(&format!("/proc/{pid}/task")).into_iter().flatten();
    let others = numbers.filter(|number| *number != pid.0);
    others.map(Pid::new).take(most).collect()
}

/// Bytes of the environment with which this process was started. `None`: the kernel does not show
/// it.
pub(crate) fn environment_bytes(pid: Pid) -> Option<u64> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat_fields(&line)?;
    // The 50th and the 51st field of the whole line; the first one here is the third.
    let start: u64 = fields.nth(47)?.parse().ok()?;
    let end: u64 = fields.next()?.parse().ok()?;
    end.checked_sub(start).filter(|bytes| *bytes > 0)
}

/// Whether a process, a zombie included, has this pid; below zero: whether a process group has a
/// member.
fn exists(target: i32) -> bool {
    // SAFETY: kill takes two numbers; signal 0 is never delivered.
    let result = unsafe { libc::syscall(libc::SYS_kill, target, 0) };
    result == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Checks that the numbers of `/proc` are those of this PID namespace.
///
/// # Errors
///
/// `/proc` is missing, or shows another PID namespace.
pub fn check_proc() -> io::Result<()> {
    if fs::read_link("/proc/self")?.to_str() == Some(Pid::own().to_string().as_str()) {
        Ok(())
    } else {
        Err(io::Error::other("/proc shows another PID namespace"))
    }
}

/// The fields of a line of `/proc/PID/stat` from the third one on, which is the state. The command
/// name before it may hold any byte, spaces and parentheses included, so they start behind the last
/// `)`.
pub(crate) fn stat_fields(line: &[u8]) -> Option<SplitAsciiWhitespace<'_>> {
    let end_of_name = line.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(line.get(end_of_name + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace())
}

/// The fields that are of use here.
struct Stat {
    /// A zombie, unless only its first thread has ended.
    has_ended: bool,
    ending: ExitProgress,
    parent: i32,
    group: i32,
    started: Option<u64>,
}

/// The kernel's mark on a thread that has begun to end (`PF_EXITING`).
const EXITING: u32 = 4;

impl Stat {
    /// The line of this process. One read is enough, because the kernel returns the whole line at
    /// once.
    fn read(pid: Pid) -> io::Result<Option<Self>> {
        let mut file = File::open(format!("/proc/{pid}/stat"))?;
        let mut line = [0; LONGEST_STAT_LINE];
        loop {
            match file.read(&mut line) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                count => return Ok(Self::parse(line.get(..count?).unwrap_or_default())),
            }
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = stat_fields(line)?;
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // The 9th, the 20th and the 22nd field of the whole line; state is the third.
        let flags = fields.nth(3).and_then(|flags| flags.parse::<u32>().ok());
        let threads = fields.nth(10).and_then(|threads| threads.parse::<u32>().ok());
        let started = fields.nth(1).and_then(|ticks| ticks.parse().ok());
        let is_alone = threads.unwrap_or(0) <= 1;
        let has_ended = ["Z", "X"].contains(&state) && is_alone;
        let ending = match flags.is_some_and(|flags| flags & EXITING != 0) {
            true if is_alone => ExitProgress::Whole,
            true => ExitProgress::FirstThread,
            false if has_ended => ExitProgress::Whole,
            false => ExitProgress::No,
        };
        Some(Self {
            has_ended,
            ending,
            parent,
            group,
            started,
        })
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
