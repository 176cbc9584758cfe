//! The way of a request to a connection: a kept one, or a new one to the first address that
//! answers. The requests of ojs-init have one [`Reach`], tunnels another, so neither waits for a
//! connection of the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use mio::Registry;

use crate::config::Backend;
use crate::daemon::backend::connection::{BackendConnection, Buffers, ConnectionPhase};
use crate::daemon::backend::dial::Dial;
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::kept::{KeptConnections, Used, Wanted};
use crate::daemon::backend::names::{Lookup, Names};
use crate::daemon::backend::route::BackendRoute;
use crate::daemon::backend::slots::ConnectionSlots;
use crate::daemon::backend::tls;
use crate::daemon::backend::token_reader::{TokenReader, TokenState};
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::Moment;
use ojs_os::threads::LoopWake;

/// Connections, each of which may belong to a request `O`.
pub(in crate::daemon) struct Reach<O> {
    /// The slots of the connections.
    pub(in crate::daemon) slots: ConnectionSlots<O>,
    /// Connections that no request has at the moment.
    pub(in crate::daemon::backend) kept: KeptConnections,
    /// Requests that open a connection.
    dials: BTreeMap<O, Dial>,
}

/// The server that all requests go to, and what its connections share.
pub(in crate::daemon) struct Upstream {
    /// Its addresses.
    pub(in crate::daemon) names: Names,
    pub(in crate::daemon) token: TokenReader,
    /// The first steps of a new connection.
    pub(in crate::daemon) route: BackendRoute,
    /// The read buffers.
    pub(in crate::daemon) buffers: Buffers,
    /// Signs that it leaves.
    pub(in crate::daemon) signs: Vec<Sign>,
}

impl Upstream {
    /// Reads the files that TLS needs. No connection is opened before the first request.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub(in crate::daemon) fn new(server: &Backend, wake: &LoopWake, now: Moment) -> Result<Self, String> {
        // With a proxy ojs-init does not look up the server's address, because the proxy does.
        let (host, port) = match &server.proxy {
            Some(proxy) => (proxy.host(), proxy.port()),
            None => server.host_and_port(),
        };
        let tls = tls::config(server)?;
        Ok(Self {
            names: Names::new(host, port, wake.clone()),
            token: TokenReader::new(server, wake.clone(), now),
            route: BackendRoute::new(server, tls),
            buffers: Buffers::default(),
            signs: Vec::new(),
        })
    }
}

/// The server that a request goes to, in a turn.
pub(in crate::daemon) struct Way<'a> {
    /// The registry of the loop, for new connections.
    pub(in crate::daemon) registry: &'a Registry,
    pub(in crate::daemon) now: Moment,
    pub(in crate::daemon) upstream: &'a mut Upstream,
}

/// A sign that a peer may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Sign {
    /// This address refuses connections.
    Refused(SocketAddr),
    /// The peer has closed a kept connection, or answered that it closes it.
    Ended {
        address: SocketAddr,
        /// Sooner than the peer announced, or than is usual.
        is_early: bool,
        /// How long it was without a request; none in an answer.
        idle: Option<Duration>,
    },
}

/// The progress of a request to its connection.
#[derive(Debug)]
pub(in crate::daemon) enum Reached {
    /// The connection in this slot is the request's.
    Open(usize),
    /// The token is being read; the request continues at this time at the latest.
    Token(Option<Moment>),
    /// The name is being looked up; the request continues at this time at the latest.
    Address(Option<Moment>),
    /// Connections are being opened.
    Dialing {
        /// When the next address has its turn.
        next_at: Option<Moment>,
        /// One of them has more to do, and other requests have their turn first.
        is_paused: bool,
    },
    /// There shall be a token, and there is none.
    NoToken,
    Failed(Fault),
}

impl<O: Copy + Ord> Reach<O> {
    /// At most so many connections. `owner` returns the token by which the kernel reports a slot.
    pub(in crate::daemon) fn new(most: usize, owner: fn(usize) -> TokenOwner) -> Self {
        Self {
            slots: ConnectionSlots::new(most, owner),
            kept: KeptConnections::default(),
            dials: BTreeMap::new(),
        }
    }

