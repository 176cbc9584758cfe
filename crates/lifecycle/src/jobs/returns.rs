//! Counts the returns of jobs and types. A bounded number of entries is remembered. A new entry
//! replaces the one that had no return for the longest time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::ids::{JobId, Text};
use crate::api::{FIRST_HOLD, LONGEST_HOLD, Moment, doubled};

/// Number of returns within [`WITHIN`] from which on a job or a type counts as given back again and
/// again.
const MANY: usize = 3;

/// See [`MANY`].
const WITHIN: Duration = Duration::from_secs(60);

/// Time without a return after which a job or a type is forgotten. It is longer than the longest
/// hold and [`WITHIN`] together: otherwise a job would count as new after its hold.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Most types in memory.
const MOST_TYPES: usize = 64;

/// Most jobs in memory.
const MOST_JOBS: usize = 1024;

/// The returns of one job or type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Entry {
    /// Times of the last returns, fewer than [`MANY`]. Empty once `is_many` is true.
    recent: Vec<Moment>,
    /// Number of all returns since the first one in memory.
    count: u32,
    /// True once there were [`MANY`] returns within [`WITHIN`].
    is_many: bool,
    /// Number of holds so far.
    holds: u32,
    forget_at: Option<Moment>,
}

impl Entry {
    /// Counts a return. Returns true for the return that brings the count to [`MANY`].
    fn returned(&mut self, now: Moment) -> bool {
        self.count = self.count.saturating_add(1);
        if self.is_many {
            return false;
        }
        self.recent.retain(|at| at.elapsed(now) <= WITHIN);
        self.recent.push(now);
        self.is_many = self.recent.len() >= MANY;
        if self.is_many {
            self.recent = Vec::new();
        }
        self.is_many
    }
}

/// Entries by their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Book<K: Ord> {
    entries: BTreeMap<K, Entry>,
    by_end: BTreeSet<(Moment, K)>,
    most: usize,
}

impl<K: Ord + Clone> Book<K> {
    fn new(most: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_end: BTreeSet::new(),
            most,
        }
    }

    /// The entry of this name, which lasts [`FORGET_AFTER`] from now on.
    fn entry(&mut self, name: &K, now: Moment) -> &mut Entry {
        self.forget(name, now);
        let end = now.after(FORGET_AFTER);
        let entry = self.entries.entry(name.clone()).or_default();
        if let Some(before) = entry.forget_at.replace(end) {
            self.by_end.remove(&(before, name.clone()));
        }
        self.by_end.insert((end, name.clone()));
        entry
    }

    /// Removes the expired entries. Removes the first of the others as well if there is no room for
    /// a new entry of this name.
    fn forget(&mut self, name: &K, now: Moment) {
        while let Some((end, first)) = self.by_end.first().cloned() {
            let is_full = self.by_end.len() >= self.most && !self.entries.contains_key(name);
            if end > now && !is_full {
                break;
            }
            self.by_end.remove(&(end, first.clone()));
            self.entries.remove(&first);
        }
    }

    /// The names that are given back again and again.
    fn many(&self, now: Moment) -> impl Iterator<Item = (&K, &Entry)> {
        let is_over = move |entry: &Entry| entry.forget_at.is_none_or(|end| end <= now);
        self.entries
            .iter()
            .filter(move |(_, entry)| entry.is_many && !is_over(entry))
    }
}

/// The result of one return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// With this return the type, or the job if only that is counted, begins to count as given back
    /// again and again.
    pub is_news: bool,
    /// The job or its type counts as given back again and again.
    pub is_many: bool,
    /// Number of returns of jobs of this type, or of this job if only that is counted.
    pub times: u32,
}

/// The returns of all jobs and types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Returns {
    jobs: Book<JobId>,
    types: Book<Text>,
}

impl Default for Returns {
    fn default() -> Self {
        Self {
            jobs: Book::new(MOST_JOBS),
            types: Book::new(MOST_TYPES),
        }
    }
}

impl Returns {
    /// Counts the return of a job by its worker, for the job and for its type.
    pub(super) fn by_worker(&mut self, job: &JobId, kind: &Text, now: Moment) -> Returned {
        let of_job = self.jobs.entry(job, now);
        of_job.returned(now);
        let is_many = of_job.is_many;
        let of_type = self.types.entry(kind, now);
        let is_news = of_type.returned(now);
        Returned {
            is_news,
            is_many: is_many || of_type.is_many,
            times: of_type.count,
        }
    }

