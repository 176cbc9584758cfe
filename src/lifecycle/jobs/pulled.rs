//! Jobs for holders that ask for them: a pull is answered once, with what waits or the next FETCH brings, the oldest pull first. What
//! comes after its pull has lapsed waits for another one, for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lifecycle::api::ids::{Claim, HolderId, PullId, Text};
use crate::lifecycle::api::{Effect, GivenJob, Moment, Queues, Timer, Wants};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::worker::holder::Holder;
use crate::lifecycle::worker::pulls::Pull;

/// Longest time that a pull waits for jobs, whatever it says.
const LONGEST_PULL: Duration = Duration::from_secs(30);

/// Most pulls that wait at the same time; further ones are told at once that there are no jobs.
const MOST_PULLS: usize = 10_000;

/// Most queues that a pull, and so a FETCH for pulls, names. Of more than that others come with the next one.
const MOST_QUEUES: usize = 64;

/// So many of them, those that are named first, are never left out for others.
const QUEUES_WITHOUT_TURNS: usize = MOST_QUEUES / 2;

impl Lifecycle {
    /// A holder asks for jobs. Outside running there are none, and nobody is asked.
    pub(in crate::lifecycle) fn wants(&mut self, id: HolderId, wants: Wants, now: Moment) {
        let Wants {
            pull,
            count,
            queues,
            within,
        } = wants;
        let Some(is_there) = self.holders.get(id).map(Holder::is_there) else {
            return;
        };
        if self.pulls.get(pull).is_some() {
            return;
        }
        let left = usize::try_from(count).map_or(self.most_active(), |count| count.min(self.most_active()));
        if is_there {
            self.timers.cancel(Timer::Ready);
            self.worker.said_ready(now);
            self.jobs_are_asked_for(left);
        }
        let queues = self.queues_to_take(id, queues, now);
        if is_there {
            self.holders.change(id, |holder| holder.asks.add(queues.as_deref()));
        }
        let is_restricted = queues.as_ref().is_some_and(Vec::is_empty);
        let is_in_vain =
            !is_there || is_restricted || !self.is_open_for_jobs() || left == 0 || self.pulls.len() >= MOST_PULLS;
        self.pulls.add(
            pull,
            Pull {
                holder: id,
                left,
                queues,
            },
        );
        if is_in_vain {
            self.answer_pull(pull, Vec::new());
        } else {
            self.timers.arm(Timer::Pull(pull), now.after(within.min(LONGEST_PULL)));
            if self.is_kept(id) {
                return self.wants_of_a_kept_process(id, pull, now);
            }
            self.give_what_waits(pull, now);
            if self.link.is_fetch_held_up() {
                self.answer_pull(pull, Vec::new());
            }
        }
    }

    /// The process of this holder is kept for a suspect: it gets that one, or nothing for now.
    fn wants_of_a_kept_process(&mut self, id: HolderId, pull: PullId, now: Moment) {
        self.isolate(now);
        if self.pulls.get(pull).is_some() {
            self.end_pulls_of(id);
        }
    }

    /// Gives one job to a pull, and answers it with that.
    pub(super) fn give_to_one_pull(&mut self, claim: Claim, pull: PullId, now: Moment) {
        let given = self.give_to_pull(claim, pull, now);
        self.answer_pull(pull, given.into_iter().collect());
    }

    /// Of the queues that a pull names those that jobs are taken from; they are known from then on. One that names none means those that are
    /// configured. Of too many it is other ones with each pull of a holder.
    fn queues_to_take(&mut self, id: HolderId, named: Option<Vec<Text>>, now: Moment) -> Option<Vec<Text>> {
        let Some(mut named) = named else {
            return match &self.options.queues {
                Queues::Only(taken) => Some(taken.clone()),
                Queues::Configured | Queues::AsAsked => None,
            };
        };
        match &self.options.queues {
            Queues::Configured => {}
            Queues::Only(taken) => named.retain(|queue| taken.contains(queue)),
            Queues::AsAsked => self.link(now, |link, cx| link.queues_are_asked_for(&named, cx)),
        }
        if named.len() <= MOST_QUEUES {
            return Some(named);
        }
        let turn = self.holders.change(id, |holder| {
            holder.queue_turns = holder.queue_turns.wrapping_add(1);
            holder.queue_turns
        });
        Some(in_turn(named, turn.unwrap_or_default()))
    }

