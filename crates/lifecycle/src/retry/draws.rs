//! The numbers of requests, and the random part of pauses, drawn in one order.

use std::time::Duration;

use crate::api::ids::CallId;
use crate::api::{Failure, Phase};
use crate::retry::jitter::Jitter;
use crate::retry::patience::{LONGEST_RETRY_AT_THE_END, LONGEST_RETRY_IN_A_DRAIN};
use crate::retry::state::asked_for;

/// The number of the last request, and chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Draws {
    last_call: u64,
    /// Chance.
    pub jitter: Jitter,
}

impl Default for Draws {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Draws {
    /// The draws of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            last_call: 0,
            jitter: Jitter::new(seed),
        }
    }

    /// The number of the next request.
    pub fn call(&mut self) -> CallId {
        self.last_call += 1;
        CallId(self.last_call)
    }

    /// How long to wait before a request is repeated that has failed `before` times, and like this
    /// now.
    pub fn retry_pause(&mut self, before: u32, failure: Failure, phase: Phase) -> Duration {
        let asked_for = asked_for(failure);
        let pause = self.jitter.retry_pause(before, asked_for);
        match phase {
            Phase::Running | Phase::Quiet => pause,
            Phase::Delay | Phase::Drain => pause.min(LONGEST_RETRY_IN_A_DRAIN.max(asked_for.unwrap_or_default())),
            Phase::EndGame | Phase::Stop | Phase::Exited => pause.min(LONGEST_RETRY_AT_THE_END),
        }
    }
}
