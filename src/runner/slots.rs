//! When a copy of the worker is started, and when the copies have ended. Time is passed in; nothing
//! here starts or ends a process.

use std::time::Duration;

use ojs_lifecycle::api::{Moment, Restart, Restarts, restart_pause};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// A copy that ran for so long is started again at once.
const STEADY: Duration = Duration::from_secs(60);

/// Consequence of the end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCopy {
    /// The copy is not started again, and the others continue.
    Over,
    /// The copy is started again after this pause.
    StartsAgain(Duration),
    /// The worker ends.
    EndAll,
}

/// The copies, by index. `P` names a process.
#[derive(Debug)]
pub struct CopySlots<P> {
    slots: Vec<Slot<P>>,
    restart: Restart,
    is_ending: bool,
    /// The worker ends now, whatever runs.
    is_given_up: bool,
    /// The first status that is no clean end.
    status: u8,
}

#[derive(Debug, Clone)]
struct Slot<P> {
    state: State<P>,
    /// Consecutive lives shorter than [`STEADY`].
    short_lives: u32,
    restarts: Restarts,
}

#[derive(Debug, Clone, Copy)]
enum State<P> {
    /// To be started at this moment; none: at once.
    Waits(Option<Moment>),
    Runs {
        process: P,
        since: Moment,
    },
    Over,
}

impl<P: Copy + PartialEq> CopySlots<P> {
    /// `count` copies, all to be started at once.
    pub fn new(count: u32, restart: Restart) -> Self {
        let slot = |_| Slot {
            state: State::Waits(None),
            short_lives: 0,
            restarts: Restarts::default(),
        };
        Self {
            slots: (0..count).map(slot).collect(),
            restart,
            is_ending: false,
            is_given_up: false,
            status: 0,
        }
    }

    /// From now on no copy is started.
    pub fn end(&mut self) {
        self.is_ending = true;
        for slot in &mut self.slots {
            if matches!(slot.state, State::Waits(_)) {
                slot.state = State::Over;
            }
        }
    }

    /// A copy cannot be started at all: the worker ends.
    pub fn give_up(&mut self) {
        self.end();
        self.is_given_up = true;
    }

    /// The next copy to start now.
    pub fn due(&self, now: Moment) -> Option<u32> {
        let is_due = |slot: &Slot<P>| matches!(slot.state, State::Waits(at) if at.is_none_or(|at| at <= now));
        let index = self.slots.iter().position(is_due)?;
        u32::try_from(index).ok()
    }

    /// When the next copy is to be started.
    pub fn next_start(&self) -> Option<Moment> {
        let moments = self.slots.iter().filter_map(|slot| match slot.state {
            State::Waits(at) => at,
            State::Runs { .. } | State::Over => None,
        });
        moments.min()
    }

    /// The processes that run.
    pub fn running(&self) -> Vec<P> {
        let processes = self.slots.iter().filter_map(|slot| match slot.state {
            State::Runs { process, .. } => Some(process),
            State::Waits(_) | State::Over => None,
        });
        processes.collect()
    }

    /// A copy was started.
    pub fn started(&mut self, index: u32, process: P, since: Moment) {
        if let Some(slot) = self.slot(index) {
            slot.state = State::Runs { process, since };
        }
    }

