//! The memory that each job uses with all its processes.

use std::collections::BTreeMap;

use log::warn;

use ojs_os::process::{self, Pid};
use ojs_os::process_memory::{self, ProcessMemory};
use ojs_values::small;

/// Most parents that are asked for theirs.
const MOST_GENERATIONS: usize = 256;

/// Warns if the memory of jobs can never be read.
pub fn check() {
    if let Err(error) = process::check_proc() {
        warn!("exec.max_memory: the memory of jobs cannot be read: {error}; jobs are not limited; mount /proc");
    }
}

/// The memory of these processes and all their descendants, in bytes. Shared memory counts whole
/// for each process.
pub fn of_jobs(leaders: &[Pid]) -> BTreeMap<Pid, u64> {
    let processes = process_memory::visible(usize::MAX).unwrap_or_default();
    sums(leaders, &processes, process_memory::page_bytes())
}

fn sums(leaders: &[Pid], processes: &[ProcessMemory], page_bytes: u64) -> BTreeMap<Pid, u64> {
    let leaders: BTreeMap<i32, Pid> = small::gather(leaders.iter().map(|leader| (leader.number(), *leader)));
    let by_number: BTreeMap<i32, &ProcessMemory> =
        small::gather(processes.iter().map(|process| (process.pid.number(), process)));
    let mut sums = BTreeMap::new();
    for process in processes {
        let mut next = Some(process);
        for _ in 0..MOST_GENERATIONS {
            let Some(ancestor) = next else { break };
            let leader = leaders
                .get(&ancestor.pid.number())
                .or_else(|| leaders.get(&ancestor.session));
            if let Some(leader) = leader {
                *sums.entry(*leader).or_insert(0) += process.pages.saturating_mul(page_bytes);
                break;
            }
            next = by_number.get(&ancestor.parent).copied();
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, session: i32, pages: u64) -> ProcessMemory {
        ProcessMemory {
            pid: Pid::own(),
            parent,
            session,
            pages,
            own_ticks: 0,
            reaped_ticks: 0,
        }
    }

    #[test]
    fn a_process_counts_for_the_job_that_it_comes_from() {
        let leader = Pid::own();
        let own = leader.number();
        // Itself, one of its session, and a stranger.
        let mut processes = vec![process(1, own, 3)];
        assert_eq!(sums(&[leader], &processes, 10), BTreeMap::from([(leader, 30)]));
        processes.push(process(own, own, 4));
        assert_eq!(sums(&[leader], &processes, 10), BTreeMap::from([(leader, 70)]));
        assert_eq!(sums(&[], &processes, 10), BTreeMap::new());
    }
}
