//! A running server: its thread, and what a test does with it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::dialect::Dialect;
use crate::events::{Event, Events, millis};
use crate::faults::{Fault, FaultRule, Faults};
use crate::http::{self, Gate};
use crate::json::{Object, raw};
use crate::operation::Operation;
use crate::store::job::{Directive, Moment, wall};
use crate::store::refusal::Refusal;
use crate::store::view::JobSnapshot;
use crate::store::{Settings, Store, envelope};

/// Longest time that a listener may take to close or to open again.
const GATE_PATIENCE: Duration = Duration::from_secs(20);

/// How a server is to be.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0: any free one.
    pub listen: SocketAddr,
    /// Whether `listen` may be an address that other machines reach.
    pub allow_remote: bool,
    /// How it speaks with workers.
    pub dialect: Dialect,
    /// What every request but `/ojs/v1/health` must show as its bearer token; `None`: nothing.
    pub token: Option<String>,
    /// How long a job is reserved when neither it nor the worker says so.
    pub visibility_timeout: Duration,
    /// How often workers are told to beat, when they register.
    pub heartbeat_interval: Duration,
    /// How long a worker may be silent before it is declared dead.
    pub heartbeat_timeout: Duration,
    /// Most jobs: beyond it finished ones are forgotten, oldest first; when all are unfinished, no more are taken.
    pub max_jobs: usize,
    /// Most events; older ones are forgotten.
    pub max_events: usize,
    /// Decides the jitter of retries.
    pub seed: u64,
}

impl Default for Options {
    /// Any free port of 127.0.0.1, the specification's dialect and its times.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            allow_remote: false,
            dialect: Dialect::Spec,
            token: None,
            visibility_timeout: Duration::from_secs(1800),
            heartbeat_interval: Duration::from_secs(5),
            heartbeat_timeout: Duration::from_secs(30),
            max_jobs: 100_000,
            max_events: 10_000,
            seed: 0,
        }
    }
}

/// Why a server does not start.
#[derive(Debug)]
pub enum StartError {
    /// The address is one that other machines reach, and nobody allowed that.
    Remote(SocketAddr),
    /// The address cannot be had.
    Listen(SocketAddr, io::Error),
    /// The machine has no thread or no descriptor left.
    Resources(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(address) => write!(
                f,
                "{address} can be reached from other machines, and this is a development tool; use 127.0.0.1 or [::1], \
                 or allow it with --allow-remote"
            ),
            Self::Listen(address, error) => write!(
                f,
                "cannot listen on {address}: {error}; use another port, or port 0 for any free one"
            ),
            Self::Resources(error) => write!(f, "cannot start the server's thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running server. Dropping it closes the port and every connection and forgets everything.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    gate: watch::Sender<Gate>,
    thread: Option<JoinHandle<()>>,
}

/// What the server's thread and its owner both see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub clock: Clock,
    pub options: Options,
    state: Mutex<State>,
    changed: Condvar,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    pub store: Store,
    pub faults: Faults,
    pub events: Events,
    is_listening: bool,
}

impl Shared {
    /// The state, with everything done that is due.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        for occurrence in state.store.tick(now) {
            let event = Event {
                worker: occurrence.worker.map(|worker| worker.to_string()),
                jobs: occurrence.jobs.iter().map(ToString::to_string).collect(),
                ..Event::new(occurrence.what)
            };
            self.push(&mut state, now, event);
            self.changed.notify_all();
        }
        state
    }

    /// Notes that something happened.
    pub fn note(&self, event: Event) {
        let mut state = self.lock();
        let now = self.clock.now();
        self.push(&mut state, now, event);
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that something happened, with the state at hand.
    pub fn push(&self, state: &mut State, now: Moment, event: Event) {
        state.events.push(now, wall(self.clock.epoch(), now), event);
    }

    /// The fault that meets a request with this body.
    pub fn take_fault(&self, operation: Operation, body: &[u8]) -> Option<Fault> {
        let mut state = self.lock();
        if state.faults.are_off() {
            return None;
        }
        let id = Object::read(body)
            .ok()
            .and_then(|body| body.text("job_id").ok().flatten());
        let job = id.filter(|_| operation == Operation::Ack);
        let job = job
            .and_then(|id| state.store.job(&id))
            .map(|job| raw(&job.envelope(state.store.epoch())));
        let stored = body.len() + job.map_or(0, |job| job.get().len());
        let now = self.clock.now();
        state.faults.take(now, operation, stored as u64)
    }

    /// Whoever waits for something is to look again.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Notes whether somebody can connect.
    pub fn set_listening(&self, is_listening: bool) {
        self.lock().is_listening = is_listening;
        self.note(Event::new(if is_listening { "listening" } else { "refusing" }));
    }
}

