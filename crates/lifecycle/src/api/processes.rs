//! Assumptions about processes that both machines and the start of a child share.

use std::time::Duration;

/// How soon after an end the next look for newly adopted descendants follows: one look serves a
/// burst of ends.
pub const RESCAN_AFTER: Duration = Duration::from_millis(20);

/// Time between two looks for descendants after SIGKILL. Each look reaches one more generation, and
/// there is little time.
pub const KILL_RESCAN_AFTER: Duration = Duration::from_millis(1);

/// How long a system that has no process for us (EAGAIN, ENOMEM) is asked again: a limit that is
/// hit for a moment should not end a container.
pub const SHORTAGE_WINDOW: Duration = Duration::from_secs(10);

/// First pause before such a system is asked again; each further one is twice as long.
const FIRST_SHORTAGE: Duration = Duration::from_millis(50);

/// Longest such pause.
const LONGEST_SHORTAGE: Duration = Duration::from_secs(1);

/// The pause before the system is asked for a process again, after so many pauses.
#[must_use]
pub fn shortage_pause(pauses: u32) -> Duration {
    doubled(FIRST_SHORTAGE, pauses, LONGEST_SHORTAGE)
}

/// The part of a job's time to end, one in this many, that mode exec keeps back for its SIGKILL,
/// for the processes that it leaves behind and for the answer.
const KILL_PART: u32 = 5;

/// Most time that is kept back for these.
const MOST_FOR_KILL: Duration = Duration::from_secs(2);

/// How long after its SIGTERM a job of mode exec that has so much time gets its SIGKILL.
#[must_use]
pub fn time_to_kill(grace: Duration) -> Duration {
    grace.saturating_sub((grace / KILL_PART).min(MOST_FOR_KILL))
}

/// First pause before a worker that ended is started again.
const FIRST_RESTART: Duration = Duration::from_secs(1);

/// Longest such pause.
const LONGEST_RESTART: Duration = Duration::from_secs(60);

/// Restarts within [`RESTART_WINDOW`] after which a worker is not started again.
pub const MAX_RESTARTS: usize = 10;

/// See [`MAX_RESTARTS`].
pub const RESTART_WINDOW: Duration = Duration::from_secs(600);

/// The pause before a worker is started again after this many unsuccessful lives in a row.
#[must_use]
pub fn restart_pause(failures: u32) -> Duration {
    doubled(FIRST_RESTART, failures, LONGEST_RESTART)
}

/// `first`, doubled for each of `failures`, at most `longest`.
#[must_use]
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
