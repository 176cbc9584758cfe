//! Chance from a seed: one seed always draws one sequence.

use std::time::Duration;

/// xorshift64*.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        // The state must not be 0, and neighbouring seeds must not draw alike.
        let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    /// A number below `end`, 0 when that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end.max(1)
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// Any time up to `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        longest.mul_f64(self.share())
    }

    /// The time to the next event of a Poisson process with this many in a second.
    pub fn until_next(&mut self, in_a_second: f64) -> Duration {
        Duration::from_secs_f64(-self.share().ln() / in_a_second)
    }

    /// More than 0 and less than 1.
    fn share(&mut self) -> f64 {
        const OF: u32 = 1 << 30;
        (self.below(u64::from(OF)) as f64 + 0.5) / f64::from(OF)
    }
}
