//! Every deadline in one table.

use crate::lifecycle::time::Moment;

/// What can become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// When has the child had all the time that it gets after a stop was asked for?
    Deadline,
    /// When is it time to look for descendants that became ours since the last look?
    Rescan,
    /// When do we stop waiting for processes that SIGKILL did not end?
    GiveUp,
}

impl Timer {
    /// All of them; the earlier one goes first when two are due at the same moment.
    const ALL: [Self; 3] = [Self::GiveUp, Self::Deadline, Self::Rescan];
}

/// When each timer is due; one slot each.
#[derive(Debug, Clone, Default)]
pub struct Timers {
    deadline: Option<Moment>,
    rescan: Option<Moment>,
    give_up: Option<Moment>,
}

impl Timers {
    /// Sets `timer` to `due`, whatever it was before.
    pub fn arm(&mut self, timer: Timer, due: Moment) {
        *self.slot(timer) = Some(due);
    }

    /// Sets `timer` to `due` unless it is due earlier already.
    pub fn arm_at_latest(&mut self, timer: Timer, due: Moment) {
        let slot = self.slot(timer);
        *slot = Some(slot.map_or(due, |before| before.min(due)));
    }

    /// Clears every timer.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The next timer and when it is due.
    #[must_use]
    pub fn next(&self) -> Option<(Moment, Timer)> {
        Timer::ALL
            .into_iter()
            .filter_map(|timer| self.due(timer).map(|due| (due, timer)))
            .min_by_key(|(due, _)| *due)
    }

    /// Clears and returns a timer that is due at `now`.
    pub fn take_due(&mut self, now: Moment) -> Option<Timer> {
        let (due, timer) = self.next()?;
        if due > now {
            return None;
        }
        *self.slot(timer) = None;
        Some(timer)
    }

    /// When this timer is due, if it is armed.
    #[must_use]
    pub fn due(&self, timer: Timer) -> Option<Moment> {
        match timer {
            Timer::Deadline => self.deadline,
            Timer::Rescan => self.rescan,
            Timer::GiveUp => self.give_up,
        }
    }

    fn slot(&mut self, timer: Timer) -> &mut Option<Moment> {
        match timer {
            Timer::Deadline => &mut self.deadline,
            Timer::Rescan => &mut self.rescan,
            Timer::GiveUp => &mut self.give_up,
        }
    }
}
