//! By how much one job changes the window of wake-ups.
//!
//! The steps are large while jobs give equal signs in a row, as in a new fleet. They are small
//! while the signs alternate, as around the right window. With large steps there the windows of a
//! fleet's workers would drift apart, because the streams report a job to each worker at another
//! moment. The few workers with narrow windows would then ask for each job.

/// Jobs in a row with equal signs before the next step is larger.
const LONG_ROW: u8 = 4;

/// The smallest step is this part of the window.
const MOST_PARTS: u32 = 8;

/// The step, and the signs of the last jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WindowStep {
    /// The last job was fetched too soon.
    was_too_soon: bool,
    /// Number of jobs in a row with that sign.
    in_a_row: u8,
    /// The step is the window divided by this number.
    parts: u32,
}

impl Default for WindowStep {
    fn default() -> Self {
        Self {
            was_too_soon: true,
            in_a_row: 0,
            parts: 1,
        }
    }
}

impl WindowStep {
    /// A job was fetched too soon or too late. Returns the part of the window by which the window
    /// widens or narrows.
    pub(super) fn next(&mut self, is_too_soon: bool) -> u32 {
        if is_too_soon == self.was_too_soon {
            self.in_a_row = self.in_a_row.saturating_add(1);
            if self.in_a_row >= LONG_ROW {
                self.parts = (self.parts / 2).max(1);
            }
        } else {
            self.was_too_soon = is_too_soon;
            self.in_a_row = 1;
            self.parts = (self.parts * 2).min(MOST_PARTS);
        }
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_steps_double_the_window() {
        let mut step = WindowStep::default();
        assert_eq!([(); 6].map(|()| step.next(true)), [1; 6]);
    }

    #[test]
    fn steps_become_small_while_jobs_contradict_each_other_and_large_again_behind_a_row_of_four() {
        let mut step = WindowStep::default();
        let contradicting = [false, true, false, true, false, true].map(|is_too_soon| step.next(is_too_soon));
        assert_eq!(contradicting, [2, 4, 8, 8, 8, 8]);
        assert_eq!([(); 6].map(|()| step.next(true)), [8, 8, 4, 2, 1, 1]);
    }
}
