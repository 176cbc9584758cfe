//! Claims that end without an outcome that the backend accepted: left, void or lost.

use std::collections::BTreeSet;

use ojs_lifecycle::api::{HolderId, JobId};

use super::ledger::{Claim, Ledger, broken};
use super::plan::Answer;
use super::promise::{Kept, promise};

impl Ledger {
    pub fn result_dropped(&mut self, id: &JobId) {
        self.find(id).into_iter().for_each(|it| it.may_answer_again = false);
    }

    /// A worker just received a job whose process crashed at the last attempt.
    pub fn runs_alone(&mut self, id: &JobId) -> Kept {
        let process = |claim: &Claim| Some(self.links.get(&claim.holder?)?.process);
        let Some(own) = self
            .open()
            .filter(|claim| claim.id == *id && claim.is_held())
            .find_map(process)
        else {
            return Ok(());
        };
        let beside = self
            .open()
            .find(|claim| claim.id != *id && claim.is_held() && process(claim) == Some(own));
        promise!("a suspect begins alone", beside.is_none(), "{id}: {beside:?}");
        Ok(())
    }

    pub fn abandoned(&mut self, id: &JobId, why: &str) -> Kept {
        let is_stopping = self.is_stopping;
        // The claim that was released, or else the last one, is given back; every other notice is
        // about the first one.
        let of_it = |claim: &Claim| claim.is_open && claim.id == *id;
        let is_last = |claim: &Claim| of_it(claim) && claim.is_last_attempt;
        let released = |claim: &Claim| is_last(claim) && claim.answer == Some(Answer::Release);
        let claim = if why.contains("discard") {
            let index = self.claims.iter().position(released);
            let index = index.or_else(|| self.claims.iter().rposition(is_last));
            index.and_then(|index| self.claims.get_mut(index))
        } else {
            self.find(id)
        };
        if let Some(claim) = claim {
            // In these worlds a look always distinguishes two reservations, and works before the
            // machine gives it up.
            promise!(
                "what waits is started or handed back",
                is_stopping || !claim.is_waiting() || claim.is_in_question || why.contains("discard"),
                "{id}: {why}: {claim:?}"
            );
            claim.is_open = false;
            return Ok(());
        }
        // This ledger closed a lost claim when no worker could answer any more.
        let was_lost = self.claims.iter().any(|claim| claim.id == *id && claim.is_lost);
        promise!("what is abandoned was claimed", was_lost, "{id}: {why}");
        Ok(())
    }

    /// A delivery that arrived before an earlier outcome was settled: that outcome is settled now,
    /// so this claim is the first.
    pub fn void(&mut self, id: &JobId) -> Kept {
        let Some(claim) = self.find(id) else {
            return Err(broken("what came to nothing was claimed", format!("{id}")));
        };
        claim.is_open = false;
        Ok(())
    }

    /// The handler of a lost job does not answer.
    pub fn unanswered(&mut self, id: &JobId) -> Kept {
        let is_it = |claim: &&Claim| claim.id == *id && claim.is_lost && claim.is_held();
        let is_there = self.claims.iter().any(|claim| is_it(&claim));
        promise!("who does not answer has the job", is_there, "{id}");
        Ok(())
    }

    pub fn lost(&mut self, id: &JobId) -> Kept {
        let Some(claim) = self.find_lost(id) else {
            return Err(broken("what is lost was claimed", format!("{id}")));
        };
        claim.is_lost = true;
        claim.is_open = claim.is_held();
        let holder = claim.holder;
        let is_hung_up = |holder: &HolderId| self.links.get(holder).is_some_and(|link| link.is_hung_up);
        if let Some(holder) = holder.filter(is_hung_up) {
            self.hung_up(holder);
        }
        Ok(())
    }

    /// How many of these places are in use by these jobs. Of the jobs that a worker gave back,
    /// eight for each place may be held in addition.
    pub fn places_taken(&self, places: usize, counts: fn(&Claim) -> bool) -> usize {
        let (released, others): (Vec<&Claim>, Vec<&Claim>) = self
            .open()
            .filter(|claim| !claim.is_lost && counts(claim))
            .partition(|claim| claim.answer == Some(Answer::Release) || self.braked.contains(&claim.id));
        others.len() + released.len().saturating_sub(8 * places)
    }

    /// How many jobs a shutdown cut off, at least and at most.
    pub fn cut_off(&self) -> (usize, usize) {
        let cut: Vec<&Claim> = self.claims.iter().filter(|claim| claim.may_be_cut_off()).collect();
        let is_lost_perhaps_before = |claim: &Claim| claim.is_lost && !claim.is_decided;
        let is_sure = |claim: &&&Claim| !claim.may_be_decided && !is_lost_perhaps_before(claim);
        let sure = cut.iter().filter(is_sure).count();
        (sure, cut.len())
    }

    /// Names of the jobs that the shutdown may have cut off.
    pub fn may_be_cut_off(&self) -> BTreeSet<JobId> {
        let cut = self.claims.iter().filter(|claim| claim.may_be_cut_off());
        cut.map(|claim| claim.id.clone()).collect()
    }

    /// Whether there is a job, or a handler of a lost one that still has time to end.
    pub fn is_at_work(&self, unanswered: &BTreeSet<JobId>) -> bool {
        self.open()
            .any(|claim| !(claim.is_lost && unanswered.contains(&claim.id)))
    }
}
