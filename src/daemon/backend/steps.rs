//! The steps of a request: a token, a kept or new connection, the exchange, and the end or the
//! keeping of the connection.

use std::time::Duration;

use crate::daemon::backend::answer::{AnswerReader, body_limit, droppable_bytes};
use crate::daemon::backend::client::{Backend, BackendTimer, BackendTurn};
use crate::daemon::backend::connection::ConnectionPhase;
use crate::daemon::backend::exchange::{Exchange, ExchangeStep};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::{Used, Wanted};
use crate::daemon::backend::pending::{Awaits, Pending, RequestStage};
use crate::daemon::backend::reach::Reached;
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Lane, Moment};
use ojs_wire::backend::request;

/// A heartbeat without an answer for this long may hang. The next one does not use a connection
/// that has been idle since.
const HEARTBEAT_HANGS_AFTER: Duration = Duration::from_millis(50);

/// Time for the rest of an answer that is dropped. It would only keep the connection.
const DROPPING_FOR: Duration = Duration::from_millis(250);

impl Backend {
    /// Number of armed timers, for the status.
    pub(in crate::daemon) fn timers(&self) -> usize {
        self.deadlines.count() + self.tunnels.timers()
    }

    /// The next step of a request that is on no connection yet.
    pub(in crate::daemon::backend) fn advance(&mut self, id: CallId, turn: BackendTurn<'_>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        pending.began.get_or_insert(turn.now);
        if !matches!(pending.stage, RequestStage::Reaching(_)) {
            return;
        }
        if pending.give_up <= turn.now && !self.reach.is_dialing(id) {
            return self.fail(id, &Fault::TooLate);
        }
        let Some(wanted) = self.wanted(id, turn.now) else {
            return;
        };
        let mut way = turn.way(&mut self.upstream);
        let mut make_room = || self.tunnels.close_oldest_kept();
        match self.reach.advance(id, wanted, &mut way, &mut make_room) {
            Reached::Open(slot) => self.begin(id, slot, turn),
            Reached::Token(until) => self.wait_for_thread(id, Awaits::Token, until),
            Reached::Address(until) => self.wait_for_thread(id, Awaits::Address, until),
            Reached::Dialing { next_at, is_paused } => self.wait_for_peer(id, next_at, is_paused, turn.now),
            Reached::NoToken => self.fail_without_token(id),
            Reached::Failed(fault) => self.fail(id, &fault),
        }
    }

    /// Moves a request that is opening a connection to a kept one, if there is one for it.
    pub(in crate::daemon::backend) fn take_kept(&mut self, id: CallId, turn: BackendTurn<'_>) {
        let Some(wanted) = self.wanted(id, turn.now) else {
            return;
        };
        let mut way = turn.way(&mut self.upstream);
        if let Some(Reached::Open(slot)) = self.reach.take_kept(id, wanted, &mut way) {
            self.begin(id, slot, turn);
        }
    }

    fn wanted(&self, id: CallId, now: Moment) -> Option<Wanted> {
        let pending = self.pending.get(&id)?;
        let endpoint = pending.call.endpoint();
        Some(Wanted {
            lane: endpoint.lane(),
            may_come_twice: endpoint.may_come_twice(),
            // An event stream never uses a kept connection.
            takes_kept: !pending.is_second && endpoint.lane() != Lane::Stream,
            used_since: self.hangs_since(endpoint.lane(), pending.is_again, now),
        })
    }

    /// Since when the oldest request of this kind may hang, for a request that is sent because of
    /// that: an equal one, or another heartbeat. The cause that blocks one connection often blocks
    /// all that are as old.
    fn hangs_since(&self, lane: Lane, is_again: bool, now: Moment) -> Option<Moment> {
        let is_long = |began: &Moment| is_again || began.elapsed(now) >= HEARTBEAT_HANGS_AFTER;
        let is_meant =
            |pending: &&Pending| pending.lane == lane && matches!(pending.stage, RequestStage::Exchanging(_));
        let others = || self.pending.values().filter(is_meant);
        (is_again || lane == Lane::Beat)
            .then(|| others().filter_map(|pending| pending.began).filter(is_long).min())
            .flatten()
    }

    /// The request continues when a thread has a result, or at this time.
    fn wait_for_thread(&mut self, id: CallId, awaits: Awaits, until: Option<Moment>) {
        self.set_stage(id, RequestStage::Reaching(awaits));
        self.waiting_for_thread.insert(id);
        if let Some(until) = until {
            self.deadlines.arm(BackendTimer::Step(id), until);
        }
    }