    /// What was given out of what a FETCH brought for them is all that they get.
    pub(in crate::lifecycle) fn answer_asked_pulls(&mut self) {
        while let Some(pull) = self.pulls.first_asked() {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// What waits was asked for by nobody until now.
    fn give_what_waits(&mut self, id: PullId, now: Moment) {
        let mut given = Vec::new();
        while let Some(pull) = self.pulls.get(id).filter(|pull| pull.left > 0)
            && let Some(claim) = self.jobs.waiting().oldest_from(pull.queues.as_deref())
        {
            given.extend(self.give_to_pull(claim, id, now));
        }
        if !given.is_empty() {
            self.answer_pull(id, given);
        }
    }

    /// Gives jobs that have just come to the oldest pulls that take them, and answers these.
    pub(super) fn give_to_pulls(&mut self, now: Moment) {
        if self.pulls.is_empty() {
            return;
        }
        let mut given: BTreeMap<PullId, Vec<(Claim, GivenJob)>> = BTreeMap::new();
        for claim in self.jobs.waiting().fresh().clone() {
            let Some(job) = self.jobs.get(claim) else { continue };
            if let Some(pull) = self.pulls.oldest_for(&job.delivery.subject.queue) {
                let job = self.give_to_pull(claim, pull, now);
                given.entry(pull).or_default().extend(job);
            }
        }
        for (pull, jobs) in given {
            self.answer_pull(pull, jobs);
        }
    }

    fn give_to_pull(&mut self, claim: Claim, pull: PullId, now: Moment) -> Option<(Claim, GivenJob)> {
        let holder = self.pulls.get(pull)?.holder;
        self.pulls.spend(pull);
        Some((claim, self.hand_to(claim, holder, Some(pull), now)?))
    }

    /// Its time is over.
    pub(in crate::lifecycle) fn pull_lapses(&mut self, id: PullId) {
        self.answer_pull(id, Vec::new());
    }

    /// The one answer to a pull; what is left of it lapses.
    fn answer_pull(&mut self, id: PullId, given: Vec<(Claim, GivenJob)>) {
        let Some(pull) = self.pulls.take(id) else { return };
        self.timers.cancel(Timer::Pull(id));
        let holder = pull.holder;
        let (claims, jobs): (Vec<Claim>, Vec<GivenJob>) = given.into_iter().unzip();
        self.order(Effect::AnswerPull { holder, pull: id, jobs });
        for claim in claims {
            self.tell_of_handover(claim, holder);
        }
    }

    /// Outside running, without a worker and while there is no memory for more, there are no jobs to wait for.
    pub(in crate::lifecycle) fn end_pulls(&mut self) {
        if self.is_open_for_jobs() {
            return;
        }
        let waiting: Vec<PullId> = self.pulls.iter().map(|(id, _)| id).collect();
        for pull in waiting {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// A holder gets no more jobs, and is told so.
    pub(in crate::lifecycle) fn end_pulls_of(&mut self, holder: HolderId) {
        for pull in self.pulls.of(holder) {
            self.answer_pull(pull, Vec::new());
        }
    }

    /// Whoever waited for the answer to this pull is gone. Where there was one already nobody has read it: what is in it goes back.
    pub(in crate::lifecycle) fn wants_no_more(&mut self, holder: HolderId, id: PullId, now: Moment) {
        if self.pulls.get(id).is_some_and(|pull| pull.holder == holder) {
            self.pulls.take(id);
            self.timers.cancel(Timer::Pull(id));
            return;
        }
        let held = self.jobs.held_by(holder).iter().copied();
        let is_unread = |claim: &Claim| self.jobs.get(*claim).is_some_and(|job| job.pull() == Some(id));
        for claim in held.filter(is_unread).collect::<Vec<Claim>>() {
            if self.jobs.get(claim).is_some_and(|job| job.is_lost) {
                self.finish(claim);
            } else {
                self.requeue(claim, "not started: the client that asked for it was gone", now);
            }
        }
    }

    /// A holder is gone: whatever it asked for, it spends nothing.
    pub(in crate::lifecycle) fn forget_pulls(&mut self, holder: HolderId) {
        for pull in self.pulls.of(holder) {
            self.pulls.take(pull);
            self.timers.cancel(Timer::Pull(pull));
        }
    }

    /// Of these it is news that they came when nobody asked for them any more. They wait for as long as one would for a taker of
    /// their type; but not in the place of jobs that somebody asks for.
    pub(super) fn nobody_asked(&mut self, news: &[Claim], now: Moment) {
        for claim in news {
            self.timers
                .arm(Timer::NoHandler(*claim), now.after(self.options.type_wait));
        }
        let is_full = self.jobs.reserved() >= self.most_active() && self.pulls.wanted() > 0;
        let newest = self.jobs.waiting().untaken().last().copied();
        if let Some(claim) = newest.filter(|_| is_full) {
            self.give_back_unasked(claim, now);
        }
    }

    pub(super) fn give_back_unasked(&mut self, claim: Claim, now: Moment) {
        self.requeue(claim, "not started: it came when nobody asked for it any more", now);
    }
}

/// Of more queues than a FETCH can name the first ones, and of the others as many as there is room for: each has its turn. The order stays.
fn in_turn(named: Vec<Text>, turn: usize) -> Vec<Text> {
    let others = named.len().saturating_sub(QUEUES_WITHOUT_TURNS).max(1);
    let room = MOST_QUEUES - QUEUES_WITHOUT_TURNS;
    let first = turn.wrapping_mul(room) % others;
    let is_due = |at: usize| {
        let among_others = at.checked_sub(QUEUES_WITHOUT_TURNS);
        among_others.is_none_or(|at| (at + others - first) % others < room)
    };
    let due = named.into_iter().enumerate().filter(|(at, _)| is_due(*at));
    due.map(|(_, queue)| queue).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn of_many_queues_the_first_are_always_asked_for_and_the_others_in_turn_in_the_order_that_they_were_named_in() {
        for count in [65_usize, 100, 256] {
            let named: Vec<Text> = (0..count).map(|number| format!("{number:03}").into()).collect();
            let rounds = count.div_ceil(MOST_QUEUES - QUEUES_WITHOUT_TURNS);
            let mut seen = BTreeSet::new();
            for turn in 7..7 + rounds {
                let due = in_turn(named.clone(), turn);
                assert_eq!(due.len(), MOST_QUEUES);
                assert!(due.is_sorted(), "{due:?}");
                assert!(due.starts_with(&named[..QUEUES_WITHOUT_TURNS]), "{due:?}");
                seen.extend(due);
            }
            assert_eq!(seen.len(), count);
        }
    }
}
