//! Turns events into a story: the life of each worker, the deliveries of each job, and the faults.
//!
//! A request counts from when it arrived, an act of the server from when it was done.

use std::collections::BTreeMap;

use super::axis::drawable;
use super::symbol::{Harm, ReportedState};
use crate::events::Event;
use crate::faults::{ANSWERED_INSTEAD, LATE_REPLY, LOSE_REPLY};
use crate::operation::Operation;
use crate::store::job::End;

/// The story of the events.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// The workers, in the order of their first events.
    pub workers: Vec<SeenWorker>,
    pub fetches: Vec<SeenFetch>,
    /// The jobs, in the order of their first events.
    pub jobs: Vec<SeenJob>,
    /// The requests that met a fault or were refused, by operation.
    pub troubles: BTreeMap<&'static str, Vec<SeenRequest>>,
    /// When clients could not connect; the last outage may have no end.
    pub outages: Vec<(f64, Option<f64>)>,
    /// The number of the events.
    pub events: usize,
    /// When the first thing happened, and when the last.
    pub first: f64,
    pub last: f64,
    worker_index: BTreeMap<String, usize>,
    job_index: BTreeMap<String, usize>,
}

/// A worker, as the events show it.
#[derive(Debug)]
pub(super) struct SeenWorker {
    pub id: String,
    /// From a first sign to a last one or to its end, again and again.
    pub lives: Vec<(f64, f64)>,
    is_known: bool,
    pub registered: Vec<f64>,
    pub heartbeats: Vec<SeenHeartbeat>,
    /// When it deregistered or was declared dead.
    pub ends: Vec<(f64, WorkerEnd)>,
}

/// The end of a worker's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerEnd {
    /// The worker was deregistered.
    Deregistered,
    /// The worker asked to be deregistered, and that failed.
    DeregisterFailed(Harm),
    /// The server declared it dead.
    DeclaredDead,
}

/// A heartbeat that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenHeartbeat {
    pub ms: f64,
    pub state: ReportedState,
    pub jobs: usize,
}

/// A FETCH that was carried out.
#[derive(Debug)]
pub(super) struct SeenFetch {
    pub ms: f64,
    pub jobs: usize,
}

/// A job that a worker had, or tried to report.
#[derive(Debug)]
pub(super) struct SeenJob {
    pub id: String,
    pub deliveries: Vec<SeenDelivery>,
    /// The ACKs and FAILs of the job.
    pub reports: Vec<SeenRequest>,
}

/// The time for which a job was with a worker.
#[derive(Debug)]
pub(super) struct SeenDelivery {
    /// When it began; `None`: before the first event.
    pub from: Option<f64>,
    pub worker: Option<usize>,
    /// When and how it ended, with the job's new state; `None`: it has not ended.
    pub end: Option<(f64, End, Option<String>)>,
}

/// A request and its outcome.
#[derive(Debug, Clone)]
pub(super) struct SeenRequest {
    pub arrived: f64,
    /// When the server finished the request; `None`: it hangs.
    pub settled: Option<f64>,
    /// The fault; `None`: the request was answered as usual.
    pub harm: Option<Harm>,
    pub is_carried_out: bool,
    pub is_answered: bool,
    pub about: String,
}

impl Story {
    /// The story of these events; of one worker only, if it is named.
    pub fn of(events: &[Event], worker: Option<&str>) -> Self {
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by(|a, b| drawable(a.ms).total_cmp(&drawable(b.ms)));
        let theirs: Vec<&Event> = match worker {
            Some(worker) => about_worker(&events, worker),
            None => events,
        };
        let mut story = Self {
            events: theirs.len(),
            first: f64::INFINITY,
            last: f64::NEG_INFINITY,
            ..Self::default()
        };
        for event in theirs {
            story.add(event);
        }
        if story.first > story.last {
            (story.first, story.last) = (0.0, 0.0);
        }
        story
    }

