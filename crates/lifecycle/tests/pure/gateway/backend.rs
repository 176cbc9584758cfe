//! The backend of these lives: each job has a state, an attempt and a reservation that runs out.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::ids::{JobId, WorkerId};
use ojs_lifecycle::api::{Call, Delivery, Failure, JobState, JobView, Moment, Outcome, Reply, Reservation, Subject};

/// The place of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Available,
    /// Reserved until this time, for the delivery of this number.
    Active(Duration, u64),
    Completed,
    Failed,
    Cancelled,
}

/// A job.
#[derive(Debug, Clone)]
pub struct Kept {
    pub state: Stored,
    /// Deliveries so far.
    pub delivered: u64,
    /// Attempts that count: a requeue gives one back.
    pub attempt: u64,
    pub queue: &'static str,
    pub timeout: Option<Duration>,
    pub worker: Option<WorkerId>,
}

#[derive(Debug, Default)]
pub struct Backend {
    pub jobs: BTreeMap<JobId, Kept>,
}

impl Backend {
    pub fn offer(&mut self, number: u64) {
        let id = JobId(format!("job-{number}").into());
        let kept = Kept {
            state: Stored::Available,
            delivered: 0,
            attempt: 0,
            queue: if number.is_multiple_of(3) { "sms" } else { "mail" },
            timeout: number.is_multiple_of(4).then_some(Duration::from_secs(40)),
            worker: None,
        };
        self.jobs.insert(id, kept);
    }

    fn lapse(&mut self, now: Duration) {
        for job in self.jobs.values_mut() {
            if let Stored::Active(until, _) = job.state
                && until < now
            {
                job.state = Stored::Available;
            }
        }
    }

    /// Carries out a request.
    pub fn carry_out(&mut self, call: &Call, now: Duration) -> Reply {
        self.lapse(now);
        match call {
            Call::Register { .. } => Reply::Registered {
                heartbeat_interval: None,
                longest_interval: None,
            },
            Call::Heartbeat { active, visibility, .. } => {
                let mut extended = Vec::new();
                for id in active {
                    if let Some(job) = self.jobs.get_mut(id)
                        && let Stored::Active(until, _) = &mut job.state
                    {
                        *until = now + *visibility;
                        extended.push(id.clone());
                    }
                }
                Reply::HeartbeatOk {
                    directive: None,
                    extended: Some(extended),
                }
            }
            Call::Fetch {
                worker,
                count,
                queues,
                visibility,
                ..
            } => Reply::Fetched(self.fetch(worker, *count, queues.as_deref(), now + *visibility)),
            Call::Report { job, outcome, .. } => self.report(job, outcome),
            Call::GetJob { job } => self.look(job),
            Call::Manifest => Reply::Manifest(ojs_lifecycle::api::BackendTraits::default()),
            Call::Listen { .. } => Reply::Failed(Failure::Unsupported),
            Call::Progress { .. } | Call::Checkpoint { .. } | Call::Deregister { .. } => Reply::Accepted,
        }
    }

    fn fetch(
        &mut self,
        worker: &WorkerId,
        count: u32,
        queues: Option<&[std::sync::Arc<str>]>,
        until: Duration,
    ) -> Vec<Delivery> {
        let asked = |job: &Kept| queues.is_none_or(|queues| queues.iter().any(|queue| **queue == *job.queue));
        let available = self
            .jobs
            .iter_mut()
            .filter(|(_, job)| job.state == Stored::Available && asked(job));
        let mut brought = Vec::new();
        for (id, job) in available.take(usize::try_from(count).unwrap()) {
            job.delivered += 1;
            job.attempt += 1;
            job.state = Stored::Active(until, job.delivered);
            job.worker = Some(worker.clone());
            brought.push(delivery(id, job));
        }
        brought
    }

    fn report(&mut self, id: &JobId, outcome: &Outcome) -> Reply {
        let Some(job) = self.jobs.get_mut(id) else {
            return Reply::Failed(Failure::NotFound);
        };
        match (&job.state, outcome) {
            (Stored::Active(..), Outcome::Acked { .. }) => job.state = Stored::Completed,
            (Stored::Active(..), Outcome::Failed { .. }) => job.state = Stored::Failed,
            (Stored::Active(..), Outcome::Requeued { .. }) => {
                job.attempt -= 1;
                job.state = Stored::Available;
            }
            (Stored::Completed, _) => return Reply::Failed(Failure::AlreadyCompleted),
            (Stored::Available | Stored::Failed | Stored::Cancelled, _) => return Reply::Failed(Failure::Lost),
        }
        Reply::Accepted
    }

    fn look(&self, id: &JobId) -> Reply {
        let Some(job) = self.jobs.get(id) else {
            return Reply::Failed(Failure::NotFound);
        };
        Reply::JobSeen(JobView {
            state: match job.state {
                Stored::Active(..) => JobState::Active,
                Stored::Completed => JobState::Completed,
                Stored::Cancelled => JobState::Cancelled,
                Stored::Available | Stored::Failed => JobState::Elsewhere,
            },
            worker: job.worker.clone(),
            reservation: reservation(job),
        })
    }
}

fn reservation(job: &Kept) -> Reservation {
    Reservation {
        attempt: Some(job.attempt),
        started_at: Some(job.delivered.to_string().into()),
    }
}

fn delivery(id: &JobId, job: &Kept) -> Delivery {
    Delivery {
        has_crashed: false,
        subject: Subject {
            id: id.clone(),
            kind: "mail".into(),
            queue: job.queue.into(),
            attempt: Some(job.attempt),
            max_attempts: Some(1_000),
            trace: None,
        }
        .into(),
        envelope: id.0.clone().into(),
        checkpoint: None,
        timeout: job.timeout,
        reservation: reservation(job),
        visibility: None,
        waited: None,
    }
}

/// The machine's time.
pub fn moment(now: Duration) -> Moment {
    Moment::new(now)
}
