//! The backend, for the loop: requests in, answers out, connections in between. Nothing here
//! blocks, and no thread stands between.
//!
//! A connection belongs to one request at a time, so a request that hangs delays only itself. Every
//! request is answered exactly once, also when there is no room, no connection, no token, no time
//! or a panic. The steps in between are in `steps.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use mio::event::Event;
use mio::{Registry, Waker};

use crate::daemon::backend::answer::Received;
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::head::{RequestWriter, own_lines};
use crate::daemon::backend::idle_limits::IdleLimits;
use crate::daemon::backend::kept::EarlyEnd;
use crate::daemon::backend::lanes::{LaneEntry, Lanes};
use crate::daemon::backend::lookup::loop_wake;
pub use crate::daemon::backend::outcome::Heard;
use crate::daemon::backend::outcome::Outcomes;
use crate::daemon::backend::pending::{Awaits, Pending, RequestStage};
use crate::daemon::backend::reach::{Reach, Upstream, Way};
use crate::daemon::backend::settings::BackendSettings;
use crate::daemon::backend::tunnels::Tunnels;
use crate::daemon::tokens::{BACKEND_SLOTS, TUNNEL_SLOTS, TokenOwner};
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Call, Failure, Lane, Moment, Reply, StreamNews};
use ojs_lifecycle::timers::Timers;
use ojs_os::clock;
use ojs_wire::backend::spare::Spare;

/// Most connections that get a turn before the loop has its own: a signal or a probe waits for no
/// more than these.
const CONNECTIONS_PER_TURN: usize = 16;

/// Most requests that begin in one turn of the loop. A connect call to this very machine lasts
/// 0.1 ms, because it completes the connection.
const REQUESTS_PER_TURN: usize = 8;

/// A report without an answer after this time does not count as under way if others wait.
const SLOW_AFTER: Duration = Duration::from_millis(250);

/// The memory of large jobs is kept for this long after the last one was passed on. Then the worker
/// may have it.
const SPARE_KEPT_FOR: Duration = Duration::from_millis(100);

/// The backend's words to a request.
#[derive(Debug)]
pub enum BackendSays {
    /// This is the answer, or there is none.
    Answer(Reply, Heard),
    /// The answer is a stream, and this event was received on it.
    News(StreamNews),
}

/// Owners of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon::backend) enum BackendTimer {
    /// The time limit for the answer is reached.
    GiveUp(CallId),
    /// The connection is not there yet.
    Connect(CallId),
    /// The request may take its next step at this time: try another address, or use the previous
    /// token.
    Step(CallId),
    /// Reports wait, and those that are under way may hang.
    SlowReports,
    /// No large job was passed on for a while.
    Spare,
}

/// A turn: where new connections are registered, and when it is.
#[derive(Clone, Copy)]
pub(in crate::daemon::backend) struct BackendTurn<'a> {
    /// The registry of the loop, for new connections.
    pub(in crate::daemon::backend) registry: &'a Registry,
    /// Now.
    pub(in crate::daemon::backend) now: Moment,
}