impl Server {
    /// Starts one; it can be reached when this returns.
    ///
    /// # Errors
    ///
    /// The address cannot be had or is not allowed, or the machine has no thread left.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let listen = options.listen;
        if !listen.ip().is_loopback() && !options.allow_remote {
            return Err(StartError::Remote(listen));
        }
        let listener = TcpListener::bind(listen).map_err(|error| StartError::Listen(listen, error))?;
        listener.set_nonblocking(true).map_err(StartError::Resources)?;
        let address = listener.local_addr().map_err(StartError::Resources)?;
        let clock = Clock::start();
        let settings = Settings {
            visibility_timeout: options.visibility_timeout,
            heartbeat_timeout: options.heartbeat_timeout,
            max_jobs: options.max_jobs.max(1),
        };
        let state = State {
            store: Store::new(settings, clock.epoch(), options.seed),
            faults: Faults::default(),
            events: Events::new(options.max_events),
            is_listening: true,
        };
        let shared = Arc::new(Shared {
            clock,
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let (gate, gate_seen) = watch::channel(Gate::Open);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Resources)?;
        let theirs = Arc::clone(&shared);
        let gate_theirs = gate.clone();
        let thread = thread::Builder::new()
            .name("ojs-devserver".to_owned())
            .spawn(move || runtime.block_on(http::serve(theirs, listener, address, gate_theirs, gate_seen)))
            .map_err(StartError::Resources)?;
        Ok(Self {
            address,
            shared,
            gate,
            thread: Some(thread),
        })
    }

    /// Its base URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes a job in, as the body of an enqueue request or as an envelope; gives its id.
    ///
    /// # Errors
    ///
    /// It makes no sense, or there is no room for it; the message says which.
    pub fn enqueue(&self, job: &str) -> Result<String, String> {
        let mut ids = self.enqueue_all(std::iter::once(job))?;
        ids.pop().ok_or_else(|| "nothing was taken in".to_owned())
    }

    /// Takes jobs in, all or none; gives their ids.
    ///
    /// # Errors
    ///
    /// One makes no sense, or there is no room for them; the message says which.
    pub fn enqueue_all<'a>(&self, jobs: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
        let read = |job: &str| {
            let body = Object::read(job.as_bytes())?;
            envelope::read(body).map_err(|refusal| refusal.message)
        };
        let jobs = jobs.map(read).collect::<Result<Vec<_>, String>>()?;
        let ids = self.with(|state, now| state.store.enqueue(now, jobs, http::new_id))?;
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    /// Cancels a job, at once, whatever it is doing.
    ///
    /// # Errors
    ///
    /// There is no such job, or its life is over.
    pub fn cancel(&self, job: &str) -> Result<(), String> {
        self.with(|state, now| state.store.cancel(now, job)).map(|_| ())
    }

    /// Tells a worker what to be, with its next heartbeat.
    ///
    /// # Errors
    ///
    /// There is no such worker, or it was told to terminate.
    pub fn direct(&self, worker: &str, directive: Directive) -> Result<(), String> {
        self.with(|state, _| state.store.direct(worker, directive))
    }

    /// Ids of the workers that have come and not gone.
    #[must_use]
    pub fn workers(&self) -> Vec<String> {
        self.shared
            .lock()
            .store
            .workers()
            .keys()
            .map(ToString::to_string)
            .collect()
    }

