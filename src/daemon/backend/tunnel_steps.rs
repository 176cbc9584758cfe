//! The steps of a tunnel from its turn to its end: a connection, the exchange, and what becomes of
//! the connection.

use crate::daemon::backend::answer::Received;
use crate::daemon::backend::connection::ConnectionPhase;
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::Used;
use crate::daemon::backend::slots::Slots;
use crate::daemon::backend::tunnel::{TunnelFailure, TunnelFailureKind, TunnelId, TunnelNews, TunnelStage, TunnelStep};
use crate::daemon::backend::tunnels::{LONGEST_SILENCE, TunnelTimer, TunnelTurn, Tunnels, too_many_streams};
use ojs_lifecycle::api::Lane;

impl Tunnels {
    /// Looks at each attempt to connect, and begins the next one if it is time for that.
    pub(in crate::daemon::backend) fn go_on_dialing(&mut self, id: TunnelId, turn: &mut TunnelTurn<'_>) {
        for slot in self.attempts(id) {
            let Some(connection) = self.slots.get(slot) else {
                continue;
            };
            let phase = connection.phase;
            let result = match phase {
                ConnectionPhase::Connecting => connection.is_connected(),
                ConnectionPhase::Handshake => connection.shake_hands(turn.buffers),
                ConnectionPhase::Open => Ok(true),
            };
            match result {
                Ok(false) if connection.may_read() => self.enqueue(id),
                Ok(false) => {}
                Ok(true) if phase == ConnectionPhase::Connecting => match self.connected(id, slot, turn) {
                    Ok(ConnectionPhase::Open) => return self.begin(id, slot, turn),
                    Ok(ConnectionPhase::Connecting | ConnectionPhase::Handshake) => return self.enqueue(id),
                    Err(fault) => self.attempt_failed(id, slot, fault, turn),
                },
                Ok(true) => return self.begin(id, slot, turn),
                Err(fault) => self.attempt_failed(id, slot, fault, turn),
            }
        }
        self.dial(id, turn);
    }

    fn attempts(&self, id: TunnelId) -> Vec<usize> {
        match self.tunnels.get(&id).map(|tunnel| &tunnel.stage) {
            Some(TunnelStage::Dialing(dial)) => dial.attempts().collect(),
            Some(TunnelStage::Waiting | TunnelStage::Ready | TunnelStage::Open(_) | TunnelStage::Answered) | None => {
                Vec::new()
            }
        }
    }

    /// The fault that keeps this request from a connection.
    pub(in crate::daemon::backend) fn slow_connect(&mut self, id: TunnelId) -> Fault {
        let attempts = self.attempts(id);
        attempts
            .into_iter()
            .find_map(|slot| self.slots.get(slot)?.slow_fault())
            .unwrap_or(Fault::NoConnectionInTime)
    }

    fn attempt_failed(&mut self, id: TunnelId, slot: usize, fault: Fault, turn: &TunnelTurn<'_>) {
        self.slots.close(slot);
        if let Some(tunnel) = self.tunnels.get_mut(&id)
            && let TunnelStage::Dialing(dial) = &mut tunnel.stage
        {
            dial.failed(Some(slot), fault, turn.now);
        }
    }

    /// The first address that answers is the one.
    fn connected(&mut self, id: TunnelId, slot: usize, turn: &TunnelTurn<'_>) -> Result<ConnectionPhase, Fault> {
        if let Some(tunnel) = self.tunnels.get_mut(&id)
            && let TunnelStage::Dialing(dial) = &mut tunnel.stage
        {
            dial.settle(slot).into_iter().for_each(|other| self.slots.close(other));
        }
        let opening = turn.route.opening()?;
        let connection = self.slots.get(slot).ok_or(Fault::Internal)?;
        connection.begin(opening);
        Ok(connection.phase)
    }

    /// Connects to the next address, if it is time for that; there may be no further one.
    pub(in crate::daemon::backend) fn dial(&mut self, id: TunnelId, turn: &mut TunnelTurn<'_>) {
        loop {
            let Self {
                tunnels, slots, kept, ..
            } = self;
            let Some(tunnel) = tunnels.get_mut(&id) else { return };
            let TunnelStage::Dialing(dial) = &mut tunnel.stage else {
                return;
            };
            if let Some(fault) = dial.is_over() {
                return self.fail(id, &fault, turn);
            }
            let Some(address) = dial.next(turn.now) else {
                if let Some(at) = dial.next_at() {
                    self.deadlines.arm(TunnelTimer::Step(id), at);
                }
                return;
            };
            let make_room = |slots: &mut Slots<TunnelId>| {
                let oldest = kept.oldest();
                oldest.into_iter().for_each(|slot| slots.close(slot));
                oldest.is_some()
            };
            match slots.connect(address, id, (turn.registry, turn.now), make_room) {
                Ok(slot) => dial.began(slot),
                Err(fault) => dial.failed(None, fault, turn.now),
            }
        }
    }

