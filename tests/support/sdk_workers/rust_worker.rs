//! Behaves as a worker on the Rust SDK does, with its faults: this program once more. What the
//! variables mean: tests/README.md.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use serde_json::{Value, json};

use crate::rust_client::Client;
use crate::support::sys;
use crate::support::wait::{now, pause, wait_until};

/// Between two looks at what was asked for.
const TICK: Duration = Duration::from_millis(10);

/// SIGINT came; of SIGTERM the SDK knows nothing.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Quiet,
    Terminate,
}

struct Worker {
    client: Client,
    id: String,
    concurrency: usize,
    poll: Duration,
    heartbeat: Duration,
    /// How often a handler beats for its own job, if it does.
    own_beat: Option<Duration>,
    grace: Duration,
    directory: Option<String>,
    held: Mutex<BTreeSet<String>>,
    state: Mutex<State>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn millis(name: &str, usual: u64) -> Duration {
    let given = variable(name).and_then(|value| value.parse().ok());
    Duration::from_millis(given.unwrap_or(usual))
}

/// Runs the worker.
pub fn main() -> ExitCode {
    let action = SigAction::new(SigHandler::Handler(on_interrupt), SaFlags::SA_RESTART, SigSet::empty());
    if let Some(seconds) = variable("SDK_LIFE_S") {
        nix::unistd::alarm::set(seconds.parse().unwrap());
    }
    // SAFETY: the handler stores one flag.
    unsafe { sigaction(Signal::SIGINT, &action) }.unwrap();
    let worker = Arc::new(Worker {
        client: Client::new(&variable("OJS_URL").unwrap(), variable("OJS_AUTH_TOKEN")),
        id: format!("worker_{}", sys::monotonic_ns()),
        concurrency: variable("SDK_CONCURRENCY")
            .and_then(|value| value.parse().ok())
            .unwrap_or(10),
        poll: millis("SDK_POLL_MS", 1000),
        heartbeat: millis("SDK_HEARTBEAT_MS", 5000),
        own_beat: variable("SDK_OWN_BEAT_MS").map(|_| millis("SDK_OWN_BEAT_MS", 1000)),
        grace: millis("SDK_GRACE_MS", 25_000),
        directory: variable("SDK_DIRECTORY"),
        held: Mutex::default(),
        state: Mutex::new(State::Running),
    });
    worker.note("started", &std::process::id().to_string(), &Value::Null);
    for part in [Worker::fetch, Worker::beat] {
        let worker = Arc::clone(&worker);
        std::thread::spawn(move || part(&worker));
    }
    while !worker.is_ending() {
        pause(TICK);
    }
    worker.note("terminated", &std::process::id().to_string(), &Value::Null);
    let is_idle = || worker.held.lock().unwrap().is_empty();
    if !wait_until(worker.grace, is_idle) {
        complain(&format!("abandoning {} active jobs", worker.held.lock().unwrap().len()));
    }
    ExitCode::SUCCESS
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

impl Worker {
    fn state(&self) -> State {
        *self.state.lock().unwrap()
    }

    fn is_ending(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed) || self.state() == State::Terminate
    }

    fn note(&self, word: &str, job: &str, attempt: &Value) {
        let Some(directory) = &self.directory else { return };
        let journal = OpenOptions::new()
            .create(true)
            .append(true)
            .open(format!("{directory}/journal"));
        let line = format!("{} {word} {job} {attempt}\n", sys::monotonic_ns());
        journal.unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn lock(&self, job: &str) -> Option<Flock<File>> {
        let directory = self.directory.as_deref().unwrap_or("/tmp");
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(format!("{directory}/job-{job}"));
        Flock::lock(file.ok()?, FlockArg::LockExclusiveNonblock).ok()
    }

    fn fetch(self: &Arc<Self>) {
        while !self.is_ending() {
            let free = self.concurrency - self.held.lock().unwrap().len();
            let mut jobs = Vec::new();
            if free > 0 && self.state() == State::Running {
                let body = json!({"queues": ["default"], "count": free.min(10), "worker_id": self.id});
                match self.client.post("/workers/fetch", &body) {
                    Ok(answer) => jobs = answer["jobs"].as_array().cloned().unwrap_or_default(),
                    Err(error) => complain(&format!("fetch: {error}")),
                }
            }
            if jobs.is_empty() {
                pause(self.poll);
            }
            for job in jobs {
                let id = job["id"].as_str().unwrap_or_default().to_owned();
                self.held.lock().unwrap().insert(id.clone());
                let worker = Arc::clone(self);
                std::thread::spawn(move || worker.run(&id, &job));
            }
        }
    }

    fn run(&self, id: &str, job: &Value) {
        let lock = self.lock(id);
        self.note(if lock.is_some() { "took" } else { "overlap" }, id, &job["attempt"]);
        let (word, path, body) = match self.handle(job) {
            Ok(result) => ("acked", "/workers/ack", json!({"job_id": id, "result": result})),
            Err(error) => {
                let error = json!({"code": "handler_error", "message": error.to_string(), "retryable": true});
                ("failed", "/workers/nack", json!({"job_id": id, "error": error}))
            }
        };
        drop(lock);
        self.note("ended", id, &job["attempt"]);
        match self.client.post(path, &body) {
            Ok(_) => self.note(word, id, &job["attempt"]),
            Err(error) => {
                self.note("unreported", id, &job["attempt"]);
                complain(&format!("job {id}: {error}"));
            }
        }
        self.held.lock().unwrap().remove(id);
    }

    fn handle(&self, job: &Value) -> io::Result<Value> {
        let args = &job["args"];
        let kind = job["type"].as_str().unwrap_or_default();
        if kind == "ok" {
            return Ok(args[0].clone());
        }
        self.work(job, Duration::from_millis(args[0].as_u64().unwrap_or_default()));
        if kind == "enqueue" {
            let more: Vec<&Value> = args.as_array().into_iter().flatten().skip(2).collect();
            let body = json!({"type": args[1], "args": more, "queue": job["queue"]});
            self.client.post("/jobs", &body)?;
        }
        match kind {
            "fail" => Err(io::Error::other("failed as told")),
            "large" => {
                let length = args[1].as_u64().unwrap_or_default();
                Ok("x".repeat(usize::try_from(length).unwrap_or_default()).into())
            }
            _ => Ok(json!({"slept": args[0]})),
        }
    }

    /// The handler says now and then that it is alive, as the SDK lets it: with a heartbeat that
    /// names its own job alone.
    fn work(&self, job: &Value, how_long: Duration) {
        let Some(every) = self.own_beat else {
            return pause(how_long);
        };
        let end = now() + how_long;
        while now() + every < end {
            pause(every);
            let body = json!({"worker_id": self.id, "active_jobs": [job["id"]]});
            if let Err(error) = self.client.post("/workers/heartbeat", &body) {
                complain(&format!("heartbeat of a handler: {error}"));
            }
        }
        pause(end.saturating_duration_since(now()));
    }

    /// The workers end with SIGINT, and go on when the server says terminate.
    fn beat(self: &Arc<Self>) {
        loop {
            let due = now() + self.heartbeat;
            while now() < due {
                if INTERRUPTED.load(Ordering::Relaxed) {
                    return;
                }
                pause(TICK);
            }
            let active = self.held.lock().unwrap().clone();
            let body = json!({"worker_id": self.id, "active_jobs": active});
            match self.client.post("/workers/heartbeat", &body) {
                Ok(answer) => self.obey(&answer),
                Err(error) => complain(&format!("heartbeat: {error}")),
            }
        }
    }

    /// An answer without a state, or with other extended jobs than an array of ids, is none.
    fn obey(&self, answer: &Value) {
        let are_ids = |ids: &Value| ids.as_array().is_some_and(|ids| ids.iter().all(Value::is_string));
        let extended = answer.get("jobs_extended");
        let Some(said) = answer["state"].as_str().filter(|_| extended.is_none_or(are_ids)) else {
            return complain(&format!("heartbeat: not understood: {answer}"));
        };
        let mut state = self.state.lock().unwrap();
        match (said, *state) {
            ("quiet", State::Running) => *state = State::Quiet,
            ("terminate", _) => *state = State::Terminate,
            _ => {}
        }
    }
}
