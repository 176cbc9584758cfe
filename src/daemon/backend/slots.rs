//! The slots of connections. Each has a number, by which the kernel reports its events. Their
//! number is bounded.

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
#[derive(Debug)]
pub(in crate::daemon) struct ConnectionSlots<O = CallId> {
    connections: Vec<Option<BackendConnection<O>>>,
    free: Vec<usize>,
    most: usize,
    owner: fn(usize) -> TokenOwner,
}

impl<O> ConnectionSlots<O> {
    /// At most so many slots. `owner` returns the token by which the kernel reports a slot.
    pub(in crate::daemon) fn new(most: usize, owner: fn(usize) -> TokenOwner) -> Self {
        Self {
            connections: Vec::new(),
            free: Vec::new(),
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
            Err(error) if is_shortage(&error) && make_room(self) => start()?,
            result => result?,
        };
        let slot = match self.reserve() {
            None if make_room(self) => self.reserve(),
            slot => slot,
        };
        let slot = slot.ok_or(Fault::NoSocket)?;
        let token = (self.owner)(slot).token();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = registry.register(&mut connection.stream, token, interest) {
            self.free(slot);
            return Err(error.into());
        }
        if let Some(place) = self.connections.get_mut(slot) {
            *place = Some(connection);
        }
        Ok(slot)
    }

    /// The slot for another connection; `None`: there are too many.
    fn reserve(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.connections.len();
        (slot < self.most).then(|| {
            self.connections.push(None);
            slot
        })
    }

    /// Frees the slot and closes its connection.
    fn free(&mut self, slot: usize) {
        if let Some(place) = self.connections.get_mut(slot) {
            *place = None;
            self.free.push(slot);
        }
    }

    /// Closes the connection in this slot, if there is one.
    pub(in crate::daemon) fn close(&mut self, slot: usize) {
        if self.get(slot).is_some() {
            self.free(slot);
        }
    }

    /// The connection in this slot.
    pub(in crate::daemon) fn get(&mut self, slot: usize) -> Option<&mut BackendConnection<O>> {
        self.connections.get_mut(slot)?.as_mut()
    }

    /// The address that the connection in this slot leads to.
    pub(in crate::daemon) fn address(&self, slot: usize) -> Option<SocketAddr> {
        let connection = self.connections.get(slot)?.as_ref();
        connection.map(|connection| connection.address)
    }

    /// The connections with their slots.
    pub(in crate::daemon) fn iter(&self) -> impl Iterator<Item = (usize, &BackendConnection<O>)> {
        let places = self.connections.iter().enumerate();
        places.filter_map(|(slot, place)| Some((slot, place.as_ref()?)))
    }
}

/// Whether there was no descriptor.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::EMFILE | Errno::ENFILE)
    )
}
