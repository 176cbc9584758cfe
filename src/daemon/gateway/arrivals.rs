//! New connections: a bounded number in each turn, each one looked up, and room for those that may
//! stay.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use log::warn;
use mio::Interest;
use mio::net::TcpStream;

use crate::daemon::gateway::caller::Admission;
use crate::daemon::gateway::closing::CLOSING_PATIENCE;
use crate::daemon::gateway::limits::{ACCEPTS_PER_TURN, Arrival};
use crate::daemon::gateway::link::GatewayLink;
use crate::daemon::gateway::{Gateway, GatewayTimer, InterfaceTurn};
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::ProcessId;
use ojs_os::clock;
use ojs_os::pidfd::ProcessWatch;
use ojs_wire::gateway::{self as wire, GatewayError};

/// Most refused connections that get an answer. They use no room of the worker's; further ones are
/// closed without an answer.
const MOST_REFUSED: usize = 16;

/// Time in one turn for telling the worker's connections from others. Without sock_diag each one
/// costs a look through all connections of this machine: 60 ms for 30,000.
const ACCEPT_TIME_PER_TURN: Duration = Duration::from_millis(10);

/// Pause before the next attempt when there were no descriptors or was no memory for a connection.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a connection may be open without a whole request before another one may replace it, if
/// there is no room.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// The answer to callers that are not the worker.
pub(super) const FORBIDDEN: GatewayError<'static> = GatewayError {
    status: 403,
    code: "gateway_forbidden",
    message: "only the worker may use this gateway (gateway.allow)",
};

impl Gateway {
    pub(super) fn has_room(&self) -> bool {
        let taken = self.links.len() - self.refused + self.arrivals.len();
        taken < self.limits.most
    }

    /// Most connections arrive alone. The next turn asks whether others wait, after this request
    /// was sent on. While others do, each turn accepts twice as many.
    pub(super) fn accept(&mut self, turn: &mut InterfaceTurn<'_>) {
        if std::mem::take(&mut self.is_to_ask) && self.acceptor.has_more() && self.has_room() {
            return self.acceptor.ask(turn.registry);
        }
        self.acceptor.begin_turn();
        self.has_made_room = false;
        let end = clock::monotonic() + ACCEPT_TIME_PER_TURN;
        let mut taken = 0;
        while taken < self.accepts && self.acceptor.can_take() && (self.has_room() || self.make_room(turn)) {
            let Some((stream, peer)) = self.acceptor.next() else {
                break;
            };
            taken += 1;
            self.admit(stream, peer, turn);
            if clock::monotonic() >= end {
                break;
            }
        }
        self.is_to_ask = taken > 0;
        self.accepts = match taken {
            0 => 1,
            _ if taken < self.accepts => self.accepts,
            _ => (2 * taken).min(ACCEPTS_PER_TURN),
        };
        if self.acceptor.is_short() {
            let again = turn.now.after(ACCEPT_AGAIN_AFTER);
            self.deadlines.arm_at_latest(GatewayTimer::Accept, again);
        }
    }

    /// Closes the oldest connection that has sent no whole request for too long. A connection that
    /// has had a request is never closed: its client may be about to send another, which most SDKs
    /// do not repeat.
    fn make_room(&mut self, turn: &mut InterfaceTurn<'_>) -> bool {
        // A queued link has unread bytes, so its turn decides.
        let unread = self.links.iter().filter(|(_, link)| !link.is_queued);
        let silent = unread.filter_map(|(id, link)| {
            let since = link.silent_since()?;
            Some((since.after(LONGEST_SILENCE), *id))
        });
        let Some((ends, id)) = silent.min() else { return false };
        if ends > turn.now {
            self.deadlines.arm(GatewayTimer::Silent, ends);
            return false;
        }
        self.has_made_room = true;
        if self.has_come(id, turn.now) {
            return false;
        }
        let most = self.limits.most;
        self.acceptor.warn(format_args!(
            "gateway: all {most} connections are taken, so the oldest of those without a whole request are closed: a program of the worker \
             opens connections that it does not use"
        ));
        self.hang_up(id, turn);
        true
    }

    fn admit(&mut self, stream: TcpStream, client: SocketAddr, turn: &mut InterfaceTurn<'_>) {
        let admission = self.callers.admit(client, self.address);
        if let Admission::Sought(inode) = admission {
            self.arrivals.push(Arrival { inode, stream });
        } else {
            self.settle(stream, admission, turn);
        }
    }

    /// Continues the search for the processes behind new connections.
    pub(super) fn search(&mut self, turn: &mut InterfaceTurn<'_>) {
        for (inode, admission) in self.callers.search() {
            if let Some(at) = self.arrivals.iter().position(|arrival| arrival.inode == inode) {
                let Arrival { stream, .. } = self.arrivals.swap_remove(at);
                self.settle(stream, admission, turn);
            }
        }
    }

    /// Admits or refuses a connection whose caller is known.
    fn settle(&mut self, mut stream: TcpStream, admission: Admission, turn: &mut InterfaceTurn<'_>) {
        let is_refused = matches!(admission, Admission::Refused(_));
        if is_refused && self.refused >= MOST_REFUSED {
            return;
        }
        self.newest_link += 1;
        let id = self.newest_link;
        let token = TokenOwner::Connection(id).token();
        if let Err(error) = turn.registry.register(&mut stream, token, Interest::READABLE) {
            return self.acceptor.cannot_watch(&error);
        }
        let mut link = GatewayLink::new(stream, turn.now);
        match admission {
            Admission::Taken(None) => {}
            Admission::Taken(Some(watch)) => link.process = self.hold(watch, turn),
            Admission::AsksForBearer => link.needs_bearer = true,
            // A socket is searched for once. A connection that is still unknown then is refused.
            Admission::Refused(_) | Admission::Sought(_) => {
                self.refused += 1;
                link.is_refused = true;
                link.refuse(&wire::failed(&FORBIDDEN, link.form));
                let closes = turn.now.after(CLOSING_PATIENCE);
                self.deadlines.arm(GatewayTimer::Link(id), closes);
            }
        }
        self.links.insert(id, Box::new(link));
        self.enqueue(id);
    }

    /// The name of the process of a new connection; none if there are too many.
    fn hold(&mut self, watch: Rc<ProcessWatch>, turn: &mut InterfaceTurn<'_>) -> Option<ProcessId> {
        if !turn.processes.has_room_for(&watch, self.limits.processes) {
            if !std::mem::replace(&mut self.limits.has_warned, true) {
                warn!(
                    "gateway: more than {} processes of the worker have come, and with this limit of open files no more of them are \
                     held on to: the end of further ones is not noticed; raise the hard limit",
                    self.limits.processes
                );
            }
            return None;
        }
        let process = turn.processes.id_of(watch, turn.registry);
        turn.processes.connected(process);
        turn.processes.look_at_new(process, turn.events);
        Some(process)
    }
}
