//! The steps of a request: a token, a connection that is kept or a new one, the exchange, and what
//! becomes of the connection.

use std::net::SocketAddr;
use std::time::Duration;

use crate::daemon::backend::answer::body_limit;
use crate::daemon::backend::client::{Backend, BackendTimer, BackendTurn};
use crate::daemon::backend::connection::ConnectionPhase;
use crate::daemon::backend::dial::Dial;
use crate::daemon::backend::exchange::{Exchange, ExchangeStep};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::Used;
use crate::daemon::backend::names::Lookup;
use crate::daemon::backend::pending::{Pending, RequestStage};
use crate::daemon::backend::token_reader::TokenState;
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Endpoint, Lane, Moment};
use ojs_wire::backend::request;

/// A heartbeat without an answer for this long may hang: the next one does not go on a connection
/// that has been idle since.
const HEARTBEAT_HANGS_AFTER: Duration = Duration::from_millis(50);

impl Backend {
    /// The next step of a request that is on no connection yet.
    pub(in crate::daemon::backend) fn advance(&mut self, id: CallId, turn: BackendTurn<'_>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        pending.began.get_or_insert(turn.now);
        match pending.stage {
            RequestStage::Ready | RequestStage::NeedsToken | RequestStage::NeedsAddress => {}
            RequestStage::Dialing(_) => return self.dial(id, turn),
            RequestStage::Waiting | RequestStage::Exchanging(_) => return,
        }
        if pending.give_up <= turn.now {
            return self.fail(id, &Fault::TooLate);
        }
        match self.token.state(turn.now) {
            TokenState::Ready => {}
            TokenState::Wait(until) => return self.wait_for_thread(id, RequestStage::NeedsToken, until),
            TokenState::Missing => return self.fail_without_token(id),
        }
        let (endpoint, is_second, is_again) = (pending.call.endpoint(), pending.is_second, pending.is_again);
        let used_since = self.hangs_since(endpoint.lane(), is_again, turn.now);
        // An event stream has a connection of its own.
        let takes_any = !is_second && endpoint.lane() != Lane::Stream;
        if takes_any && let Some(slot) = self.take_kept(endpoint, used_since, turn.now) {
            return self.begin(id, slot, turn);
        }
        match self.names.addresses(turn.now) {
            Lookup::Known(addresses) => {
                self.set_stage(id, RequestStage::Dialing(Dial::new(&addresses, turn.now)));
                let limit = self.outcomes.settings().backend.connect_timeout;
                self.deadlines.arm(BackendTimer::Connect(id), turn.now.after(limit));
                if takes_any {
                    self.dialing.insert(id);
                }
                self.dial(id, turn);
            }
            Lookup::Wait(until) => self.wait_for_thread(id, RequestStage::NeedsAddress, until),
            Lookup::Failed(fault) => self.fail(id, &fault),
        }
    }

    /// Since when the oldest request of this kind may hang, for one that goes out because of that:
    /// the same once more, or another heartbeat. What holds up one connection often holds up all
    /// that are as old.
    fn hangs_since(&self, lane: Lane, is_again: bool, now: Moment) -> Option<Moment> {
        let is_long = |began: &Moment| is_again || began.elapsed(now) >= HEARTBEAT_HANGS_AFTER;
        let is_meant =
            |pending: &&Pending| pending.lane == lane && matches!(pending.stage, RequestStage::Exchanging(_));
        let others = || self.pending.values().filter(is_meant);
        (is_again || lane == Lane::Beat)
            .then(|| others().filter_map(|pending| pending.began).filter(is_long).min())
            .flatten()
    }

    /// A kept connection on which the request may go.
    fn take_kept(&mut self, endpoint: Endpoint, used_since: Option<Moment>, now: Moment) -> Option<usize> {
        while let Some(slot) = self.kept.take(endpoint, used_since, now) {
            let is_quiet = if endpoint.may_come_twice() {
                self.is_quiet(slot)
            } else {
                self.is_still_quiet(slot)
            };
            if is_quiet {
                return Some(slot);
            }
            self.note_end_of_kept(slot, now);
            self.slots.close(slot);
        }
        None
    }

    /// The request goes on when a thread has a result, or at this time.
    fn wait_for_thread(&mut self, id: CallId, stage: RequestStage, until: Option<Moment>) {
        self.set_stage(id, stage);
        self.waiting_for_thread.insert(id);
        if let Some(until) = until {
            self.deadlines.arm(BackendTimer::Step(id), until);
        }
    }

