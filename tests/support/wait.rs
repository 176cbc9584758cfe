//! Waiting: always for a condition and always with a deadline, never for a fixed time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

/// How much later than it should be woken whoever sleeps for [`LOOK`] counts as kept waiting by the
/// machine.
const KEPT_WAITING: Duration = Duration::from_millis(2);

/// Measures how long the machine kept whoever wanted to run from running: what has to be over by
/// some time cannot be asked of processes that do not get the processor. On a machine that has
/// nothing else to do it is nothing.
pub struct Withheld {
    micros: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Withheld {
    /// From now on.
    pub fn measure() -> Self {
        let (micros, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (theirs, ends) = (Arc::clone(&micros), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let began = now();
                pause(LOOK);
                let late = began.elapsed().saturating_sub(LOOK);
                if late >= KEPT_WAITING {
                    theirs.fetch_add(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                }
            }
        });
        Self { micros, is_over }
    }

    /// All of it so far.
    pub fn so_far(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Measures what has to be over by some time: what passes, less what the machine withheld in it.
pub struct Stopwatch {
    began: Instant,
    withheld: Withheld,
}

impl Stopwatch {
    /// From now on.
    pub fn start() -> Self {
        let began = now();
        let withheld = Withheld::measure();
        Self { began, withheld }
    }

    /// All that passed so far.
    pub fn real(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time that passed so far, less what the machine withheld.
    pub fn elapsed(&self) -> Duration {
        self.real().saturating_sub(self.withheld.so_far())
    }

    /// The time that passed until this moment, less what the machine withheld so far.
    pub fn until(&self, moment: Instant) -> Duration {
        moment
            .saturating_duration_since(self.began)
            .saturating_sub(self.withheld.so_far())
    }
}
