//! Requests of the gateway's clients that pass through ojs-init to the backend. Tunnels have their
//! own bounds, slots and kept connections, so no heartbeat, report or FETCH of ojs-init ever waits
//! for one. The spans on their way to a collector have tunnels of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use mio::event::Event;

use crate::config::Backend;
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::Wanted;
use crate::daemon::backend::reach::{Reach, Reached, Way};
use crate::daemon::backend::tunnel::{
    Tunnel, TunnelFailure, TunnelFailureKind, TunnelId, TunnelNews, TunnelSilence, TunnelStage,
};
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::{Lane, Moment};
use ojs_lifecycle::timers::Timers;
use ojs_wire::http::tunnel::{OwnLines, TunnelRequest};

/// Most tunnels under way at once, streams of events not among them.
pub const MOST_TUNNELS: usize = 64;

/// Most tunnels whose request changes nothing. The other places are for requests that change
/// something. One slow page of the backend, requested again and again, blocks no enqueue.
pub const MOST_READING_TUNNELS: usize = 48;

/// Most streams of events at once. Each is open for as long as its client likes, so they do not
/// count as under way.
pub const MOST_EVENT_STREAMS: usize = 64;

/// Most tunnels that wait for one of those to end. The bound is above the number of the gateway's
/// connections, each of which has one request at a time. Only the head of a waiting request is
/// held; its body stays with the client, except what arrived with the head.
pub const MOST_WAITING_TUNNELS: usize = 2048;

/// How long one waits for that: shorter than clients wait for an answer, which is 30 s.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// How long the backend may be silent on a tunnel before it counts as gone.
pub(in crate::daemon::backend) const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Longest silence of a stream of events, because it is silent between two events.
const LONGEST_SILENCE_OF_EVENTS: Duration = Duration::from_secs(30 * 60);

/// How long the backend may spend on a request whose client is gone. Its answer shows that the
/// backend has decided.
const LONGEST_WAIT_OF_NOBODY: Duration = Duration::from_secs(5);

/// How long the client may leave the backend waiting in the middle of a request.
const LONGEST_SILENCE_OF_CLIENT: Duration = Duration::from_secs(10 * 60);

/// Most steps in one turn: then the loop has its own.
const STEPS_PER_TURN: usize = 256;

/// Owners of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::daemon::backend) enum TunnelTimer {
    /// The tunnel has waited for its turn for long enough.
    Room(TunnelId),
    /// There is no connection yet.
    Connect(TunnelId),
    /// The tunnel may take its next step at this time.
    Step(TunnelId),
    /// No byte may have moved for too long.
    Silence(TunnelId),
    /// The client is gone, and the time of the backend for its request has ended.
    Abandoned(TunnelId),
}

/// The server at the end of the tunnels, in a turn.
pub(in crate::daemon) struct TunnelTurn<'a> {
    /// The parts that a connection needs.
    pub(in crate::daemon) way: Way<'a>,
    /// Deadlines after this time are not due yet: the kernel may have events that were not read.
    pub(in crate::daemon) heard_until: Moment,
    /// The configuration of the server.
    pub(in crate::daemon) server: &'a Backend,
    /// The words for a fault, as [`Fault::reason`].
    pub(in crate::daemon) reason: fn(&Fault, &Backend, bool) -> String,
}

/// All of them.
pub struct Tunnels {
    pub(in crate::daemon::backend) own: OwnLines,
    /// Boxed because a tunnel is large, and a map moves its values.
    pub(in crate::daemon::backend) tunnels: BTreeMap<TunnelId, Box<Tunnel>>,
    /// Tunnels that count against the bound.
    under_way: usize,
    /// Tunnels under way whose request changes nothing.
    reading: usize,
    /// Streams of events.
    streams: usize,
    /// Tunnels whose client is gone, the oldest first: they give way to others.
    pub(in crate::daemon::backend) abandoned: BTreeSet<TunnelId>,
    pub(in crate::daemon::backend) waiting: VecDeque<TunnelId>,
    pub(in crate::daemon::backend) reach: Reach<TunnelId>,
    ready: VecDeque<TunnelId>,
    /// Kept connections with an event of the kernel.
    stirred: Vec<usize>,
    pub(in crate::daemon::backend) waiting_for_thread: BTreeSet<TunnelId>,
    pub(in crate::daemon::backend) deadlines: Timers<TunnelTimer>,
    /// At most a handful for each tunnel, because each kind is repeated only after the gateway has
    /// handled the last one.
    pub(in crate::daemon::backend) news: VecDeque<(TunnelId, TunnelNews)>,
}

