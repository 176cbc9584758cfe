//! The memory gate: the used share of memory, and the acts that are forbidden above the limit.

use std::time::Duration;

use ojs_lifecycle::api::{Call, Effect, Event, LinkNotice, Notice, Snapshot};

use super::chance::Chance;
use super::plan::ms;
use super::promise::{Kept, promise};

/// Separates the chance of the memory from that of the plan, so the worlds without a gate stay
/// unchanged.
const APART: u64 = 0x3E30_4A7E;

/// The gate opens this far below its share, in points.
const OPENS_BELOW: u8 = 5;

/// Longest time from then until the gate opens; the shell of these worlds stalls now and then.
const OPENS_WITHIN: Duration = ms(1_300);

/// The share above which the gate closes in this run: none in three of four.
pub fn gate(seed: u64) -> Option<u8> {
    let mut chance = Chance::new(seed ^ APART);
    chance.one_in(4).then(|| *chance.pick(&[10, 50, 90, 99]))
}

/// The used share at each time: at the end so little that every gate opens.
pub fn course(seed: u64, horizon: u64) -> Vec<(u64, u8)> {
    let mut chance = Chance::new(seed ^ APART.rotate_left(7));
    if gate(seed).is_none() {
        return Vec::new();
    }
    let mut course: Vec<(u64, u8)> = (0..chance.below(12))
        .map(|_| (chance.below(horizon), u8::try_from(chance.below(101)).unwrap_or(0)))
        .collect();
    course.sort_unstable();
    course.push((horizon, 1));
    course
}

/// Facts and words about it.
#[derive(Debug)]
pub struct Memory {
    most: Option<u8>,
    taken: u8,
    is_closed: bool,
    /// Since when there has been enough for the gate to open.
    enough_since: Option<Duration>,
}

impl Memory {
    pub fn new(most: Option<u8>) -> Self {
        Self {
            most,
            taken: 0,
            is_closed: false,
            enough_since: None,
        }
    }

    pub fn event(&mut self, event: &Event, now: Duration) {
        if let (Event::MemoryTaken(taken), Some(most)) = (event, self.most) {
            self.taken = *taken;
            let is_enough = *taken <= most - OPENS_BELOW;
            self.enough_since = is_enough.then(|| self.enough_since.unwrap_or(now));
        }
    }

    pub fn effect(&mut self, effect: &Effect) -> Kept {
        let most = self.most.unwrap_or(100);
        if let Effect::CallBackend {
            call: Call::Fetch { .. },
            ..
        } = effect
        {
            let has_room = !self.is_closed && self.taken <= most;
            promise!("no FETCH without memory", has_room, "{self:?}");
        }
        if let Effect::Notify(Notice::Link(LinkNotice::MemoryGateClosed { .. })) = effect {
            let has_to = !self.is_closed && self.taken > most;
            promise!("the gate closes when it has to", has_to, "{self:?}");
            self.is_closed = true;
        }
        if let Effect::Notify(Notice::Link(LinkNotice::MemoryGateOpened { .. })) = effect {
            let may_open = self.is_closed && self.enough_since.is_some();
            promise!("the gate opens when it may", may_open, "{self:?}");
            self.is_closed = false;
        }
        Ok(())
    }

    /// After each fact.
    pub fn after(&self, snapshot: &Snapshot, now: Duration) -> Kept {
        let is_late = self.enough_since.is_some_and(|since| now > since + OPENS_WITHIN);
        let is_asking = !snapshot.phase.is_terminating();
        promise!(
            "the gate opens again",
            !(self.is_closed && is_late && is_asking),
            "{self:?} at {now:?}"
        );
        Ok(())
    }
}
