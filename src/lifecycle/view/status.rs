//! What an operator is shown: where we are, how long that may last, and what everybody is doing.

use std::cmp::Reverse;
use std::time::Duration;

use crate::lifecycle::api::phase::Phase;
use crate::lifecycle::api::status::{Cause, Ending, ShownBackend, ShownJob, ShownPlace, ShownWorker, Status};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::api::timer::Timer;
use crate::lifecycle::api::words::WorkerState;
use crate::lifecycle::jobs::job::Place;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::clock::Step;

/// Most jobs that are shown, the oldest first; the counts are of all.
pub const MOST_JOBS_SHOWN: usize = 100;

impl Lifecycle {
    /// What an operator is shown.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let snapshot = self.snapshot();
        // In the last steps of the end game nothing of the drain is left to tell.
        let is_over = self.phase == Phase::EndGame && self.timers.due(Timer::Deadline).is_none();
        let left = self.time_left(now).filter(|_| !is_over);
        Status {
            phase: snapshot.phase,
            state: snapshot.state,
            causes: self.causes(),
            terminating_for: self.shutdown.began().map(|began| began.until(now)),
            left,
            left_of: left.and(self.whole_time()),
            concurrency: self.options.concurrency,
            active: snapshot.active,
            waiting: snapshot.waiting,
            held: snapshot.held,
            reporting: snapshot.reporting,
            not_shown: self.jobs.iter().count().saturating_sub(MOST_JOBS_SHOWN),
            jobs: self.shown_jobs(now),
            cut_off: self.shutdown.cut_off,
            ending: self.ending(),
            worker: self.shown_worker(now),
            backend: ShownBackend {
                worker: self.agent.worker.clone(),
                heartbeat_age: self.vitals.accepted_at.map(|at| at.until(now)),
                interval: self.agent.beats.interval,
                is_unreachable: self.is_in_outage(),
                requests: self.calls.len(),
            },
        }
    }

    fn causes(&self) -> Vec<Cause> {
        match self.state() {
            WorkerState::Running => Vec::new(),
            WorkerState::Quiet => {
                let by = self.shutdown.quiet;
                let causes = [
                    (by.operator, Cause::Operator),
                    (by.server, Cause::Server),
                    (by.prestop, Cause::Prestop),
                ];
                causes
                    .into_iter()
                    .filter(|(is_one, _)| *is_one)
                    .map(|(_, cause)| cause)
                    .collect()
            }
            WorkerState::Terminate | WorkerState::Terminated => vec![Cause::End(self.shutdown.reason)],
        }
    }

    fn ending(&self) -> Option<Ending> {
        match self.shutdown.step {
            Step::BeforeKill => Some(Ending::Kill),
            Step::BeforeExit | Step::Over => Some(Ending::Exit(self.exit_status())),
            Step::NotYet
            | Step::Cancel
            | Step::Ask
            | Step::Kill
            | Step::Report
            | Step::FinalHeartbeat
            | Step::Deregister => None,
        }
    }

    /// Of which `time_left` is what is left: the drain, or the stop phase.
    fn whole_time(&self) -> Option<Duration> {
        match self.phase {
            Phase::Stop | Phase::Exited => Some(self.options.times.stop_margin),
            Phase::Running | Phase::Quiet | Phase::Delay | Phase::Drain | Phase::EndGame => {
                Some(self.options.times.drain(Duration::ZERO))
            }
        }
    }

    fn shown_jobs(&self, now: Moment) -> Vec<ShownJob> {
        let mut jobs: Vec<ShownJob> = self
            .jobs
            .iter()
            .map(|(_, job)| {
                let (place, is_cancelled) = match &job.place {
                    Place::Waiting => (ShownPlace::Waiting, false),
                    Place::Held(held) => (ShownPlace::Held(held.connection), held.cancelled.is_some()),
                    Place::Reporting(_) => (ShownPlace::Reporting, false),
                };
                ShownJob {
                    subject: job.subject(),
                    age: job.claimed_at.until(now),
                    place,
                    is_cancelled: is_cancelled || job.is_lost,
                }
            })
            .collect();
        jobs.sort_by_key(|job| Reverse(job.age));
        jobs.truncate(MOST_JOBS_SHOWN);
        jobs
    }

    fn shown_worker(&self, now: Moment) -> ShownWorker {
        let starts = [Timer::Start, Timer::StartAnyway];
        let starts_in = starts.iter().filter_map(|timer| self.timers.due(*timer)).min();
        ShownWorker {
            process: self.worker.process().filter(|_| self.worker.is_alive()),
            up: self.worker.up(now),
            ended: self.worker.ended().map(|end| end.ended),
            restarts: self.worker.restarts(now),
            starts_in: starts_in.map(|at| at.from_now(now)),
            connections: self.connections.iter().count(),
            ready: self.connections.ready(),
            capacity: self.connections.concurrency(),
        }
    }
}
