//! Waiting: always for a condition and always with a deadline, never for a fixed time.

use std::time::{Duration, Instant};

/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(1);

/// The time now; the only place of the tests that asks the clock for an `Instant`.
#[expect(clippy::disallowed_methods, reason = "tests measure real processes in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Leaves the processor for that long.
#[expect(
    clippy::disallowed_methods,
    reason = "the one pause of the tests, used between two looks at a condition"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Looks until `condition` holds; false when `patience` is over first.
pub fn wait_until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = now() + patience;
    loop {
        if condition() {
            return true;
        }
        if now() >= deadline {
            // One last look: the machine may have been away for longer than our patience.
            return condition();
        }
        pause(LOOK);
    }
}

/// As `wait_until`, for a condition that yields something.
pub fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut found = None;
    wait_until(patience, || {
        found = look();
        found.is_some()
    });
    found
}

/// Keeps the processor busy for that long: for moments shorter than a sleep can be.
pub fn spin(duration: Duration) {
    let end = now() + duration;
    while now() < end {
        std::hint::spin_loop();
    }
}