    /// The request goes out on this connection.
    pub(in crate::daemon::backend) fn begin(&mut self, id: TunnelId, slot: usize, turn: &mut TunnelTurn<'_>) {
        self.deadlines.cancel(TunnelTimer::Connect(id));
        self.deadlines.cancel(TunnelTimer::Step(id));
        self.waiting_for_thread.remove(&id);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return self.slots.close(slot);
        };
        // Its file may have become empty meanwhile: nothing goes out without a token where there
        // shall be one.
        if !turn.token.is_there() {
            self.slots.close(slot);
            return self.fail_without_token(id);
        }
        tunnel.moved_at = turn.now;
        let bearer = turn.token.newest().map(|token| token.reveal());
        tunnel.begin(slot, &self.own, bearer);
        self.deadlines
            .arm(TunnelTimer::Silence(id), turn.now.after(LONGEST_SILENCE));
        self.exchange(id, slot, turn);
    }

    /// Goes on in both directions.
    pub(in crate::daemon::backend) fn exchange(&mut self, id: TunnelId, slot: usize, turn: &mut TunnelTurn<'_>) {
        let (Some(tunnel), Some(connection)) = (self.tunnels.get_mut(&id), self.slots.get(slot)) else {
            return;
        };
        let mut news = Vec::new();
        let step = tunnel.step(connection, turn.buffers, turn.now, &mut news);
        if let Some(TunnelNews::Head(head)) = news.first()
            && matches!(head.status, 401 | 403)
        {
            turn.token.changed();
        }
        if let Some(TunnelNews::Head(head)) = news.first()
            && head.is_event_stream()
            && !self.count_as_stream(id)
        {
            return self.end(id, TunnelNews::Failed(too_many_streams()));
        }
        self.news.extend(news.into_iter().map(|news| (id, news)));
        match step {
            TunnelStep::Waits => {}
            TunnelStep::Paused => self.enqueue(id),
            TunnelStep::Over(received) => self.finish(id, slot, &received, turn),
            TunnelStep::Broken(fault) => self.fail(id, &fault, turn),
        }
    }

    /// All of the answer is here; perhaps not all of it was taken.
    fn finish(&mut self, id: TunnelId, slot: usize, received: &Received, turn: &mut TunnelTurn<'_>) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.stage = TunnelStage::Answered;
        }
        self.enqueue(id);
        let Some(connection) = self.slots.get(slot) else { return };
        if !(received.leaves_connection_open && connection.is_quiet(turn.buffers)) {
            return self.slots.close(slot);
        }
        connection.owner = None;
        connection.has_served = true;
        connection.shrink();
        let used = Used {
            since: connection.since,
            keep_alive: received.head.keep_alive,
            lane: Lane::Side,
        };
        if let Some(surplus) = self.kept.keep(slot, used, turn.now) {
            self.slots.close(surplus);
        }
    }

    /// There is no answer, or not all of it. A backend may close a kept connection just when we use
    /// it again: then a fresh one gets the request, if that can do no harm.
    pub(in crate::daemon::backend) fn fail(&mut self, id: TunnelId, fault: &Fault, turn: &TunnelTurn<'_>) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let mut has_served = false;
        if let TunnelStage::Open(slot) = tunnel.stage {
            if let Some(connection) = self.slots.get(slot) {
                has_served = connection.has_served;
                connection.reset_at_close();
            }
            self.slots.close(slot);
        }
        let text = turn.outcomes.reason(fault, !has_served);
        if has_served && tunnel.begin_again(fault) {
            log::debug!("backend: the kept connection of a request that passes through was closed: {text}");
            return self.enqueue(id);
        }
        let is_refused = !has_served && fault.is_refusal(&turn.outcomes.settings().backend);
        let mut kind = tunnel.failure_kind(fault);
        if kind == TunnelFailureKind::Unanswered && is_refused {
            kind = TunnelFailureKind::NotSent;
        }
        self.end(id, TunnelNews::Failed(TunnelFailure { kind, text }));
    }

    /// There shall be a token, and there is none.
    pub(in crate::daemon::backend) fn fail_without_token(&mut self, id: TunnelId) {
        let (kind, text) = (TunnelFailureKind::NotSent, "there is no token for it".to_owned());
        self.end(id, TunnelNews::Failed(TunnelFailure { kind, text }));
    }

    /// Ends a tunnel, with these news as the last ones.
    pub(in crate::daemon::backend) fn end(&mut self, id: TunnelId, last: TunnelNews) {
        self.remove(id);
        self.news.push_back((id, last));
    }

    /// Removes a tunnel and closes its connection. Another one goes instead.
    pub(in crate::daemon::backend) fn remove(&mut self, id: TunnelId) {
        let attempts = self.attempts(id);
        let Some(tunnel) = self.tunnels.remove(&id) else { return };
        for due in [
            TunnelTimer::Room(id),
            TunnelTimer::Connect(id),
            TunnelTimer::Step(id),
            TunnelTimer::Silence(id),
            TunnelTimer::Abandoned(id),
        ] {
            self.deadlines.cancel(due);
        }
        self.waiting_for_thread.remove(&id);
        self.abandoned.remove(&id);
        match tunnel.stage {
            TunnelStage::Waiting => return self.waiting.retain(|waiting| *waiting != id),
            TunnelStage::Open(slot) => {
                if let Some(connection) = self.slots.get(slot) {
                    connection.reset_at_close();
                }
                self.slots.close(slot);
            }
            TunnelStage::Dialing(_) => attempts.into_iter().for_each(|slot| self.slots.close(slot)),
            TunnelStage::Ready | TunnelStage::Answered => {}
        }
        self.uncount(&tunnel);
    }
}
