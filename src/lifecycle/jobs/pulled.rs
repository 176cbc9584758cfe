//! Jobs for holders that ask for them: a pull is answered once, with what waits or the next FETCH brings, the oldest pull first. What
//! comes after its pull has lapsed waits for another one, for a while.

use std::collections::BTreeMap;

use crate::lifecycle::api::ids::{Claim, HolderId, PullId};
use crate::lifecycle::api::{GivenJob, Moment, Timer};
use crate::lifecycle::machine::Lifecycle;

impl Lifecycle {
    /// A holder asks for jobs, and its pull waits: it is given what waits, which was asked for by nobody until now.
    pub(in crate::lifecycle) fn pull_waits(&mut self, id: HolderId, pull: PullId, now: Moment) {
        if self.workers.is_kept(id) {
            return self.wants_of_a_kept_process(id, pull, now);
        }
        self.give_what_waits(pull, now);
        if self.link.is_fetch_held_up() {
            self.answer_pull(pull, Vec::new(), now);
        }
    }

    /// The process of this holder is kept for a suspect: it gets that one, or nothing for now.
    fn wants_of_a_kept_process(&mut self, id: HolderId, pull: PullId, now: Moment) {
        self.isolate(now);
        if self.workers.pulls().get(pull).is_some() {
            self.workers(now, |workers, _| workers.end_pulls_of(id));
        }
    }

    /// Gives one job to a pull, and answers it with that.
    pub(super) fn give_to_one_pull(&mut self, claim: Claim, pull: PullId, now: Moment) {
        let given = self.give_to_pull(claim, pull, now);
        self.answer_pull(pull, given.into_iter().collect(), now);
    }

    /// What waits was asked for by nobody until now.
    fn give_what_waits(&mut self, id: PullId, now: Moment) {
        let mut given = Vec::new();
        while let Some(pull) = self.workers.pulls().get(id).filter(|pull| pull.left > 0)
            && let Some(claim) = self.jobs.waiting().oldest_from(pull.queues.as_deref())
        {
            given.extend(self.give_to_pull(claim, id, now));
        }
        if !given.is_empty() {
            self.answer_pull(id, given, now);
        }
    }

    /// Gives jobs that have just come to the oldest pulls that take them, and answers these.
    pub(super) fn give_to_pulls(&mut self, now: Moment) {
        if self.workers.pulls().is_empty() {
            return;
        }
        let mut given: BTreeMap<PullId, Vec<(Claim, GivenJob)>> = BTreeMap::new();
        for claim in self.jobs.waiting().fresh().clone() {
            let Some(job) = self.jobs.get(claim) else { continue };
            if let Some(pull) = self.workers.pulls().oldest_for(&job.delivery.subject.queue) {
                let job = self.give_to_pull(claim, pull, now);
                given.entry(pull).or_default().extend(job);
            }
        }
        for (pull, jobs) in given {
            self.answer_pull(pull, jobs, now);
        }
    }

    fn give_to_pull(&mut self, claim: Claim, pull: PullId, now: Moment) -> Option<(Claim, GivenJob)> {
        let holder = self.workers.pulls().get(pull)?.holder;
        self.workers.spend(pull);
        Some((claim, self.hand_to(claim, holder, Some(pull), now)?))
    }

    /// The one answer to a pull.
    fn answer_pull(&mut self, id: PullId, given: Vec<(Claim, GivenJob)>, now: Moment) {
        let (claims, jobs): (Vec<Claim>, Vec<GivenJob>) = given.into_iter().unzip();
        if let Some(holder) = self.workers(now, |workers, _| workers.answer_pull(id, jobs)) {
            for claim in claims {
                self.tell_of_handover(claim, holder);
            }
        }
    }

    /// Whoever waited for the answer to this pull is gone. Where there was one already nobody has read it: what is in it goes back.
    pub(in crate::lifecycle) fn wants_no_more(&mut self, holder: HolderId, id: PullId, now: Moment) {
        if self.workers.wants_no_more(holder, id) {
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

    /// Of these it is news that they came when nobody asked for them any more. They wait for as long as one would for a taker of
    /// their type; but not in the place of jobs that somebody asks for.
    pub(super) fn nobody_asked(&mut self, news: &[Claim], now: Moment) {
        for claim in news {
            self.timers
                .arm(Timer::NoHandler(*claim), now.after(self.options.type_wait));
        }
        let is_full = self.jobs.reserved() >= self.most_active() && self.workers.pulls().wanted() > 0;
        let newest = self.jobs.waiting().untaken().last().copied();
        if let Some(claim) = newest.filter(|_| is_full) {
            self.give_back_unasked(claim, now);
        }
    }

    pub(super) fn give_back_unasked(&mut self, claim: Claim, now: Moment) {
        self.requeue(claim, "not started: it came when nobody asked for it any more", now);
    }
}
