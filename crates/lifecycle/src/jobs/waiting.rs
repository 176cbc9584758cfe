//! The jobs that wait, in lines by type and by queue. A search for a holder's next job starts at
//! the heads of the lines that the holder accepts, even if many jobs wait.

use std::collections::BTreeSet;

use crate::api::Subject;
use crate::api::ids::{Claim, Text};
use crate::groups::Groups;

/// All jobs that wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WaitingJobs {
    all: BTreeSet<Claim>,
    /// Jobs that a holder can get; the others need a look first.
    in_line: BTreeSet<Claim>,
    /// Jobs by type.
    by_type: Groups<Text, Claim>,
    /// Jobs by queue.
    by_queue: Groups<Text, Claim>,
    /// New jobs in a line, for which no taker was looked for yet.
    fresh: BTreeSet<Claim>,
    /// Jobs that no holder accepts.
    untaken: BTreeSet<Claim>,
}

impl WaitingJobs {
    /// Enters a job into the buffer. It stands in line if its type and queue are given.
    pub(super) fn enters(&mut self, claim: Claim, job: Option<&Subject>) {
        self.all.insert(claim);
        if let Some(job) = job {
            self.in_line.insert(claim);
            self.fresh.insert(claim);
            self.by_type.insert(job.kind.clone(), claim);
            self.by_queue.insert(job.queue.clone(), claim);
        }
    }

    /// The job waits no more, or not in that line.
    pub(super) fn leaves(&mut self, claim: Claim, job: Option<&Subject>) {
        self.all.remove(&claim);
        self.fresh.remove(&claim);
        self.untaken.remove(&claim);
        if let Some(job) = job {
            self.in_line.remove(&claim);
            self.by_type.remove(&job.kind, &claim);
            self.by_queue.remove(&job.queue, &claim);
        }
    }

    /// Marks all jobs in line as new, because the holders have changed and a taker must be looked
    /// for again.
    pub fn all_are_fresh(&mut self) {
        self.fresh.clone_from(&self.in_line);
    }

    /// Removes and returns the jobs for which no taker was looked for yet.
    pub fn take_fresh(&mut self) -> BTreeSet<Claim> {
        std::mem::take(&mut self.fresh)
    }

    /// Notes whether a holder accepts this job. Returns whether the job newly has no taker.
    pub fn is_taken(&mut self, claim: Claim, is_taken: bool) -> bool {
        if is_taken {
            self.untaken.remove(&claim);
            false
        } else {
            self.untaken.insert(claim)
        }
    }

    /// The jobs for which no taker was looked for yet.
    pub fn fresh(&self) -> &BTreeSet<Claim> {
        &self.fresh
    }

    /// Jobs that no holder accepts.
    pub fn untaken(&self) -> &BTreeSet<Claim> {
        &self.untaken
    }

    /// The oldest job that fits, of one of these types or of any.
    pub fn oldest(&self, types: Option<&[Text]>, fits: impl Fn(Claim) -> bool) -> Option<Claim> {
        self.first_of(&self.by_type, types, fits)
    }

    /// The oldest job of one of these queues, or of any.
    pub fn oldest_from(&self, queues: Option<&[Text]>) -> Option<Claim> {
        self.first_of(&self.by_queue, queues, |_| true)
    }

    fn first_of(
        &self,
        lines: &Groups<Text, Claim>,
        names: Option<&[Text]>,
        fits: impl Fn(Claim) -> bool,
    ) -> Option<Claim> {
        let first = |line: &BTreeSet<Claim>| line.iter().copied().find(|claim| fits(*claim));
        match names {
            None => first(&self.in_line),
            Some(names) => names.iter().filter_map(|name| first(lines.of(name))).min(),
        }
    }

    /// The newest jobs, at most `most`, the oldest of them first.
    pub fn newest(&self, most: usize) -> Vec<Claim> {
        let mut newest: Vec<Claim> = self.all.iter().rev().take(most).copied().collect();
        newest.reverse();
        newest
    }

    /// Number of waiting jobs.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether this job waits.
    pub fn contains(&self, claim: Claim) -> bool {
        self.all.contains(&claim)
    }

    /// Whether both have the same jobs in the same lines. Their fresh and untaken jobs may differ.
    pub(super) fn has_the_same_lines(&self, other: &Self) -> bool {
        let of_those = [&self.fresh, &self.untaken];
        self.all == other.all
            && self.in_line == other.in_line
            && self.by_type == other.by_type
            && self.by_queue == other.by_queue
            && of_those.iter().all(|some| some.is_subset(&self.in_line))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::ids::JobId;

    use super::*;

    fn any(_: Claim) -> bool {
        true
    }

    fn kind(name: &str) -> Text {
        name.into()
    }

    /// A job of this type, from a queue with the type's name in capitals.
    fn job(name: &str) -> Subject {
        Subject {
            id: JobId("1".into()),
            kind: kind(name),
            queue: name.to_uppercase().into(),
            attempt: None,
            max_attempts: None,
            trace: None,
        }
    }

    /// Claims 1 and 3 are of type a, 2 is of type b, 4 is to be looked at first.
    fn four() -> WaitingJobs {
        let mut waiting = WaitingJobs::default();
        for (claim, name) in [(1, "a"), (2, "b"), (3, "a")] {
            waiting.enters(Claim(claim), Some(&job(name)));
        }
        waiting.enters(Claim(4), None);
        waiting
    }

    #[test]
    fn the_oldest_of_the_types_that_are_taken_comes_first() {
        let mut waiting = four();
        assert_eq!(waiting.oldest(None, any), Some(Claim(1)));
        assert_eq!(waiting.oldest(Some(&[kind("b"), kind("a")]), any), Some(Claim(1)));
        assert_eq!(waiting.oldest(Some(&[kind("c"), kind("b")]), any), Some(Claim(2)));
        assert_eq!(waiting.oldest(None, |claim| claim.0 > 2), Some(Claim(3)));
        waiting.leaves(Claim(1), Some(&job("a")));
        assert_eq!(waiting.oldest(Some(&[kind("a")]), any), Some(Claim(3)));
        waiting.leaves(Claim(3), Some(&job("a")));
        assert_eq!(waiting.oldest(Some(&[kind("a")]), any), None);
        assert_eq!(waiting.oldest_from(Some(&[kind("A"), kind("B")])), Some(Claim(2)));
        assert_eq!(waiting.oldest_from(None), Some(Claim(2)));
    }

    #[test]
    fn what_is_looked_at_first_waits_and_stands_in_no_line() {
        let waiting = four();
        assert_eq!(waiting.len(), 4);
        assert_eq!(waiting.oldest(None, |claim| claim == Claim(4)), None);
        assert_eq!(waiting.newest(2), [Claim(3), Claim(4)]);
    }

    #[test]
    fn each_is_asked_about_once_until_others_may_take_it() {
        let mut waiting = four();
        assert_eq!(waiting.take_fresh().len(), 3);
        assert!(waiting.take_fresh().is_empty());
        assert!(waiting.is_taken(Claim(2), false));
        assert!(!waiting.is_taken(Claim(2), false));
        waiting.all_are_fresh();
        assert_eq!(waiting.take_fresh().len(), 3);
        waiting.is_taken(Claim(2), true);
        assert!(waiting.untaken().is_empty());
    }
}