impl<'a> BackendTurn<'a> {
    /// The way to the backend in this turn.
    pub(in crate::daemon::backend) fn way(self, upstream: &'a mut Upstream) -> Way<'a> {
        let Self { registry, now } = self;
        Way {
            registry,
            now,
            upstream,
        }
    }
}

/// All that there is between the loop and the backend.
pub struct Backend {
    pub(in crate::daemon::backend) outcomes: Outcomes,
    pub(in crate::daemon::backend) writer: RequestWriter,
    pub(in crate::daemon::backend) upstream: Upstream,
    pub(in crate::daemon::backend) lanes: Lanes,
    pub(in crate::daemon::backend) pending: BTreeMap<CallId, Pending>,
    pub(in crate::daemon::backend) reach: Reach<CallId>,
    /// The last kept connection that the peer has closed too soon.
    pub(in crate::daemon::backend) early_end: Option<EarlyEnd>,
    pub(in crate::daemon::backend) idle_limits: IdleLimits,
    /// Requests of the gateway's clients.
    pub tunnels: Tunnels,
    /// Requests that have their turn.
    pub(in crate::daemon::backend) ready: VecDeque<CallId>,
    /// Connections that have their turn.
    pub(in crate::daemon::backend) ready_slots: VecDeque<usize>,
    /// Requests that wait for the result of a thread.
    pub(in crate::daemon::backend) waiting_for_thread: BTreeSet<CallId>,
    pub(in crate::daemon::backend) deadlines: Timers<BackendTimer>,
    /// Every event that the kernel had by then was handled, so deadlines up to here are due.
    pub(in crate::daemon::backend) heard_until: Moment,
    /// Connections at the head of `ready_slots` that keep `heard_until` from being true.
    behind: usize,
    pub(in crate::daemon::backend) said: Vec<(CallId, BackendSays)>,
    /// Memory for large jobs.
    pub(in crate::daemon::backend) spare: Spare,
}

impl Backend {
    /// Reads the files that TLS needs. No connection is opened before the first request. `waker`
    /// ends a wait of the loop.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn start(settings: BackendSettings, waker: Arc<Waker>) -> Result<Self, String> {
        if settings.backend.url.is_none() {
            return Err("backend.url is not set".to_owned());
        }
        let wake = loop_wake(waker);
        let now = Moment::new(clock::monotonic());
        let own = own_lines(&settings.backend);
        let concurrency = usize::try_from(settings.identity.concurrency).unwrap_or(usize::MAX);
        Ok(Self {
            writer: RequestWriter::new(&own),
            tunnels: Tunnels::new(own, TUNNEL_SLOTS, TokenOwner::Tunnel),
            upstream: Upstream::new(&settings.backend, &wake, now)?,
            outcomes: Outcomes::new(settings),
            lanes: Lanes::new(concurrency),
            pending: BTreeMap::new(),
            reach: Reach::new(BACKEND_SLOTS, TokenOwner::Backend),
            early_end: None,
            idle_limits: IdleLimits::default(),
            ready: VecDeque::new(),
            ready_slots: VecDeque::new(),
            waiting_for_thread: BTreeSet::new(),
            deadlines: Timers::default(),
            heard_until: now,
            behind: 0,
            said: Vec::new(),
            spare: Spare::default(),
        })
    }

    /// Queues a request for the next turn. Its answer arrives at `give_up` at the latest.
    /// `is_again`: an equal request hangs on another connection.
    pub fn send(&mut self, id: CallId, call: Call, give_up: Moment, is_again: bool) {
        let lane = call.endpoint().lane();
        let stage = match self.lanes.enter(lane, id) {
            LaneEntry::Now => RequestStage::Reaching(Awaits::Turn),
            LaneEntry::Later => RequestStage::Waiting,
            LaneEntry::Refused => {
                log::debug!("backend: no room for another request of this kind ({lane:?})");
                let overloaded = Reply::Failed(Failure::Overloaded);
                return self.said.push((id, BackendSays::Answer(overloaded, Heard::default())));
            }
        };
        if matches!(stage, RequestStage::Reaching(_)) {
            self.ready.push_back(id);
        }
        let pending = Pending::new(call, lane, give_up, stage);
        self.pending.insert(id, Pending { is_again, ..pending });
        self.deadlines.arm(BackendTimer::GiveUp(id), give_up);
    }

    /// Keeps the memory of a large job that was passed on, for the next job that soon follows.
    pub fn keep_spare(&mut self, memory: Vec<u8>, now: Moment) {
        self.spare.put(memory);
        self.deadlines.arm(BackendTimer::Spare, now.after(SPARE_KEPT_FOR));
    }

