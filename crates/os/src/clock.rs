//! Reads the clock and waits for it. All other code gets the time as an argument.

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollTimeout, poll};

/// Time on the monotonic clock since a fixed point. The clock never runs backwards, and changes of
/// the date do not affect it. It goes on while the machine is suspended, because the reservations
/// at the backend run out meanwhile.
pub fn monotonic() -> Duration {
    // A sandbox may lack the first clock.
    let now = read(libc::CLOCK_BOOTTIME).or_else(|| read(libc::CLOCK_MONOTONIC));
    let now = now.unwrap_or(libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// The time of a clock, if it exists. `CLOCK_MONOTONIC` and `CLOCK_REALTIME` always do.
fn read(clock: libc::clockid_t) -> Option<libc::timespec> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    (result == 0).then_some(now)
}

/// The time of so many ticks, in which `/proc` counts.
pub fn ticks(count: u64) -> Duration {
    // SAFETY: takes a number and returns one.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100);
    Duration::from_millis(count.saturating_mul(1000) / per_second.max(1))
}

/// Time since the start of 1970 by the system's date, for comparison with the dates of others;
/// nothing before it.
pub fn since_1970() -> Duration {
    Duration::try_from(wall().duration_since(jiff::Timestamp::UNIX_EPOCH)).unwrap_or_default()
}

/// Waits; a signal ends it early. Only where no event loop runs that could miss an event meanwhile.
pub fn pause(duration: Duration) {
    let timeout = PollTimeout::try_from(duration).unwrap_or(PollTimeout::ZERO);
    // Nothing is watched: only time ends it, or a signal.
    let _ = poll(&mut [], timeout);
}

/// Sleeps until this moment on the monotonic clock. Signals do not end the sleep early.
pub fn pause_until(end: Duration) {
    loop {
        let left = end.saturating_sub(monotonic());
        if left.is_zero() || matches!(poll(&mut [], poll_timeout(left)), Err(error) if error != Errno::EINTR) {
            return;
        }
    }
}

/// Rounded up, so that the caller does not spin through the last part of a millisecond.
pub fn poll_timeout(left: Duration) -> PollTimeout {
    PollTimeout::try_from(left.saturating_add(Duration::from_millis(1))).unwrap_or(PollTimeout::MAX)
}

/// The date, for log records only. Returns the start of 1970 if the system's date is out of range.
/// jiff's `Timestamp::now` panics on that date, which adds 100 KB of error texts to the binary.
pub fn wall() -> jiff::Timestamp {
    let Some(now) = read(libc::CLOCK_REALTIME) else {
        return jiff::Timestamp::UNIX_EPOCH;
    };
    let nanos = i32::try_from(now.tv_nsec).unwrap_or(0);
    jiff::Timestamp::new(now.tv_sec, nanos).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without the clock has failed")]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_clock_that_goes_on_while_the_machine_is_suspended() {
        let boot = || {
            let now = read(libc::CLOCK_BOOTTIME).unwrap();
            Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
        };
        let before = boot();
        let now = monotonic();
        assert!((before..=boot()).contains(&now), "{now:?}");
        assert_eq!(read(-1_000_000).map(|time| time.tv_sec), None, "no such clock");
    }
}