    /// A copy could not be started. Returns the pause before the next attempt, as after a short
    /// life.
    pub fn not_started(&mut self, index: u32, now: Moment) -> Duration {
        let Some(slot) = self.slot(index) else {
            return Duration::ZERO;
        };
        let pause = restart_pause(slot.short_lives);
        slot.short_lives = slot.short_lives.saturating_add(1);
        slot.state = State::Waits(Some(now.after(pause)));
        pause
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot<P>> {
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// A copy has ended. Returns its index, for the log, and the consequence.
    pub fn ended(&mut self, process: P, ended: Ended, now: Moment) -> Option<(u32, AfterCopy)> {
        let mut slots = (0..).zip(&mut self.slots);
        let (index, slot, since) = slots.find_map(|(index, slot)| match slot.state {
            State::Runs { process: of, since } if of == process => Some((index, slot, since)),
            State::Runs { .. } | State::Waits(_) | State::Over => None,
        })?;
        slot.state = State::Over;
        if self.is_ending {
            let is_clean = ended.status() == 0 || is_after_sigterm(ended);
            if !is_clean && self.status == 0 {
                self.status = ended.status();
            }
            return Some((index, AfterCopy::Over));
        }
        if self.restart == Restart::OnFailure && ended == Ended::Exited(0) {
            return Some((index, AfterCopy::Over));
        }
        if self.restart == Restart::Never || !slot.restarts.add(now) {
            self.status = ended.status();
            self.give_up();
            return Some((index, AfterCopy::EndAll));
        }
        let is_steady = since.elapsed(now) >= STEADY;
        slot.short_lives = if is_steady {
            0
        } else {
            slot.short_lives.saturating_add(1)
        };
        let pause = slot.short_lives.checked_sub(1).map_or(Duration::ZERO, restart_pause);
        slot.state = State::Waits(Some(now.after(pause)));
        Some((index, AfterCopy::StartsAgain(pause)))
    }

    /// The worker's status after its end: 0 if each copy ended cleanly.
    pub fn result(&self) -> Option<u8> {
        let is_over = |slot: &Slot<P>| matches!(slot.state, State::Over);
        (self.is_given_up || self.slots.iter().all(is_over)).then_some(self.status)
    }
}

/// The status of a process without a handler for SIGTERM, or of a shell in front of it.
fn is_after_sigterm(ended: Ended) -> bool {
    ended == Ended::Signalled(Signal::TERM) || ended.status() == Ended::Signalled(Signal::TERM).status()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Ended = Ended::Exited(3);
    const CLEAN: Ended = Ended::Exited(0);

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    /// Two copies that run since the second 0: processes 10 and 11.
    fn two(restart: Restart) -> CopySlots<u32> {
        let mut slots = CopySlots::new(2, restart);
        while let Some(index) = slots.due(at(0)) {
            slots.started(index, 10 + index, at(0));
        }
        assert_eq!(slots.running(), [10, 11]);
        slots
    }

    fn after(slots: &mut CopySlots<u32>, process: u32, ended: Ended, now: Moment) -> AfterCopy {
        let (index, after) = slots.ended(process, ended, now).unwrap();
        assert_eq!(10 + index, process);
        after
    }

    #[test]
    fn a_copy_that_ends_is_started_again_while_the_others_go_on() {
        for ended in [FAILED, CLEAN, Ended::Signalled(Signal::KILL)] {
            let mut slots = two(Restart::Hung);
            assert_eq!(
                after(&mut slots, 11, ended, at(5)),
                AfterCopy::StartsAgain(Duration::from_secs(1))
            );
            assert_eq!((slots.running(), slots.due(at(5))), (vec![10], None));
            assert_eq!((slots.next_start(), slots.due(at(6))), (Some(at(6)), Some(1)));
        }
    }

    #[test]
    fn a_copy_that_ran_for_a_minute_is_started_again_at_once() {
        let mut slots = two(Restart::Hung);
        assert_eq!(
            after(&mut slots, 10, FAILED, at(60)),
            AfterCopy::StartsAgain(Duration::ZERO)
        );
        assert_eq!(slots.due(at(60)), Some(0));
    }

    #[test]
    fn pauses_grow_and_after_ten_restarts_within_ten_minutes_the_worker_ends_with_the_status_of_that_copy() {
        let mut slots = two(Restart::Always);
        let mut pauses = Vec::new();
        while let AfterCopy::StartsAgain(pause) = after(&mut slots, 10, FAILED, at(599)) {
            pauses.push(pause.as_secs());
            slots.started(0, 10, at(599));
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!((slots.running(), slots.result()), (vec![11], Some(3)));
    }

    #[test]
    fn a_copy_that_cannot_be_started_is_tried_after_pauses_that_grow_and_the_others_go_on() {
        let mut slots = two(Restart::Hung);
        after(&mut slots, 10, FAILED, at(5));
        let pauses: Vec<u64> = (0..20).map(|_| slots.not_started(0, at(5)).as_secs()).collect();
        assert_eq!(pauses.get(..7), Some(&[2, 4, 8, 16, 32, 60, 60][..]));
        assert_eq!((slots.running(), slots.result()), (vec![11], None));
        assert_eq!((slots.due(at(64)), slots.due(at(65))), (None, Some(0)));
    }

    #[test]
    fn restarts_that_are_ten_minutes_old_do_not_count() {
        let mut slots = two(Restart::Always);
        for minute in 1..40 {
            let ended = after(&mut slots, 10, CLEAN, at(60 * minute));
            assert_eq!(ended, AfterCopy::StartsAgain(Duration::ZERO), "minute {minute}");
            slots.started(0, 10, at(60 * minute));
        }
    }

    #[test]
    fn with_restart_never_the_end_of_a_copy_is_the_end_of_the_worker() {
        for (ended, status) in [(FAILED, 3), (CLEAN, 0)] {
            let mut slots = two(Restart::Never);
            assert_eq!(after(&mut slots, 10, ended, at(5)), AfterCopy::EndAll);
            assert_eq!(slots.result(), Some(status));
        }
    }

    #[test]
    fn with_restart_on_failure_a_copy_that_ends_cleanly_is_over_and_so_is_the_worker_after_the_last_one() {
        let mut slots = two(Restart::OnFailure);
        assert_eq!(after(&mut slots, 10, CLEAN, at(5)), AfterCopy::Over);
        assert_eq!((slots.running(), slots.result()), (vec![11], None));
        assert!(matches!(
            after(&mut slots, 11, FAILED, at(5)),
            AfterCopy::StartsAgain(_)
        ));
        slots.started(1, 11, at(6));
        assert_eq!(after(&mut slots, 11, CLEAN, at(7)), AfterCopy::Over);
        assert_eq!(slots.result(), Some(0));
    }

    #[test]
    fn in_a_shutdown_no_copy_is_started_again_and_the_end_is_clean_if_each_one_is() {
        let mut slots = two(Restart::Always);
        assert!(matches!(
            after(&mut slots, 10, FAILED, at(5)),
            AfterCopy::StartsAgain(_)
        ));
        slots.end();
        assert_eq!(
            (slots.due(at(99)), slots.next_start(), slots.result()),
            (None, None, None)
        );
        assert_eq!(after(&mut slots, 11, Ended::Exited(143), at(5)), AfterCopy::Over);
        assert_eq!(slots.result(), Some(0));
        let mut slots = two(Restart::Always);
        slots.end();
        assert_eq!(after(&mut slots, 10, FAILED, at(5)), AfterCopy::Over);
        assert_eq!(after(&mut slots, 11, CLEAN, at(5)), AfterCopy::Over);
        assert_eq!(slots.result(), Some(3));
    }
}