    /// Connects to the next address, if it is time for that; there may be no further one.
    fn dial(&mut self, id: CallId, turn: BackendTurn<'_>) {
        loop {
            let Some(Pending {
                stage: RequestStage::Dialing(dial),
                ..
            }) = self.pending.get_mut(&id)
            else {
                return;
            };
            if let Some(fault) = dial.is_over() {
                return self.fail(id, &fault);
            }
            let Some(address) = dial.next(turn.now) else {
                if let Some(at) = dial.next_at() {
                    self.deadlines.arm(BackendTimer::Step(id), at);
                }
                return;
            };
            let attempt = self.connect(id, address, turn);
            if let Err(fault) = &attempt {
                self.note_attempt(address, fault);
            }
            let Some(Pending {
                stage: RequestStage::Dialing(dial),
                ..
            }) = self.pending.get_mut(&id)
            else {
                return;
            };
            match attempt {
                Ok(slot) => dial.began(slot),
                Err(fault) => dial.failed(None, fault, turn.now),
            }
        }
    }

    /// Opens a connection; the kernel tells when it is there.
    fn connect(&mut self, id: CallId, address: SocketAddr, turn: BackendTurn<'_>) -> Result<usize, Fault> {
        let Self {
            slots, kept, tunnels, ..
        } = self;
        // One that nobody uses makes room for one that somebody needs.
        slots.connect(address, id, (turn.registry, turn.now), |slots| match kept.oldest() {
            Some(oldest) => {
                slots.close(oldest);
                true
            }
            None => tunnels.close_oldest_kept(),
        })
    }

    /// The next step on a connection.
    pub(in crate::daemon::backend) fn serve(&mut self, slot: usize, turn: BackendTurn<'_>) {
        let Some(connection) = self.slots.get(slot) else { return };
        connection.is_queued = false;
        let Some(id) = connection.owner else {
            if !self.is_quiet(slot) {
                self.note_end_of_kept(slot, turn.now);
                self.kept.forget(slot);
                self.slots.close(slot);
            }
            return;
        };
        let result = match connection.phase {
            ConnectionPhase::Open => return self.exchange(id, slot, turn),
            ConnectionPhase::Connecting => connection.is_connected(),
            ConnectionPhase::Handshake => connection.shake_hands(&mut self.buffers),
        };
        match result {
            Ok(false) if connection.may_read() => self.enqueue(slot),
            Ok(false) => {}
            Ok(true) if connection.phase == ConnectionPhase::Connecting => self.connected(id, slot, turn),
            Ok(true) => self.begin(id, slot, turn),
            Err(fault) => self.attempt_failed(id, slot, fault, turn),
        }
    }

    fn attempt_failed(&mut self, id: CallId, slot: usize, fault: Fault, turn: BackendTurn<'_>) {
        if let Some(address) = self.slots.address(slot) {
            self.note_attempt(address, &fault);
        }
        self.slots.close(slot);
        if let Some(Pending {
            stage: RequestStage::Dialing(dial),
            ..
        }) = self.pending.get_mut(&id)
        {
            dial.failed(Some(slot), fault, turn.now);
            self.dial(id, turn);
        }
    }

    /// The first address that answers is the one.
    fn connected(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        let Some(Pending {
            stage: RequestStage::Dialing(dial),
            ..
        }) = self.pending.get_mut(&id)
        else {
            return;
        };
        self.names.are_late(&dial.late(Some(slot), turn.now), turn.now);
        for other in dial.settle(slot) {
            self.slots.close(other);
        }
        self.deadlines.cancel(BackendTimer::Step(id));
        let opening = match self.route.opening() {
            Ok(opening) => opening,
            Err(fault) => return self.attempt_failed(id, slot, fault, turn),
        };
        let Some(connection) = self.slots.get(slot) else { return };
        connection.begin(opening);
        if connection.phase == ConnectionPhase::Open {
            self.begin(id, slot, turn);
        } else {
            self.enqueue(slot);
        }
    }

