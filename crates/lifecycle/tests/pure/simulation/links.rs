//! The reference for credit: how many jobs each connection accepts, and how many it has requested.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::{CancelReason, GivenJob, HolderId, JobId, ProcessId, PullId, Ready, ToWorker, WorkerState};

use super::course::Course;
use super::ledger::{Claim, Ledger, broken};
use super::promise::{Kept, promise};

/// Longest stall of the shell.
const SLACK: Duration = Duration::from_millis(60);

/// A connection as the shell has reported it.
#[derive(Debug, Clone)]
pub struct Link {
    pub process: ProcessId,
    pub ready: Option<Ready>,
    pub is_busy: bool,
    pub is_hung_up: bool,
    pub is_closing: bool,
    /// The last state that it received.
    pub told: Option<WorkerState>,
    /// The jobs that it was asked to stop.
    pub cancelled: BTreeSet<JobId>,
    /// The jobs that it was asked to stop, the last time because of their timeout.
    pub timed_out: BTreeSet<JobId>,
    /// The request without an answer: how many jobs, and until when it waits.
    pub pulls: BTreeMap<PullId, (usize, Duration)>,
}

impl Link {
    /// The worker receives the state, or a cancel of a job.
    pub fn is_told(&mut self, word: &ToWorker) {
        if let ToWorker::Hello { state, .. } | ToWorker::Lifecycle { state, .. } = word {
            self.told = Some(*state);
        } else if let ToWorker::Cancel { job, reason, .. } = word {
            self.cancelled.insert(job.clone());
            if *reason == CancelReason::Timeout {
                self.timed_out.insert(job.clone());
            } else {
                self.timed_out.remove(job);
            }
        }
    }

    /// Whether the connection can get this job unasked.
    pub fn takes(&self, connection: HolderId, claim: &Claim, held: usize) -> Kept {
        let id = &claim.id;
        let Some(ready) = &self.ready else {
            return Err(broken(
                "a job goes to a ready connection",
                format!("{id} on {connection}"),
            ));
        };
        let takes = ready.types.as_ref().is_none_or(|types| types.contains(&claim.kind));
        promise!("a job goes where its type is taken", takes, "{id} on {connection}");
        let room = usize::try_from(ready.concurrency).unwrap();
        promise!(
            "a connection's concurrency",
            held < room,
            "{id} on {connection}: {held} of {room} held"
        );
        Ok(())
    }
}

impl Course {
    /// Whether every connection has to know by now that the end has begun.
    pub fn delay_is_over(&self, now: Duration) -> bool {
        self.t0.is_some_and(|t0| t0 + self.options.term_delay + SLACK < now)
    }

    /// Whether this is the state of before, in the delay: a new connection is told no other one.
    pub fn is_held_back(&self, state: WorkerState, now: Duration) -> bool {
        self.before == Some(state) && !self.delay_is_over(now)
    }
}

impl Ledger {
    /// Whether a SIGURG to this process has a reason: one of its connections asked for it, and has
    /// a job that it was asked to stop.
    pub fn may_be_woken_up(&self, process: ProcessId) -> bool {
        let theirs = |link: &&Link| link.process == process && !link.is_hung_up;
        let may_be = |claim: &Claim| {
            let link = claim.holder.and_then(|holder| self.links.get(&holder));
            let asked = |link: &&Link| link.ready.as_ref().is_some_and(|ready| ready.cancel_signal);
            let told = |link: &Link| link.cancelled.contains(&claim.id);
            claim.answer.is_none() && link.filter(theirs).filter(asked).is_some_and(told)
        };
        self.claims.iter().any(may_be)
    }

    /// Jobs that the connections may still get.
    pub fn credit(&self) -> usize {
        self.links
            .iter()
            .filter(|(_, link)| !link.is_hung_up && !link.is_closing)
            .filter_map(|(id, link)| Some((id, usize::try_from(link.ready.as_ref()?.concurrency).unwrap())))
            .map(|(id, most)| most.saturating_sub(self.held_by(*id)))
            .sum()
    }

    /// The number of jobs that the open pulls ask for, together.
    pub fn pulled_credit(&self) -> usize {
        let open = self.links.values().filter(|link| !link.is_hung_up && !link.is_closing);
        open.flat_map(|link| link.pulls.values()).map(|(count, _)| count).sum()
    }

    /// A worker that asks for jobs gets its answer in time, and at once if there are no jobs.
    pub fn nobody_is_kept_waiting(&self, state: WorkerState, now: Duration) -> Kept {
        for (connection, link) in &self.links {
            let is_late = |(_, until): &&(usize, Duration)| *until + SLACK < now || state != WorkerState::Running;
            let late = link.pulls.values().find(is_late);
            let is_open = !link.is_hung_up && !link.is_closing;
            promise!(
                "each pull is answered",
                late.is_none() || !is_open,
                "{connection} waits: {late:?} in {state:?}"
            );
        }
        Ok(())
    }

    /// A pull gets its answer; there is one for each.
    pub fn pull_is_answered(
        &mut self,
        connection: HolderId,
        pull: PullId,
        jobs: &[GivenJob],
        state: WorkerState,
        most: usize,
    ) -> Kept {
        let asked = self
            .links
            .get_mut(&connection)
            .and_then(|link| link.pulls.remove(&pull));
        promise!(
            "a pull is answered once, with no more than it asked for",
            asked.is_some_and(|(count, _)| jobs.len() <= count),
            "{pull} of {connection}: {} for {asked:?}",
            jobs.len()
        );
        for job in jobs {
            self.hand_over(connection, &job.envelope, state, most, true)?;
        }
        Ok(())
    }
}
