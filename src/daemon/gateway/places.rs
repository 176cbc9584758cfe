//! Room for the bodies of requests that are for us. A large body has a place while it comes. Who
//! finds no room waits.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::daemon::gateway::book::LinkId;
use ojs_wire::http::message::BodyLength;

/// A body of up to so many bytes is taken in any case.
pub(super) const SMALL_BODY_BYTES: usize = 32 << 10;

/// Most bytes of larger bodies that may be on their way to us at the same time; one of the longest
/// fits in any case. As many again may be on their way to the backend, because nobody here knows
/// their jobs.
const LARGE_BODIES_BYTES: usize = 32 << 20;

/// How much of bodies that are for us is kept.
#[derive(Debug)]
pub(super) struct BodyBounds {
    /// Longest body in bytes.
    pub(super) most: usize,
    coming: Room,
    going_on: Room,
    /// Connections that wait for room.
    waiting: VecDeque<LinkId>,
}

/// Bytes that are left.
#[derive(Debug, Clone)]
struct Room(Rc<Cell<usize>>);

impl Room {
    fn place(&self, bytes: usize) -> Option<LargePlace> {
        let left = self.0.get().checked_sub(bytes)?;
        self.0.set(left);
        Some(LargePlace {
            room: self.clone(),
            bytes,
        })
    }
}

/// Room for a large body, for as long as this lives.
#[derive(Debug)]
pub(super) struct LargePlace {
    room: Room,
    bytes: usize,
}

impl Drop for LargePlace {
    fn drop(&mut self) {
        self.room.0.set(self.room.0.get().saturating_add(self.bytes));
    }
}

impl BodyBounds {
    /// Bodies have at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        let room = || Room(Rc::new(Cell::new(most.max(LARGE_BODIES_BYTES))));
        Self {
            most,
            coming: room(),
            going_on: room(),
            waiting: VecDeque::new(),
        }
    }

    /// Room for all of a body of this length, unless others wait for theirs.
    pub(super) fn place(&self, length: BodyLength) -> Option<LargePlace> {
        self.place_of_first(length).filter(|_| self.waiting.is_empty())
    }

    /// A place for the first body that waits.
    pub(super) fn place_of_first(&self, length: BodyLength) -> Option<LargePlace> {
        let bytes = match length {
            BodyLength::Bytes(bytes) => usize::try_from(bytes).unwrap_or(self.most).min(self.most),
            BodyLength::Chunked => self.most,
        };
        self.coming.place(bytes)
    }

    /// Room for a body of so many bytes that goes on to the backend.
    pub(super) fn place_onward(&self, bytes: usize) -> Option<LargePlace> {
        self.going_on.place(bytes)
    }

    /// The connection gets room when others leave some.
    pub(super) fn wait(&mut self, id: LinkId) {
        self.waiting.push_back(id);
    }

    /// The first of those that wait.
    pub(super) fn first(&self) -> Option<LinkId> {
        self.waiting.front().copied()
    }

    /// The first one waits no more.
    pub(super) fn first_is_served(&mut self) {
        self.waiting.pop_front();
    }
}