    /// The next step of a request. If no further connection can be opened, `make_room` closes an
    /// unused one, and returns whether there was one.
    pub(in crate::daemon) fn advance(
        &mut self,
        id: O,
        wanted: Wanted,
        way: &mut Way<'_>,
        make_room: &mut dyn FnMut() -> bool,
    ) -> Reached {
        if let Some(dial) = self.dials.get(&id) {
            let is_late = dial.is_late(way.now);
            let reached = self.dial(id, way, make_room);
            let may_come = match reached {
                Reached::Failed(_) => false,
                Reached::Dialing { .. } => !is_late,
                Reached::Open(_) | Reached::Token(_) | Reached::Address(_) | Reached::NoToken => true,
            };
            let kept = if may_come {
                None
            } else {
                self.take_kept(id, wanted, way)
            };
            return kept.unwrap_or(reached);
        }
        match way.upstream.token.state(way.now) {
            TokenState::Ready => {}
            TokenState::Wait(until) => return Reached::Token(until),
            TokenState::Missing => return Reached::NoToken,
        }
        if let Some(reached) = self.take_kept(id, wanted, way) {
            return reached;
        }
        match way.upstream.names.addresses(way.now) {
            Lookup::Known(addresses) => self.dials.insert(id, Dial::new(&addresses, way.now)),
            Lookup::Wait(until) => return Reached::Address(until),
            Lookup::Failed(fault) => return Reached::Failed(fault),
        };
        self.dial(id, way, make_room)
    }

    /// Whether connections are being opened for this request.
    pub(in crate::daemon) fn is_dialing(&self, id: O) -> bool {
        self.dials.contains_key(&id)
    }

    /// The requests that are opening a connection and should use a kept one if possible, because
    /// the new one may arrive late or never. If other requests have their turn and need a
    /// connection, only requests with late addresses are returned.
    pub(in crate::daemon) fn dialing(&self, others_wait: bool, now: Moment) -> Vec<O> {
        if self.kept.is_empty() {
            return Vec::new();
        }
        let is_meant = |(_, dial): &(&O, &Dial)| !others_wait || dial.is_late(now);
        self.dials.iter().filter(is_meant).map(|(id, _)| *id).collect()
    }

    /// Closes the connections that are being opened for this request.
    pub(in crate::daemon) fn give_up(&mut self, id: O) {
        if let Some(dial) = self.dials.remove(&id) {
            dial.attempts().for_each(|slot| self.slots.close(slot));
        }
    }

    /// The fault that keeps this request from a connection, if there is one besides silence.
    /// Addresses that have not answered for some time are tried behind the others from now on.
    pub(in crate::daemon) fn slow_fault(&mut self, id: O, names: &mut Names, now: Moment) -> Option<Fault> {
        let dial = self.dials.get(&id)?;
        names.are_late(&dial.late(None, now), now);
        let mut attempts = dial.attempts();
        attempts.find_map(|slot| self.slots.get(slot)?.slow_fault())
    }

    /// Keeps the connection in this slot, which has carried an answer, for another request. Closes
    /// it if the answer was the last one on it.
    pub(in crate::daemon) fn keep(&mut self, slot: usize, used: Used, leaves_open: bool, way: &mut Way<'_>) {
        let Some(connection) = self.slots.get(slot) else {
            return;
        };
        if !(leaves_open && connection.is_quiet(&mut way.upstream.buffers)) {
            return self.close_ended(slot, way);
        }
        connection.owner = None;
        connection.has_served = true;
        connection.idle_since = Some(way.now);
        connection.kept_until = used.safe_until(way.now);
        connection.shrink();
        let since = connection.since;
        if let Some(surplus) = self.kept.keep(slot, Used { since, ..used }, way.now) {
            self.slots.close(surplus);
        }
    }

    /// Handles an event on a kept connection, which ends unless it is quiet.
    pub(in crate::daemon) fn look_at_kept(&mut self, slot: usize, way: &mut Way<'_>) {
        let connection = self.slots.get(slot).filter(|connection| connection.owner.is_none());
        if connection.is_some_and(|connection| !connection.is_quiet(&mut way.upstream.buffers)) {
            self.kept.forget(slot);
            self.close_ended(slot, way);
        }
    }

    /// Closes connections that were kept for long enough.
    pub(in crate::daemon) fn close_outdated(&mut self, now: Moment) {
        for slot in self.kept.outdated(now) {
            self.slots.close(slot);
        }
    }

    /// Closes the oldest connection that is kept. Whether there was one.
    pub(in crate::daemon) fn close_oldest_kept(&mut self) -> bool {
        let oldest = self.kept.oldest();
        oldest.into_iter().for_each(|slot| self.slots.close(slot));
        oldest.is_some()
    }

    /// Resets the connection in this slot, so unsent bytes never arrive later.
    pub(in crate::daemon) fn reset(&mut self, slot: usize) {
        if let Some(connection) = self.slots.get(slot) {
            connection.reset_at_close();
        }
        self.slots.close(slot);
    }

