//! Where connections are: each has a number, by which the kernel tells of it. There is a bound.

use crate::daemon::backend::connection::Connection;
use crate::daemon::tokens::BACKEND_SLOTS;

/// The connections by their slots.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Slots {
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Slots {
    /// The slot for another connection; `None`: there are too many.
    pub(in crate::daemon) fn reserve(&mut self) -> Option<usize> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = self.connections.len();
        (slot < BACKEND_SLOTS).then(|| {
            self.connections.push(None);
            slot
        })
    }

    /// Puts a connection into the slot that was reserved for it.
    pub(in crate::daemon) fn fill(&mut self, slot: usize, connection: Connection) {
        if let Some(place) = self.connections.get_mut(slot) {
            *place = Some(connection);
        }
    }

    /// The slot is not needed. Whoever is in it is closed.
    pub(in crate::daemon) fn free(&mut self, slot: usize) {
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
    pub(in crate::daemon) fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.get_mut(slot)?.as_mut()
    }

    /// Those that there are.
    pub(in crate::daemon) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        let places = self.connections.iter().enumerate();
        places.filter_map(|(slot, place)| Some((slot, place.as_ref()?)))
    }
}
