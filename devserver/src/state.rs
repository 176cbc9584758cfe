//! State that the server's thread and its owner share, and the lock around it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::events::{Event, EventLog};
use crate::faults::{Fault, Faults};
use crate::json::{Object, raw};
use crate::moment::{Moment, wall};
use crate::operation::Operation;
use crate::options::Options;
use crate::store::{Store, StoreSettings};

/// Whether clients can connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Clients can connect.
    Open,
    /// Clients cannot connect.
    Closed {
        /// When the port opens again; `None`: when a caller opens it.
        until: Option<Moment>,
    },
    /// Clients cannot connect, idle connections are closed, and the server waits for open requests,
    /// as Go's `Shutdown` does.
    Leaving,
    /// Clients cannot connect any more: the server ends.
    Over,
}

/// The connections that are there stop, as if nothing that is sent on them arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freeze {
    /// How often that was ordered.
    pub number: u64,
    /// When the connections continue; `None`: never.
    pub until: Option<Moment>,
}

/// State that the server's thread and its owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub clock: Clock,
    pub options: Options,
    /// Opens or closes the port through the server's thread.
    pub gate: watch::Sender<Gate>,
    /// Stops the open connections.
    pub freeze: watch::Sender<Freeze>,
    /// The number of the newest change of a job: streams wait for the next one.
    pub newest_change: watch::Sender<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The part that changes while the server runs; behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub store: Store,
    pub faults: Faults,
    pub events: EventLog,
    is_listening: bool,
}

impl Shared {
    /// The state of a server that starts now, and the receiver of its gate for its thread.
    pub fn new(options: Options) -> (Self, watch::Receiver<Gate>) {
        let clock = Clock::start();
        let settings = StoreSettings {
            enforces_timeouts: options.dialect.enforces_timeouts(),
            visibility_timeout: options.visibility_timeout,
            heartbeat_timeout: options.heartbeat_timeout,
            max_jobs: options.max_jobs.max(1),
        };
        let state = State {
            store: Store::new(settings, clock.epoch(), options.seed),
            faults: Faults::default(),
            events: EventLog::new(options.max_events),
            is_listening: true,
        };
        let (gate, gate_seen) = watch::channel(Gate::Open);
        let shared = Self {
            clock,
            options,
            gate,
            freeze: watch::Sender::new(Freeze { number: 0, until: None }),
            newest_change: watch::Sender::new(0),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        (shared, gate_seen)
    }

    /// The state, after all due timers have fired.
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
        self.announce(&state);
        state
    }

    /// Wakes the streams of job changes if there is a new change.
    pub fn announce(&self, state: &State) {
        let newest = state.store.changes().newest();
        self.newest_change
            .send_if_modified(|seen| std::mem::replace(seen, newest) != newest);
    }

    /// Adds an event that happened just now.
    pub fn record(&self, event: Event) {
        let mut state = self.lock();
        let now = self.clock.now();
        self.push(&mut state, now, event);
        drop(state);
        self.changed.notify_all();
    }

    /// Adds an event; the caller already holds the state.
    fn push(&self, state: &mut State, now: Moment, event: Event) {
        state.events.push(now, wall(self.clock.epoch(), now), event);
    }

    /// The fault that meets a request with this body.
    pub fn fault_for(&self, operation: Operation, body: &[u8]) -> Option<Fault> {
        let mut state = self.lock();
        if state.faults.is_empty() {
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
        state.faults.fault_for(now, operation, stored as u64)
    }

    /// Makes all waiting callers check again.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Notes whether clients can connect.
    pub fn set_listening(&self, is_listening: bool) {
        self.lock().is_listening = is_listening;
        self.record(Event::new(if is_listening { "listening" } else { "refusing" }));
    }

    /// Freezes the open connections, for this long or for good. New connections are served.
    pub fn freeze(&self, lasts: Option<Duration>) {
        let until = lasts.map(|lasts| self.clock.now() + lasts);
        self.freeze.send_modify(|freeze| {
            freeze.number += 1;
            freeze.until = until;
        });
        self.record(Event::new("freezing"));
    }

    /// Waits until clients can, or cannot, connect; returns whether that happened in time.
    pub fn wait_listening(&self, is_listening: bool, patience: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), patience, |state| state.is_listening != is_listening);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_listening == is_listening
    }

    /// Waits at most `patience` until the number of the next event is another one than this.
    pub fn wait_for_event(&self, number: u64, patience: Duration) {
        let is_same = |state: &mut State| state.events.next_number() == number;
        drop(self.changed.wait_timeout_while(self.lock(), patience, is_same));
    }
}
