//! The backend: the true state of each job, known to the machine or not.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::{
    BackendTraits, Call, Delivery, Directive, Endpoint, Failure, JobId, JobState, JobView, Outcome, Reply, Reservation,
    Subject, WorkerId,
};

use super::plan::{BackendHabits, Fate, Fault, JobPlan, RARE_KIND, ms};

/// Size of an envelope that is too large for any frame of these runs.
pub const PADDING: usize = 2_000;

/// From a FAIL to the next attempt.
const RETRY_AFTER: Duration = Duration::from_millis(400);

/// A job, truly.
#[derive(Debug, Clone)]
struct Truth {
    plan: JobPlan,
    state: State,
    attempt: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Queued {
        from: Duration,
    },
    Active {
        serial: u64,
        worker: Option<WorkerId>,
        until: Duration,
    },
    Completed,
    Cancelled,
    Discarded,
}

/// The state of the backend.
#[derive(Debug)]
pub struct Backend {
    habits: BackendHabits,
    jobs: BTreeMap<JobId, Truth>,
    serials: u64,
    pub directive: Option<Directive>,
    /// How often an outcome that was meant for this reservation was carried out.
    pub effective: BTreeMap<u64, u32>,
}

impl Backend {
    pub fn new(habits: BackendHabits) -> Self {
        Self {
            habits,
            jobs: BTreeMap::new(),
            serials: 0,
            directive: None,
            effective: BTreeMap::new(),
        }
    }

    pub fn offer(&mut self, plan: JobPlan, now: Duration) {
        let attempt = plan.attempt;
        let state = State::Queued { from: now };
        self.jobs.insert(id_of(plan.id), Truth { plan, state, attempt });
    }

    /// A job's fate outside of this worker.
    pub fn fate(&mut self, number: u64, fate: Fate, now: Duration) {
        self.lapse(now);
        self.serials += 1;
        let serial = self.serials;
        let Some(job) = self.jobs.get_mut(&id_of(number)) else {
            return;
        };
        let is_open = matches!(job.state, State::Active { .. } | State::Queued { .. });
        if !is_open {
            return;
        }
        job.state = match fate {
            Fate::Cancelled => State::Cancelled,
            Fate::Lapsed => State::Queued { from: now },
            Fate::TakenByOther => {
                job.attempt += 1;
                State::Active {
                    serial,
                    worker: Some(WorkerId("other".into())),
                    until: now + ms(2_000),
                }
            }
        };
    }

    /// Reservations that no request extended expire.
    fn lapse(&mut self, now: Duration) {
        for job in self.jobs.values_mut() {
            if let State::Active { until, .. } = &job.state
                && *until <= now
            {
                job.state = State::Queued { from: *until };
            }
        }
    }

    /// Carries out a request. `meant` is the reservation that an outcome is meant for: no backend
    /// checks it.
    pub fn carry_out(&mut self, call: &Call, meant: Option<u64>, fault: Option<Fault>, now: Duration) -> Reply {
        self.lapse(now);
        match call {
            Call::Register { .. } => match self.habits.registers {
                None => Reply::Failed(Failure::Unsupported),
                Some(interval) => Reply::Registered {
                    heartbeat_interval: interval.map(ms),
                    // Every other one also announces the longest heartbeat interval that it
                    // accepts.
                    longest_interval: interval
                        .filter(|interval| interval % 2 == 0)
                        .map(|interval| ms(interval / 2)),
                },
            },
            Call::Heartbeat { active, .. } => self.beat(active, now),
            Call::Fetch { worker, count, .. } => self.fetch(worker, u64::from(*count), fault, now),
            Call::Report { job, outcome, .. } => {
                let is_last = || self.jobs.get(job).is_some_and(is_used_up);
                let next = match outcome {
                    Outcome::Acked { .. } => State::Completed,
                    Outcome::Failed { error } => self.after_fail(job, error.retryable, now),
                    Outcome::Requeued { .. } if is_last() => State::Discarded,
                    Outcome::Requeued { .. } => State::Queued { from: now },
                };
                self.outcome(job, meant, next)
            }
            Call::GetJob { job } => Reply::JobSeen(self.look(job)),
            Call::Manifest => Reply::Manifest(BackendTraits::default()),
            // The world has them.
            Call::Listen { .. } => Reply::Failed(Failure::Unsupported),
            Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => Reply::Accepted,
        }
    }

