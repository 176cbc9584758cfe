//! The time after which a request hangs, learned from the backend's recent answer times.

use std::time::Duration;

use crate::api::Moment;

/// Times after which a request hangs. Steps are enough because the times are rough.
const HANGS_AFTER: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
    Duration::from_millis(3200),
];

/// The time after which a request hangs before the backend has answered any request.
const HANGS_AFTER_AT_FIRST: Duration = Duration::from_secs(1);

/// A request hangs only after this many times the duration of recent slow answers.
const SLOWER_THAN_USUAL: u32 = 4;

/// After this many answers in a row that the shorter time would have covered, the time becomes
/// shorter.
const QUICK_ANSWERS: u8 = 16;

/// Recent answer times of the backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct AnswerTimes {
    /// An index of [`HANGS_AFTER`]; none: the backend has answered no request yet.
    step: Option<usize>,
    /// Answers in a row that the step before would have covered.
    quick: u8,
    /// When the backend last answered.
    pub(super) answered_at: Option<Moment>,
}

impl AnswerTimes {
    /// An answer arrived after this long. One slow answer lengthens the time at once, many quick
    /// ones shorten it.
    pub(super) fn took(&mut self, took: Duration) {
        let slow = took.saturating_mul(SLOWER_THAN_USUAL);
        let wanted = HANGS_AFTER.iter().take_while(|after| **after < slow).count();
        let wanted = wanted.min(HANGS_AFTER.len() - 1);
        match self.step {
            Some(step) if wanted < step => {
                self.quick += 1;
                if self.quick >= QUICK_ANSWERS {
                    self.quick = 0;
                    self.step = Some(step - 1);
                }
            }
            Some(_) | None => {
                self.quick = 0;
                self.step = Some(wanted);
            }
        }
    }

    /// How long a request may be without an answer before it hangs.
    pub(super) fn hangs_after(&self) -> Duration {
        let known = self.step.and_then(|step| HANGS_AFTER.get(step));
        known.copied().unwrap_or(HANGS_AFTER_AT_FIRST)
    }

    /// Whether the backend has answered any request since `sent_at`. If not, the backend is away
    /// and no single request hangs.
    pub(super) fn has_answered_since(&self, sent_at: Moment) -> bool {
        self.answered_at.is_some_and(|at| at > sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_second_is_granted_while_nothing_was_answered_and_then_four_times_what_the_slow_answers_take() {
        let mut times = AnswerTimes::default();
        assert_eq!(times.hangs_after(), ms(1000));
        times.took(ms(3));
        assert_eq!(times.hangs_after(), ms(100));
        times.took(ms(60));
        assert_eq!(times.hangs_after(), ms(400));
        times.took(Duration::MAX);
        assert_eq!(times.hangs_after(), ms(3200));
    }

    #[test]
    fn one_slow_answer_counts_until_sixteen_quick_ones_for_each_step() {
        let mut times = AnswerTimes::default();
        times.took(ms(100));
        assert_eq!(times.hangs_after(), ms(400));
        for _ in 0..15 {
            times.took(ms(1));
        }
        assert_eq!(times.hangs_after(), ms(400));
        times.took(ms(100));
        for _ in 0..16 {
            times.took(ms(1));
        }
        assert_eq!(times.hangs_after(), ms(200));
        for _ in 0..32 {
            times.took(ms(1));
        }
        assert_eq!(times.hangs_after(), ms(100));
    }

    #[test]
    fn only_an_answer_that_came_after_a_request_shows_that_the_backend_is_there() {
        let at = |seconds| Moment::new(Duration::from_secs(seconds));
        let mut times = AnswerTimes::default();
        assert!(!times.has_answered_since(at(1)));
        times.answered_at = Some(at(1));
        assert!(!times.has_answered_since(at(1)));
        assert!(times.has_answered_since(at(0)));
    }
}