    /// The request goes out on this connection.
    fn begin(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        self.deadlines.cancel(BackendTimer::Connect(id));
        self.deadlines.cancel(BackendTimer::Step(id));
        self.dialing.remove(&id);
        let (Some(pending), Some(connection)) = (self.pending.get_mut(&id), self.slots.get(slot)) else {
            return;
        };
        connection.owner = Some(id);
        // Its file may have become empty meanwhile: nothing goes out without a token where there
        // shall be one.
        if !self.token.is_there() {
            self.slots.close(slot);
            return self.fail_without_token(id);
        }
        let settings = self.outcomes.settings();
        let request = request::request(&pending.call, &settings.identity);
        let bytes = self.writer.write(&request, self.token.newest());
        match Exchange::new(slot, bytes, body_limit(&pending.call, settings.max_frame)) {
            Ok(exchange) => {
                pending.stage = RequestStage::Exchanging(Box::new(exchange));
                self.exchange(id, slot, turn);
            }
            Err(fault) => {
                self.slots.close(slot);
                self.fail(id, &fault);
            }
        }
    }

    fn exchange(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        let (
            Some(Pending {
                stage: RequestStage::Exchanging(exchange),
                lane,
                ..
            }),
            Some(connection),
        ) = (self.pending.get_mut(&id), self.slots.get(slot))
        else {
            return;
        };
        let step = exchange.step(connection, &mut self.buffers);
        if *lane == Lane::Stream
            && let Some(events) = exchange.new_events()
            && !self.heard_events(id, &events, turn.now)
        {
            return;
        }
        match step {
            ExchangeStep::Waits => {}
            ExchangeStep::Paused => self.enqueue(slot),
            ExchangeStep::Over(None) if self.is_open_stream(id) => self.fail(id, &Fault::Closed),
            ExchangeStep::Over(None) => self.finish(id, slot, turn),
            ExchangeStep::Over(Some(fault)) => self.fail(id, &fault),
        }
    }

    /// The answer is there.
    fn finish(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        let RequestStage::Exchanging(exchange) = std::mem::replace(&mut pending.stage, RequestStage::Ready) else {
            return;
        };
        let Some(received) = exchange.received() else {
            self.slots.close(slot);
            return self.fail(id, &Fault::Internal);
        };
        let used = Used {
            since: turn.now,
            keep_alive: received.head.keep_alive,
            lane: pending.lane,
        };
        // Before anybody else gets its connection, who is answered ends.
        self.interpret(id, &received);
        let is_kept = received.leaves_connection_open && used.lane != Lane::Stream;
        if is_kept && self.is_quiet(slot) {
            self.keep(slot, used, turn);
        } else {
            if used.lane != Lane::Stream {
                self.note_end_of_kept(slot, turn.now);
            }
            self.slots.close(slot);
        }
    }

    /// Keeps a connection for the next request. Who waits for a connection gets it at once: it may
    /// be the only one to be had.
    fn keep(&mut self, slot: usize, used: Used, turn: BackendTurn<'_>) {
        let Some(connection) = self.slots.get(slot) else { return };
        connection.owner = None;
        connection.has_served = true;
        connection.idle_since = Some(turn.now);
        connection.kept_until = used.safe_until(turn.now);
        connection.shrink();
        let used = Used {
            since: connection.since,
            ..used
        };
        if let Some(surplus) = self.kept.keep(slot, used, turn.now) {
            self.slots.close(surplus);
        }
        let dialing = self.dialing.iter().filter_map(|id| {
            let pending = self.pending.get(id)?;
            Some((*id, pending.call.endpoint(), pending.is_again))
        });
        for (id, endpoint, is_again) in dialing.collect::<Vec<_>>() {
            let used_since = self.hangs_since(endpoint.lane(), is_again, turn.now);
            if let Some(slot) = self.take_kept(endpoint, used_since, turn.now) {
                self.close_attempts(id);
                return self.begin(id, slot, turn);
            }
        }
    }

    /// Closes the other attempts of a request that has a connection.
    fn close_attempts(&mut self, id: CallId) {
        let Some(Pending {
            stage: RequestStage::Dialing(dial),
            ..
        }) = self.pending.get(&id)
        else {
            return;
        };
        dial.attempts().for_each(|slot| self.slots.close(slot));
        self.set_stage(id, RequestStage::Ready);
    }

    /// Whether the other side says nothing on a connection that has no request. What it says is no
    /// answer to the next one.
    fn is_quiet(&mut self, slot: usize) -> bool {
        let connection = self.slots.get(slot);
        connection.is_some_and(|connection| connection.is_quiet(&mut self.buffers))
    }

    /// The same, for what may not come twice: the kernel may know more by now than it has told.
    pub(in crate::daemon::backend) fn is_still_quiet(&mut self, slot: usize) -> bool {
        if let Some(connection) = self.slots.get(slot) {
            connection.look_again();
        }
        self.is_quiet(slot)
    }
}
