//! The slots of connections. Each has a number, by which the kernel reports its events. How many
//! there are at once is bounded.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use mio::{Interest, Registry};
use nix::errno::Errno;

use crate::daemon::backend::connection::BackendConnection;
use crate::daemon::backend::fault::Fault;
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::Moment;
use ojs_lifecycle::api::ids::CallId;

/// The connections by their slots, each of which may belong to an `O`.
pub(in crate::daemon) struct ConnectionSlots<O = CallId> {
    /// Boxed because a connection is large, and a map moves its values.
    connections: BTreeMap<usize, Box<BackendConnection<O>>>,
    /// The next slot. No slot is used twice, so a late event of the kernel reaches no other
    /// connection.
    next: usize,
    /// Most connections at once.
    most: usize,
    owner: fn(usize) -> TokenOwner,
}

impl<O> ConnectionSlots<O> {
    /// At most so many connections. `owner` returns the token by which the kernel reports a slot.
    pub(in crate::daemon) fn new(most: usize, owner: fn(usize) -> TokenOwner) -> Self {
        Self {
            connections: BTreeMap::new(),
            next: 0,
            most,
            owner,
        }
    }

    /// Opens a connection; the kernel reports when it is there. If no slot or no descriptor is
    /// left, `make_room` may close an unused connection, and returns whether there was one.
    ///
    /// # Errors
    /// There is no room, or the system refuses the connection.
    pub(in crate::daemon) fn connect(
        &mut self,
        address: SocketAddr,
        owner: O,
        (registry, now): (&Registry, Moment),
        mut make_room: impl FnMut(&mut Self) -> bool,
    ) -> Result<usize, Fault>
    where
        O: Copy,
    {
        let start = || BackendConnection::start(address, owner, now);
        let mut connection = match start() {
            Err(error) if lacks_descriptors(&error) && make_room(self) => start()?,
            result => result?,
        };
        let has_room = !self.is_full() || (make_room(self) && !self.is_full());
        if !has_room {
            return Err(Fault::NoSocket);
        }
        let slot = self.next;
        let token = (self.owner)(slot).token();
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut connection.stream, token, interest)?;
        self.next += 1;
        self.connections.insert(slot, Box::new(connection));
        Ok(slot)
    }

    fn is_full(&self) -> bool {
        self.connections.len() >= self.most
    }

    /// Closes the connection in this slot, if there is one.
    pub(in crate::daemon) fn close(&mut self, slot: usize) {
        self.connections.remove(&slot);
    }

    /// The connection in this slot.
    pub(in crate::daemon) fn get(&mut self, slot: usize) -> Option<&mut BackendConnection<O>> {
        self.connections.get_mut(&slot).map(Box::as_mut)
    }

    /// The address that the connection in this slot leads to.
    pub(in crate::daemon) fn address(&self, slot: usize) -> Option<SocketAddr> {
        self.connections.get(&slot).map(|connection| connection.address)
    }

    /// The connections with their slots.
    pub(in crate::daemon) fn iter(&self) -> impl Iterator<Item = (usize, &BackendConnection<O>)> {
        let connections = self.connections.iter();
        connections.map(|(slot, connection)| (*slot, connection.as_ref()))
    }
}

/// Whether there was no descriptor.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE)
    )
}
