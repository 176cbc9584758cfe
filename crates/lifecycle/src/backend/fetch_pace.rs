//! When a second FETCH is sent beside the first one. Some backends reserve jobs one by one. The
//! answer to a FETCH for many jobs then arrives late. Meanwhile capacity is free that no FETCH asks
//! for.
//!
//! Other backends answer one FETCH after the other. Two FETCHes then return no more jobs than one,
//! and cost more. ojs-init therefore compares the time per job of a FETCH that was alone with that
//! of FETCHes in flight together.

use std::time::Duration;

use crate::api::Moment;
use crate::backend::purpose::SentFetch;

/// Most FETCHes in flight at one time.
pub(crate) const MOST_FETCHES: usize = 2;

/// Most jobs that all FETCHes in flight ask for together. For a moment an answer is in memory
/// several times: its bytes, the deliveries, and the frames for the worker. That moment decides the
/// peak of memory.
pub(super) const MOST_ASKED_FOR: usize = 256;

/// A second FETCH is worth it from this time per job of a FETCH. A quicker backend answers one
/// FETCH for the whole free capacity before a second one would return.
const WORTH_IT_FROM: Duration = Duration::from_micros(300);

/// A FETCH for fewer jobs is not measured, because most of its time may be the round trip to the
/// backend.
const FEWEST_THAT_TELL: usize = 2;

/// If each job takes this many times as long with a second FETCH as without, two FETCHes return no
/// more than one.
const TIMES_AS_LONG: u32 = 2;

/// This many FETCHes in a row prove that. A single one may be slow for another reason.
const FETCHES_OF_PROOF: u8 = 4;

/// After that proof there is one FETCH at a time for this long.
const ONE_AT_A_TIME_FOR: Duration = Duration::from_secs(60);

/// How quickly the backend answers a FETCH that it has enough jobs for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FetchPace {
    /// Whether the last measured FETCH was slow.
    is_slow: bool,
    /// Time per job of the last FETCH that was alone.
    alone: Option<Duration>,
    /// When a second FETCH was last sent.
    pub(super) second_at: Option<Moment>,
    /// FETCHes in a row that a second FETCH made slower.
    slowed_down: u8,
    /// No second FETCH is sent before this moment.
    not_before: Option<Moment>,
}

impl FetchPace {
    /// Whether a second FETCH may be sent beside the first one.
    pub(super) fn is_worth_second(&self, now: Moment) -> bool {
        self.is_slow && self.not_before.is_none_or(|at| at <= now)
    }

    /// A FETCH returned `brought` jobs for a worker with this capacity. If it returned fewer than
    /// it asked for, the backend has no more.
    pub(super) fn answered(&mut self, fetch: &SentFetch, brought: usize, capacity: usize, now: Moment) {
        if !fetch.is_for_pushed {
            return;
        }
        if brought < fetch.count {
            return self.failed();
        }
        if fetch.count < fewest_for_second(capacity) {
            return;
        }
        let jobs = u32::try_from(fetch.count).unwrap_or(u32::MAX);
        let pace = fetch.at.elapsed(now) / jobs;
        self.is_slow = pace >= WORTH_IT_FROM;
        let was_alone = !fetch.is_second && self.second_at.is_none_or(|second| second < fetch.at);
        if was_alone {
            self.alone = Some(pace);
        } else {
            self.was_one_of_two(pace, now);
        }
    }

    fn was_one_of_two(&mut self, pace: Duration, now: Moment) {
        let is_slower = self.alone.is_some_and(|alone| pace >= alone * TIMES_AS_LONG);
        self.slowed_down = if is_slower { self.slowed_down + 1 } else { 0 };
        if self.slowed_down >= FETCHES_OF_PROOF {
            self.slowed_down = 0;
            self.not_before = Some(now.after(ONE_AT_A_TIME_FOR));
        }
    }

    /// A FETCH failed, or returned fewer jobs than it asked for. ojs-init then sends one at a time
    /// until a FETCH returns all that it asked for.
    pub(super) fn failed(&mut self) {
        self.is_slow = false;
    }
}

