//! Pulled credit: requests of holders for jobs, each with one reply, the oldest first. A pull for a
//! queue is found by the queue, however many pulls there are.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::ids::{HolderId, PullId, Text};
use crate::groups::Groups;

/// A holder wants jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pull {
    /// The holder that made the pull.
    pub holder: HolderId,
    /// How many more jobs the pull can get with its answer.
    pub left: usize,
    /// The queues that the pull names. None: the configured ones.
    pub queues: Option<Vec<Text>>,
}

/// All that were not answered yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pulls {
    all: BTreeMap<PullId, Pull>,
    /// Pulls that can get more jobs, by each queue that they name.
    by_queue: Groups<Text, PullId>,
    /// Pulls that can get more jobs and name no queue.
    of_any_queue: BTreeSet<PullId>,
    by_holder: Groups<HolderId, PullId>,
    /// Pulls by their list of queues, in its order.
    by_list: Groups<Vec<Text>, PullId>,
    /// How many jobs the pulls with one list can get, together.
    wanted_of_list: BTreeMap<Vec<Text>, usize>,
    /// Pulls whose FETCH has returned. They get their answer now, even if it is empty.
    asked: BTreeSet<PullId>,
    /// How many jobs all pulls can get.
    wanted: usize,
}

impl Pulls {
    /// A holder wants jobs.
    pub fn add(&mut self, id: PullId, pull: Pull) {
        self.take(id);
        self.wanted += pull.left;
        self.by_holder.insert(pull.holder, id);
        match &pull.queues {
            None => {
                self.of_any_queue.insert(id);
            }
            Some(queues) => {
                for queue in queues {
                    self.by_queue.insert(queue.clone(), id);
                }
                self.by_list.insert(queues.clone(), id);
                *self.wanted_of_list.entry(queues.clone()).or_default() += pull.left;
            }
        }
        self.all.insert(id, pull);
    }

    /// Gives the pull one more job. A pull that has all that it asked for gets no other.
    pub fn spend(&mut self, id: PullId) {
        let Some(pull) = self.all.get_mut(&id).filter(|pull| pull.left > 0) else {
            return;
        };
        pull.left -= 1;
        self.wanted -= 1;
        let (is_served, queues) = (pull.left == 0, pull.queues.clone());
        self.list_wants_less(queues.as_ref(), 1);
        if is_served {
            self.takes_no_more(id, queues.as_deref());
        }
    }

    fn list_wants_less(&mut self, queues: Option<&Vec<Text>>, less: usize) {
        let Some(queues) = queues else { return };
        if let Some(wanted) = self.wanted_of_list.get_mut(queues) {
            *wanted = wanted.saturating_sub(less);
        }
        if self.by_list.of(queues).is_empty() {
            self.wanted_of_list.remove(queues);
        }
    }

    fn takes_no_more(&mut self, id: PullId, queues: Option<&[Text]>) {
        self.of_any_queue.remove(&id);
        for queue in queues.unwrap_or_default() {
            self.by_queue.remove(queue, &id);
        }
    }

    /// Removes a pull that is answered or whose client has left. The rest of its credit lapses.
    pub fn take(&mut self, id: PullId) -> Option<Pull> {
        let pull = self.all.remove(&id)?;
        self.wanted -= pull.left;
        self.takes_no_more(id, pull.queues.as_deref());
        self.by_holder.remove(&pull.holder, &id);
        self.asked.remove(&id);
        if let Some(queues) = &pull.queues {
            self.by_list.remove(queues, &id);
        }
        self.list_wants_less(pull.queues.as_ref(), pull.left);
        Some(pull)
    }

    /// The oldest pull that accepts a job of this queue.
    pub fn oldest_for(&self, queue: &Text) -> Option<PullId> {
        let named = self.by_queue.of(queue).first();
        named.into_iter().chain(self.of_any_queue.first()).min().copied()
    }

    /// The oldest pull of this holder that accepts a job of this queue.
    pub fn of_holder_for(&self, holder: HolderId, queue: &Text) -> Option<PullId> {
        let takes = |pull: &Pull| pull.queues.as_ref().is_none_or(|queues| queues.contains(queue));
        let mut theirs = self.by_holder.of(&holder).iter();
        theirs.find(|id| self.all.get(id).is_some_and(takes)).copied()
    }

    /// The queues and the number of jobs of the next FETCH. If a pull accepts jobs of any queue,
    /// the FETCH is for all pulls, from the configured queues. Otherwise it is for the oldest pull,
    /// and for all pulls that name its queues in its order.
    pub fn next(&self) -> (Option<&[Text]>, usize) {
        let oldest = self.all.values().next().and_then(|pull| pull.queues.as_ref());
        match oldest.filter(|_| self.of_any_queue.is_empty()) {
            Some(queues) => (
                Some(queues),
                self.wanted_of_list.get(queues).copied().unwrap_or_default(),
            ),
            None => (None, self.wanted),
        }
    }

    /// The newest pull.
    pub fn newest(&self) -> Option<PullId> {
        self.all.last_key_value().map(|(id, _)| *id)
    }

