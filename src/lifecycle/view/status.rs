//! What an operator is shown: where we are, how long that may last, and what everybody is doing.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::exit::Ended;
use crate::lifecycle::api::effect::{Reason, WorkerState};
use crate::lifecycle::api::event::Subject;
use crate::lifecycle::api::ids::{ConnectionId, ProcessId, WorkerId};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::jobs::ledger::Place;
use crate::lifecycle::machine::{Lifecycle, Timer};
use crate::lifecycle::shutdown::phase::Phase;
use crate::lifecycle::shutdown::times::Step;

/// Most jobs that are shown, the oldest first; the counts are of all.
pub const MOST_JOBS_SHOWN: usize = 100;

/// Everything at one moment. Times are relative to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status {
    /// Where we are.
    pub phase: Phase,
    /// What the worker and the backend are told about that.
    pub state: WorkerState,
    /// Why we are not running. In quiet there may be several, and each has to be taken back.
    pub causes: Vec<Cause>,
    /// Since when terminate; none before it.
    pub terminating_for: Option<Duration>,
    /// What is left of the drain, or of the stop phase; none before terminate, unless the orchestrator's clock runs.
    pub left: Option<Duration>,
    /// The whole time of which `left` is left: for a bar.
    pub left_of: Option<Duration>,
    /// Most jobs at the same time.
    pub concurrency: u32,
    /// Jobs that count against it.
    pub active: usize,
    /// Of these, in our buffer.
    pub waiting: usize,
    /// Of these, with a worker.
    pub held: usize,
    /// Of these, on their way to the backend.
    pub reporting: usize,
    /// The oldest of them, at most [`MOST_JOBS_SHOWN`].
    pub jobs: Vec<ShownJob>,
    /// Jobs that are not among these: with those that go straight back, which do not count as active.
    pub not_shown: usize,
    /// Jobs that the stop phase cut off so far.
    pub cut_off: usize,
    /// What comes right after this, when that is the end.
    pub ending: Option<Ending>,
    /// The worker's process.
    pub worker: ShownWorker,
    /// The conversation with the backend.
    pub backend: ShownBackend,
}

/// Why we are not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Quiet: a signal, or somebody on the control socket.
    Operator,
    /// Quiet: the backend.
    Server,
    /// Quiet: a preStop hook.
    Prestop,
    /// Terminate.
    End(Reason),
}

/// What comes right after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// SIGKILL to everybody; for PID 1 that is everything in its namespace.
    Kill,
    /// The exit, with this status.
    Exit(u8),
}

/// One job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShownJob {
    /// What it is.
    pub subject: Arc<Subject>,
    /// Since it was claimed.
    pub age: Duration,
    /// Where it is.
    pub place: ShownPlace,
    /// It was told to stop, or its reservation is lost.
    pub is_cancelled: bool,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShownPlace {
    /// In our buffer.
    Waiting,
    /// With the worker on this connection.
    Held(ConnectionId),
    /// Its outcome is on its way to the backend.
    Reporting,
}

/// The worker's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShownWorker {
    /// The process; none while there is none.
    pub process: Option<ProcessId>,
    /// For how long it has run, or was to be started.
    pub up: Duration,
    /// How the last one ended.
    pub ended: Option<Ended>,
    /// Starts again within the last 10 minutes.
    pub restarts: usize,
    /// Until the next start, where one is due.
    pub starts_in: Option<Duration>,
    /// Connections that are open.
    pub connections: usize,
    /// Of these, those that take jobs.
    pub ready: usize,
    /// Jobs that they take at a time, together.
    pub capacity: u64,
}

/// The conversation with the backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShownBackend {
    /// Our name there.
    pub worker: Option<WorkerId>,
    /// Since it last accepted a heartbeat.
    pub heartbeat_age: Option<Duration>,
    /// Time between two.
    pub interval: Duration,
    /// The last answer was none.
    pub is_unreachable: bool,
    /// Requests that are on their way.
    pub requests: usize,
}

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
