//! Accepting connections from a listening socket, a bounded number in each turn of the loop.
//!
//! The kernel reports only once that clients wait. So an acceptor remembers that until none does.
//! Without descriptors or memory for the next connection, the rest waits for another turn.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry};

use crate::daemon::log::remedy::remedy;
use crate::daemon::log::throttle::Throttle;
use crate::daemon::tokens::TokenOwner;
use ojs_os::socket::{Accepted, Listener};

/// A socket that listens, and never waits.
pub trait Accepting: AsRawFd {
    /// A connection that it gives.
    type Connection;

    /// Accepts the next connection; `None`: no client waits.
    fn next(&self) -> io::Result<Option<Self::Connection>>;
}

impl Accepting for Listener {
    type Connection = Accepted;

    fn next(&self) -> io::Result<Option<Accepted>> {
        self.accept()
    }
}

impl Accepting for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    fn next(&self) -> io::Result<Option<Self::Connection>> {
        match self.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            result => result.map(Some),
        }
    }
}

/// A listening socket, and whether to accept from it now.
#[derive(Debug)]
pub struct Acceptor<L> {
    listener: L,
    source: TokenOwner,
    /// The listener in lines of the log.
    name: &'static str,
    most_per_turn: usize,
    /// Attempts that are left in this turn.
    attempts: usize,
    /// Clients may be waiting.
    may_accept: bool,
    /// There were no descriptors or was no memory for the last one.
    is_short: bool,
    shortages: Throttle,
    refusals: Throttle,
}

impl<L: Accepting> Acceptor<L> {
    /// Has the kernel report new connections.
    ///
    /// # Errors
    ///
    /// The error of epoll.
    pub fn new(
        listener: L,
        source: TokenOwner,
        most_per_turn: usize,
        name: &'static str,
        registry: &Registry,
    ) -> io::Result<Self> {
        let descriptor = listener.as_raw_fd();
        registry.register(&mut SourceFd(&descriptor), source.token(), Interest::READABLE)?;
        Ok(Self {
            listener,
            source,
            name,
            most_per_turn,
            attempts: 0,
            may_accept: true,
            is_short: false,
            shortages: Throttle::default(),
            refusals: Throttle::default(),
        })
    }

    /// The kernel reported that a client wants to connect.
    pub fn is_acceptable(&mut self) {
        self.may_accept = true;
    }

    /// True if clients may be waiting that can be accepted now.
    pub fn has_more(&self) -> bool {
        self.may_accept && !self.is_short
    }

    /// True if this turn may accept one more.
    pub fn can_take(&self) -> bool {
        self.has_more() && self.attempts > 0
    }

    /// Another turn begins.
    pub fn begin_turn(&mut self) {
        self.attempts = self.most_per_turn;
    }

    /// The next connection of this turn; `None`: there is none, or no room for it, or the turn has
    /// accepted enough.
    pub fn next(&mut self) -> Option<L::Connection> {
        while self.can_take() {
            self.attempts -= 1;
            match self.listener.next() {
                Ok(Some(connection)) => return Some(connection),
                Ok(None) => self.may_accept = false,
                // A client has given up meanwhile, and another one may follow.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => {
                    let (name, what_to_do) = (self.name, remedy(&error));
                    self.is_short_of(format_args!(
                        "{name}: cannot accept a connection: {error}; {what_to_do}"
                    ));
                }
            }
        }
        None
    }

    /// Has the kernel report again whether clients wait. This costs a third of an attempt that
    /// finds none, because an attempt makes room for a connection first.
    pub fn ask(&mut self, registry: &Registry) {
        if self.may_accept {
            let descriptor = self.listener.as_raw_fd();
            let asked = registry.reregister(&mut SourceFd(&descriptor), self.source.token(), Interest::READABLE);
            // If the kernel cannot report it, an attempt finds out.
            self.may_accept = asked.is_err();
        }
    }

    /// There is no room for the next one, for this reason: with descriptors short there is no point
    /// in haste.
    pub fn is_short_of(&mut self, reason: fmt::Arguments<'_>) {
        self.warn(reason);
        self.is_short = true;
    }

    /// Whether there was no room for the last one.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// There may be room again: a connection was closed, and its descriptor is free for another
    /// one.
    pub fn try_again(&mut self) {
        self.is_short = false;
    }

    /// Warns of a problem with connections.
    pub fn warn(&mut self, message: fmt::Arguments<'_>) {
        self.shortages.warn(message);
    }

    /// Warns of a connection that is closed because the poll cannot watch it.
    pub fn cannot_watch(&mut self, error: &io::Error) {
        let (name, what_to_do) = (self.name, remedy(error));
        self.warn(format_args!("{name}: cannot watch a connection: {error}; {what_to_do}"));
    }

    /// Warns of a refused client.
    pub fn refuse(&mut self, message: fmt::Arguments<'_>) {
        self.refusals.warn(message);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its socket has failed")]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use ojs_os::socket::BoundSocket;

    #[test]
    fn a_turn_takes_its_share_and_the_next_one_takes_the_rest() {
        let path = std::env::temp_dir().join(format!("ojs-acceptor-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = BoundSocket::bind(&path).unwrap().listen().unwrap();
        let poll = mio::Poll::new().unwrap();
        let mut acceptor = Acceptor::new(listener, TokenOwner::ControlSocket, 2, "", poll.registry()).unwrap();
        let _clients = [0; 3].map(|_| UnixStream::connect(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let mut turn = || {
            acceptor.begin_turn();
            let taken = std::iter::from_fn(|| acceptor.next()).count();
            (taken, acceptor.has_more())
        };
        assert_eq!([turn(), turn()], [(2, true), (1, false)]);
        // The kernel reports no more clients, so asking is useless.
        assert_eq!(turn(), (0, false));
        acceptor.is_acceptable();
        acceptor.is_short_of(format_args!("no descriptor"));
        assert!(!acceptor.has_more());
        acceptor.try_again();
        assert!(acceptor.has_more());
    }

    #[test]
    fn when_it_is_asked_the_kernel_tells_of_whoever_still_waits_and_of_nobody_else() {
        let path = std::env::temp_dir().join(format!("ojs-acceptor-asks-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = BoundSocket::bind(&path).unwrap().listen().unwrap();
        let mut poll = mio::Poll::new().unwrap();
        let mut acceptor = Acceptor::new(listener, TokenOwner::ControlSocket, 1, "", poll.registry()).unwrap();
        let _clients = [0; 2].map(|_| UnixStream::connect(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let mut events = mio::Events::with_capacity(4);
        let mut is_told = |poll: &mut mio::Poll| {
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        assert!(is_told(&mut poll) && !is_told(&mut poll), "it tells once");
        for (taken, still_waits) in [(true, true), (true, false), (false, false)] {
            acceptor.begin_turn();
            assert_eq!(acceptor.next().is_some(), taken);
            acceptor.ask(poll.registry());
            assert!(!acceptor.has_more(), "nobody is asked for before the kernel tells");
            assert_eq!(is_told(&mut poll), still_waits);
            if still_waits {
                acceptor.is_acceptable();
            }
        }
    }
}
