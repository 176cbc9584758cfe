//! The connections of all clients that probe, on the loop of the agent. A hostile client costs a
//! few descriptors and KiB for a few seconds. It delays no heartbeat, no job and not the shutdown,
//! and honest clients are still answered.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use log::trace;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry};

use crate::daemon::acceptor::Acceptor;
use crate::daemon::probes::answers::{ProbeAnswers, ProbeContext};
use crate::daemon::probes::link::{LinkProgress, Origin, ProbeLink};
use crate::daemon::tokens::{PROBE_SLOTS, TokenOwner};
use ojs_lifecycle::api::Moment;
use ojs_lifecycle::timers::Timers;

/// Most connections at the same time. The next one replaces another: of the address with the most,
/// the one whose time ends first. A probe is answered in the turn in which its request arrives, so
/// only silent ones are replaced. A flood from one address replaces its own.
const MAX_CONNECTIONS: usize = PROBE_SLOTS;

/// Connections accepted in one turn, because existing ones need their turn.
const ACCEPTS_PER_TURN: usize = 32;

/// Longest from the first byte of a connection to the last one of its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time for a client with its response to close the connection.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// Pause before the next attempt when there were no descriptors or was no memory for a connection.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The listening socket and the connections to it.
#[derive(Debug)]
pub struct ProbeLinks {
    acceptor: Acceptor<TcpListener>,
    links: BTreeMap<usize, ProbeLink>,
    deadlines: Timers<Due>,
    answers: ProbeAnswers,
}

/// Owners of deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Connection(usize),
    /// The next attempt to accept, after there was no room.
    Accept,
}

impl ProbeLinks {
    /// Answers probes on this listener.
    ///
    /// # Errors
    ///
    /// The error of epoll.
    pub fn new(listener: TcpListener, registry: &Registry) -> io::Result<Self> {
        let (source, name) = (TokenOwner::ProbeListener, "health endpoints");
        Ok(Self {
            acceptor: Acceptor::new(listener, source, ACCEPTS_PER_TURN, name, registry)?,
            links: BTreeMap::new(),
            deadlines: Timers::default(),
            answers: ProbeAnswers::default(),
        })
    }

    /// The kernel reported that a client wants to connect.
    pub fn is_acceptable(&mut self) {
        self.acceptor.is_acceptable();
    }

    /// The kernel reported an event on the connection in this slot.
    pub fn is_ready(&mut self, slot: usize) {
        if let Some(link) = self.links.get_mut(&slot) {
            link.is_ready = true;
        }
    }

    /// When the next connection reaches its deadline, or the next attempt to accept is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.next().map(|(due, _)| due)
    }

    /// Number of armed timers, for the status.
    pub fn timers(&self) -> usize {
        self.deadlines.count()
    }

    /// True if another turn has work at once.
    pub fn has_more(&self) -> bool {
        self.acceptor.has_more() || self.links.values().any(|link| link.is_ready)
    }

    /// Answers requests, accepts new connections, and ends those at their deadline.
    pub fn turn(&mut self, sources: &mut ProbeContext<'_>, registry: &Registry, now: Moment) {
        while let Some(due) = self.deadlines.take_due(now) {
            match due {
                Due::Accept => self.acceptor.try_again(),
                Due::Connection(slot) => {
                    trace!("a probe's connection had its time");
                    self.hang_up(slot, registry);
                }
            }
        }
        let ready: Vec<usize> = self
            .links
            .iter()
            .filter(|(_, link)| link.is_ready)
            .map(|(slot, _)| *slot)
            .collect();
        for slot in ready {
            self.proceed(slot, sources, registry, now);
        }
        self.acceptor.begin_turn();
        while let Some((stream, peer)) = self.acceptor.next() {
            self.admit(stream, origin(peer.ip()), sources, registry, now);
        }
        if self.acceptor.is_short() {
            self.deadlines.arm_at_latest(Due::Accept, now.after(ACCEPT_AGAIN_AFTER));
        }
    }

    fn admit(
        &mut self,
        mut stream: TcpStream,
        origin: Origin,
        sources: &mut ProbeContext<'_>,
        registry: &Registry,
        now: Moment,
    ) {
        let Some(slot) = self.room(registry) else { return };
        let (token, interest) = (TokenOwner::Probe(slot).token(), Interest::READABLE | Interest::WRITABLE);
        if let Err(error) = registry.register(&mut stream, token, interest) {
            return self.acceptor.cannot_watch(&error);
        }
        self.links.insert(slot, ProbeLink::new(stream, origin));
        self.deadlines.arm(Due::Connection(slot), now.after(PATIENCE));
        self.proceed(slot, sources, registry, now);
    }

    /// A free slot.
    fn room(&mut self, registry: &Registry) -> Option<usize> {
        let free = (0..MAX_CONNECTIONS).find(|slot| !self.links.contains_key(slot));
        if free.is_some() {
            return free;
        }
        let mut counts: BTreeMap<Origin, usize> = BTreeMap::new();
        for link in self.links.values() {
            *counts.entry(link.origin).or_default() += 1;
        }
        let oldest_of = |origin: Origin| {
            let theirs = self.links.iter().filter(|(_, link)| link.origin == origin);
            theirs
                .map(|(slot, _)| *slot)
                .min_by_key(|slot| self.deadlines.deadline_of(Due::Connection(*slot)))
        };
        let (origin, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let slot = oldest_of(origin)?;
        self.hang_up(slot, registry);
        Some(slot)
    }

    fn proceed(&mut self, slot: usize, sources: &mut ProbeContext<'_>, registry: &Registry, now: Moment) {
        let Some(link) = self.links.get_mut(&slot) else { return };
        match link.proceed(|request| self.answers.respond(request, sources, now)) {
            LinkProgress::Open => {}
            LinkProgress::Answered => self
                .deadlines
                .arm_at_latest(Due::Connection(slot), now.after(CLOSING_PATIENCE)),
            LinkProgress::Over => self.hang_up(slot, registry),
        }
    }

    fn hang_up(&mut self, slot: usize, registry: &Registry) {
        self.deadlines.cancel(Due::Connection(slot));
        if let Some(mut link) = self.links.remove(&slot) {
            let _ = registry.deregister(&mut link.stream);
        }
    }
}

/// The origin of an address: an IPv4 address, or a network of IPv6, in which one machine may have
/// any address.
fn origin(address: IpAddr) -> Origin {
    match address.to_canonical() {
        IpAddr::V4(address) => Origin::V4(address.octets()),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Origin::V6([a, b, c, d])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_one_origin_and_a_network_of_ipv6_another() {
        let of = |text: &str| origin(text.parse().unwrap());
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
