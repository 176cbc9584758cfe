//! FETCHes in flight: two at most, and when a second one may be sent beside the first.

use std::time::Duration;

use ojs_lifecycle::api::{Call, Failure, Reply, WorkerState};

use super::chance::Chance;
use super::ledger::Ledger;
use super::plan::{JobPlan, Twist};
use super::promise::{Kept, promise};
use super::talk::{Pending, Talk};

/// Least time for each job of a FETCH of a backend that gets a second one.
const SLOW_FROM: Duration = Duration::from_micros(300);

/// Separates this chance from that of the plan, so the worlds with few jobs stay unchanged.
const APART: u64 = 0x0FE7_C4E5;

/// Numbers of these jobs, above those of the plan.
const NUMBERS: std::ops::Range<u64> = 100..130;

/// Whether this run has so many jobs that FETCHes return all that they ask for: one run in eight.
fn has_many_jobs(seed: u64) -> bool {
    Chance::new(seed ^ APART).one_in(8)
}

/// The concurrency of this run, in place of the usual one.
pub fn concurrency(seed: u64, usual: u32) -> u32 {
    if has_many_jobs(seed) { 6 } else { usual }
}

/// Jobs that are there early.
pub fn many_jobs(seed: u64, twists: &mut Vec<Twist>) {
    if !has_many_jobs(seed) {
        return;
    }
    let mut chance = Chance::new(seed ^ APART.rotate_left(7));
    for id in NUMBERS {
        let job = JobPlan {
            id,
            is_rare: false,
            is_large: false,
            timeout: None,
            attempt: 0,
            max_attempts: None,
        };
        twists.push(Twist::Job(chance.below(300), job));
    }
}

/// Facts that FETCHes have shown.
#[derive(Debug, Default)]
pub struct Fetches {
    /// Since the last FETCH that brought fewer jobs than it asked for, or failed, one brought all
    /// of them and was slow.
    may_be_two: bool,
    /// FETCHes that failed in terminate, each of whose lines in the log is still missing.
    lines_to_come: usize,
    /// The most that were on their way at one time.
    pub most: usize,
}

impl Fetches {
    pub fn answered(&mut self, pending: &Pending, reply: &Reply, state: WorkerState, now: Duration) {
        let Call::Fetch { count, .. } = pending.call else {
            return;
        };
        let is_full = matches!(reply, Reply::Fetched(brought) if brought.len() >= usize::try_from(count).unwrap());
        let is_slow = now - pending.sent >= SLOW_FROM * count;
        self.may_be_two = is_full && (self.may_be_two || is_slow);
        let is_lost = matches!(reply, Reply::Failed(Failure::Unanswered | Failure::ServerError));
        self.lines_to_come += usize::from(is_lost && state == WorkerState::Terminate);
    }
}

impl Talk {
    pub fn is_fetching(&self) -> bool {
        self.fetch_counts().next().is_some()
    }

    /// How many jobs each FETCH on its way asks for.
    fn fetch_counts(&self) -> impl Iterator<Item = usize> {
        self.calls.values().filter_map(|pending| {
            let Call::Fetch { count, .. } = pending.call else {
                return None;
            };
            Some(usize::try_from(count).unwrap())
        })
    }

    /// The log announces that jobs of a FETCH may be lost: of one that failed just now, or of all
    /// in flight.
    pub fn fetch_is_abandoned(&mut self) {
        if self.fetches.lines_to_come > 0 {
            self.fetches.lines_to_come -= 1;
        } else {
            self.calls
                .retain(|_, pending| !matches!(pending.call, Call::Fetch { .. }));
        }
    }

    pub fn fetched(&mut self, count: u32, state: WorkerState, ledger: &Ledger) -> Kept {
        promise!(
            "no FETCH outside running",
            state == WorkerState::Running,
            "in {state:?}"
        );
        let others = self.fetch_counts().count();
        let most_others = usize::from(self.fetches.may_be_two);
        promise!(
            "one FETCH at a time, two where the backend is slow",
            others <= most_others,
            "{others} on their way, {:?}",
            self.fetches
        );
        self.fetches.most = self.fetches.most.max(others + 1);
        let asked = usize::try_from(count).unwrap() + self.fetch_counts().sum::<usize>();
        let most = usize::try_from(self.options.concurrency).unwrap();
        let open = ledger.places_taken(most, |_| true);
        promise!(
            "a FETCH within the concurrency",
            count >= 1 && asked + open <= most,
            "{asked} asked for, {open} of {most} are there"
        );
        let waiting = ledger.waiting();
        let (credit, pulled) = (ledger.credit(), ledger.pulled_credit());
        promise!(
            "a FETCH within the credit",
            asked <= credit.saturating_sub(waiting) + pulled,
            "{asked} asked for, {waiting} wait, credit {credit}, pulled {pulled}"
        );
        Ok(())
    }
}
