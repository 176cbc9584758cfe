//! Deadlines, each with its reason, in one table. No machine keeps a deadline anywhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::mem::{Discriminant, discriminant};

use crate::api::Moment;

/// When each timer is due. `T`, an enum, names the timers. If two are due at one moment, the one
/// that sorts first is handled first.
#[derive(Debug, Clone)]
pub struct Timers<T: Ord> {
    due: BTreeMap<T, Moment>,
    order: BTreeSet<(Moment, T)>,
    /// Number of armed timers of each variant that was ever armed. A dozen timers are cleared for
    /// each job, and few of their kinds are ever armed.
    kinds: Vec<(Discriminant<T>, usize)>,
}

/// The other fields follow from the due times, or from former timers.
impl<T: Ord> PartialEq for Timers<T> {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl<T: Ord> Eq for Timers<T> {}

impl<T: Ord + Hash> Hash for Timers<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.due.hash(state);
    }
}

impl<T: Ord> Default for Timers<T> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            order: BTreeSet::new(),
            kinds: Vec::new(),
        }
    }
}

impl<T: Ord + Copy> Timers<T> {
    /// Sets `timer` to `due`, and replaces its former time.
    pub fn arm(&mut self, timer: T, due: Moment) {
        self.cancel(timer);
        self.due.insert(timer, due);
        self.order.insert((due, timer));
        match self.armed_of_kind(timer) {
            Some(armed) => *armed += 1,
            None => self.kinds.push((discriminant(&timer), 1)),
        }
    }

    /// Sets `timer` to `due` unless it is due earlier already.
    pub fn arm_at_latest(&mut self, timer: T, due: Moment) {
        if self.deadline_of(timer).is_none_or(|before| due < before) {
            self.arm(timer, due);
        }
    }

    /// Makes this timer due at `due` if it is armed and later. Returns whether it is armed.
    pub fn bring_forward(&mut self, timer: T, due: Moment) -> bool {
        let is_armed = self.is_armed(timer);
        if is_armed {
            self.arm_at_latest(timer, due);
        }
        is_armed
    }

    /// Clears one timer.
    pub fn cancel(&mut self, timer: T) {
        if self.armed_of_kind(timer).is_none_or(|armed| *armed == 0) {
            return;
        }
        if let Some(due) = self.due.remove(&timer) {
            self.order.remove(&(due, timer));
            if let Some(armed) = self.armed_of_kind(timer) {
                *armed -= 1;
            }
        }
    }

    /// Variants are few, so a walk through them is cheaper than one look into a map.
    fn armed_of_kind(&mut self, timer: T) -> Option<&mut usize> {
        let kind = discriminant(&timer);
        let mut kinds = self.kinds.iter_mut();
        kinds.find(|(known, _)| *known == kind).map(|(_, armed)| armed)
    }

    /// Clears every timer.
    pub fn clear(&mut self) {
        while let Some((_, timer)) = self.next() {
            self.cancel(timer);
        }
    }

    /// The next timer and when it is due.
    pub fn next(&self) -> Option<(Moment, T)> {
        self.order.first().copied()
    }

    /// The next timer under a name of the caller, and when it is due.
    pub fn next_as<U>(&self, name: fn(T) -> U) -> Option<(Moment, U)> {
        self.next().map(|(due, timer)| (due, name(timer)))
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
    pub fn deadline_of(&self, timer: T) -> Option<Moment> {
        self.due.get(&timer).copied()
    }

    /// Whether this timer is armed.
    pub fn is_armed(&self, timer: T) -> bool {
        self.due.contains_key(&timer)
    }

    /// Number of armed timers.
    pub fn count(&self) -> usize {
        self.due.len()
    }

    /// Every armed timer.
    pub fn iter(&self) -> impl Iterator<Item = (T, Moment)> {
        self.due.iter().map(|(timer, due)| (*timer, *due))
    }

    /// Every armed timer under a name of the caller.
    pub fn iter_as<U>(&self, name: fn(T) -> U) -> impl Iterator<Item = (U, Moment)> {
        self.iter().map(move |(timer, due)| (name(timer), due))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    enum Name {
        A,
        B(u8),
        C(u8),
    }

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    #[test]
    fn the_earliest_goes_first_and_the_name_decides_between_equals() {
        let mut timers = Timers::default();
        for (name, due) in [(Name::C(1), 2), (Name::B(1), 1), (Name::A, 1)] {
            timers.arm(name, at(due));
        }
        assert_eq!(timers.take_due(at(0)), None);
        assert_eq!(timers.take_due(at(2)), Some(Name::A));
        assert_eq!(timers.take_due(at(2)), Some(Name::B(1)));
        assert_eq!(timers.next(), Some((at(2), Name::C(1))));
    }

    #[test]
    fn a_timer_that_is_armed_again_is_due_once() {
        let mut timers = Timers::default();
        timers.arm(Name::A, at(1));
        timers.arm(Name::A, at(3));
        timers.arm_at_latest(Name::A, at(5));
        assert_eq!(timers.next(), Some((at(3), Name::A)));
        timers.arm_at_latest(Name::A, at(2));
        assert_eq!(timers.take_due(at(9)), Some(Name::A));
        assert_eq!(timers.take_due(at(9)), None);
    }

    fn any_name() -> impl Strategy<Value = Name> {
        prop_oneof![Just(Name::A), (0..3_u8).prop_map(Name::B), (0..3_u8).prop_map(Name::C)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_was_armed_and_cleared_each_timer_is_there_or_not_as_in_a_plain_map(
            steps in prop::collection::vec((0..5_u8, any_name(), 0..4_u64), 0..40),
        ) {
            let mut timers = Timers::default();
            let mut plain = BTreeMap::new();
            for (what, name, second) in steps {
                match what {
                    0 | 1 => {
                        timers.arm(name, at(second));
                        plain.insert(name, at(second));
                    }
                    2 => {
                        timers.cancel(name);
                        plain.remove(&name);
                    }
                    3 => {
                        let due = plain.iter().filter(|(_, due)| **due <= at(second)).min_by_key(|(name, due)| (**due, **name));
                        let due = due.map(|(name, _)| *name);
                        prop_assert_eq!(timers.take_due(at(second)), due);
                        due.map(|name| plain.remove(&name));
                    }
                    _ if second == 0 => {
                        timers.clear();
                        plain.clear();
                    }
                    _ => prop_assert_eq!(timers.deadline_of(name), plain.get(&name).copied()),
                }
                prop_assert!(timers.iter().eq(plain.iter().map(|(name, due)| (*name, *due))));
                prop_assert_eq!(timers.next(), plain.iter().map(|(name, due)| (*due, *name)).min());
            }
        }
    }
}