    /// A job as it is now; `None`: there is none of that id.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<JobSnapshot> {
        let state = self.shared.lock();
        state.store.job(id).map(|job| state.store.snapshot(job))
    }

    /// All jobs as they are now, oldest first.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobSnapshot> {
        self.shared.lock().store.snapshots()
    }

    /// How many jobs are in a state.
    #[must_use]
    pub fn count(&self, state: crate::JobState) -> usize {
        let counts = self.shared.lock();
        counts
            .store
            .counts()
            .find_map(|(of, count)| (of == state).then_some(count))
            .unwrap_or_default()
    }

    /// Most jobs that each worker ever had at the same time, also of workers that are gone.
    #[must_use]
    pub fn most_active(&self) -> BTreeMap<String, usize> {
        let state = self.shared.lock();
        state
            .store
            .peaks()
            .iter()
            .map(|(worker, peak)| (worker.to_string(), *peak))
            .collect()
    }

    /// Time since its start, by the clock of its events.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Gives to `worker`, which need not exist, every job that can be fetched and that somebody had before; gives their
    /// ids. A witness inside of the process: no network and no fault keeps it from seeing what was given away too early.
    #[must_use]
    pub fn take_over(&self, worker: &str) -> Vec<String> {
        let taken = self.with(|state, now| Ok(state.store.take_over(now, worker)));
        taken.unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    /// Acknowledges a job on behalf of a worker.
    ///
    /// # Errors
    ///
    /// There is no such job, or the worker does not have it.
    pub fn acknowledge(&self, worker: &str, job: &str) -> Result<(), String> {
        self.with(|state, now| state.store.ack(now, job, Some(worker), None).map(|_| ()))
    }

    /// The last events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.shared.lock().events.after(0).cloned().collect()
    }

    /// What time it is, by the clock of the events: milliseconds since the start.
    #[must_use]
    pub fn now_ms(&self) -> f64 {
        millis(self.shared.clock.now())
    }

    /// Switches a fault on; gives the number by which it can be switched off.
    ///
    /// # Errors
    ///
    /// Too many are switched on.
    pub fn fault(&self, rule: FaultRule) -> Result<u64, String> {
        self.with(|state, now| state.faults.add(now, rule))
    }

    /// Switches a fault off; whether it was on.
    pub fn clear_fault(&self, number: u64) -> bool {
        self.shared.lock().faults.remove(number)
    }

    /// Switches all faults off. Requests that hang stay as they are.
    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Closes the port and every connection: when this returns, connections are refused. Whether it did so in time.
    pub fn refuse_connections(&self) -> bool {
        let _ = self.gate.send(Gate::Closed { until: None });
        self.wait_listening(false)
    }

    /// Opens the same port again: when this returns, one can connect. Whether it did so in time.
    pub fn accept_connections(&self) -> bool {
        let _ = self.gate.send(Gate::Open);
        self.wait_listening(true)
    }

    fn wait_listening(&self, is_listening: bool) -> bool {
        let guard = self.shared.lock();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(guard, GATE_PATIENCE, |state| state.is_listening != is_listening);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_listening == is_listening
    }

    /// Waits until something is so, looking whenever anything has changed; whether it was so in time.
    pub fn wait(&self, patience: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        /// What changes by time alone is looked at this often.
        const LOOK: Duration = Duration::from_millis(20);
        let deadline = self.shared.clock.now() + patience;
        loop {
            let seen = self.shared.lock().events.next_number();
            if condition(self) {
                return true;
            }
            let left = deadline.saturating_sub(self.shared.clock.now());
            if left.is_zero() {
                return false;
            }
            let guard = self.shared.lock();
            let is_same = |state: &mut State| state.events.next_number() == seen;
            drop(self.shared.changed.wait_timeout_while(guard, left.min(LOOK), is_same));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Moment) -> Result<T, Refusal>) -> Result<T, String> {
        let result = act(&mut self.shared.lock(), self.shared.clock.now());
        self.shared.notify();
        result.map_err(|refusal| refusal.message)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.gate.send(Gate::Over);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}
