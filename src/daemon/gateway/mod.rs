//! The gateway: a worker that was built on an OJS SDK speaks HTTP with ojs-init as if it were the
//! backend. The lifecycle answers requests about being a worker; all others pass through.
//!
//! Words. A *caller* is the process behind a connection. A *link* is one connection. The *book*
//! knows the holder of a program, and the links that wait for an answer. A *permit* lets a large
//! body in.
//!
//! | question | files |
//! |---|---|
//! | who may connect? | `listener`, `arrivals`, `limits`, `caller`; whose socket it is: `known`, `search`, `family` |
//! | how is a request read? | `link`, `requests`, `body_permits`, `stalls` |
//! | who answers it? | `book`, `answers`; the backend, by way of a tunnel: `relay` |
//! | how does a connection end? | the signs of it: `link`; `closing`; when a process ends: `departures` |
//! | what does the worker find in its environment? | `environment` |
//!
//! The folder may use `config`, `wire`, `os`, `lifecycle`, `values`, `daemon::backend`,
//! `daemon::workers` and the tokens, the acceptor and the log of `daemon`. Start with `requests`.

mod answers;
mod arrivals;
mod body_permits;
mod book;
pub mod caller;
mod closing;
mod departures;
pub mod environment;
mod family;
mod known;
mod limits;
mod link;
pub(super) mod listener;
mod relay;
mod requests;
mod search;
mod stalls;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

use log::{debug, error};
use mio::net::TcpListener;
use mio::{Interest, Registry};

use crate::daemon::acceptor::Acceptor;
use crate::daemon::backend::client::Backend;
use crate::daemon::backend::outcome::OutcomeReply;
use crate::daemon::backend::tunnel::TunnelId;
use crate::daemon::gateway::body_permits::BodyPermits;
use crate::daemon::gateway::book::{Book, LinkId};
use crate::daemon::gateway::caller::Callers;
use crate::daemon::gateway::limits::{ACCEPTS_PER_TURN, Arrival, ConnectionLimits};
use crate::daemon::gateway::link::{Asked, Filled, GatewayLink, LinkStage, Pulling};
use crate::daemon::log::throttle::Throttle;
use crate::daemon::tokens::TokenOwner;
use crate::daemon::workers::processes::Processes;
use ojs_lifecycle::api::{Event, FromWorker, Moment, Trace, WorkerId};
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::timers::Timers;
use ojs_os::open_files::open_files_limit;
use ojs_os::pidfd::ProcessWatch;
use ojs_os::process::Pid;

/// Connections that get a turn before the loop has its own.
const LINKS_PER_TURN: usize = 256;

/// Bytes read from all connections together in one turn; then signals, timers and the backend get
/// theirs.
const BYTES_PER_TURN: usize = 1 << 20;

/// Steps of one connection in one turn.
const STEPS_PER_TURN: usize = 16;

/// Bytes read at a time.
const READ_BYTES: usize = 16 << 10;

/// Longest time that a request for jobs waits for some: SDKs wait for 30 s.
const LONGEST_PULL: Duration = Duration::from_secs(20);

/// The rules for requests for jobs.
#[derive(Debug, Clone, Copy)]
pub struct FetchRules {
    /// Longest time that one waits for jobs.
    pub within: Duration,
    /// A request that names no queue is refused, as backends refuse it, because no queues are
    /// configured (`worker.queues`).
    pub has_to_name_queues: bool,
}

/// Owners of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GatewayTimer {
    /// A connection has reached its deadline.
    Link(LinkId),
    /// The client of a request that passes through has closed its side, and may have left.
    Left(LinkId),
    /// The next attempt to accept, after there was no room.
    Accept,
    /// The time of the oldest silent connection has ended, and others wait to be accepted.
    Silent,
    /// A client has the permit for a large body and sends nothing while others wait for one.
    Permits,
}

