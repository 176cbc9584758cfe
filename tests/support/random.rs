//! Chance with a seed that can be printed.

/// xorshift64*: small, and good enough to spread moments.
#[derive(Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Another sequence in each run.
    pub fn from_time() -> Self {
        let seed = super::sys::monotonic_ns() | 1;
        Self { seed, state: seed }
    }

    /// The sequence of that seed.
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Self {
            seed,
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        };
        // Seeds that are close to each other begin with numbers that are.
        random.below(2);
        random.below(2);
        random
    }

    /// The seed of this sequence.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}
