//! The memory and the processor time of all processes below one.
//!
//! Memory is the proportional share (`Pss` of `smaps_rollup`): a page that N processes have in
//! common counts for each of them as an Nth. Forks of one parent share most of their pages, and
//! their resident pages added up would be a multiple of what they take. A single process shares
//! nothing with another one here, so its resident pages are counted without that look. They are
//! counted too where the kernel refuses the look, as for a process of another user without
//! `CAP_SYS_PTRACE`, or has no such file (before Linux 4.14, gVisor).
//!
//! The look is not free, because the kernel goes through the page tables of the process: 14 us for
//! each resident MiB, beside 7 us for the line of `stat`. It also waits for a process that changes
//! its memory map. So a thread should read this.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use crate::clock;
use crate::process::Pid;
use crate::process_memory::{self, ProcessMemory};
use ojs_values::usage::WorkerUsage;

/// Most visible processes. With more there is no result, because a part would look like all.
const MOST_PROCESSES: usize = 4096;

/// Most bytes read of `smaps_rollup`, which has `Pss` in its third line.
const MOST_BYTES: usize = 512;

/// The use of all processes below `root`, as far as they are visible. Neither `root` counts nor
/// `helper`, a process below it. The processor time includes that of all processes that these two
/// and their descendants have reaped.
///
/// # Errors
///
/// `/proc` is missing, shows another PID namespace, or too many processes.
pub fn below(root: Pid, helper: Option<Pid>) -> io::Result<WorkerUsage> {
    let processes = process_memory::visible(MOST_PROCESSES)?;
    if processes.len() == MOST_PROCESSES {
        return Err(io::Error::other("too many processes to add up"));
    }
    let family = family(&processes, root);
    let counts = |process: &&ProcessMemory| process.pid != root && Some(process.pid) != helper;
    let counted: Vec<&ProcessMemory> = family.iter().copied().filter(counts).collect();
    let own_ticks: u64 = counted.iter().map(|process| process.own_ticks).sum();
    let reaped_ticks: u64 = family.iter().map(|process| process.reaped_ticks).sum();
    let memory_bytes = match counted.as_slice() {
        [alone] => resident(alone),
        several => several.iter().map(|process| share(process.pid)).sum(),
    };
    Ok(WorkerUsage {
        memory_bytes,
        cpu: clock::ticks(own_ticks + reaped_ticks),
        processes: counted.len(),
    })
}

/// This process and all below it, the nearest first.
fn family(processes: &[ProcessMemory], root: Pid) -> Vec<&ProcessMemory> {
    let mut children: BTreeMap<i32, Vec<&ProcessMemory>> = BTreeMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process);
    }
    let mut family: Vec<&ProcessMemory> = processes.iter().filter(|process| process.pid == root).collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        // Taken out, so that the walk ends whatever the kernel shows.
        family.extend(children.remove(&parent.pid.number()).unwrap_or_default());
        next += 1;
    }
    family
}

/// The bytes that count for a process among several. Where no share can be read, its resident pages
/// of this moment: a process that has just ended has none, whatever it had when the look began.
pub fn share(pid: Pid) -> u64 {
    let resident = || process_memory::of(pid).as_ref().map_or(0, resident);
    proportional(pid).unwrap_or_else(resident)
}

fn resident(process: &ProcessMemory) -> u64 {
    process.pages.saturating_mul(process_memory::page_bytes())
}

/// The proportional share of a process in bytes. `None`: it cannot be read.
fn proportional(pid: Pid) -> Option<u64> {
    let mut bytes = [0; MOST_BYTES];
    let count = File::open(format!("/proc/{pid}/smaps_rollup"))
        .ok()?
        .read(&mut bytes)
        .ok()?;
    let text = std::str::from_utf8(bytes.get(..count)?).ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
#[path = "family_usage_tests.rs"]
mod tests;