/// The parts that a turn of an interface acts on.
pub struct InterfaceTurn<'a> {
    /// The lifecycle, which alone knows whether a job was given out here.
    pub machine: &'a Lifecycle,
    /// The backend, for requests that pass through.
    pub backend: &'a mut Backend,
    /// The worker's processes.
    pub processes: &'a mut Processes,
    /// The registry of the loop, for new connections.
    pub registry: &'a Registry,
    /// Events for the lifecycle.
    pub events: &'a mut VecDeque<Event>,
    /// The backend's answer to an ACK or a FAIL, while the lifecycle handles that answer.
    pub answer: Option<&'a OutcomeReply>,
    /// The context of the span of the job that is given out, if it has one.
    pub context: Option<Trace>,
    /// The time of the turn.
    pub now: Moment,
}

/// The listening socket, the connections to it, and the requests on them.
pub struct Gateway {
    acceptor: Acceptor<TcpListener>,
    /// Connections that the next turn accepts.
    accepts: usize,
    /// Connections were accepted, and the next turn asks whether others wait.
    is_to_ask: bool,
    /// A silent connection was closed for another one in the last turn: there may be more of both.
    has_made_room: bool,
    callers: Callers,
    /// The worker's name for the backend.
    worker_id: String,
    /// Connections whose process is searched for.
    arrivals: Vec<Arrival>,
    /// The address of the listener.
    address: SocketAddr,
    body_permits: BodyPermits,
    /// Log lines for ACKs and FAILs that ojs-init refuses itself.
    refused_outcomes: Throttle,
    fetches: FetchRules,
    limits: ConnectionLimits,
    /// Boxed because a connection is large, and a map moves its values.
    links: BTreeMap<LinkId, Box<GatewayLink>>,
    newest_link: LinkId,
    /// Connections that were refused and are not closed yet.
    refused: usize,
    /// Connections that have their turn.
    ready: VecDeque<LinkId>,
    book: Book,
    /// The connection of each tunnel; none if no client waits for its answer any more.
    tunnels: BTreeMap<TunnelId, Option<LinkId>>,
    newest_tunnel: u64,
    deadlines: Timers<GatewayTimer>,
    buffer: Vec<u8>,
}