impl Tunnels {
    /// Tunnels to a server that receives these lines about ojs-init. They have at most so many
    /// connections. `owner` returns the token by which the kernel reports a slot.
    pub(in crate::daemon) fn new(own: OwnLines, slots: usize, owner: fn(usize) -> TokenOwner) -> Self {
        Self {
            own,
            tunnels: BTreeMap::new(),
            under_way: 0,
            reading: 0,
            streams: 0,
            abandoned: BTreeSet::new(),
            waiting: VecDeque::new(),
            reach: Reach::new(slots, owner),
            ready: VecDeque::new(),
            stirred: Vec::new(),
            waiting_for_thread: BTreeSet::new(),
            deadlines: Timers::default(),
            news: VecDeque::new(),
        }
    }

    /// Queues a request of a gateway's client, which starts in the next turn or after others have
    /// ended. `id` belongs to no other tunnel. [`Tunnels::next_news`] returns all its news, the
    /// last one being done or failed. If [`Tunnels::took`] has reported the end, neither follows.
    pub fn open(&mut self, id: TunnelId, request: TunnelRequest, now: Moment) {
        self.open_whole(id, request, Vec::new(), now);
    }

    /// Queues a request like [`Tunnels::open`]. A `body` is all of its body, and the server may get
    /// the request twice.
    pub(in crate::daemon) fn open_whole(&mut self, id: TunnelId, request: TunnelRequest, body: Vec<u8>, now: Moment) {
        let changes_nothing = request.changes_nothing();
        if !self.has_place(changes_nothing)
            && self.may_follow_abandoned(changes_nothing)
            && let Some(oldest) = self.abandoned.first().copied()
        {
            self.end(oldest, TunnelNews::Failed(overloaded()));
        }
        let stage = if self.has_place(changes_nothing) {
            self.take_place(changes_nothing);
            TunnelStage::Reaching
        } else if self.waiting.len() < MOST_WAITING_TUNNELS {
            self.waiting.push_back(id);
            self.deadlines.arm(TunnelTimer::Room(id), now.after(LONGEST_WAIT));
            TunnelStage::Waiting
        } else {
            return self.news.push_back((id, TunnelNews::Failed(overloaded())));
        };
        self.tunnels
            .insert(id, Box::new(Tunnel::new(request, body, stage, now)));
        self.enqueue(id);
    }

    /// The received part of the answer's body. It stays until the caller reports how much it has
    /// read.
    pub fn body(&self, id: TunnelId) -> &[u8] {
        self.tunnels.get(&id).map_or(&[], |tunnel| tunnel.body())
    }

    /// Offers bytes of the request's body, and returns how many were accepted. The caller offers
    /// the rest again after [`TunnelNews::HasRoom`]. An ended tunnel accepts none.
    pub fn offer(&mut self, id: TunnelId, bytes: &[u8]) -> usize {
        let taken = self.tunnels.get_mut(&id).map_or(0, |tunnel| tunnel.offer(bytes));
        self.enqueue(id);
        taken
    }

    /// All of the body was accepted, and nothing follows. The tunnel fails if an announced length
    /// is not reached.
    pub fn body_done(&mut self, id: TunnelId) {
        if self.tunnels.get_mut(&id).is_some_and(|tunnel| !tunnel.body_done()) {
            let text = "the body of the request is shorter than it says".to_owned();
            let kind = TunnelFailureKind::NotWhole;
            return self.end(id, TunnelNews::Failed(TunnelFailure { kind, text }));
        }
        self.enqueue(id);
    }

