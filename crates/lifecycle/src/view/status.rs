//! The status: the phase and its remaining time, jobs, worker and backend.

use std::time::Duration;

use ojs_values::small;

use crate::api::{
    BackendStatus, EndingTimer, FinalStep, HolderId, HolderState, HolderStatus, Moment, NotRunningBecause, Phase,
    Status, Text, WorkerState, WorkerStatus, WorkerTimer,
};
use crate::machine::Lifecycle;
use crate::shutdown::steps::StopStep;
use crate::worker::holder::Holder;
use crate::worker::holders::Holders;
use crate::worker::pulls::Pulls;

/// Most jobs that are shown, the oldest first; the counts are of all.
pub const MOST_JOBS_SHOWN: usize = 100;

/// Most holders in the status, those with the most jobs. The count covers all holders.
pub const MOST_HOLDERS_SHOWN: usize = 100;

/// Most types in the status whose jobs are given back again and again, those with the most returns.
pub const MOST_TYPES_SHOWN: usize = 8;

impl Lifecycle {
    /// The status as an operator sees it.
    pub fn status(&self, now: Moment) -> Status {
        // In the last steps of the end game nothing of the drain is left to show.
        let is_over = self.phase() == Phase::EndGame && !self.ending.timers.is_armed(EndingTimer::Deadline);
        let left = self.time_left(now).filter(|_| !is_over);
        let takes = self.link.takes(&self.options);
        Status {
            snapshot: self.snapshot(),
            causes: self.causes(),
            terminating_for: self.ending.shutdown.began.map(|began| began.elapsed(now)),
            left,
            left_of: left.and(self.whole_time()),
            not_shown: self.jobs.ledger.iter().count().saturating_sub(MOST_JOBS_SHOWN),
            jobs: self.shown_jobs(MOST_JOBS_SHOWN, now),
            given_back: self.shown_returns(now),
            queues: takes.queues,
            refused_queues: self.workers.refused_queues().to_vec(),
            is_uncapped: takes.concurrency.is_some(),
            most_asked: self.link.most_asked_for(&self.options),
            ending: self.ending(),
            worker: self.shown_worker(now),
            backend: BackendStatus {
                worker: self.link.session.worker.clone(),
                heartbeat_age: self.link.accepted_at.map(|at| at.elapsed(now)),
                is_unreachable: self.link.is_in_outage(),
                trouble: self.trouble(now),
                requests: self.link.calls.len(),
            },
        }
    }

    fn causes(&self) -> Vec<NotRunningBecause> {
        match self.state() {
            WorkerState::Running => Vec::new(),
            WorkerState::Quiet => {
                let by = self.ending.shutdown.quiet;
                let causes = [
                    (by.operator, NotRunningBecause::Operator),
                    (by.server, NotRunningBecause::Server),
                    (by.prestop, NotRunningBecause::Prestop),
                ];
                causes
                    .into_iter()
                    .filter(|(is_one, _)| *is_one)
                    .map(|(_, cause)| cause)
                    .collect()
            }
            WorkerState::Terminate | WorkerState::Terminated => {
                vec![NotRunningBecause::End(self.ending.shutdown.reason)]
            }
        }
    }

    fn ending(&self) -> Option<FinalStep> {
        match self.ending.shutdown.step {
            StopStep::BeforeKill => Some(FinalStep::Kill),
            StopStep::BeforeExit | StopStep::Over => Some(FinalStep::Exit(self.exit_status())),
            StopStep::NotYet
            | StopStep::Cancel
            | StopStep::Ask
            | StopStep::Kill
            | StopStep::Report
            | StopStep::FinalHeartbeat
            | StopStep::Deregister => None,
        }
    }

    /// The whole time of which `time_left` is the rest: the drain, or the stop phase.
    fn whole_time(&self) -> Option<Duration> {
        match self.phase() {
            Phase::Stop | Phase::Exited => Some(self.options.times.stop_margin),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::EndGame => {
                Some(self.options.times.drain(Duration::ZERO))
            }
        }
    }

    fn shown_returns(&self, now: Moment) -> Vec<(Text, u32)> {
        let mut types: Vec<(Text, u32)> = self
            .jobs
            .returns
            .types(now)
            .map(|(kind, times)| (kind.clone(), times))
            .collect();
        small::sort_by(&mut types, |one, other| (other.1, &one.0) < (one.1, &other.0));
        types.truncate(MOST_TYPES_SHOWN);
        types
    }

    fn shown_worker(&self, now: Moment) -> WorkerStatus {
        let starts = [WorkerTimer::Start, WorkerTimer::StartAnyway];
        let (workers, worker) = (&self.workers, &self.workers.supervision);
        let timers = &workers.timers;
        let starts_in = starts.iter().filter_map(|timer| timers.deadline_of(*timer)).min();
        WorkerStatus {
            process: worker.process().filter(|_| worker.is_alive()),
            up: worker.up(now),
            ended: worker.ended.map(|end| end.ended),
            restarts: worker.restarts(now),
            recycling: workers
                .recycling
                .under_way()
                .map(|(reason, since)| (reason, since.elapsed(now))),
            starts_in: starts_in.map(|at| at.remaining(now)),
            holders: workers.holders.len(),
            most_loaded: most_loaded(&workers.holders, &workers.pulls),
        }
    }
}

/// The holders in the status: those with the most jobs first, and among equals the oldest.
fn most_loaded(holders: &Holders, pulls: &Pulls) -> Vec<HolderStatus> {
    let mut all: Vec<(HolderId, &Holder)> = holders.iter().collect();
    small::sort_by(&mut all, |(one, holder), (other, of_other)| {
        (of_other.held, *one) < (holder.held, *other)
    });
    all.truncate(MOST_HOLDERS_SHOWN);
    all.into_iter()
        .map(|(id, holder)| HolderStatus {
            holder: id,
            process: Some(holder.process).filter(|_| !holder.is_of_unknown_process),
            jobs: holder.held,
            concurrency: holder.ready.as_ref().map(|ready| ready.concurrency),
            state: state_of(holder, !pulls.of(id).is_empty()),
        })
        .collect()
}

fn state_of(holder: &Holder, is_asking: bool) -> HolderState {
    let is_paused = holder.ready.as_ref().is_some_and(|ready| ready.concurrency == 0);
    if holder.is_closed {
        HolderState::Closed
    } else if holder.is_given_up {
        HolderState::GivenUp
    } else if !holder.takes_jobs() {
        HolderState::NotReady
    } else if is_paused {
        HolderState::Paused
    } else if holder.is_kept {
        HolderState::Alone
    } else if is_asking {
        HolderState::Asking
    } else {
        HolderState::Ready
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