impl Gateway {
    /// Serves the clients that `callers` admits. No body for ojs-init itself is longer than
    /// `most_body` bytes.
    ///
    /// # Errors
    ///
    /// The error of epoll.
    pub fn new(
        (listener, address): (TcpListener, SocketAddr),
        callers: Callers,
        most_body: usize,
        fetches: FetchRules,
        registry: &Registry,
    ) -> io::Result<Self> {
        Ok(Self {
            acceptor: Acceptor::new(listener, TokenOwner::Interface, ACCEPTS_PER_TURN, "gateway", registry)?,
            accepts: 1,
            is_to_ask: false,
            has_made_room: false,
            callers,
            worker_id: String::new(),
            arrivals: Vec::new(),
            address,
            body_permits: BodyPermits::new(most_body),
            refused_outcomes: Throttle::default(),
            fetches: FetchRules {
                within: fetches.within.min(LONGEST_PULL),
                ..fetches
            },
            limits: ConnectionLimits::of(open_files_limit()),
            links: BTreeMap::new(),
            newest_link: 0,
            refused: 0,
            ready: VecDeque::new(),
            book: Book::default(),
            tunnels: BTreeMap::new(),
            newest_tunnel: 0,
            deadlines: Timers::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// The worker was started, as this process, and is `id` to the backend. `watch` is the shared
    /// hold on it, if there is one.
    pub fn worker_started(&mut self, worker: Pid, watch: Option<&Rc<ProcessWatch>>, id: &WorkerId) {
        self.callers.worker_started(worker, watch);
        self.worker_id = id.0.to_string();
    }

    /// The proof by which callers are known, in the words of `status`.
    pub fn caller_proof(&self) -> &'static str {
        self.callers.proof().words()
    }

    /// The kernel reported that a client wants to connect.
    pub fn is_acceptable(&mut self) {
        self.acceptor.is_acceptable();
    }

    /// The kernel reported an event on this connection.
    pub fn is_ready(&mut self, id: LinkId, event: &mio::event::Event) {
        if let Some(link) = self.links.get_mut(&id) {
            link.is_ready(event);
            self.enqueue(id);
        }
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty()
            || self.callers.is_searching()
            || (self.acceptor.has_more() && (self.has_room() || self.has_made_room))
    }

    /// When the next thing is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.next().map(|(due, _)| due)
    }

    /// Number of armed timers, for the status.
    pub fn timers(&self) -> usize {
        self.deadlines.count()
    }

    /// Accepts new connections and advances all that can advance, as far as one turn allows.
    pub fn turn(&mut self, turn: &mut InterfaceTurn<'_>) {
        let (mut overdue, mut half_closed) = (Vec::new(), Vec::new());
        while let Some(due) = self.deadlines.take_due(turn.now) {
            match due {
                GatewayTimer::Accept => self.acceptor.try_again(),
                GatewayTimer::Link(id) => overdue.push(id),
                GatewayTimer::Left(id) => half_closed.push(id),
                // Later in the turn.
                GatewayTimer::Permits | GatewayTimer::Silent => {}
            }
        }
        self.look_who_left(half_closed, turn);
        self.hear_tunnels(turn);
        self.accept(turn);
        self.search(turn);
        let mut bytes = BYTES_PER_TURN;
        for _ in 0..LINKS_PER_TURN.min(self.ready.len()) {
            let Some(id) = self.ready.pop_front() else { break };
            self.guarded(id, turn, |gateway, turn| {
                bytes = bytes.saturating_sub(gateway.serve(id, turn));
                gateway.hear_of_room(id, turn);
            });
            if bytes == 0 {
                break;
            }
        }
        // Deadlines come last, so a connection whose bytes are already here is served although the
        // loop was late.
        overdue.into_iter().for_each(|id| self.had_its_time(id, turn));
        self.let_go_of_the_dead(turn);
        self.give_permits(turn.now);
    }

    /// A panic costs this one connection.
    fn guarded(
        &mut self,
        id: LinkId,
        turn: &mut InterfaceTurn<'_>,
        work: impl FnOnce(&mut Self, &mut InterfaceTurn<'_>),
    ) {
        if panic::catch_unwind(AssertUnwindSafe(|| work(self, turn))).is_err() {
            error!("internal error in a connection of the worker: it is closed");
            self.hang_up(id, turn);
        }
    }

    /// The connection has its turn soon.
    fn enqueue(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id)
            && !std::mem::replace(&mut link.is_queued, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Advances one connection as far as one turn allows. Returns the number of bytes read.
    fn serve(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> usize {
        let mut bytes = 0;
        if let Some(link) = self.links.get_mut(&id) {
            link.is_queued = false;
            if std::mem::take(&mut link.has_news) {
                link.heard_at = turn.now;
            }
        }
        for _ in 0..STEPS_PER_TURN {
            if !self.step(id, turn) {
                return bytes;
            }
            let Some(link) = self.links.get_mut(&id) else {
                return bytes;
            };
            let filled = if matches!(link.stage, LinkStage::Closing) {
                link.drop_rest(&mut self.buffer)
            } else {
                link.fill(&mut self.buffer)
            };
            match filled {
                Filled::Bytes(count) => bytes += count,
                Filled::Nothing => return bytes,
                Filled::End => {
                    if !self.step(id, turn) {
                        return bytes;
                    }
                    self.client_has_ended(id, turn);
                    return bytes;
                }
            }
        }
        self.enqueue(id);
        bytes
    }

    /// Registers for room to write only after a write found none: most connections never need it.
    fn hear_of_room(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.lacks_news_of_room()) else {
            return;
        };
        let token = TokenOwner::Connection(id).token();
        let interest = Interest::READABLE | Interest::WRITABLE;
        match turn.registry.reregister(&mut link.stream, token, interest) {
            Ok(()) => link.is_told_of_room = true,
            Err(error) => {
                self.acceptor.cannot_watch(&error);
                self.hang_up(id, turn);
            }
        }
    }

    /// Advances the connection without reading another byte. Returns whether more bytes are wanted.
    fn step(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) -> bool {
        loop {
            let Some(link) = self.links.get_mut(&id) else {
                return false;
            };
            // A pass-through is written when all of its bytes that are here are put together.
            if !matches!(link.stage, LinkStage::Relaying(_)) {
                link.flush();
            }
            let goes_on = match &link.stage {
                LinkStage::Head => self.next_request(id, turn),
                LinkStage::Gathering(_) => self.gather(id, turn),
                LinkStage::Relaying(_) => self.relay(id, turn),
                LinkStage::Answering(_) => self.answer_is_out(id, turn),
                // Whether the client is still there can only be read.
                LinkStage::Asked(_) | LinkStage::Closing => return self.links.contains_key(&id),
            };
            match goes_on {
                Step::Again => {}
                Step::WantsBytes => return self.links.contains_key(&id),
                Step::Waits => return false,
            }
        }
    }

    /// The client sends no more, and all of its bytes were parsed.
    fn client_has_ended(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        match &link.stage {
            // Half a request is none.
            LinkStage::Head | LinkStage::Gathering(_) | LinkStage::Closing => self.hang_up(id, turn),
            LinkStage::Relaying(relay) if !relay.is_body_done => {
                if relay.answer.is_some() {
                    link.reset_at_close();
                }
                self.hang_up(id, turn);
            }
            // A client that asks for jobs and closes its side is not waiting for them.
            LinkStage::Asked(Asked::Jobs(_)) if !link.is_deaf => self.hang_up(id, turn),
            // No client reads the answer, but another whole request may be buffered.
            LinkStage::Asked(_) | LinkStage::Answering(_) if link.is_deaf && link.form.is_kept => {
                self.skip_answer(id, turn);
            }
            LinkStage::Asked(_) | LinkStage::Relaying(_) | LinkStage::Answering(_) if link.is_deaf => {
                self.hang_up(id, turn);
            }
            // The client may still read.
            LinkStage::Asked(_) | LinkStage::Relaying(_) | LinkStage::Answering(_) => {}
        }
    }

    /// Continues behind a request whose answer no client reads any more.
    fn skip_answer(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        let Some(mut link) = self.links.remove(&id) else { return };
        self.drop_work(&mut link, turn);
        link.stage = LinkStage::Head;
        self.links.insert(id, link);
        self.enqueue(id);
    }

    /// Closes a connection. Its request ends as in [`Self::drop_work`].
    fn hang_up(&mut self, id: LinkId, turn: &mut InterfaceTurn<'_>) {
        // The close removes it from the poll, because no other process has its descriptor.
        let Some(mut link) = self.links.remove(&id) else { return };
        self.deadlines.cancel(GatewayTimer::Link(id));
        self.deadlines.cancel(GatewayTimer::Left(id));
        self.refused -= usize::from(link.is_refused);
        self.drop_work(&mut link, turn);
        self.acceptor.try_again();
        if let Some(process) = link.process {
            turn.processes.disconnected(process);
        }
    }

    /// The client of this connection waits for no answer any more. Jobs for it go back, and a
    /// request that passes through may continue. Outcomes and heartbeats are not taken back.
    fn drop_work(&mut self, link: &mut GatewayLink, turn: &mut InterfaceTurn<'_>) {
        if let Some(given) = link.take_unread() {
            release(given, turn);
        }
        match std::mem::replace(&mut link.stage, LinkStage::Closing) {
            LinkStage::Asked(Asked::Jobs(asked)) => {
                self.book.take_pull(asked.pull);
                release(asked, turn);
            }
            LinkStage::Answering(Some(asked)) => release(asked, turn),
            LinkStage::Relaying(relay) => self.let_relay_go(&relay, link.is_reset, turn),
            LinkStage::Asked(Asked::Outcome(_) | Asked::Beat)
            | LinkStage::Answering(None)
            | LinkStage::Gathering(_)
            | LinkStage::Head
            | LinkStage::Closing => {}
        }
    }
}

/// Gives back jobs that no client received.
fn release(Pulling { holder, pull }: Pulling, turn: &mut InterfaceTurn<'_>) {
    debug!("a request for jobs has lost its client");
    turn.events
        .push_back(Event::Said(holder, FromWorker::WantsNoMore { pull }));
}

/// The next need of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing: there is more to do at once.
    Again,
    /// The client's next bytes.
    WantsBytes,
    /// Another event: room to write, the lifecycle, the backend.
    Waits,
}