    /// Marks the pulls of a FETCH that has returned, so that they get their answer now. The FETCH
    /// was for these queues (None: the configured ones) and for pulls up to this one.
    pub fn were_asked_for(&mut self, queues: Option<&Vec<Text>>, until: PullId) {
        let asked: Vec<PullId> = match queues {
            Some(queues) => self.by_list.of(queues).range(..=until).copied().collect(),
            None => self.all.range(..=until).map(|(id, _)| *id).collect(),
        };
        self.asked.extend(asked);
    }

    /// The oldest of the pulls that get their answer now.
    pub fn first_asked(&self) -> Option<PullId> {
        self.asked.first().copied()
    }

    /// Whether a pull waits for a FETCH that has not returned yet.
    pub fn wait_for_a_fetch(&self) -> bool {
        self.all.len() > self.asked.len()
    }

    /// The pulls of one holder.
    pub fn of(&self, holder: HolderId) -> Vec<PullId> {
        self.by_holder.of(&holder).iter().copied().collect()
    }

    /// The pull of this id.
    pub fn get(&self, id: PullId) -> Option<&Pull> {
        self.all.get(&id)
    }

    /// All pulls, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (PullId, &Pull)> {
        self.all.iter().map(|(id, pull)| (*id, pull))
    }

    /// How many jobs all pulls can get, together.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether there is no pull.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Checks that each index lists each of its pulls, and that the sums are right.
    ///
    /// # Errors
    ///
    /// An index or a sum is wrong.
    pub fn check(&self) -> Result<(), String> {
        let mut right = Self::default();
        for (id, pull) in self.iter() {
            right.add(id, pull.clone());
            if pull.left == 0 {
                right.takes_no_more(id, pull.queues.as_deref());
            }
        }
        right.asked.clone_from(&self.asked);
        if *self == right {
            Ok(())
        } else {
            Err("the pulls are listed wrongly".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(holder: u64, left: usize, queues: &[&str]) -> Pull {
        Pull {
            holder: HolderId(holder),
            left,
            queues: (!queues.is_empty()).then(|| queues.iter().map(|queue| Text::from(*queue)).collect()),
        }
    }

    fn text(name: &str) -> Text {
        name.into()
    }

    #[test]
    fn the_oldest_that_takes_the_queue_comes_first_until_it_has_all_that_it_asked_for() {
        let mut pulls = Pulls::default();
        pulls.add(PullId(1), pull(1, 1, &["mail", "sms"]));
        pulls.add(PullId(2), pull(2, 2, &["mail"]));
        assert_eq!(pulls.oldest_for(&text("mail")), Some(PullId(1)));
        pulls.spend(PullId(1));
        assert_eq!(pulls.oldest_for(&text("mail")), Some(PullId(2)));
        assert_eq!(pulls.oldest_for(&text("sms")), None);
        assert_eq!(pulls.wanted(), 2);
        assert_eq!(pulls.check(), Ok(()));
    }

    #[test]
    fn a_fetch_is_for_the_oldest_and_for_those_that_name_the_same_queues_in_the_same_order() {
        let mut pulls = Pulls::default();
        assert_eq!(pulls.next(), (None, 0));
        pulls.add(PullId(1), pull(1, 1, &["z", "a"]));
        pulls.add(PullId(2), pull(2, 5, &["a", "z"]));
        pulls.add(PullId(3), pull(2, 2, &["z", "a"]));
        assert_eq!(pulls.next(), (Some(&[text("z"), text("a")][..]), 3));
        pulls.were_asked_for(Some(&vec![text("z"), text("a")]), PullId(2));
        assert_eq!(pulls.first_asked(), Some(PullId(1)));
        pulls.take(PullId(1));
        assert_eq!(pulls.first_asked(), None);
        assert_eq!(pulls.check(), Ok(()));
    }

    #[test]
    fn where_one_takes_whatever_comes_a_fetch_is_for_all_from_the_configured_queues() {
        let mut pulls = Pulls::default();
        pulls.add(PullId(1), pull(1, 1, &["z"]));
        pulls.add(PullId(3), pull(2, 1, &[]));
        assert_eq!(pulls.next(), (None, 2));
        assert_eq!(pulls.oldest_for(&text("c")), Some(PullId(3)));
        pulls.were_asked_for(None, PullId(1));
        assert_eq!(pulls.first_asked(), Some(PullId(1)));
    }

    #[test]
    fn what_is_left_of_a_pull_lapses_with_its_answer() {
        let mut pulls = Pulls::default();
        pulls.add(PullId(1), pull(7, 5, &["mail"]));
        pulls.add(PullId(2), pull(7, 5, &[]));
        assert_eq!(pulls.of(HolderId(7)), [PullId(1), PullId(2)]);
        pulls.spend(PullId(1));
        assert_eq!(pulls.take(PullId(1)).map(|pull| pull.left), Some(4));
        assert!(pulls.take(PullId(1)).is_none());
        assert_eq!(pulls.wanted(), 5);
        pulls.take(PullId(2));
        assert_eq!(pulls, Pulls::default());
    }
}
