//! A running server: its thread, and the calls of a test.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::events::{Event, millis};
use crate::faults::FaultRule;
use crate::http;
use crate::ids::new_id;
use crate::json::Object;
use crate::moment::Moment;
use crate::options::Options;
use crate::refusal::Refusal;
use crate::state::{Gate, Shared, State};
use crate::store::job::{Directive, JobState};
use crate::store::new_job;
use crate::store::snapshot::JobSnapshot;

/// Longest time for a listener to close or to open again.
const GATE_PATIENCE: Duration = Duration::from_secs(20);

/// Why a server does not start.
#[derive(Debug)]
pub enum StartError {
    /// Other machines can reach the address, and the options do not allow that.
    Remote(SocketAddr),
    /// The server cannot listen on the address.
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

/// A running server. Dropping it closes the port and every connection and discards all state.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server; clients can connect when this returns.
    ///
    /// # Errors
    ///
    /// The server cannot listen on the address, the address is not allowed, or no thread can be
    /// started.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let listen = options.listen;
        if !listen.ip().is_loopback() && !options.allow_remote {
            return Err(StartError::Remote(listen));
        }
        let listener = TcpListener::bind(listen).map_err(|error| StartError::Listen(listen, error))?;
        listener.set_nonblocking(true).map_err(StartError::Resources)?;
        let address = listener.local_addr().map_err(StartError::Resources)?;
        let (shared, gate_seen) = Shared::new(options);
        let shared = Arc::new(shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Resources)?;
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("ojs-devserver".to_owned())
            .spawn(move || runtime.block_on(http::serve(theirs, listener, address, gate_seen)))
            .map_err(StartError::Resources)?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// The base URL of the server, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address at which the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a job from the body of an enqueue request or from an envelope; returns its id.
    ///
    /// # Errors
    ///
    /// The job is invalid, or there is no room for it; the message says which.
    pub fn enqueue(&self, job: &str) -> Result<String, String> {
        let mut ids = self.enqueue_all(std::iter::once(job))?;
        ids.pop().ok_or_else(|| "nothing was taken in".to_owned())
    }

    /// Adds jobs, all or none; returns their ids.
    ///
    /// # Errors
    ///
    /// A job is invalid, or there is no room for them; the message says which.
    pub fn enqueue_all<'a>(&self, jobs: impl Iterator<Item = &'a str>) -> Result<Vec<String>, String> {
        let read = |job: &str| {
            let body = Object::read(job.as_bytes())?;
            new_job::read(body).map_err(|refusal| refusal.message)
        };
        let jobs = jobs.map(read).collect::<Result<Vec<_>, String>>()?;
        let ids = self.with_state(|state, now| state.store.enqueue(now, jobs, new_id))?;
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    /// Cancels a job at once, in any state.
    ///
    /// # Errors
    ///
    /// There is no such job, or it has ended.
    pub fn cancel(&self, job: &str) -> Result<(), String> {
        self.with_state(|state, now| state.store.cancel(now, job)).map(|_| ())
    }

    /// Sends a worker this directive in the answer to its next heartbeat.
    ///
    /// # Errors
    ///
    /// There is no such worker, or its directive is already to terminate and this one is another.
    pub fn direct(&self, worker: &str, directive: Directive) -> Result<(), String> {
        self.with_state(|state, _| state.store.direct(worker, directive))
    }

    /// The ids of the known workers, registered or not: those that have neither deregistered nor
    /// been declared dead.
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

    /// A job in its present state; `None`: no job has that id.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<JobSnapshot> {
        let state = self.shared.lock();
        state.store.job(id).map(|job| state.store.snapshot(job))
    }

    /// All jobs in their present states, oldest first.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobSnapshot> {
        self.shared.lock().store.snapshots()
    }

    /// How many jobs are in a state.
    #[must_use]
    pub fn count(&self, state: JobState) -> usize {
        self.shared.lock().store.count(state)
    }

    /// The most jobs that each worker ever had at once, including former workers.
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

    /// The time since the start of the server, by the clock of its events.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Reserves for `worker`, which need not exist, every available job that was delivered before;
    /// returns their ids. The worker acts as a witness inside the process: no network and no fault
    /// keeps it from seeing a job that was given away too early.
    #[must_use]
    pub fn take_over(&self, worker: &str) -> Vec<String> {
        let taken = self.with_state(|state, now| Ok(state.store.take_over(now, worker)));
        taken.unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    /// Acknowledges a job on behalf of a worker.
    ///
    /// # Errors
    ///
    /// There is no such job, it is not active, or another worker has it.
    pub fn acknowledge(&self, worker: &str, job: &str) -> Result<(), String> {
        self.with_state(|state, now| state.store.ack(now, job, Some(worker), None).map(|_| ()))
    }

    /// The last events, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.shared.lock().events.after(0).cloned().collect()
    }

    /// The time by the clock of the events: milliseconds since the start.
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
        self.with_state(|state, now| state.faults.add(now, rule))
    }

    /// Switches a fault off; whether it was on.
    pub fn clear_fault(&self, number: u64) -> bool {
        self.shared.lock().faults.remove(number)
    }

    /// Switches all faults off. Requests that hang stay as they are.
    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Closes the port and every connection: when this returns, connections are refused. Whether it
    /// did so in time.
    pub fn refuse_connections(&self) -> bool {
        let _ = self.shared.gate.send(Gate::Closed { until: None });
        self.shared.wait_listening(false, GATE_PATIENCE)
    }

    /// Stops like a server of Go that is asked to end: closes the port and idle connections at
    /// once, and waits for open requests, streams of events included. Returns whether the last one
    /// ended in time.
    pub fn leave(&self, patience: Duration) -> bool {
        let _ = self.shared.gate.send(Gate::Leaving);
        self.shared.wait_listening(false, patience)
    }

    /// Opens the port again: clients can connect when this returns. Returns whether it opened in
    /// time.
    pub fn accept_connections(&self) -> bool {
        let _ = self.shared.gate.send(Gate::Open);
        self.shared.wait_listening(true, GATE_PATIENCE)
    }

    /// Freezes every open connection: its requests are neither read nor answered, and it stays
    /// open. New connections are served. After `lasts` the frozen ones continue, with the requests
    /// that clients sent meanwhile; `None`: never.
    pub fn freeze_connections(&self, lasts: Option<Duration>) {
        self.shared.freeze(lasts);
    }

    /// Waits until the condition holds, checking it after each change; returns whether it held in
    /// time.
    pub fn wait(&self, patience: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        /// Time between two checks for changes that time alone brings.
        const LOOK: Duration = Duration::from_millis(20);
        let deadline = self.shared.clock.now() + patience;
        loop {
            let seen = self.shared.lock().events.next_number();
            if condition(self) {
                return true;
            }
            let remaining = deadline.saturating_sub(self.shared.clock.now());
            if remaining.is_zero() {
                return false;
            }
            self.shared.wait_for_event(seen, remaining.min(LOOK));
        }
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State, Moment) -> Result<T, Refusal>) -> Result<T, String> {
        let mut state = self.shared.lock();
        let result = act(&mut state, self.shared.clock.now());
        self.shared.announce(&state);
        drop(state);
        self.shared.notify();
        result.map_err(|refusal| refusal.message)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.shared.gate.send(Gate::Over);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}