    fn beat(&mut self, active: &[JobId], now: Duration) -> Reply {
        let until = now + ms(self.habits.visibility);
        let mut extended = Vec::new();
        for id in active {
            if let Some(Truth {
                state: State::Active { until: old, .. },
                ..
            }) = self.jobs.get_mut(id)
            {
                *old = until;
                extended.push(id.clone());
            }
        }
        Reply::HeartbeatOk {
            directive: self.directive,
            extended: Some(extended)
                .filter(|extended| self.habits.tells_extended && !(self.habits.omits_empty && extended.is_empty())),
        }
    }

    fn fetch(&mut self, worker: &WorkerId, count: u64, fault: Option<Fault>, now: Duration) -> Reply {
        let extra = if let Some(Fault::TooMany(extra)) = fault {
            extra
        } else {
            0
        };
        let most = usize::try_from(count + extra).unwrap_or(0);
        let until = now + ms(self.habits.visibility);
        let is_ours = |state: &State| matches!(state, State::Active { worker: Some(by), .. } if by == worker);
        let again = (fault == Some(Fault::Redelivered))
            .then(|| self.jobs.iter().find(|(_, job)| is_ours(&job.state)))
            .flatten();
        let again = again.map(|(id, _)| id.clone());
        let queued = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.state, State::Queued { from } if from <= now))
            .map(|(id, _)| id.clone());
        let taken: Vec<JobId> = again.into_iter().chain(queued).take(most).collect();
        let mut brought = Vec::new();
        for id in taken {
            self.serials += 1;
            let serial = self.serials;
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.attempt += 1;
            job.state = State::Active {
                serial,
                worker: Some(worker.clone()),
                until,
            };
            brought.push(delivery(&id, job, serial));
        }
        if fault == Some(Fault::Doubled) {
            brought.extend(brought.clone());
        }
        Reply::Fetched(brought)
    }

    /// The reply of a page in the backend's place that answers every request with success.
    pub fn foreign(&self, call: &Call) -> Reply {
        let is_unrepeatable = call.endpoint() == Endpoint::Nack;
        Reply::Failed(if is_unrepeatable {
            Failure::Unanswered
        } else {
            Failure::NotFromBackend
        })
    }

    /// The answer while its store is away; `None` if the request needs no store.
    pub fn without_store(&self, call: &Call) -> Option<Reply> {
        match call {
            Call::Report { .. } => Some(Reply::Failed(Failure::NotFound)),
            Call::GetJob { .. } => Some(Reply::JobSeen(JobView {
                state: JobState::Missing,
                worker: None,
                reservation: Reservation::default(),
            })),
            Call::Fetch { .. } => Some(Reply::Fetched(Vec::new())),
            Call::Heartbeat { .. } => Some(Reply::HeartbeatOk {
                directive: self.directive,
                extended: (self.habits.tells_extended && !self.habits.omits_empty).then(Vec::new),
            }),
            Call::Register { .. }
            | Call::Progress { .. }
            | Call::Checkpoint { .. }
            | Call::Manifest
            | Call::Listen { .. }
            | Call::Deregister { .. } => None,
        }
    }

    fn after_fail(&self, id: &JobId, retryable: bool, now: Duration) -> State {
        if retryable && self.jobs.get(id).is_some_and(|job| !is_used_up(job)) {
            State::Queued {
                from: now + RETRY_AFTER,
            }
        } else {
            State::Discarded
        }
    }

    /// Any worker may report: the backend does not check which worker has the job.
    fn outcome(&mut self, id: &JobId, meant: Option<u64>, next: State) -> Reply {
        let Some(job) = self.jobs.get_mut(id) else {
            return Reply::Failed(Failure::NotFound);
        };
        match job.state {
            State::Active { .. } => {
                job.state = next;
                if let Some(serial) = meant {
                    *self.effective.entry(serial).or_default() += 1;
                }
                Reply::Accepted
            }
            State::Completed if !self.habits.hides_state => Reply::Failed(Failure::AlreadyCompleted),
            State::Queued { .. } | State::Cancelled | State::Discarded if !self.habits.hides_state => {
                Reply::Failed(Failure::Lost)
            }
            State::Completed | State::Queued { .. } | State::Cancelled | State::Discarded
                if next == State::Completed =>
            {
                Reply::Failed(Failure::Conflict { was_sent_twice: false })
            }
            State::Completed | State::Queued { .. } | State::Cancelled | State::Discarded => {
                Reply::Failed(Failure::Lost)
            }
        }
    }

    fn look(&self, id: &JobId) -> JobView {
        let nothing = JobView {
            state: JobState::Elsewhere,
            worker: None,
            reservation: Reservation::default(),
        };
        let Some(job) = self.jobs.get(id) else { return nothing };
        match &job.state {
            State::Active { serial, worker, .. } => JobView {
                state: JobState::Active,
                worker: worker.clone().filter(|_| self.habits.shows_worker),
                reservation: reservation(job.attempt, *serial),
            },
            State::Queued { .. } => nothing,
            // The backend does not keep it.
            State::Discarded => JobView {
                state: JobState::Missing,
                ..nothing
            },
            State::Completed => JobView {
                state: JobState::Completed,
                ..nothing
            },
            State::Cancelled => JobView {
                state: JobState::Cancelled,
                ..nothing
            },
        }
    }

    /// The reservation that a job has.
    pub fn reserved(&self, id: &JobId) -> Option<u64> {
        match self.jobs.get(id)?.state {
            State::Active { serial, .. } => Some(serial),
            State::Queued { .. } | State::Completed | State::Cancelled | State::Discarded => None,
        }
    }

    /// Whether this very reservation is alive.
    pub fn holds(&self, id: &JobId, serial: u64, now: Duration) -> bool {
        self.jobs.get(id).is_some_and(
            |job| matches!(&job.state, State::Active { serial: now_at, until, .. } if *now_at == serial && *until > now),
        )
    }
}

