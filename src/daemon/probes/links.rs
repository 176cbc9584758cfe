//! Everybody who probes, on the loop of the agent. A hostile client costs a few descriptors and KiB for a few seconds, no
//! heartbeat, no job and not the shutdown; and whoever probes in good faith still gets through.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use log::trace;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use crate::daemon::log::throttle::Seldom;
use crate::daemon::probes::answers::{ProbeAnswers, Sources};
use crate::daemon::probes::link::{Origin, ProbeLink, Progress};
use crate::lifecycle::api::time::Moment;
use crate::lifecycle::timers::Timers;

/// Most connections at the same time. The next one takes the place of another: of the address that has the most, the one
/// whose time is over first. A probe is answered in the turn in which its request is there, so it is silent ones that have
/// to go; and a flood from one address drives out its own.
const MAX_CONNECTIONS: usize = 64;

/// Tokens of connections.
pub const TOKENS: Range<usize> = 16..16 + MAX_CONNECTIONS;

/// Connections accepted in one turn; then the others get theirs.
const ACCEPTS_PER_TURN: usize = 32;

/// Longest from the first byte of a connection to the last one of its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest that a client which has its response may take to close the connection.
const CLOSING_PATIENCE: Duration = Duration::from_secs(1);

/// When there were no descriptors or was no memory for a connection, the next attempt is so much later.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The listening socket and the connections to it.
#[derive(Debug)]
pub struct ProbeLinks {
    listener: TcpListener,
    token: Token,
    links: BTreeMap<Token, ProbeLink>,
    /// Of each connection; of the listener when nothing can be accepted for a while.
    deadlines: Timers<Token>,
    /// Somebody may be waiting to be accepted: the kernel tells only once.
    may_accept: bool,
    shortages: Seldom,
    answers: ProbeAnswers,
}

impl ProbeLinks {
    /// Answers whoever comes; `token` is the listener's.
    ///
    /// # Errors
    ///
    /// What epoll says.
    pub fn new(mut listener: TcpListener, registry: &Registry, token: Token) -> io::Result<Self> {
        registry.register(&mut listener, token, Interest::READABLE)?;
        Ok(Self {
            listener,
            token,
            links: BTreeMap::new(),
            deadlines: Timers::default(),
            may_accept: true,
            shortages: Seldom::default(),
            answers: ProbeAnswers::default(),
        })
    }

    /// Somebody wants to connect.
    pub fn is_acceptable(&mut self) {
        self.may_accept = true;
    }

    /// The kernel says that something happened on this connection.
    pub fn is_ready(&mut self, token: Token) {
        if let Some(link) = self.links.get_mut(&token) {
            link.is_ready = true;
        }
    }

    /// When a connection has had its time.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.next().map(|(due, _)| due)
    }

    /// Whether there is something to do for another turn at once.
    pub fn has_more(&self) -> bool {
        self.can_accept() || self.links.values().any(|link| link.is_ready)
    }

    /// Answers who is there, accepts who came, ends who had their time.
    pub fn turn(&mut self, sources: &Sources<'_>, registry: &Registry, now: Moment) {
        while let Some(token) = self.deadlines.take_due(now) {
            if token == self.token {
                self.may_accept = true;
            } else {
                trace!("a probe's connection had its time");
                self.hang_up(token, registry);
            }
        }
        let ready: Vec<Token> = self
            .links
            .iter()
            .filter(|(_, link)| link.is_ready)
            .map(|(token, _)| *token)
            .collect();
        for token in ready {
            self.proceed(token, sources, registry, now);
        }
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.can_accept() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, peer)) => self.admit(stream, origin(peer.ip()), sources, registry, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_accept = false,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    self.shortages
                        .warn(format_args!("cannot take a probe's connection: {error}"));
                    self.may_accept = false;
                    self.deadlines.arm(self.token, now.after(ACCEPT_AGAIN_AFTER));
                }
            }
        }
    }

    fn can_accept(&self) -> bool {
        self.may_accept && self.deadlines.due(self.token).is_none()
    }

    fn admit(
        &mut self,
        mut stream: TcpStream,
        origin: Origin,
        sources: &Sources<'_>,
        registry: &Registry,
        now: Moment,
    ) {
        let Some(token) = self.room(registry) else { return };
        if let Err(error) = registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE) {
            return self
                .shortages
                .warn(format_args!("cannot watch a probe's connection: {error}"));
        }
        self.links.insert(token, ProbeLink::new(stream, origin));
        self.deadlines.arm(token, now.after(PATIENCE));
        self.proceed(token, sources, registry, now);
    }

    /// A token that nobody has.
    fn room(&mut self, registry: &Registry) -> Option<Token> {
        let free = TOKENS.map(Token).find(|token| !self.links.contains_key(token));
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
                .map(|(token, _)| *token)
                .min_by_key(|token| self.deadlines.due(*token))
        };
        let (origin, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let token = oldest_of(origin)?;
        self.hang_up(token, registry);
        Some(token)
    }

    fn proceed(&mut self, token: Token, sources: &Sources<'_>, registry: &Registry, now: Moment) {
        let Some(link) = self.links.get_mut(&token) else { return };
        match link.proceed(|request| self.answers.respond(request, sources, now)) {
            Progress::Open => {}
            Progress::Answered => self.deadlines.arm_at_latest(token, now.after(CLOSING_PATIENCE)),
            Progress::Over => self.hang_up(token, registry),
        }
    }

    fn hang_up(&mut self, token: Token, registry: &Registry) {
        self.deadlines.cancel(token);
        if let Some(mut link) = self.links.remove(&token) {
            let _ = registry.deregister(&mut link.stream);
        }
    }
}

/// From where it comes: an IPv4 address, or a network of IPv6, in which one machine may have any address.
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
