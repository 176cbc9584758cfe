//! Which jobs and types are given back again and again. It is bounded in number; the entry that is due to be forgotten first goes first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lifecycle::api::ids::{JobId, Text};
use crate::lifecycle::api::{FIRST_HOLD, LONGEST_HOLD, Moment};

/// Returns within [`WITHIN`] that make a job or a type one that is given back again and again.
const MANY: usize = 3;

/// See [`MANY`].
const WITHIN: Duration = Duration::from_secs(60);

/// A job or type without a return for so long is forgotten: twice the longest hold and then [`WITHIN`] at most, so that a job does not
/// look like a new one after each hold.
const FORGET_AFTER: Duration = Duration::from_secs(120);

/// Most types that are remembered.
const MOST_TYPES: usize = 64;

/// Most jobs that are remembered.
const MOST_JOBS: usize = 1024;

/// The returns of one job or type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Entry {
    /// The last ones, fewer than [`MANY`]; none once there were too many.
    recent: Vec<Moment>,
    /// All since the first one that is remembered.
    count: u32,
    /// There were [`MANY`] within [`WITHIN`].
    is_many: bool,
    /// How often it was held.
    holds: u32,
    forget_at: Option<Moment>,
}

impl Entry {
    /// Whether this return is the one that makes them many.
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

    /// The entry of this name, which lasts anew from now on.
    fn entry(&mut self, name: &K, now: Moment) -> &mut Entry {
        self.forget(now);
        let end = now.after(FORGET_AFTER);
        let entry = self.entries.entry(name.clone()).or_default();
        if let Some(before) = entry.forget_at.replace(end) {
            self.by_end.remove(&(before, name.clone()));
        }
        self.by_end.insert((end, name.clone()));
        entry
    }

    /// Forgets what is over, and what is one too many.
    fn forget(&mut self, now: Moment) {
        while let Some((end, name)) = self.by_end.first().cloned()
            && (end <= now || self.by_end.len() >= self.most)
        {
            self.by_end.remove(&(end, name.clone()));
            self.entries.remove(&name);
        }
    }

    /// Those that are given back again and again.
    fn many(&self, now: Moment) -> impl Iterator<Item = (&K, &Entry)> {
        let is_over = move |entry: &Entry| entry.forget_at.is_none_or(|end| end <= now);
        self.entries
            .iter()
            .filter(move |(_, entry)| entry.is_many && !is_over(entry))
    }
}

/// What one return led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// Whether this return made the job or its type one that is given back again and again.
    pub is_news: bool,
    /// Whether the job or its type is one.
    pub is_many: bool,
    /// Returns of jobs of this type, or of this job where only that is counted.
    pub times: u32,
}

/// All of them.
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
    /// A worker gave this job of this type back.
    pub fn by_worker(&mut self, job: &JobId, kind: &Text, now: Moment) -> Returned {
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

    /// The job goes back for a reason that says nothing about others of its type.
    pub fn by_itself(&mut self, job: &JobId, now: Moment) -> Returned {
        let of_job = self.jobs.entry(job, now);
        let is_news = of_job.returned(now);
        Returned {
            is_news,
            is_many: of_job.is_many,
            times: of_job.count,
        }
    }

    /// The job is held: for how long. Each hold of a job is twice as long as the one before.
    pub fn hold(&mut self, job: &JobId, now: Moment) -> Duration {
        let of_job = self.jobs.entry(job, now);
        let doubled = 1_u32.checked_shl(of_job.holds).unwrap_or(u32::MAX);
        of_job.holds = of_job.holds.saturating_add(1);
        FIRST_HOLD.saturating_mul(doubled).min(LONGEST_HOLD)
    }

    /// The types whose jobs are given back again and again, and how often that was.
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
