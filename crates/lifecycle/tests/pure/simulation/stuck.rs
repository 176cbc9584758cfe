//! The reference for stuck handlers: their jobs were cancelled or lost, and they do not stop.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::{CancelReason, Effect, EndCause, HolderId, JobId, JobNotice, Notice, ProcessId, WorkerNotice};

use super::ledger::{Claim, Ledger};
use super::links::Link;
use super::promise::{Kept, promise};

/// Longest stall of the shell.
const SLACK: Duration = Duration::from_millis(60);

/// The record of handlers that were asked to stop.
#[derive(Debug, Default)]
pub struct Stuck {
    /// Since when each job's handler has had the request to stop.
    told: BTreeMap<JobId, Duration>,
    /// Processes that are being ended.
    ending: Vec<ProcessId>,
    /// Since when jobs with a handler are cancelled by an operator.
    cancelled: BTreeMap<JobId, Duration>,
}

impl Stuck {
    pub fn effect(&mut self, effect: &Effect, ledger: &Ledger, grace: Duration, now: Duration) -> Kept {
        let Effect::Notify(notice) = effect else { return Ok(()) };
        if let Notice::Job(JobNotice::ReservationLost(job, _)) = notice {
            self.told.insert(job.id.clone(), now);
        } else if let Notice::Job(JobNotice::Adopted(job)) = notice {
            self.told.remove(&job.id);
        } else if let Notice::Job(JobNotice::CancelledByOperator { job, has_handler: true }) = notice {
            self.cancelled.insert(job.id.clone(), now);
        } else if let Notice::Job(JobNotice::HandedOver(job, _)) = notice {
            self.cancelled.remove(&job.id);
        } else if let Notice::Worker(WorkerNotice::EndingProcess { process, cause, .. }) = notice {
            if let EndCause::Hung {
                job,
                told: CancelReason::Cancelled | CancelReason::Lost,
                ..
            } = cause
            {
                // The old one of two workers gets no more jobs. Numbers of processes grow.
                let is_old = Some(*process) < ledger.main;
                let has_a_timeout = ledger
                    .claims
                    .iter()
                    .any(|claim| claim.id == job.id && claim.has_a_timeout);
                promise!(
                    "nobody is ended for a lost job who can do something else",
                    has_a_timeout
                        || is_old
                        || self.cancelled.contains_key(&job.id)
                        || self.can_do_nothing(*process, ledger, grace, now),
                    "{notice:?}"
                );
            }
            self.ending.push(*process);
        }
        Ok(())
    }

    /// After each fact and deadline.
    pub fn after(&self, ledger: &Ledger, grace: Duration, now: Duration) -> Kept {
        if ledger.is_stopping {
            return Ok(());
        }
        for (process, is_gone) in &ledger.gone {
            // The machine looks again when it hears that a connection is closed.
            let is_closing = |link: &Link| link.process == *process && link.is_closing && !link.is_hung_up;
            let is_left = !is_gone && !self.ending.contains(process) && !ledger.links.values().any(is_closing);
            promise!(
                "who can do nothing but work for nobody is ended",
                !is_left || !self.can_do_nothing(*process, ledger, grace + SLACK, now),
                "{process:?}"
            );
        }
        self.cancelled_jobs_end(ledger, grace + SLACK, now)
    }

    /// A process that goes on with a job for the whole grace after an operator has cancelled it is
    /// ended.
    fn cancelled_jobs_end(&self, ledger: &Ledger, grace: Duration, now: Duration) -> Kept {
        for claim in ledger.claims.iter().filter(|claim| claim.is_held()) {
            let since = self.cancelled.get(&claim.id);
            let process = claim.holder.and_then(|holder| Some(ledger.links.get(&holder)?.process));
            let Some(process) = process.filter(|_| since.is_some_and(|since| *since + grace < now)) else {
                continue;
            };
            promise!(
                "who goes on with a job that an operator cancelled is ended",
                self.ending.contains(&process) || ledger.gone.get(&process) == Some(&true),
                "{claim:?} in {process:?}"
            );
        }
        Ok(())
    }

    /// Whether each slot of a process is held by a job whose handler was asked to stop at least
    /// `grace` ago.
    fn can_do_nothing(&self, process: ProcessId, ledger: &Ledger, grace: Duration, now: Duration) -> bool {
        let is_open = |link: &Link| link.process == process && !link.is_hung_up && !link.is_closing;
        let links = ledger.links.iter().filter(|(_, link)| is_open(link));
        let links: Vec<(&HolderId, &Link)> = links.collect();
        let is_overdue = |claim: &Claim| {
            let told = self.told.get(&claim.id);
            claim.is_lost && told.is_some_and(|told| *told + grace <= now)
        };
        let held = |connection: HolderId| {
            let held = ledger.claims.iter();
            held.filter(move |claim| claim.is_held() && claim.holder == Some(connection))
        };
        let is_taken = |(connection, link): &(&HolderId, &Link)| {
            let most = link.ready.as_ref().map_or(0, |ready| ready.concurrency);
            held(**connection).all(is_overdue) && held(**connection).count() >= usize::try_from(most).unwrap()
        };
        let has_any = links.iter().any(|(connection, _)| held(**connection).next().is_some());
        has_any && links.iter().all(is_taken)
    }
}