    /// Counts the return of a job for a reason that does not concern other jobs of its type.
    pub(super) fn by_itself(&mut self, job: &JobId, now: Moment) -> Returned {
        let of_job = self.jobs.entry(job, now);
        let is_news = of_job.returned(now);
        Returned {
            is_news,
            is_many: of_job.is_many,
            times: of_job.count,
        }
    }

    /// Length of the next hold of a job: twice as long as its last one.
    pub(super) fn hold(&mut self, job: &JobId, now: Moment) -> Duration {
        let of_job = self.jobs.entry(job, now);
        let hold = doubled(FIRST_HOLD, of_job.holds, LONGEST_HOLD);
        of_job.holds = of_job.holds.saturating_add(1);
        hold
    }

    /// The types that are given back again and again, with the number of returns.
    pub fn types(&self, now: Moment) -> impl Iterator<Item = (&Text, u32)> {
        self.types.many(now).map(|(kind, entry)| (kind, entry.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn id(name: &str) -> JobId {
        JobId(name.into())
    }

    #[test]
    fn the_third_return_of_a_type_within_a_minute_is_news_and_the_next_ones_are_not() {
        let mut returns = Returns::default();
        let mut give = |job: &str, kind: &str, now| returns.by_worker(&id(job), &kind.into(), at(now));
        assert!(!give("1", "mail", 0).is_many);
        assert!(!give("2", "mail", 30).is_many);
        // The first one is more than a minute ago.
        assert!(!give("3", "mail", 61).is_many);
        let third = give("4", "mail", 90);
        assert_eq!((third.is_news, third.is_many, third.times), (true, true, 4));
        let fourth = give("5", "mail", 140);
        assert_eq!((fourth.is_news, fourth.is_many, fourth.times), (false, true, 5));
        assert!(!give("6", "other", 140).is_many);
        assert_eq!(returns.types(at(141)).collect::<Vec<_>>(), [(&"mail".into(), 5)]);
    }

    #[test]
    fn what_is_not_given_back_for_two_minutes_is_forgotten() {
        let mut returns = Returns::default();
        for now in [0, 1, 2] {
            returns.by_itself(&id("1"), at(now));
        }
        assert!(returns.by_itself(&id("1"), at(121)).is_many);
        assert_eq!(returns.hold(&id("1"), at(121)), Duration::from_secs(1));
        let anew = returns.by_itself(&id("1"), at(242));
        assert_eq!((anew.is_many, anew.times), (false, 1));
        assert_eq!(returns.hold(&id("1"), at(242)), Duration::from_secs(1));
    }

    #[test]
    fn each_hold_of_a_job_is_twice_as_long_up_to_the_longest() {
        let mut returns = Returns::default();
        let holds: Vec<u64> = (0..40).map(|_| returns.hold(&id("1"), at(0)).as_secs()).collect();
        assert_eq!(holds.get(..7).unwrap(), [1, 2, 4, 8, 16, 30, 30]);
        assert!(holds.iter().skip(7).all(|hold| *hold == 30));
        assert_eq!(returns.hold(&id("2"), at(0)), FIRST_HOLD);
    }

    #[test]
    fn a_name_of_a_full_book_comes_again_and_no_other_one_is_forgotten() {
        let mut returns = Returns::default();
        for number in 0..MOST_TYPES {
            returns.types.entry(&number.to_string().into(), at(0));
        }
        returns.types.entry(&"7".into(), at(1));
        assert_eq!(returns.types.entries.len(), MOST_TYPES);
        returns.types.entry(&"new".into(), at(2));
        assert_eq!(returns.types.entries.len(), MOST_TYPES);
        assert!(returns.types.entries.contains_key(&Text::from("7")));
        assert!(!returns.types.entries.contains_key(&Text::from("0")));
    }

    #[test]
    fn however_many_jobs_and_types_are_given_back_only_so_many_are_remembered() {
        let mut returns = Returns::default();
        for number in 0..5000 {
            returns.by_worker(&id(&number.to_string()), &number.to_string().into(), at(number / 100));
        }
        assert_eq!(returns.jobs.entries.len(), MOST_JOBS);
        assert_eq!(returns.types.entries.len(), MOST_TYPES);
        assert_eq!(returns.jobs.by_end.len(), MOST_JOBS);
    }
}