    fn add(&mut self, event: &Event) {
        let ms = drawable(event.ms);
        let request = request(event);
        self.first = self.first.min(request.arrived);
        self.last = self.last.max(ms);
        if request.harm.is_some() {
            self.troubles.entry(event.operation).or_default().push(request.clone());
        }
        let worker = event.worker.as_deref().map(|id| self.worker(id));
        if matches!(event.operation, "fetch" | "ack" | "nack" | "progress" | "checkpoint") {
            self.sign_of_life(worker, request.arrived);
        }
        match event.operation {
            "fetch" if request.is_carried_out => self.fetched(event, ms, worker),
            "register" if request.is_carried_out => self.registered(&request, worker),
            "ack" | "nack" => self.reported(event, &request),
            "heartbeat" => self.heartbeat(event, &request, worker),
            "deregister" => self.deregistered(&request, ms, worker),
            "cancel" if request.is_carried_out => self.each_ends(event, ms, End::Cancelled),
            "visibility_timeout" => self.each_ends(event, ms, End::VisibilityTimeout),
            "worker_death" => {
                self.each_ends(event, ms, End::WorkerDeath);
                self.worker_ends(worker, ms, WorkerEnd::DeclaredDead);
            }
            "refusing" => self.outages.push((ms, None)),
            "listening" => {
                if let Some((_, until @ None)) = self.outages.last_mut() {
                    *until = Some(ms);
                }
            }
            _ => {}
        }
    }

    fn worker(&mut self, id: &str) -> usize {
        if let Some(index) = self.worker_index.get(id) {
            return *index;
        }
        let index = self.workers.len();
        self.worker_index.insert(id.to_owned(), index);
        self.workers.push(SeenWorker {
            id: id.to_owned(),
            lives: Vec::new(),
            is_known: false,
            registered: Vec::new(),
            heartbeats: Vec::new(),
            ends: Vec::new(),
        });
        index
    }

    fn job(&mut self, id: &str) -> &mut SeenJob {
        let index = *self.job_index.entry(id.to_owned()).or_insert(self.jobs.len());
        if index == self.jobs.len() {
            self.jobs.push(SeenJob {
                id: id.to_owned(),
                deliveries: Vec::new(),
                reports: Vec::new(),
            });
        }
        &mut self.jobs[index]
    }

    fn sign_of_life(&mut self, worker: Option<usize>, ms: f64) -> Option<&mut SeenWorker> {
        let worker = self.workers.get_mut(worker?)?;
        match worker.lives.last_mut() {
            Some((_, until)) if worker.is_known => *until = until.max(ms),
            Some(_) | None => worker.lives.push((ms, ms)),
        }
        worker.is_known = true;
        Some(worker)
    }

    fn worker_ends(&mut self, worker: Option<usize>, ms: f64, end: WorkerEnd) {
        if let Some(worker) = self.sign_of_life(worker, ms) {
            worker.is_known = matches!(end, WorkerEnd::DeregisterFailed(_));
            worker.ends.push((ms, end));
        }
    }

    fn registered(&mut self, request: &SeenRequest, worker: Option<usize>) {
        if let Some(worker) = self.sign_of_life(worker, request.arrived) {
            worker.registered.push(request.arrived);
        }
    }

    fn heartbeat(&mut self, event: &Event, request: &SeenRequest, worker: Option<usize>) {
        let state = ReportedState::of(event.state.as_deref());
        let beat = SeenHeartbeat {
            ms: request.arrived,
            state,
            jobs: event.jobs.len().saturating_add(event.more_jobs),
        };
        if let Some(worker) = self.sign_of_life(worker, request.arrived) {
            worker.heartbeats.push(beat);
        }
    }

    fn deregistered(&mut self, request: &SeenRequest, ms: f64, worker: Option<usize>) {
        let failed = request.harm.filter(|_| !request.is_carried_out);
        match failed {
            Some(harm) => self.worker_ends(worker, request.arrived, WorkerEnd::DeregisterFailed(harm)),
            None => self.worker_ends(worker, ms, WorkerEnd::Deregistered),
        }
    }

    fn fetched(&mut self, event: &Event, ms: f64, worker: Option<usize>) {
        self.fetches.push(SeenFetch {
            ms,
            jobs: event.jobs.len().saturating_add(event.more_jobs),
        });
        for id in &event.jobs {
            self.job(id).deliveries.push(SeenDelivery {
                from: Some(ms),
                worker,
                end: None,
            });
        }
    }

