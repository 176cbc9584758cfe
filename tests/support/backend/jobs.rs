//! The jobs of the backend: who has them, and what was said about them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::Response;
use super::wait::now;

/// How a hand-out ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// ACK, with this result.
    Acked(Option<Value>),
    /// FAIL, with this error.
    Failed(Value),
    /// Given back.
    Requeued,
    /// Nobody said anything: the reservation ran out.
    Lapsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Available,
    Active,
    Completed,
    /// After a FAIL that allows another attempt; nobody gets it again by itself.
    Retryable,
    Discarded,
    Cancelled,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Retryable => "retryable",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug)]
struct Job {
    envelope: String,
    state: State,
    worker: Option<String>,
    /// When the reservation runs out, if it ever does.
    reserved_until: Option<Instant>,
    /// The checkpoint that a worker saved, and how many times it did.
    checkpoint: Option<(Value, u32)>,
    /// Times that it was handed out.
    handed_out: usize,
    outcomes: Vec<Outcome>,
}

impl Job {
    /// As it is handed out: the checkpoint is added as the durable execution extension has it.
    fn delivery(&self) -> String {
        let Some((state, sequence)) = &self.checkpoint else {
            return self.envelope.clone();
        };
        let open = self.envelope.trim_end().strip_suffix('}').unwrap();
        let checkpoint = json!({"state": state, "sequence": sequence});
        format!(r#"{open},"checkpoint":{checkpoint}}}"#)
    }

    /// The next hand-out is another attempt.
    fn count_attempt(&mut self) {
        let mut envelope: Value = serde_json::from_str(&self.envelope).unwrap();
        envelope["attempt"] = (envelope["attempt"].as_u64().unwrap_or(0) + 1).into();
        self.envelope = envelope.to_string();
    }
}

/// All jobs.
#[derive(Debug, Default)]
pub struct Jobs {
    jobs: BTreeMap<String, Job>,
    /// Ids in the order in which they are handed out.
    queue: VecDeque<String>,
    most_active: usize,
    /// How long a job stays reserved after its hand-out and after each heartbeat that names it; for
    /// ever without.
    reservation: Option<Duration>,
    /// A limit of the queue: most jobs active at once, whatever the workers ask for.
    active_limit: Option<usize>,
}

impl Jobs {
    pub fn enqueue(&mut self, envelope: &str) {
        let id = id_of(envelope);
        let job = Job {
            envelope: envelope.to_owned(),
            state: State::Available,
            worker: None,
            reserved_until: None,
            checkpoint: None,
            handed_out: 0,
            outcomes: Vec::new(),
        };
        assert!(self.jobs.insert(id.clone(), job).is_none(), "the id {id} is taken");
        self.queue.push_back(id);
    }