    /// Starts waiting reports in place of those that hang. Armed only while some wait.
    fn look_for_slow_reports(&mut self, now: Moment) {
        let is_slow = |pending: &&Pending| {
            pending.lane == Lane::Report && pending.began.is_some_and(|began| began.elapsed(now) >= SLOW_AFTER)
        };
        let slow = self.pending.values().filter(is_slow).count();
        while let Some(next) = self.lanes.stand_in(slow) {
            self.set_stage(next, RequestStage::Reaching(Awaits::Turn));
            self.ready.push_back(next);
        }
    }

    /// Closes the connection of a request whose answer is not wanted any more. The request is still
    /// answered, with `Fault::Abandoned`.
    pub fn abandon(&mut self, id: CallId) {
        self.fail(id, &Fault::Abandoned);
    }

    /// Whether the token has changed since the last call.
    pub fn take_token_change(&mut self) -> bool {
        self.upstream.token.take_change()
    }

    /// The kernel reported an event on the connection in this slot.
    pub fn is_ready(&mut self, slot: usize, event: &Event) {
        if let Some(connection) = self.reach.slots.get(slot) {
            connection.is_ready(event);
            self.enqueue(slot);
        }
    }

    /// Advances every request that can advance, and hands over the answers. The last poll began at
    /// `polled_at`. No deadline after it is due in this turn, because the answer may already wait
    /// in the socket: the process may have been stopped since.
    pub fn turn(
        &mut self,
        registry: &Registry,
        now: Moment,
        polled_at: Moment,
        mut take: impl FnMut(CallId, BackendSays),
    ) {
        let turn = BackendTurn { registry, now };
        // Take both results, because the next request wants the newest ones.
        let (has_names, has_token) = (self.upstream.names.take(now), self.upstream.token.turn(now));
        if has_names || has_token {
            self.ready.extend(std::mem::take(&mut self.waiting_for_thread));
            self.tunnels.thread_has_news();
        }
        self.reach.close_outdated(now);
        if self.behind == 0 && self.heard_until < polled_at {
            self.heard_until = polled_at;
            self.behind = self.ready_slots.len();
        }
        // A slot that queues itself again needs more time than one turn.
        for _ in 0..CONNECTIONS_PER_TURN.min(self.ready_slots.len()) {
            let Some(slot) = self.ready_slots.pop_front() else {
                break;
            };
            self.behind = self.behind.saturating_sub(1);
            let owner = self.reach.slots.get(slot).and_then(|connection| connection.owner);
            self.guarded(owner, Some(slot), |backend| backend.serve(slot, turn));
            self.heed_signs(now);
        }
        self.hand_on(turn);
        for _ in 0..REQUESTS_PER_TURN {
            let Some(id) = self.ready.pop_front() else { break };
            self.guarded(Some(id), None, |backend| backend.advance(id, turn));
            self.heed_signs(now);
        }
        self.hand_on(turn);
        // Deadlines come last, so a request whose answer is already here gets it although the loop
        // was late.
        while self.behind == 0
            && let Some(due) = self.deadlines.take_due(self.heard_until)
        {
            self.overdue(due, now);
        }
        // Tunnels come after ojs-init's own requests.
        self.turn_tunnels(turn);
        if self.lanes.has_waiting_reports() {
            self.deadlines
                .arm_at_latest(BackendTimer::SlowReports, now.after(SLOW_AFTER));
        }
        for (id, says) in self.said.drain(..) {
            take(id, says);
        }
    }

    /// Gives kept connections to requests that are opening a new one.
    fn hand_on(&mut self, turn: BackendTurn<'_>) {
        for id in self.reach.dialing(!self.ready.is_empty(), turn.now) {
            self.guarded(Some(id), None, |backend| backend.take_kept(id, turn));
            self.heed_signs(turn.now);
        }
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        !(self.ready.is_empty() && self.ready_slots.is_empty() && self.said.is_empty()) || self.tunnels.has_more()
    }