    /// So many bytes of the answer's body were read, so there is room for more. Returns true if
    /// these were the last ones: then the tunnel has ended, and no news of it follow.
    pub fn took(&mut self, id: TunnelId, count: usize) -> bool {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return false;
        };
        tunnel.took(count);
        let was_last = matches!(tunnel.stage, TunnelStage::Answered) && tunnel.body().is_empty();
        if was_last {
            self.close(id);
        } else {
            self.enqueue(id);
        }
        was_last
    }

    /// The client is gone. Resets its connection to the backend; no more news of the tunnel follow.
    pub fn close(&mut self, id: TunnelId) {
        self.remove(id);
        self.news.retain(|(other, _)| *other != id);
    }

    /// The client is gone, and the backend has all of a request that may change something. News
    /// follow as for any other tunnel, also if the answer takes too long or another request needs
    /// the place.
    pub fn abandon(&mut self, id: TunnelId, now: Moment) {
        let Some(tunnel) = self.tunnels.get(&id) else { return };
        let is_waiting = matches!(tunnel.stage, TunnelStage::Waiting);
        if is_waiting || self.waiting.iter().any(|id| self.may_follow_abandoned(self.reads(*id))) {
            return self.end(id, TunnelNews::Failed(overloaded()));
        }
        self.abandoned.insert(id);
        self.deadlines
            .arm(TunnelTimer::Abandoned(id), now.after(LONGEST_WAIT_OF_NOBODY));
    }

    /// The next thing to know of a tunnel.
    pub fn next_news(&mut self) -> Option<(TunnelId, TunnelNews)> {
        self.news.pop_front()
    }

    /// The kernel reported an event on the connection in this slot.
    pub fn is_ready(&mut self, slot: usize, event: &Event) {
        let Some(connection) = self.reach.slots.get(slot) else {
            return;
        };
        connection.is_ready(event);
        match connection.owner {
            Some(id) => self.enqueue(id),
            None => self.stirred.push(slot),
        }
    }

    /// A thread has a result for tunnels that wait for one.
    pub(in crate::daemon) fn thread_has_news(&mut self) {
        for id in std::mem::take(&mut self.waiting_for_thread) {
            self.enqueue(id);
        }
    }

    /// Closes an unused connection to make room. Returns true if there was one.
    pub(in crate::daemon) fn close_oldest_kept(&mut self) -> bool {
        self.reach.close_oldest_kept()
    }

    /// True if another turn has work at once.
    pub(in crate::daemon) fn has_more(&self) -> bool {
        !(self.ready.is_empty() && self.stirred.is_empty() && self.news.is_empty())
    }

    /// When the next thing is due.
    pub(in crate::daemon) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.next().map(|(due, _)| due)
    }

    /// Number of armed timers, for the status.
    pub(in crate::daemon) fn timers(&self) -> usize {
        self.deadlines.count()
    }

    /// Advances every tunnel that can advance.
    pub(in crate::daemon) fn turn(&mut self, turn: &mut TunnelTurn<'_>) {
        for slot in std::mem::take(&mut self.stirred) {
            self.reach.look_at_kept(slot, &mut turn.way);
        }
        self.reach.close_outdated(turn.way.now);
        // A tunnel that queues itself again needs more time than one turn.
        for _ in 0..STEPS_PER_TURN.min(self.ready.len()) {
            let Some(id) = self.ready.pop_front() else { break };
            self.guarded(id, |tunnels| tunnels.advance(id, turn));
        }
        // Deadlines come last, so a tunnel whose bytes are already here moves although the loop was
        // late.
        while let Some(due) = self.deadlines.take_due(turn.heard_until) {
            self.due(due, turn);
        }
    }

    /// A panic costs this one tunnel and its connections.
    fn guarded(&mut self, id: TunnelId, work: impl FnOnce(&mut Self)) {
        if panic::catch_unwind(AssertUnwindSafe(|| work(self))).is_ok() {
            return;
        }
        log::error!("internal error in a request that passes through to the backend: it counts as unanswered");
        self.reach.close_all_of(Some(id), None);
        let (kind, text) = (TunnelFailureKind::Unanswered, "an internal error".to_owned());
        self.end(id, TunnelNews::Failed(TunnelFailure { kind, text }));
    }

    fn due(&mut self, due: TunnelTimer, turn: &mut TunnelTurn<'_>) {
        match due {
            TunnelTimer::Room(id) => self.end(id, TunnelNews::Failed(overloaded())),
            TunnelTimer::Abandoned(id) => self.fail(id, &Fault::NoAnswerInTime, turn),
            TunnelTimer::Connect(id) => {
                let fault = self.reach.slow_fault(id, &mut turn.way.upstream.names, turn.way.now);
                self.fail(id, &fault.unwrap_or(Fault::NoConnectionInTime), turn);
            }
            TunnelTimer::Step(id) => self.enqueue(id),
            TunnelTimer::Silence(id) => {
                let Some(tunnel) = self.tunnels.get(&id) else { return };
                let limit = match tunnel.silence() {
                    TunnelSilence::Backend => LONGEST_SILENCE,
                    TunnelSilence::Events => LONGEST_SILENCE_OF_EVENTS,
                    TunnelSilence::Client => LONGEST_SILENCE_OF_CLIENT,
                };
                let silent_until = tunnel.moved_at.after(limit);
                if silent_until > turn.way.now {
                    // The awaited side may change meanwhile, and the shortest limit with it.
                    let look_at = turn.way.now.after(LONGEST_SILENCE).min(silent_until);
                    self.deadlines.arm(TunnelTimer::Silence(id), look_at);
                } else {
                    self.fail(id, &Fault::NoAnswerInTime, turn);
                }
            }
        }
    }

    fn has_place(&self, changes_nothing: bool) -> bool {
        self.under_way < MOST_TUNNELS && self.may_follow_abandoned(changes_nothing)
    }

    /// True if a request may use the place of an abandoned one. Abandoned requests change
    /// something, so at the bound of reading requests their place does not help another reading
    /// one.
    fn may_follow_abandoned(&self, changes_nothing: bool) -> bool {
        !changes_nothing || self.reading < MOST_READING_TUNNELS
    }

    fn reads(&self, id: TunnelId) -> bool {
        self.tunnels.get(&id).is_some_and(|tunnel| tunnel.changes_nothing())
    }

    fn take_place(&mut self, changes_nothing: bool) {
        self.under_way += 1;
        self.reading += usize::from(changes_nothing);
    }

    /// A tunnel that was under way leaves its place to the first of those that wait which may have
    /// it.
    pub(in crate::daemon::backend) fn leave_place(&mut self, changes_nothing: bool) {
        self.under_way -= 1;
        self.reading -= usize::from(changes_nothing);
        let next = self.waiting.iter().position(|id| self.has_place(self.reads(*id)));
        if let Some(next) = next.and_then(|at| self.waiting.remove(at))
            && let Some(tunnel) = self.tunnels.get_mut(&next)
        {
            tunnel.stage = TunnelStage::Reaching;
            let changes_nothing = tunnel.changes_nothing();
            self.take_place(changes_nothing);
            self.deadlines.cancel(TunnelTimer::Room(next));
            self.enqueue(next);
        }
    }

    /// Counts this one as a stream of events. False: there are too many of them.
    pub(in crate::daemon::backend) fn count_as_stream(&mut self, id: TunnelId) -> bool {
        if self.streams >= MOST_EVENT_STREAMS {
            return false;
        }
        if let Some(tunnel) = self.tunnels.get_mut(&id)
            && !std::mem::replace(&mut tunnel.is_counted_as_stream, true)
        {
            let changes_nothing = tunnel.changes_nothing();
            self.streams += 1;
            self.leave_place(changes_nothing);
        }
        true
    }

    /// Uncounts an ended tunnel that had a place, or counted as a stream.
    pub(in crate::daemon::backend) fn uncount(&mut self, tunnel: &Tunnel) {
        if tunnel.is_counted_as_stream {
            self.streams -= 1;
        } else {
            self.leave_place(tunnel.changes_nothing());
        }
    }

    /// The tunnel has its turn soon.
    pub(in crate::daemon::backend) fn enqueue(&mut self, id: TunnelId) {
        if let Some(tunnel) = self.tunnels.get_mut(&id)
            && !std::mem::replace(&mut tunnel.is_queued, true)
        {
            self.ready.push_back(id);
        }
    }

    /// The next step.
    fn advance(&mut self, id: TunnelId, turn: &mut TunnelTurn<'_>) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        tunnel.is_queued = false;
        match tunnel.stage {
            TunnelStage::Waiting => {}
            TunnelStage::Reaching => self.find_connection(id, turn),
            TunnelStage::Open(slot) => self.exchange(id, slot, turn),
            TunnelStage::Answered if tunnel.body().is_empty() => self.end(id, TunnelNews::Done),
            TunnelStage::Answered => {}
        }
    }

    fn find_connection(&mut self, id: TunnelId, turn: &mut TunnelTurn<'_>) {
        let Some(tunnel) = self.tunnels.get(&id) else { return };
        let wanted = Wanted {
            lane: Lane::Side,
            may_come_twice: tunnel.may_come_twice(),
            takes_kept: !tunnel.is_second,
            used_since: None,
        };
        match self.reach.advance(id, wanted, &mut turn.way, &mut || false) {
            Reached::Open(slot) => self.begin(id, slot, turn),
            Reached::Token(until) | Reached::Address(until) => {
                self.waiting_for_thread.insert(id);
                self.wait_for_connection(id, until, turn);
            }
            Reached::Dialing { next_at, is_paused } => {
                self.wait_for_connection(id, next_at, turn);
                if is_paused {
                    self.enqueue(id);
                }
            }
            Reached::NoToken => self.fail_without_token(id),
            Reached::Failed(fault) => self.fail(id, &fault, turn),
        }
    }

    /// The tunnel continues at this time at the latest. Its time to connect begins with the first
    /// wait, even if it starts anew.
    fn wait_for_connection(&mut self, id: TunnelId, until: Option<Moment>, turn: &TunnelTurn<'_>) {
        if let Some(until) = until {
            self.deadlines.arm(TunnelTimer::Step(id), until);
        }
        if self.deadlines.deadline_of(TunnelTimer::Connect(id)).is_none() {
            let limit = turn.server.connect_timeout;
            self.deadlines.arm(TunnelTimer::Connect(id), turn.way.now.after(limit));
        }
    }
}

/// Why another stream of events does not begin.
pub(in crate::daemon::backend) fn too_many_streams() -> TunnelFailure {
    TunnelFailure {
        kind: TunnelFailureKind::Overloaded,
        text: format!("{MOST_EVENT_STREAMS} streams of events are open already"),
    }
}

fn overloaded() -> TunnelFailure {
    TunnelFailure {
        kind: TunnelFailureKind::Overloaded,
        text: format!("{MOST_TUNNELS} requests to the backend are under way, and others wait already"),
    }
}