    pub fn cancel(&mut self, id: &str) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.state = State::Cancelled;
        }
    }

    pub fn reserve_for(&mut self, reservation: Duration) {
        self.reservation = Some(reservation);
    }

    pub fn limit_active(&mut self, most: usize) {
        self.active_limit = Some(most);
    }

    /// Makes a failed job available again, as the retry policy does when its pause is over.
    pub fn retry(&mut self, id: &str) {
        let job = self.jobs.get_mut(id).unwrap();
        assert_eq!(job.state, State::Retryable, "{id} waits for no retry");
        job.state = State::Available;
        job.count_attempt();
        self.queue.push_back(id.to_owned());
    }

    /// Makes every job available again whose reservation has run out.
    fn lapse(&mut self) {
        let now = now();
        for (id, job) in &mut self.jobs {
            if job.state == State::Active && job.reserved_until.is_some_and(|until| until <= now) {
                job.state = State::Available;
                job.outcomes.push(Outcome::Lapsed);
                job.count_attempt();
                self.queue.push_back(id.clone());
            }
        }
    }

    pub fn checkpoint(&mut self, id: &str, body: &Value) -> Response {
        let Some(job) = self.jobs.get_mut(id) else {
            return Response::error(404, "not_found", "null");
        };
        let sequence = job.checkpoint.as_ref().map_or(0, |(_, sequence)| *sequence) + 1;
        job.checkpoint = Some((body["state"].clone(), sequence));
        Response::ok(json!({"job_id": id, "sequence": sequence}).to_string())
    }

    pub fn outcomes(&self) -> BTreeMap<String, Vec<Outcome>> {
        let outcomes = |(id, job): (&String, &Job)| (id.clone(), job.outcomes.clone());
        self.jobs.iter().map(outcomes).collect()
    }

    /// Jobs whose hand-outs and outcomes do not match, one sentence each.
    pub fn without_exactly_one_outcome(&self) -> Vec<String> {
        let wrong = self.jobs.iter().filter(|(_, job)| job.handed_out != job.outcomes.len());
        wrong
            .map(|(id, job)| format!("{id}: handed out {} times, outcomes {:?}", job.handed_out, job.outcomes))
            .collect()
    }

    pub fn handed_out(&self, id: &str) -> usize {
        self.jobs.get(id).map_or(0, |job| job.handed_out)
    }

    pub fn most_active(&self) -> usize {
        self.most_active
    }

    pub fn fetch(&mut self, body: &Value) -> Response {
        if body["queues"].as_array().is_none_or(Vec::is_empty) {
            return Response::error(400, "invalid_request", "null");
        }
        self.lapse();
        let count = usize::try_from(body["count"].as_u64().unwrap_or(1).max(1)).unwrap();
        let room = self
            .active_limit
            .map_or(count, |most| most.saturating_sub(self.active().count()));
        let reserved_until = self.reservation.map(|reservation| now() + reservation);
        let mut envelopes = Vec::new();
        for _ in 0..count.min(room) {
            let Some(job) = self.next_available() else { break };
            job.state = State::Active;
            job.worker = body["worker_id"].as_str().map(str::to_owned);
            job.reserved_until = reserved_until;
            job.handed_out += 1;
            envelopes.push(job.delivery());
        }
        self.most_active = self.most_active.max(self.active().count());
        Response::ok(format!(r#"{{"jobs":[{}]}}"#, envelopes.join(",")))
    }

    fn next_available(&mut self) -> Option<&mut Job> {
        while let Some(id) = self.queue.pop_front() {
            if self.jobs.get(&id).is_some_and(|job| job.state == State::Available) {
                return self.jobs.get_mut(&id);
            }
        }
        None
    }

    fn active(&self) -> impl Iterator<Item = &String> {
        let active = self.jobs.iter().filter(|(_, job)| job.state == State::Active);
        active.map(|(id, _)| id)
    }

    /// Extends those among the named that the worker has; anything but an array of ids is refused,
    /// as Go's decoder does.
    pub fn heartbeat(&mut self, body: &Value, state: &str, directive: &str) -> Response {
        let named = match &body["active_jobs"] {
            Value::Null => Vec::new(),
            Value::Array(ids) => ids.iter().filter_map(Value::as_str).collect(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                return Response::error(400, "invalid_request", "null");
            }
        };
        self.lapse();
        let mut extended = Vec::new();
        for (id, job) in &mut self.jobs {
            let is_theirs = job.worker.as_deref() == body["worker_id"].as_str();
            if job.state == State::Active && is_theirs && named.contains(&id.as_str()) {
                job.reserved_until = self.reservation.map(|reservation| now() + reservation);
                extended.push(id);
            }
        }
        let mut answer = json!({
            "state": state,
            "directive": directive,
            "server_time": "2026-01-01T00:00:00Z",
        });
        // The public backends leave an empty list out.
        if !extended.is_empty() {
            answer["jobs_extended"] = json!(extended);
        }
        Response::ok(answer.to_string())
    }

    pub fn ack(&mut self, body: &Value) -> Response {
        let outcome = Outcome::Acked(body.get("result").cloned());
        self.settle(body, State::Completed, outcome)
    }

    pub fn nack(&mut self, body: &Value) -> Response {
        let error = body["error"].clone();
        if body["requeue"] == true {
            let answer = self.settle(body, State::Available, Outcome::Requeued);
            if answer.status == 200 {
                self.queue.extend(body["job_id"].as_str().map(str::to_owned));
            }
            return answer;
        }
        let state = if error["retryable"] == false {
            State::Discarded
        } else {
            State::Retryable
        };
        self.settle(body, state, Outcome::Failed(error))
    }

    fn settle(&mut self, body: &Value, state: State, outcome: Outcome) -> Response {
        let Some(id) = body["job_id"].as_str() else {
            return Response::error(400, "invalid_request", "null");
        };
        self.lapse();
        let Some(job) = self.jobs.get_mut(id) else {
            return Response::error(404, "not_found", "null");
        };
        // A worker that says nothing about itself is believed.
        let is_theirs = body["worker_id"].is_null() || body["worker_id"].as_str() == job.worker.as_deref();
        if job.state != State::Active || !is_theirs {
            let details = json!({"job_id": id, "current_state": job.state.name(), "expected_state": "active"});
            return Response::error(409, "conflict", &details.to_string());
        }
        if state == State::Completed {
            job.checkpoint = None;
        }
        job.state = state;
        job.outcomes.push(outcome);
        Response::ok(json!({"acknowledged": true, "id": id, "state": state.name()}).to_string())
    }

    pub fn show(&self, id: &str) -> Response {
        let Some(job) = self.jobs.get(id) else {
            return Response::error(404, "not_found", "null");
        };
        let mut shown: Value = serde_json::from_str(&job.envelope).unwrap();
        shown["state"] = job.state.name().into();
        shown["worker_id"] = job.worker.clone().into();
        Response::ok(json!({ "job": shown }).to_string())
    }
}

fn id_of(envelope: &str) -> String {
    let job: Value = serde_json::from_str(envelope).unwrap();
    job["id"].as_str().unwrap().to_owned()
}