fn id_of(number: u64) -> JobId {
    JobId(format!("j{number}").into())
}

fn is_used_up(job: &Truth) -> bool {
    job.plan.max_attempts.is_some_and(|most| job.attempt >= most)
}

fn reservation(attempt: u64, serial: u64) -> Reservation {
    Reservation {
        attempt: Some(attempt),
        started_at: Some(format!("s{serial}").into()),
    }
}

/// The reservation that a delivery is.
pub fn serial_of(reservation: &Reservation) -> u64 {
    let started = reservation.started_at.as_ref();
    started.and_then(|text| text[1..].parse().ok()).unwrap_or(0)
}

fn delivery(id: &JobId, job: &Truth, serial: u64) -> Delivery {
    let padding = if job.plan.is_large { PADDING } else { 0 };
    Delivery {
        has_crashed: false,
        subject: Subject {
            id: id.clone(),
            kind: if job.plan.is_rare { RARE_KIND } else { "usual" }.into(),
            queue: "default".into(),
            attempt: Some(job.attempt),
            max_attempts: job.plan.max_attempts,
            trace: None,
        }
        .into(),
        // The name first: the simulated worker reads it from there.
        envelope: format!("{id} {}", ".".repeat(padding)).into(),
        checkpoint: None,
        timeout: job.plan.timeout.map(ms),
        reservation: reservation(job.attempt, serial),
        visibility: None,
        waited: None,
    }
}
