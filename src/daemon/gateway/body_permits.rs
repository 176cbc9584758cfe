//! Permits for large bodies of requests. A body of more than 32 KiB needs a permit before it is
//! read. A request that finds too few free bytes waits for one.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::daemon::gateway::book::LinkId;
use ojs_wire::http::message::BodyLength;

/// A body of up to so many bytes is accepted in any case.
pub(super) const SMALL_BODY_BYTES: usize = 32 << 10;

/// Most bytes of larger bodies that ojs-init receives at a time; one of the longest fits in any
/// case. As many again may be on their way to the backend, because ojs-init does not know their
/// jobs.
const LARGE_BODIES_BYTES: usize = 32 << 20;

/// The permits, and the connections that wait for one.
#[derive(Debug)]
pub(super) struct BodyPermits {
    /// Longest body in bytes.
    pub(super) most: usize,
    coming: FreeBytes,
    going_on: FreeBytes,
    /// Connections that wait for a permit.
    waiting: VecDeque<LinkId>,
}

/// Bytes for which permits can be given.
#[derive(Debug, Clone)]
struct FreeBytes(Rc<Cell<usize>>);

impl FreeBytes {
    fn permit(&self, bytes: usize) -> Option<BodyPermit> {
        let left = self.0.get().checked_sub(bytes)?;
        self.0.set(left);
        Some(BodyPermit {
            free: self.clone(),
            bytes,
        })
    }
}

/// The right to hold a large body in memory. Its end frees the bytes.
#[derive(Debug)]
pub(super) struct BodyPermit {
    free: FreeBytes,
    bytes: usize,
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.free.0.set(self.free.0.get().saturating_add(self.bytes));
    }
}

impl BodyPermits {
    /// Bodies have at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        let free = || FreeBytes(Rc::new(Cell::new(most.max(LARGE_BODIES_BYTES))));
        Self {
            most,
            coming: free(),
            going_on: free(),
            waiting: VecDeque::new(),
        }
    }

    /// A permit for a body of this length, unless other connections wait for theirs.
    pub(super) fn permit(&self, length: BodyLength) -> Option<BodyPermit> {
        self.permit_for_first(length).filter(|_| self.waiting.is_empty())
    }

    /// A permit for the first connection that waits.
    pub(super) fn permit_for_first(&self, length: BodyLength) -> Option<BodyPermit> {
        let bytes = match length {
            BodyLength::Bytes(bytes) => usize::try_from(bytes).unwrap_or(self.most).min(self.most),
            BodyLength::Chunked => self.most,
        };
        self.coming.permit(bytes)
    }

    /// A permit for a body of so many bytes that is passed to the backend.
    pub(super) fn permit_onward(&self, bytes: usize) -> Option<BodyPermit> {
        self.going_on.permit(bytes)
    }

    /// Queues the connection for a permit, until others have freed enough.
    pub(super) fn wait(&mut self, id: LinkId) {
        self.waiting.push_back(id);
    }

    /// The connection that has waited longest.
    pub(super) fn first(&self) -> Option<LinkId> {
        self.waiting.front().copied()
    }

    /// The connection that has waited longest waits no more.
    pub(super) fn first_is_served(&mut self) {
        self.waiting.pop_front();
    }
}
