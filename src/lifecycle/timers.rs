//! Deadlines, each with its reason, in one table. No machine keeps a deadline anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use crate::lifecycle::api::Moment;

/// When each timer is due. `T` names them; the one that sorts first goes first when two are due at the same moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Timers<T: Ord> {
    due: BTreeMap<T, Moment>,
    order: BTreeSet<(Moment, T)>,
}

impl<T: Ord> Default for Timers<T> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<T: Ord + Copy> Timers<T> {
    /// Sets `timer` to `due`, whatever it was before.
    pub fn arm(&mut self, timer: T, due: Moment) {
        self.cancel(timer);
        self.due.insert(timer, due);
        self.order.insert((due, timer));
    }

    /// Sets `timer` to `due` unless it is due earlier already.
    pub fn arm_at_latest(&mut self, timer: T, due: Moment) {
        if self.deadline_of(timer).is_none_or(|before| due < before) {
            self.arm(timer, due);
        }
    }

    /// Clears one timer.
    pub fn cancel(&mut self, timer: T) {
        if let Some(due) = self.due.remove(&timer) {
            self.order.remove(&(due, timer));
        }
    }

    /// Clears every timer.
    pub fn clear(&mut self) {
        self.due.clear();
        self.order.clear();
    }

    /// The next timer and when it is due.
    #[must_use]
    pub fn next(&self) -> Option<(Moment, T)> {
        self.order.first().copied()
    }

    /// Clears and returns a timer that is due at `now`.
    pub fn take_due(&mut self, now: Moment) -> Option<T> {
        let (due, timer) = self.next()?;
        if due > now {
            return None;
        }
        self.cancel(timer);
        Some(timer)
    }

    /// When this timer is due, if it is armed.
    #[must_use]
    pub fn deadline_of(&self, timer: T) -> Option<Moment> {
        self.due.get(&timer).copied()
    }

    /// Every armed timer.
    pub fn iter(&self) -> impl Iterator<Item = (T, Moment)> {
        self.due.iter().map(|(timer, due)| (*timer, *due))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    #[test]
    fn the_earliest_goes_first_and_the_name_decides_between_equals() {
        let mut timers = Timers::default();
        for (name, due) in [('c', 2), ('b', 1), ('a', 1)] {
            timers.arm(name, at(due));
        }
        assert_eq!(timers.take_due(at(0)), None);
        assert_eq!(timers.take_due(at(2)), Some('a'));
        assert_eq!(timers.take_due(at(2)), Some('b'));
        assert_eq!(timers.next(), Some((at(2), 'c')));
    }

    #[test]
    fn a_timer_that_is_armed_again_is_due_once() {
        let mut timers = Timers::default();
        timers.arm('a', at(1));
        timers.arm('a', at(3));
        timers.arm_at_latest('a', at(5));
        assert_eq!(timers.next(), Some((at(3), 'a')));
        timers.arm_at_latest('a', at(2));
        assert_eq!(timers.take_due(at(9)), Some('a'));
        assert_eq!(timers.take_due(at(9)), None);
    }
}
