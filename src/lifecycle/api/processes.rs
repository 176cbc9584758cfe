//! What both machines and the start of a child take for granted about processes.

use std::time::Duration;

/// How soon after an end the next look for newly adopted descendants follows: one look serves a burst of ends.
pub const RESCAN_AFTER: Duration = Duration::from_millis(20);

/// The same once SIGKILL was sent: each look reaches one more generation, and there is little time.
pub const KILL_RESCAN_AFTER: Duration = Duration::from_millis(1);

/// How long a system that has no process for us (EAGAIN, ENOMEM) is asked again: a limit that is hit for a moment should not
/// end a container.
pub const SHORTAGE_WINDOW: Duration = Duration::from_secs(10);

/// First pause before such a system is asked again; each further one is twice as long.
const FIRST_SHORTAGE: Duration = Duration::from_millis(50);

/// Longest such pause.
const LONGEST_SHORTAGE: Duration = Duration::from_secs(1);

/// The pause before the system is asked for a process again, after so many pauses.
#[must_use]
pub fn shortage_pause(pauses: u32) -> Duration {
    let factor = 1_u32.checked_shl(pauses).unwrap_or(u32::MAX);
    FIRST_SHORTAGE.saturating_mul(factor).min(LONGEST_SHORTAGE)
}
