//! The memory that each job uses with all its processes.
//!
//! A look at the resident pages of all processes is cheap, and enough for most jobs. It counts
//! shared memory whole for each process, so a job of several processes that seems to be above the
//! limit is looked at once more, by proportional shares. A thread does that, because the kernel
//! makes it wait for a process that changes its memory map.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use log::warn;

use ojs_os::family_usage;
use ojs_os::process::{self, Pid};
use ojs_os::process_memory::{self, ProcessMemory};
use ojs_os::threads::Helper;
use ojs_values::small;

/// Most parents that are asked for theirs.
const MOST_GENERATIONS: usize = 256;

/// Stack of the thread, in bytes.
const STACK_BYTES: usize = 128 << 10;

/// Most looks of the loop for the shares. A job that holds up the thread for longer counts by its
/// resident pages.
const MOST_LOOKS: u32 = 4;

/// Warns if the memory of jobs can never be read.
pub fn check() {
    if let Err(error) = process::check_proc() {
        warn!("exec.max_memory: the memory of jobs cannot be read: {error}; jobs are not limited; mount /proc");
    }
}

/// The processes of a job, and their resident bytes, shared memory whole for each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct JobMemory {
    processes: Vec<Pid>,
    resident: u64,
}

/// Bytes of jobs by their leaders.
type Shares = BTreeMap<Pid, u64>;

/// Looks for jobs that use too much memory.
#[derive(Debug, Default)]
pub struct MemoryLimiter {
    /// The thread that reads shares, and how often the loop has looked for its result.
    coming: Option<(Helper<Shares>, u32)>,
}

impl MemoryLimiter {
    /// The jobs of these leaders that use more than `most` bytes. For some the answer is that of
    /// the next call.
    pub fn above(&mut self, leaders: &[Pid], most: u64) -> Vec<Pid> {
        let processes = process_memory::visible(usize::MAX).unwrap_or_default();
        let mut suspects = of_jobs(leaders, &processes, process_memory::page_bytes());
        suspects.retain(|_, job| job.resident > most);
        let is_alone = |job: &JobMemory| job.processes.len() == 1;
        let (shares, hangs) = self.take();
        let is_above = |(leader, job): &(&Pid, &JobMemory)| {
            hangs || is_alone(job) || shares.get(leader).is_some_and(|bytes| *bytes > most)
        };
        let above = suspects.iter().filter(is_above).map(|(leader, _)| *leader).collect();
        suspects.retain(|_, job| !is_alone(job));
        if self.coming.is_none() && !suspects.is_empty() {
            let work = move || {
                let share = |job: &JobMemory| job.processes.iter().map(|pid| family_usage::share(*pid)).sum();
                small::gather(suspects.iter().map(|(leader, job)| (*leader, share(job))))
            };
            let started = Helper::start("memory", STACK_BYTES, Arc::new(|| ()), work);
            self.coming = started.ok().map(|helper| (helper, 0));
        }
        above
    }

    /// The shares, if they are there, and whether they are overdue.
    fn take(&mut self) -> (Shares, bool) {
        let Some((helper, looks)) = &mut self.coming else {
            return (Shares::new(), false);
        };
        *looks += 1;
        let hangs = *looks > MOST_LOOKS;
        match helper.take(Duration::ZERO) {
            Some(shares) => {
                self.coming = None;
                (shares.unwrap_or_default(), false)
            }
            None => (Shares::new(), hangs),
        }
    }
}

fn of_jobs(leaders: &[Pid], processes: &[ProcessMemory], page_bytes: u64) -> BTreeMap<Pid, JobMemory> {
    let leaders: BTreeMap<i32, Pid> = small::gather(leaders.iter().map(|leader| (leader.number(), *leader)));
    let by_number: BTreeMap<i32, &ProcessMemory> =
        small::gather(processes.iter().map(|process| (process.pid.number(), process)));
    let mut jobs: BTreeMap<Pid, JobMemory> = BTreeMap::new();
    for process in processes {
        let mut next = Some(process);
        for _ in 0..MOST_GENERATIONS {
            let Some(ancestor) = next else { break };
            let leader = leaders
                .get(&ancestor.pid.number())
                .or_else(|| leaders.get(&ancestor.session));
            if let Some(leader) = leader {
                let job = jobs.entry(*leader).or_default();
                job.processes.push(process.pid);
                job.resident += process.pages.saturating_mul(page_bytes);
                break;
            }
            next = by_number.get(&ancestor.parent).copied();
        }
    }
    jobs
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
        let job = |processes: &[Pid], resident| {
            let processes = processes.to_vec();
            BTreeMap::from([(leader, JobMemory { processes, resident })])
        };
        assert_eq!(of_jobs(&[leader], &processes, 10), job(&[leader], 30));
        processes.push(process(own, own, 4));
        assert_eq!(of_jobs(&[leader], &processes, 10), job(&[leader, leader], 70));
        assert_eq!(of_jobs(&[], &processes, 10), BTreeMap::new());
    }
}