    /// The request continues when a peer answers, or when the next address is due.
    fn wait_for_peer(&mut self, id: CallId, next_at: Option<Moment>, is_paused: bool, now: Moment) {
        self.set_stage(id, RequestStage::Reaching(Awaits::Peer));
        match next_at {
            Some(next_at) => self.deadlines.arm(BackendTimer::Step(id), next_at),
            None => self.deadlines.cancel(BackendTimer::Step(id)),
        }
        if self.deadlines.deadline_of(BackendTimer::Connect(id)).is_none() {
            let limit = self.outcomes.settings().backend.connect_timeout;
            self.deadlines.arm(BackendTimer::Connect(id), now.after(limit));
        }
        if is_paused {
            self.ready.push_back(id);
        }
    }

    /// The next step on a connection.
    pub(in crate::daemon::backend) fn serve(&mut self, slot: usize, turn: BackendTurn<'_>) {
        let Some(connection) = self.reach.slots.get(slot) else {
            return;
        };
        connection.is_queued = false;
        match (connection.owner, connection.phase) {
            (Some(id), ConnectionPhase::Open) => self.exchange(id, slot, turn),
            (Some(id), ConnectionPhase::Connecting | ConnectionPhase::Handshake) => self.advance(id, turn),
            (None, _) => self.reach.look_at_kept(slot, &mut turn.way(&mut self.upstream)),
        }
    }

    /// Starts the exchange on this connection.
    fn begin(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        self.deadlines.cancel(BackendTimer::Connect(id));
        self.deadlines.cancel(BackendTimer::Step(id));
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        // The token's file may have become empty meanwhile. No request is sent without a token if
        // one is configured.
        if !self.upstream.token.is_there() {
            self.reach.slots.close(slot);
            return self.fail_without_token(id);
        }
        let settings = self.outcomes.settings();
        let request = request::request(&pending.call, &settings.identity);
        let bytes = self.writer.write(&request, self.upstream.token.newest());
        let limit = body_limit(&pending.call, settings.max_frame);
        let answer = match pending.lane {
            Lane::Fetch => AnswerReader::of_jobs(limit),
            Lane::Beat | Lane::Report | Lane::Side | Lane::Stream => AnswerReader::new(limit),
        };
        let answer = answer.dropping(droppable_bytes(&pending.call, settings.max_frame));
        pending.stage = RequestStage::Exchanging(Box::new(Exchange::new(slot, bytes, answer)));
        self.exchange(id, slot, turn);
    }

    fn exchange(&mut self, id: CallId, slot: usize, turn: BackendTurn<'_>) {
        let (
            Some(Pending {
                stage: RequestStage::Exchanging(exchange),
                lane,
                give_up,
                ..
            }),
            Some(connection),
        ) = (self.pending.get_mut(&id), self.reach.slots.get(slot))
        else {
            return;
        };
        // ojs-init may have been paused since. A late FAIL can end the attempt of another worker.
        if !exchange.is_sent() && *give_up <= turn.now {
            return self.fail(id, &Fault::TooLate);
        }
        let step = exchange.step(connection, &mut self.upstream.buffers, &mut self.spare);
        if exchange.is_dropping() {
            let until = turn.now.after(DROPPING_FOR);
            self.deadlines.arm_at_latest(BackendTimer::GiveUp(id), until);
        }
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
        let RequestStage::Exchanging(exchange) =
            std::mem::replace(&mut pending.stage, RequestStage::Reaching(Awaits::Turn))
        else {
            return;
        };
        let Some(received) = exchange.received() else {
            self.reach.slots.close(slot);
            return self.fail(id, &Fault::Internal);
        };
        if let Some(address) = self.reach.slots.address(slot)
            && (200..300).contains(&received.head.status)
        {
            self.upstream.names.served(address, turn.now);
        }
        let used = Used {
            since: turn.now,
            keep_alive: received.head.keep_alive,
            lane: pending.lane,
        };
        let leaves_open = received.leaves_connection_open && used.lane != Lane::Stream;
        // The answered request ends before another request gets its connection.
        self.interpret(id, received);
        let mut way = turn.way(&mut self.upstream);
        self.reach.keep(slot, used, leaves_open, &mut way);
    }

    /// Frees the memory that only large answers need.
    pub fn shrink_buffers(&mut self) {
        self.upstream.buffers.shrink();
    }
}
