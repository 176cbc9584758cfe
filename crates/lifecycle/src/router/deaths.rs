//! Processes that ended while they held jobs: the decision about these jobs, and its log lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use ojs_values::small;

use crate::api::ids::{Claim, HolderId, ProcessId};
use crate::api::{Death, Departure, EndCause, JobNotice, Moment, Subject};
use crate::jobs::job::Job;
use crate::machine::Lifecycle;

impl Lifecycle {
    /// Decides the jobs of processes that ended without an answer. While the worker's own
    /// descendants are still being ended this decides nothing, because one of them may be doing the
    /// work.
    pub(crate) fn resolve_gone_processes(&mut self, now: Moment) {
        if self.workers.supervision.is_clearing() {
            return;
        }
        // The worker process is not reaped yet: its descendants are not ended yet.
        let running = self.workers.supervision.process();
        let over = self.workers.holders.over();
        let over = over.filter(|(process, _)| running != Some(*process));
        let over = over.flat_map(|(process, closed)| closed.iter().map(move |holder| (*holder, process)));
        let mut over: Vec<(HolderId, ProcessId, Vec<Claim>)> = over
            .map(|(id, process)| (id, process, self.jobs.ledger.held_by(id).iter().copied().collect()))
            .collect();
        small::sort_by(&mut over, |one, other| one < other);
        let mut died: BTreeMap<ProcessId, (Death, Vec<Arc<Subject>>)> = BTreeMap::new();
        for (holder, process, held) in over {
            for claim in held {
                let death = self.death_of(process);
                let subject = self.jobs.ledger.get(claim).map(Job::subject);
                if self.jobs(now, |jobs, cx| jobs.cut_off(claim, &death, cx)) {
                    self.suspect(subject.as_deref(), &death, now);
                    died.entry(process).or_insert((death, Vec::new())).1.extend(subject);
                }
            }
            self.workers.holders.forget(holder);
        }
        for (death, jobs) in died.into_values() {
            self.notify(JobNotice::JobsDied { death, jobs });
        }
    }

    /// One of the jobs of a process that ended by itself may be the cause. A process whose worker
    /// ended first is no evidence.
    fn suspect(&mut self, job: Option<&Subject>, death: &Death, now: Moment) {
        let is_evidence = match &death.departure {
            Departure::Worker(_) | Departure::Other => true,
            Departure::WasEnded { cause, .. } => !matches!(cause, EndCause::Orphaned | EndCause::Recycled),
        };
        if let Some(job) = job.filter(|_| is_evidence) {
            self.jobs.suspects.remember(job.id.clone(), now);
        }
    }

    /// How a process ended, and with how many jobs.
    fn death_of(&mut self, process: ProcessId) -> Death {
        let is_worker = self.workers.supervision.ended_process == Some(process);
        let ended_for = if is_worker {
            self.workers.supervision.ended_for.as_ref()
        } else {
            self.workers.holders.ending(process)
        };
        let departure = match (ended_for, self.workers.supervision.ended) {
            (Some(cause), end) => Departure::WasEnded {
                end: end.filter(|_| is_worker || *cause == EndCause::Orphaned),
                cause: cause.clone(),
            },
            (None, Some(end)) if is_worker => Departure::Worker(end),
            (None, _) => Departure::Other,
        };
        let held = self.workers.holders.left_unanswered(process);
        Death { departure, held }
    }
}