/// Most jobs that each of two FETCHes asks for: half of the capacity, so that the second one has
/// jobs to ask for.
pub(super) fn most_of_two(capacity: usize) -> usize {
    capacity.div_ceil(2).min(MOST_ASKED_FOR / MOST_FETCHES)
}

/// Fewest jobs that a second FETCH asks for: a quarter of the capacity. A FETCH for fewer would
/// cost a request and gain little.
pub(super) fn fewest_for_second(capacity: usize) -> usize {
    capacity
        .div_ceil(4)
        .clamp(FEWEST_THAT_TELL, MOST_ASKED_FOR / MOST_FETCHES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ids::WorkerId;

    const PLACES: usize = 12;

    fn at(micros: u64) -> Moment {
        Moment::new(Duration::from_micros(micros))
    }

    fn fetch(sent: Moment, count: usize, is_second: bool) -> SentFetch {
        SentFetch {
            worker: WorkerId("w".into()),
            at: sent,
            count,
            queues: None,
            pull: None,
            is_woken: false,
            is_for_pushed: true,
            is_second,
        }
    }

    /// The pace after a FETCH alone that took `micros` for each of ten jobs.
    fn after(micros: u64) -> FetchPace {
        let mut pace = FetchPace::default();
        pace.answered(&fetch(at(0), 10, false), 10, PLACES, at(micros * 10));
        pace
    }

    #[test]
    fn a_second_fetch_is_worth_it_where_each_job_takes_long() {
        assert!(!FetchPace::default().is_worth_second(at(0)));
        assert!(!after(299).is_worth_second(at(9_000)));
        assert!(after(300).is_worth_second(at(9_000)));
    }

    #[test]
    fn a_fetch_for_little_capacity_tells_nothing_and_one_that_brings_less_ends_it() {
        let mut pace = after(100);
        pace.answered(&fetch(at(10_000), 2, false), 2, PLACES, at(20_000));
        assert!(!pace.is_worth_second(at(20_000)));
        let mut pace = after(1_000);
        pace.answered(&fetch(at(10_000), 2, false), 2, PLACES, at(10_001));
        assert!(pace.is_worth_second(at(20_000)));
        pace.answered(&fetch(at(20_000), 2, false), 1, PLACES, at(30_000));
        assert!(!pace.is_worth_second(at(30_000)));
    }

    #[test]
    fn where_each_job_takes_twice_as_long_with_a_second_fetch_there_is_none_for_a_minute() {
        for (micros, is_worth_it) in [(1_900, true), (2_000, false)] {
            let mut pace = after(1_000);
            for _ in 0..FETCHES_OF_PROOF {
                assert!(pace.is_worth_second(at(10_000)));
                pace.second_at = Some(at(10_000));
                pace.answered(&fetch(at(10_000), 4, true), 4, PLACES, at(10_000 + 4 * micros));
            }
            assert_eq!(pace.is_worth_second(at(20_000)), is_worth_it);
            assert!(pace.is_worth_second(at(61_000_000)));
        }
    }

    #[test]
    fn the_first_of_two_fetches_was_not_alone() {
        let mut pace = after(1_000);
        pace.second_at = Some(at(11_000));
        pace.answered(&fetch(at(10_000), 4, false), 4, PLACES, at(50_000));
        assert_eq!(pace.alone, Some(Duration::from_millis(1)));
        pace.answered(&fetch(at(50_000), 4, false), 4, PLACES, at(58_000));
        assert_eq!(pace.alone, Some(Duration::from_millis(2)));
    }

    #[test]
    fn two_fetches_ask_for_no_more_than_one() {
        for capacity in [1, 2, 3, 8, 10, 600, usize::MAX] {
            assert!(most_of_two(capacity) * MOST_FETCHES <= MOST_ASKED_FOR.min(capacity.saturating_add(1)));
            assert!(fewest_for_second(capacity) >= FEWEST_THAT_TELL);
        }
    }
}
