//! Holders behind the gateway: each waits for the answer to an outcome. Any of them may report the
//! outcome of any job, also repeatedly, and none receives anything unasked. The promise: each
//! outcome is answered once, to its sender, and at once when the end has begun.

use std::collections::BTreeSet;

use ojs_lifecycle::api::{Event, FromWorker, HolderId, JobId, PullId, ToWorker};

use super::promises::{Fate, Kind};
use super::world::{Action, Kin, World};

impl World {
    pub fn is_gateway(&self) -> bool {
        match self.cast.kin {
            Kin::Gateway | Kin::Strangers => true,
            Kin::Told | Kin::Asking => false,
        }
    }

    /// The next acts of a client of the gateway. While the answer to an outcome is waited for, the
    /// shell joins every other one.
    pub fn acts_of_a_gateway(&self, holder: HolderId, actions: &mut Vec<Action>) {
        let is_open = |fate: &Fate| fate.said.is_none() && fate.sent.is_none();
        let is_known = |fate: &Fate| fate.holder.is_some() && fate.said != Some(Kind::Requeue);
        let given = self.jobs.iter().filter(|(_, fate)| is_known(fate));
        for (job, fate) in given.filter(|(job, _)| !self.waits.contains_key(*job)) {
            if is_open(fate) || self.left.repeats > 0 {
                for kind in [Kind::Ack, Kind::Fail] {
                    actions.push(Action::Worker(holder, job.clone(), kind));
                }
            }
        }
        // No client got the answer that these were in.
        let unread = self
            .jobs
            .values()
            .filter(|fate| fate.is_held_by(holder) && is_open(fate));
        let unread: BTreeSet<PullId> = unread.filter_map(|fate| fate.pull).collect();
        actions.extend(unread.into_iter().map(|pull| Action::TakesBack(holder, pull)));
        for (pull, _) in self.pulls.iter().filter(|(_, (asked, _))| *asked == holder) {
            if self.left.pulls > 0 {
                actions.push(Action::TakesBack(holder, *pull));
            }
        }
        if self.left.beats > 0 {
            actions.push(Action::BeatsNamingNothing(holder));
        }
    }

    /// The first outcome decides, unless the backend refused it.
    pub fn outcome_waits(&mut self, holder: HolderId, job: &JobId, kind: Kind) {
        let Some(fate) = self.jobs.get_mut(job) else { return };
        if fate.said.is_none() && fate.sent.is_none() {
            fate.said = Some(kind);
        } else {
            self.left.repeats -= 1;
            if fate.is_refused {
                fate.said = Some(kind);
            }
        }
        self.waits.insert(job.clone(), holder);
    }

    pub fn beats_naming_nothing(&mut self, holder: HolderId) {
        self.left.beats -= 1;
        let jobs = Some(Vec::new());
        self.happen(Event::Said(holder, FromWorker::Beats { jobs }));
    }

    /// A word to a holder. Behind the gateway it is the answer to an outcome, and nothing else.
    pub fn told_by_us(&mut self, holder: HolderId, word: &ToWorker) {
        if !self.is_gateway() {
            return;
        }
        let job = match word {
            ToWorker::Ok { job, .. } | ToWorker::Error { job: Some(job), .. } => job,
            ToWorker::Hello { .. }
            | ToWorker::Job(_)
            | ToWorker::Lifecycle { .. }
            | ToWorker::Cancel { .. }
            | ToWorker::Error { job: None, .. }
            | ToWorker::Ping { .. } => return self.break_promise("somebody is told something unasked"),
        };
        if self.waits.remove(job) != Some(holder) {
            self.break_promise("an outcome is answered twice, or to somebody else");
        }
    }

    /// The holder reads no more answers.
    pub fn waits_no_more(&mut self, holder: HolderId) {
        self.pulls.retain(|_, (asked, _)| *asked != holder);
        self.waits.retain(|_, waits| *waits != holder);
    }

    /// When the end has begun, the machine answers an outcome at once.
    pub fn check_answers(&mut self) {
        if self.machine.snapshot().phase.is_terminating() && !self.waits.is_empty() {
            self.break_promise("somebody waits for the answer to an outcome in terminate");
        }
    }
}
