//! Waiting: always for a condition and always with a deadline, never for a fixed time.

use std::sync::{Arc, Mutex};
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
    sleeper: Arc<Mutex<Sleeper>>,
}

/// A thread that wants to run every [`LOOK`].
struct Sleeper {
    asleep_since: Instant,
    withheld: Duration,
}

impl Sleeper {
    /// The time withheld so far. After a time in which nobody ran, the thread that asks may be the
    /// first to run again, so a sleep that is not over yet counts as well.
    fn so_far(&self, now: Instant) -> Duration {
        let late = now.saturating_duration_since(self.asleep_since).saturating_sub(LOOK);
        self.withheld + if late >= KEPT_WAITING { late } else { Duration::ZERO }
    }
}

impl Withheld {
    /// From now on.
    pub fn measure() -> Self {
        let sleeper = Arc::new(Mutex::new(Sleeper {
            asleep_since: now(),
            withheld: Duration::ZERO,
        }));
        let watched = Arc::downgrade(&sleeper);
        std::thread::spawn(move || {
            while let Some(sleeper) = watched.upgrade() {
                {
                    let mut sleeper = sleeper.lock().unwrap();
                    let now = now();
                    sleeper.withheld = sleeper.so_far(now);
                    sleeper.asleep_since = now;
                }
                drop(sleeper);
                pause(LOOK);
            }
        });
        Self { sleeper }
    }

    /// All of it so far.
    pub fn so_far(&self) -> Duration {
        self.sleeper.lock().unwrap().so_far(now())
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
