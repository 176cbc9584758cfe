//! Jobs for holders that ask for them. Each pull gets one reply, from the jobs that wait or from
//! the next FETCH, the oldest pull first. A job that arrives after its pull has ended waits for
//! another pull for a while.

use std::collections::BTreeMap;

use crate::api::ids::{Claim, HolderId, PullId, Text};
use crate::api::{GivenJob, JobTimer, OfPull};
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;

impl Jobs {
    /// The new jobs for which no pull was checked yet, with the queue of each.
    pub(crate) fn fresh(&self) -> Vec<(Claim, Text)> {
        let fresh = self.ledger.waiting().fresh().iter();
        let queue = |claim: &Claim| Some((*claim, self.ledger.get(*claim)?.delivery.subject.queue.clone()));
        fresh.filter_map(queue).collect()
    }

    /// Gives each of these jobs with the answer to a pull. The pull's credit is spent already.
    pub(crate) fn go_to_pulls(&mut self, dealt: Vec<(Claim, OfPull)>, cx: &Context) {
        let mut given: BTreeMap<OfPull, Vec<(Claim, GivenJob)>> = BTreeMap::new();
        for (claim, of) in dealt {
            let job = self.hand_to(claim, of.holder, Some(of.pull), cx);
            given.entry(of).or_default().extend(job.map(|job| (claim, job)));
        }
        for (pull, jobs) in given {
            self.answer_pull(pull, jobs);
        }
    }

    /// Gives waiting jobs to a new pull. No pull asked for them until now.
    pub(crate) fn give_what_waits(&mut self, to: OfPull, left: usize, queues: Option<&[Text]>, cx: &Context) {
        let mut given = Vec::new();
        for _ in 0..left {
            let Some(claim) = self.ledger.waiting().oldest_from(queues) else {
                break;
            };
            self.say(Said::Spend(to.pull));
            let job = self.hand_to(claim, to.holder, Some(to.pull), cx);
            given.extend(job.map(|job| (claim, job)));
        }
        if !given.is_empty() {
            self.answer_pull(to, given);
        }
    }

    /// Gives one job to a pull, and answers the pull with it.
    pub(super) fn give_to_pull(&mut self, claim: Claim, to: OfPull, cx: &Context) {
        self.say(Said::Spend(to.pull));
        let job = self.hand_to(claim, to.holder, Some(to.pull), cx);
        self.answer_pull(to, job.into_iter().map(|job| (claim, job)).collect());
    }

    /// The one answer to a pull.
    fn answer_pull(&mut self, to: OfPull, given: Vec<(Claim, GivenJob)>) {
        let (claims, jobs): (Vec<Claim>, Vec<GivenJob>) = given.into_iter().unzip();
        self.say(Said::AnswerPull(to.pull, jobs));
        for claim in claims {
            self.tell_of_handover(claim, to.holder);
        }
    }

    /// Gives back the jobs of an answer that the client never read.
    pub(crate) fn answer_is_unread(&mut self, holder: HolderId, id: PullId, cx: &Context) {
        let held = self.ledger.held_by(holder).iter().copied();
        let is_unread = |claim: &Claim| self.ledger.get(*claim).is_some_and(|job| job.pull() == Some(id));
        for claim in held.filter(is_unread).collect::<Vec<Claim>>() {
            if self.ledger.get(claim).is_some_and(|job| job.is_lost) {
                self.finish(claim, cx);
            } else {
                self.requeue(claim, "not started: the client that asked for it was gone", cx);
            }
        }
    }

    /// Starts the wait of jobs that newly have no pull. They wait as long as a job waits for a
    /// taker of its type, but not in the place of jobs that a pull asks for.
    pub(super) fn nobody_asked(&mut self, news: &[Claim], cx: &Context) {
        for claim in news {
            self.timers
                .arm(JobTimer::NoHandler(*claim), cx.now.after(cx.options.type_wait));
        }
        let is_full = self.ledger.reserved() >= cx.most_active() && cx.takers.want_jobs();
        let newest = self.ledger.waiting().untaken().last().copied();
        if let Some(claim) = newest.filter(|_| is_full) {
            self.give_back_unasked(claim, cx);
        }
    }

    pub(super) fn give_back_unasked(&mut self, claim: Claim, cx: &Context) {
        self.requeue(claim, "not started: it came when nobody asked for it any more", cx);
    }
}
