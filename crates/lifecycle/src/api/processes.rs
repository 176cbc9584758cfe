//! Assumptions about processes. Both machines and the start of a child share them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::time::Moment;

/// Time from an end to the next scan for newly adopted descendants. One scan serves a burst of
/// ends.
pub const RESCAN_AFTER: Duration = Duration::from_millis(20);

/// Time between two scans for descendants after SIGKILL. Each scan reaches one more generation, and
/// there is little time.
pub const KILL_RESCAN_AFTER: Duration = Duration::from_millis(1);

/// How long ojs-init retries if the system cannot create a process (EAGAIN, ENOMEM). A limit that
/// is reached for a moment should not end a container.
pub const SHORTAGE_WINDOW: Duration = Duration::from_secs(10);

/// First pause before such a retry; each further one is twice as long.
const FIRST_SHORTAGE: Duration = Duration::from_millis(50);

/// Longest pause before such a retry.
const LONGEST_SHORTAGE: Duration = Duration::from_secs(1);

/// The pause before the next attempt to create a process, after `pauses` earlier ones.
pub fn shortage_pause(pauses: u32) -> Duration {
    doubled(FIRST_SHORTAGE, pauses, LONGEST_SHORTAGE)
}

/// The reserved part of a job's time to end, one in this many. Mode exec needs it for the SIGKILL,
/// for descendants and for the answer.
const KILL_PART: u32 = 5;

/// Longest reserved part.
const MOST_FOR_KILL: Duration = Duration::from_secs(2);

/// How long after its SIGTERM a job of mode exec gets its SIGKILL if `grace` is its time to end.
pub fn time_to_kill(grace: Duration) -> Duration {
    grace.saturating_sub((grace / KILL_PART).min(MOST_FOR_KILL))
}

/// First pause before ojs-init restarts a worker that ended.
const FIRST_RESTART: Duration = Duration::from_secs(1);

/// Longest pause before a restart.
const LONGEST_RESTART: Duration = Duration::from_secs(60);

/// Most restarts within [`RESTART_WINDOW`]. After these ojs-init does not restart the worker.
const MAX_RESTARTS: usize = 10;

/// See [`MAX_RESTARTS`].
const RESTART_WINDOW: Duration = Duration::from_secs(600);

/// The restarts of a worker, or of one of its copies, that count for their limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Restarts(VecDeque<Moment>);

impl Restarts {
    /// Adds one. False if there were too many within ten minutes.
    pub fn add(&mut self, now: Moment) -> bool {
        self.0.retain(|at| at.elapsed(now) < RESTART_WINDOW);
        if self.0.len() >= MAX_RESTARTS {
            return false;
        }
        self.0.push_back(now);
        true
    }

    /// How many count at this moment.
    pub fn count(&self, now: Moment) -> usize {
        let counts = |at: &&Moment| at.elapsed(now) < RESTART_WINDOW;
        self.0.iter().filter(counts).count()
    }
}

/// The pause before ojs-init restarts a worker after this many unsuccessful runs in a row.
pub fn restart_pause(failures: u32) -> Duration {
    doubled(FIRST_RESTART, failures, LONGEST_RESTART)
}

/// `first`, doubled for each of `failures`, at most `longest`.
pub fn doubled(first: Duration, failures: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kill_of_a_job_leaves_time_for_the_answer() {
        let seconds = Duration::from_secs;
        assert_eq!(time_to_kill(seconds(30)), seconds(28));
        assert_eq!(time_to_kill(seconds(5)), seconds(4));
        assert_eq!(time_to_kill(Duration::from_millis(500)), Duration::from_millis(400));
        assert_eq!(time_to_kill(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn restarts_come_after_1_2_4_and_so_on_up_to_60_seconds() {
        let pauses: Vec<u64> = (0..9).map(|failures| restart_pause(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(restart_pause(u32::MAX), LONGEST_RESTART);
    }
}