    fn reported(&mut self, event: &Event, request: &SeenRequest) {
        for id in &event.jobs {
            self.job(id).reports.push(request.clone());
        }
        if request.is_carried_out {
            let end = match (event.operation, event.state.as_deref()) {
                ("ack", _) => End::Acked,
                (_, Some("available")) => End::Requeued,
                _ => End::Failed,
            };
            self.each_ends(event, drawable(event.ms), end);
        }
    }

    fn each_ends(&mut self, event: &Event, ms: f64, end: End) {
        for id in &event.jobs {
            let deliveries = &mut self.job(id).deliveries;
            let end = Some((ms, end, event.state.clone()));
            match deliveries.last_mut() {
                Some(delivery) if delivery.end.is_none() => delivery.end = end,
                // Fetched before the first event, or cancelled before any worker had it.
                Some(_) | None => deliveries.push(SeenDelivery {
                    from: (!deliveries.is_empty() || event.operation == "cancel").then_some(ms),
                    worker: None,
                    end,
                }),
            }
        }
    }
}

/// The request of an event.
fn request(event: &Event) -> SeenRequest {
    let ms = drawable(event.ms);
    let is_request = event.arrived_ms.is_some() || !event.request.is_empty() || event.status.is_some();
    let refused = event.status.filter(|status| *status >= 400).map(Harm::Status);
    let harm = match (event.fault, event.status) {
        (Some("hang"), _) => Some(Harm::Hang),
        (Some("close"), _) => Some(Harm::Close),
        (Some("delay" | LATE_REPLY), _) => Some(Harm::Delay),
        (Some("truncate"), _) => Some(Harm::Truncate),
        (Some(LOSE_REPLY), _) => Some(Harm::LoseReply),
        (Some(_), Some(status)) => Some(Harm::Status(status)),
        (Some(_), None) => Some(Harm::Close),
        (None, Some(_)) => refused,
        (None, None) => is_request.then_some(Harm::Close),
    };
    let is_good = event.status.is_some_and(|status| (200..300).contains(&status));
    SeenRequest {
        arrived: event.arrived_ms.map_or(ms, drawable).min(ms),
        settled: (harm != Some(Harm::Hang)).then_some(ms),
        harm,
        is_answered: event.is_answered(),
        is_carried_out: is_good && event.fault.is_none_or(|fault| !ANSWERED_INSTEAD.contains(&fault)),
        about: about(event),
    }
}

/// Words of a request's title beside its times.
fn about(event: &Event) -> String {
    let mut said = vec![event.operation.to_owned()];
    said.extend(event.worker.as_ref().map(|worker| format!("worker {worker}")));
    said.extend(event.jobs.first().map(|job| format!("job {job}")));
    let more = event.jobs.len().saturating_sub(1).saturating_add(event.more_jobs);
    said.extend((more > 0).then(|| format!("{more} more")));
    said.extend(event.fault.map(|fault| format!("fault {fault}")));
    said.extend(event.status.map(|status| format!("status {status}")));
    said.extend(
        event
            .took_ms
            .map(|took| format!("answered after {:.3} ms", drawable(took))),
    );
    said.join(", ")
}

/// The events about one worker: those that name it, those that name no worker but one of its jobs,
/// and those that name neither.
fn about_worker<'a>(events: &[&'a Event], worker: &str) -> Vec<&'a Event> {
    let is_its = |event: &Event| event.worker.as_deref() == Some(worker);
    let jobs: std::collections::BTreeSet<&str> = events
        .iter()
        .filter(|event| is_its(event) && event.operation != Operation::Enqueue.name())
        .flat_map(|event| event.jobs.iter().map(String::as_str))
        .collect();
    let passes = |event: &Event| match &event.worker {
        Some(_) => is_its(event),
        None => event.jobs.is_empty() || event.jobs.iter().any(|job| jobs.contains(job.as_str())),
    };
    events.iter().copied().filter(|event| passes(event)).collect()
}
