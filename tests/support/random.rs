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

    /// What makes this sequence.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}