    /// Closes the connections of this request. `slot` is a further one that was about to become its
    /// own.
    pub(in crate::daemon) fn close_all_of(&mut self, id: Option<O>, slot: Option<usize>) {
        if let Some(slot) = slot {
            self.kept.forget(slot);
            self.slots.close(slot);
        }
        let Some(id) = id else { return };
        self.dials.remove(&id);
        let is_of_it = |slot: usize, connection: &BackendConnection<O>| match connection.owner {
            Some(owner) => owner == id,
            // The request was about to get the connection.
            None => !self.kept.has(slot),
        };
        let of_it = self
            .slots
            .iter()
            .filter(|(slot, connection)| is_of_it(*slot, connection));
        for slot in of_it.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.slots.close(slot);
        }
    }

    /// Takes a kept connection for the request, instead of one that is being opened for it.
    pub(in crate::daemon) fn take_kept(&mut self, id: O, wanted: Wanted, way: &mut Way<'_>) -> Option<Reached> {
        if !wanted.takes_kept {
            return None;
        }
        while let Some(slot) = self.kept.take(wanted, way.now) {
            let Some(connection) = self.slots.get(slot) else {
                continue;
            };
            if !wanted.may_come_twice {
                // The kernel may know more than it has reported.
                connection.look_again();
            }
            if connection.is_quiet(&mut way.upstream.buffers) {
                connection.owner = Some(id);
                self.give_up(id);
                return Some(Reached::Open(slot));
            }
            self.close_ended(slot, way);
        }
        None
    }

    fn close_ended(&mut self, slot: usize, way: &mut Way<'_>) {
        let connection = self.slots.get(slot).filter(|connection| connection.has_served);
        way.upstream.signs.extend(connection.map(|connection| {
            Sign::Ended {
                address: connection.address,
                is_early: way.now < connection.kept_until,
                idle: connection
                    .idle_since
                    .filter(|_| connection.owner.is_none())
                    .map(|since| since.elapsed(way.now)),
            }
        }));
        self.slots.close(slot);
    }

    /// Looks at each attempt, and begins the next one if it is time for that.
    fn dial(&mut self, id: O, way: &mut Way<'_>, make_room: &mut dyn FnMut() -> bool) -> Reached {
        let attempts = self.dials.get(&id).map(|dial| dial.attempts().collect::<Vec<_>>());
        let mut is_paused = false;
        for slot in attempts.unwrap_or_default() {
            match self.go_on(id, slot, way) {
                Ok(true) => {
                    self.dials.remove(&id);
                    return Reached::Open(slot);
                }
                Ok(false) => is_paused |= self.slots.get(slot).is_some_and(|connection| connection.may_read()),
                Err(fault) => {
                    way.upstream
                        .signs
                        .extend(self.slots.address(slot).and_then(|address| refused(address, &fault)));
                    self.slots.close(slot);
                    if let Some(dial) = self.dials.get_mut(&id) {
                        dial.failed(Some(slot), fault, way.now);
                    }
                }
            }
        }
        loop {
            let Self { slots, kept, dials } = self;
            let Some(dial) = dials.get_mut(&id) else {
                return Reached::Failed(Fault::Internal);
            };
            if let Some(fault) = dial.is_over() {
                dials.remove(&id);
                return Reached::Failed(fault);
            }
            let Some(address) = dial.next(way.now) else {
                let next_at = dial.next_at();
                return Reached::Dialing { next_at, is_paused };
            };
            // An unused connection makes room for one that a request needs.
            let make_room = |slots: &mut ConnectionSlots<O>| match kept.oldest() {
                Some(oldest) => {
                    slots.close(oldest);
                    true
                }
                None => make_room(),
            };
            match slots.connect(address, id, (way.registry, way.now), make_room) {
                Ok(slot) => dial.began(slot),
                Err(fault) => {
                    way.upstream.signs.extend(refused(address, &fault));
                    dial.failed(None, fault, way.now);
                }
            }
        }
    }

    /// Advances one attempt. Returns true if its connection can be used.
    fn go_on(&mut self, id: O, slot: usize, way: &mut Way<'_>) -> Result<bool, Fault> {
        let Some(connection) = self.slots.get(slot) else {
            return Ok(false);
        };
        if connection.phase == ConnectionPhase::Connecting {
            if !connection.is_connected()? {
                return Ok(false);
            }
            connection.begin(way.upstream.route.opening()?);
            // The first address that answers is the one.
            if let Some(dial) = self.dials.get_mut(&id) {
                way.upstream.names.are_late(&dial.late(Some(slot), way.now), way.now);
                dial.settle(slot).into_iter().for_each(|other| self.slots.close(other));
            }
        }
        match self.slots.get(slot) {
            Some(connection) if connection.phase == ConnectionPhase::Handshake => {
                connection.shake_hands(&mut way.upstream.buffers)
            }
            connection => Ok(connection.is_some()),
        }
    }
}

fn refused(address: SocketAddr, fault: &Fault) -> Option<Sign> {
    fault.is_no_listener().then_some(Sign::Refused(address))
}
