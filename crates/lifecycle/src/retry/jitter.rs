//! How long to wait before something is tried again.

use std::time::Duration;

use crate::api::doubled;

/// First pause before a request to the backend is repeated.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// Longest pause of a retry, even if the backend asks for more.
pub const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Pseudo-random numbers from a seed (xorshift64*): pauses of many workers must not fall together,
/// and nothing here has to be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Jitter(u64);

impl Jitter {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0, and neighbouring seeds shall not give neighbouring numbers.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The pause before a request that has failed this often is repeated. At least half of the
    /// doubled pause is fixed, the rest is random. The pause is never less than the backend asked
    /// for, and never more than 30 s.
    pub fn retry_pause(&mut self, failures: u32, asked_for: Option<Duration>) -> Duration {
        let pause = doubled(FIRST_RETRY, failures, LONGEST_RETRY);
        let pause = self.below(pause, pause / 2);
        asked_for.map_or(pause, |least| pause.max(least)).min(LONGEST_RETRY)
    }

    /// A pause of at most `longest` and at least three quarters of it.
    pub fn poll_pause(&mut self, longest: Duration) -> Duration {
        self.below(longest, longest / 4)
    }

    /// Any pause of at most `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        self.below(longest, longest)
    }

    /// A number from 0 to 1,023.
    pub fn chance(&mut self) -> u64 {
        u64::from(self.next() % 1024)
    }

    /// `longest` less a random part of `spread`.
    fn below(&mut self, longest: Duration, spread: Duration) -> Duration {
        longest.saturating_sub(spread.saturating_mul(self.next() % 1024) / 1024)
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        u32::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_stay_between_half_and_all_of_a_pause_that_doubles_up_to_30_seconds() {
        let mut jitter = Jitter::new(7);
        for failures in 0..40 {
            let whole = doubled(FIRST_RETRY, failures, LONGEST_RETRY);
            let pause = jitter.retry_pause(failures, None);
            assert!(whole / 2 <= pause && pause <= whole, "{failures}: {pause:?}");
        }
    }

    #[test]
    fn what_the_backend_asks_for_is_the_least_but_30_seconds_the_most() {
        let mut jitter = Jitter::new(7);
        assert_eq!(
            jitter.retry_pause(0, Some(Duration::from_secs(7))),
            Duration::from_secs(7)
        );
        assert_eq!(jitter.retry_pause(0, Some(Duration::from_secs(7000))), LONGEST_RETRY);
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses_and_another_seed_others() {
        let pauses = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..20)
                .map(|_| jitter.poll_pause(Duration::from_secs(1)))
                .collect::<Vec<_>>()
        };
        assert_eq!(pauses(3), pauses(3));
        assert_ne!(pauses(3), pauses(4));
        assert!(pauses(3).iter().all(|pause| (750..=1000).contains(&pause.as_millis())));
    }
}
