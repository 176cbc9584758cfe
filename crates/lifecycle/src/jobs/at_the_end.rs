//! The fate of jobs for which the end no longer waits.

use std::sync::Arc;
use std::time::Duration;

use crate::api::ids::{Claim, HolderId};
use crate::api::{CancelReason, Phase, Subject};
use crate::jobs::job::Job;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;

impl Jobs {
    /// Cancels each held job. Each handler may still answer.
    pub(crate) fn cancel_all(&mut self, grace: Duration, cx: &Context) {
        for claim in self.ledger.all_held().clone() {
            self.cancel(claim, CancelReason::Shutdown, grace, cx);
        }
    }

    /// Cancels the jobs of holders whose process is ended. Jobs that were cancelled before do not
    /// change.
    pub(crate) fn cancel_held_by(&mut self, holders: &[HolderId], cx: &Context) {
        let held = holders.iter().flat_map(|holder| self.ledger.held_by(*holder));
        for claim in held.copied().collect::<Vec<Claim>>() {
            if self.ledger.get(claim).and_then(Job::cancelled).is_none() {
                self.cancel(claim, CancelReason::Shutdown, cx.options.cancel_grace, cx);
            }
        }
    }

    /// Whether a holder that receives no cancel has a job.
    pub(crate) fn is_one_with_the_deaf(&self, cx: &Context) -> bool {
        self.ledger.holders().any(|holder| !cx.takers.hears(holder))
    }

    /// Lets the reservations of these holders' jobs expire, for this reason. The backend receives
    /// no outcome of these jobs.
    pub(crate) fn give_up_on(&mut self, holders: &[HolderId], why: &'static str, cx: &Context) {
        let held = holders.iter().flat_map(|holder| self.ledger.held_by(*holder));
        for claim in held.copied().collect::<Vec<Claim>>() {
            if cx.end.phase == Phase::Stop {
                self.cut_off_by_end(claim);
            }
            self.let_reservation_expire(claim, why, cx);
        }
    }

    /// Lets every reservation expire: the backend receives no further outcome.
    pub(crate) fn let_all_expire(&mut self, why: &'static str, cx: &Context) {
        for claim in self.all() {
            self.let_reservation_expire(claim, why, cx);
        }
    }

    /// Reports every held job as cut off, because ojs-init exits at once.
    pub(crate) fn cut_all_off(&mut self) {
        for claim in self.ledger.all_held().clone() {
            self.cut_off_by_end(claim);
        }
    }

    /// Reports that the end cuts this job off, unless the job is lost.
    pub(super) fn cut_off_by_end(&mut self, claim: Claim) {
        if let Some(job) = self.ledger.get(claim).filter(|job| !job.is_lost) {
            let subject = job.subject();
            self.say(Said::CutOff(subject));
        }
    }

    /// Finished jobs whose ACK the backend has not accepted.
    pub(crate) fn unfinished_acks(&self) -> usize {
        let is_ack = |(_, job): &(Claim, &Job)| job.report().is_some_and(|report| report.what.is_ack());
        self.ledger.iter().filter(is_ack).count()
    }

    /// The jobs that a holder has and that are not lost.
    pub(crate) fn held_subjects(&self) -> Vec<Arc<Subject>> {
        let held = self.ledger.all_held().iter();
        let held = held.filter_map(|claim| self.ledger.get(*claim));
        held.filter(|job| !job.is_lost).map(Job::subject).collect()
    }

    fn all(&self) -> Vec<Claim> {
        self.ledger.iter().map(|(claim, _)| claim).collect()
    }
}
