//! Two FETCHes that are on their way at one time, to a backend that was slow before.

use std::time::Duration;

use ojs_lifecycle::api::Call;
use ojs_lifecycle::api::ids::{CallId, HolderId, JobId};

use super::promises::Kind;
use super::world::{Action, Answer, Budget, Cast, Kin, World};
use super::{NOTHING, options, world_up_to};

/// Most states of one world that are looked at: from each state a dozen others follow.
const MOST_STATES_OF_TWO_FETCHES: usize = 4_000;

/// Delay of the backend's first answer: slow for each of four jobs.
const SLOW: Duration = Duration::from_millis(10);

impl Cast {
    /// With a backend that was never slow.
    pub fn new(holders: u8, each: u32, kin: Kin) -> Self {
        let is_slow = false;
        Self {
            holders,
            each,
            kin,
            is_slow,
        }
    }
}

impl World {
    /// The first FETCH is answered slowly, and its jobs are done.
    pub fn after_slow_answers(&mut self) {
        if !self.cast.is_slow {
            return;
        }
        let each = u8::try_from(self.cast.each).unwrap_or(u8::MAX);
        self.left.jobs += each;
        self.now = self.now.after(SLOW);
        for fetch in self.requests(|call| matches!(call, Call::Fetch { .. })) {
            self.take(&Action::Answer(fetch, Answer::Jobs(each)));
        }
        let done: Vec<(HolderId, JobId)> = self
            .jobs
            .iter()
            .filter_map(|(job, fate)| Some((fate.holder?, job.clone())))
            .collect();
        for (holder, job) in done {
            self.take(&Action::Worker(holder, job, Kind::Ack));
        }
        for report in self.requests(|call| matches!(call, Call::Report { .. })) {
            self.take(&Action::Answer(report, Answer::Good));
        }
        if self.fetch_counts().count() != 2 {
            self.break_promise("there are no two FETCHes");
        }
    }

    fn requests(&self, are_such: fn(&Call) -> bool) -> Vec<CallId> {
        let such = self.asked.iter().filter(|(_, call, _)| are_such(call));
        such.map(|(id, ..)| *id).collect()
    }

    /// How many jobs each FETCH on its way asks for.
    fn fetch_counts(&self) -> impl Iterator<Item = u32> {
        self.asked.iter().filter_map(|(_, call, _)| {
            let Call::Fetch { count, .. } = call else { return None };
            Some(*count)
        })
    }

    /// The machine sends a FETCH for this many jobs.
    pub fn check_fetch(&mut self, count: u32) {
        if self.fetch_counts().count() > 1 {
            self.break_promise("more than two FETCHes on their way");
        }
        let asked = self.fetch_counts().fold(count, u32::saturating_add);
        let active = u32::try_from(self.machine.snapshot().active).unwrap_or(u32::MAX);
        if asked.saturating_add(active) > self.options.concurrency {
            self.break_promise("FETCHes for more than the free credit");
        }
    }

    /// The log announces that jobs may be lost: those of the FETCH that fails now, or all later
    /// ones.
    pub fn fetch_is_given_up(&mut self) {
        if !std::mem::take(&mut self.is_fetch_failing) {
            self.is_fetch_given_up = true;
        }
    }
}

fn slow_world(name: &'static str, budget: Budget) {
    let cast = Cast {
        holders: 1,
        each: 4,
        kin: Kin::Told,
        is_slow: true,
    };
    world_up_to(MOST_STATES_OF_TWO_FETCHES, name, options(4), budget, cast);
}

#[test]
fn two_fetches_of_which_one_fails() {
    let budget = Budget {
        sigterm: 1,
        jobs: 3,
        failures: 1,
        waits: 1,
        ..NOTHING
    };
    slow_world("two FETCHes, three jobs, one failure", budget);
}

#[test]
fn two_fetches_in_every_pause_that_bring_too_much() {
    let budget = Budget {
        sigterm: 1,
        sigtstp: 1,
        sigcont: 1,
        jobs: 5,
        surplus: 1,
        ..NOTHING
    };
    slow_world("two FETCHes, a surplus, every pause", budget);
}