    /// True if answers may wait in sockets that the kernel has reported, for lack of turns.
    pub fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// When the next thing is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        let of_ours = self.deadlines.next().map(|(due, _)| due);
        let of_others = [self.tunnels.next_deadline(), self.upstream.token.next_deadline()];
        of_ours.into_iter().chain(of_others.into_iter().flatten()).min()
    }

    /// A panic costs this one answer and its connection.
    fn guarded(&mut self, id: Option<CallId>, slot: Option<usize>, work: impl FnOnce(&mut Self)) {
        if panic::catch_unwind(AssertUnwindSafe(|| work(self))).is_ok() {
            return;
        }
        log::error!("internal error in a request to the backend: it counts as unanswered");
        self.reach.close_all_of(id, slot);
        let Some(id) = id else { return };
        let slots = &mut self.reach.slots;
        let mut has_no_connection = |pending: &Pending| match &pending.stage {
            RequestStage::Exchanging(exchange) => slots.get(exchange.slot).is_none(),
            RequestStage::Waiting | RequestStage::Reaching(_) => false,
        };
        let others = self.pending.iter().filter(|(_, pending)| has_no_connection(pending));
        // Another request may just have got the connection.
        let others: Vec<CallId> = others.map(|(other, _)| *other).chain([id]).collect();
        for id in others {
            self.answer(id, (Reply::Failed(Failure::Unanswered), Heard::default()));
        }
    }

    fn overdue(&mut self, due: BackendTimer, now: Moment) {
        let id = match due {
            BackendTimer::GiveUp(id) => id,
            BackendTimer::Connect(id) => {
                let fault = self.reach.slow_fault(id, &mut self.upstream.names, now);
                return self.fail(id, &fault.unwrap_or(Fault::NoConnectionInTime));
            }
            BackendTimer::Step(id) => return self.ready.push_back(id),
            BackendTimer::SlowReports => return self.look_for_slow_reports(now),
            BackendTimer::Spare => return self.spare = Spare::default(),
        };
        let Some(pending) = self.pending.get(&id) else { return };
        let fault = match pending.stage {
            RequestStage::Reaching(Awaits::Token) => return self.fail_without_token(id),
            RequestStage::Waiting | RequestStage::Reaching(Awaits::Turn) => Fault::TooLate,
            RequestStage::Reaching(Awaits::Address) => Fault::NameTooSlow,
            RequestStage::Reaching(Awaits::Peer) => {
                let fault = self.reach.slow_fault(id, &mut self.upstream.names, now);
                fault.unwrap_or(Fault::NoAnswerInTime)
            }
            RequestStage::Exchanging(_) => Fault::NoAnswerInTime,
        };
        self.fail(id, &fault);
    }

    /// Handles the signs that connections have given of the backend.
    pub(in crate::daemon::backend) fn heed_signs(&mut self, now: Moment) {
        for sign in std::mem::take(&mut self.upstream.signs) {
            self.heed(sign, now);
        }
    }

    /// The connection has its turn soon.
    pub(in crate::daemon::backend) fn enqueue(&mut self, slot: usize) {
        if let Some(connection) = self.reach.slots.get(slot)
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.ready_slots.push_back(slot);
        }
    }

    /// Interprets the received bytes as the answer.
    pub(in crate::daemon::backend) fn interpret(&mut self, id: CallId, received: Received) {
        let Some(pending) = self.pending.get(&id) else { return };
        self.upstream.token.answered(received.head.status);
        let outcome = self.outcomes.of_answer(&pending.call, received, pending.first_was_sent);
        self.answer(id, outcome);
    }

    /// There is no token for it.
    pub(in crate::daemon::backend) fn fail_without_token(&mut self, id: CallId) {
        let Some(pending) = self.pending.get(&id) else { return };
        let outcome = if pending.first_was_sent {
            self.outcomes
                .of_fault(&pending.call, &Fault::Closed, Failure::Unanswered, false)
        } else {
            self.outcomes.of_no_token(&pending.call)
        };
        self.answer(id, outcome);
    }

    /// There is no answer, or not all of it. A backend may close a kept connection just when
    /// ojs-init uses it again. Then the request is sent on a fresh one, if that can do no harm.
    pub(in crate::daemon::backend) fn fail(&mut self, id: CallId, fault: &Fault) {
        if self.is_open_stream(id) {
            return self.end_stream(id, Failure::Unanswered, &self.outcomes.reason(fault, true));
        }
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        let has_served = match &pending.stage {
            RequestStage::Exchanging(exchange) => {
                let connection = self.reach.slots.get(exchange.slot);
                connection.is_some_and(|connection| connection.has_served)
            }
            RequestStage::Waiting | RequestStage::Reaching(_) => false,
        };
        // A backend that refuses a connection has accepted nothing on it. A backend that ends a
        // used connection may have accepted the request.
        let is_refused = !has_served && fault.is_refusal(&self.outcomes.settings().backend);
        let is_sent = pending.is_sent() && (!is_refused || pending.first_was_sent);
        let stage = match pending.stage {
            // The request stays with those that wait, until it is answered.
            RequestStage::Waiting => RequestStage::Waiting,
            RequestStage::Reaching(_) | RequestStage::Exchanging(_) => RequestStage::Reaching(Awaits::Turn),
        };
        let is_new = !has_served;
        let (lane, began) = (pending.lane, pending.began);
        match std::mem::replace(&mut pending.stage, stage) {
            RequestStage::Waiting | RequestStage::Reaching(_) => {}
            RequestStage::Exchanging(exchange) => {
                self.reach.reset(exchange.slot);
                // The received part of an answer counts, unless the request was abandoned.
                if !matches!(fault, Fault::Abandoned)
                    && let Some(received) = exchange.received()
                {
                    let length = received.body_bytes();
                    log::debug!(
                        "backend: an answer broke off after {length} bytes: {}",
                        self.outcomes.reason(fault, is_new)
                    );
                    return self.interpret(id, received);
                }
                if matches!(fault, Fault::Abandoned | Fault::NoAnswerInTime) {
                    // The cause may have cut connections that were idle since, too. The connection
                    // of the heartbeats is for heartbeats only.
                    let doubtful = began.map(|began| self.reach.kept.unused_since(began, lane == Lane::Beat));
                    doubtful
                        .into_iter()
                        .flatten()
                        .for_each(|slot| self.reach.slots.close(slot));
                }
            }
        }
        let is_harmless = !is_sent || pending.call.endpoint().may_come_twice();
        if fault.is_hang_up() && !is_new && !pending.is_second && is_harmless {
            pending.is_second = true;
            pending.first_was_sent = is_sent;
            let text = self.outcomes.reason(fault, is_new);
            log::debug!("backend: the kept connection was closed: {text}");
            return self.ready.push_back(id);
        }
        let failure = if is_sent { Failure::Unanswered } else { Failure::NotSent };
        let outcome = self.outcomes.of_fault(&pending.call, fault, failure, is_new);
        self.answer(id, outcome);
    }

    /// Ends a request, exactly once. A waiting request of its kind may start instead.
    pub(in crate::daemon::backend) fn answer(&mut self, id: CallId, (reply, heard): (Reply, Heard)) {
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        for due in [
            BackendTimer::GiveUp(id),
            BackendTimer::Connect(id),
            BackendTimer::Step(id),
        ] {
            self.deadlines.cancel(due);
        }
        self.waiting_for_thread.remove(&id);
        self.reach.give_up(id);
        if matches!(pending.stage, RequestStage::Waiting) {
            self.lanes.forget(pending.lane, id);
        } else if let Some(next) = self.lanes.leave(pending.lane) {
            self.set_stage(next, RequestStage::Reaching(Awaits::Turn));
            self.ready.push_back(next);
        }
        self.said.push((id, BackendSays::Answer(reply, heard)));
    }

    /// Moves a request to another stage.
    pub(in crate::daemon::backend) fn set_stage(&mut self, id: CallId, stage: RequestStage) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.stage = stage;
        }
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
