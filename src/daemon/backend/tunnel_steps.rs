//! The steps of a tunnel from its turn to its end: a connection, the exchange, and the end or the
//! keeping of the connection.

use crate::daemon::backend::answer::Received;
use crate::daemon::backend::client::{Backend, BackendTurn};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::Used;
use crate::daemon::backend::reach::Sign;
use crate::daemon::backend::tunnel::{TunnelFailure, TunnelFailureKind, TunnelId, TunnelNews, TunnelStage, TunnelStep};
use crate::daemon::backend::tunnels::{LONGEST_SILENCE, TunnelTimer, TunnelTurn, Tunnels, too_many_streams};
use ojs_lifecycle::api::Lane;

impl Tunnels {
    /// Starts the exchange on this connection.
    pub(in crate::daemon::backend) fn begin(&mut self, id: TunnelId, slot: usize, turn: &mut TunnelTurn<'_>) {
        self.deadlines.cancel(TunnelTimer::Connect(id));
        self.deadlines.cancel(TunnelTimer::Step(id));
        self.waiting_for_thread.remove(&id);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return self.reach.slots.close(slot);
        };
        // The token's file may have become empty meanwhile. No request is sent without a token if
        // one is configured.
        if !turn.way.upstream.token.is_there() {
            self.reach.slots.close(slot);
            return self.fail_without_token(id);
        }
        tunnel.moved_at = turn.way.now;
        let bearer = turn.way.upstream.token.newest().map(|token| token.reveal());
        tunnel.begin(slot, &self.own, bearer);
        self.deadlines
            .arm(TunnelTimer::Silence(id), turn.way.now.after(LONGEST_SILENCE));
        self.exchange(id, slot, turn);
    }

    /// Advances both directions.
    pub(in crate::daemon::backend) fn exchange(&mut self, id: TunnelId, slot: usize, turn: &mut TunnelTurn<'_>) {
        let (Some(tunnel), Some(connection)) = (self.tunnels.get_mut(&id), self.reach.slots.get(slot)) else {
            return;
        };
        let mut news = Vec::new();
        let step = tunnel.step(connection, &mut turn.way.upstream.buffers, turn.way.now, &mut news);
        let head = news.iter().find_map(|news| match news {
            TunnelNews::Head(head) => Some(head),
            TunnelNews::HasBytes | TunnelNews::HasRoom | TunnelNews::Done | TunnelNews::Failed(_) => None,
        });
        if let Some(head) = head {
            turn.way.upstream.token.answered(head.status);
        }
        if let Some(head) = head
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

    /// All of the answer was received. The client may not have read all of it.
    fn finish(&mut self, id: TunnelId, slot: usize, received: &Received, turn: &mut TunnelTurn<'_>) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.stage = TunnelStage::Answered;
        }
        self.enqueue(id);
        let used = Used {
            since: turn.way.now,
            keep_alive: received.head.keep_alive,
            lane: Lane::Side,
        };
        self.reach
            .keep(slot, used, received.leaves_connection_open, &mut turn.way);
    }

    /// There is no answer, or not all of it. A backend may close a kept connection just when
    /// ojs-init uses it again. Then the request is sent on a fresh one, if that can do no harm.
    pub(in crate::daemon::backend) fn fail(&mut self, id: TunnelId, fault: &Fault, turn: &TunnelTurn<'_>) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let mut has_served = false;
        if let TunnelStage::Open(slot) = tunnel.stage {
            let connection = self.reach.slots.get(slot);
            has_served = connection.is_some_and(|connection| connection.has_served);
            self.reach.reset(slot);
        }
        let text = (turn.reason)(fault, turn.server, !has_served);
        if has_served && tunnel.begin_again(fault) {
            log::debug!("a kept connection was closed, so a request that passes through gets a fresh one: {text}");
            return self.enqueue(id);
        }
        let is_refused = !has_served && fault.is_refusal(turn.server);
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

    /// Removes a tunnel and closes its connection. A waiting one starts instead.
    pub(in crate::daemon::backend) fn remove(&mut self, id: TunnelId) {
        self.reach.give_up(id);
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
            TunnelStage::Open(slot) => self.reach.reset(slot),
            TunnelStage::Reaching | TunnelStage::Answered => {}
        }
        self.uncount(&tunnel);
    }
}

impl Backend {
    /// The tunnels have their turn.
    pub(in crate::daemon::backend) fn turn_tunnels(&mut self, turn: BackendTurn<'_>) {
        self.tunnels.turn(&mut TunnelTurn {
            way: turn.way(&mut self.upstream),
            heard_until: self.heard_until,
            server: &self.outcomes.settings().backend,
            reason: Fault::reason,
        });
        // A kept connection that ends is compared only with those of ojs-init's own requests.
        self.upstream.signs.retain(|sign| matches!(sign, Sign::Refused(_)));
        self.heed_signs(turn.now);
    }
}
