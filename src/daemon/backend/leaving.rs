//! Signs that a backend leaves, as facts about an address, for the streams that are connected
//! there. A server that stops in good order closes its listener and its idle connections at once,
//! and then waits for open requests. An open stream is one.

use std::net::SocketAddr;

use crate::daemon::backend::client::{Backend, BackendSays};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::idle_limits::ENDS_TOGETHER;
use crate::daemon::backend::kept::EarlyEnd;
use crate::daemon::backend::pending::RequestStage;
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Moment, StreamNews};

impl Backend {
    /// A connection to this address failed. Where that was refused nothing listens there any more.
    pub(in crate::daemon::backend) fn note_attempt(&mut self, address: SocketAddr, fault: &Fault) {
        if fault.is_no_listener() {
            self.address_leaves(address, "it refuses connections");
        }
    }

    /// The peer has closed the kept connection in this slot, or answered that it closes it. Where
    /// it did so too soon, and no other connection is kept to that address, the peer leaves. An old
    /// connection that ends says nothing by itself: servers close what is idle for some time.
    /// Neither does one that ends at an idle age at which the peer has closed one before.
    pub(in crate::daemon::backend) fn note_end_of_kept(&mut self, slot: usize, now: Moment) {
        let Some(connection) = self.slots.get(slot).filter(|connection| connection.has_served) else {
            return;
        };
        let (address, is_early) = (connection.address, now < connection.kept_until);
        let age = connection.idle_since.filter(|_| connection.owner.is_none());
        let age = age.map(|since| since.elapsed(now));
        if is_early && !age.is_some_and(|age| self.idle_limits.explain(address, age, now)) {
            self.early_end = Some(EarlyEnd { address, at: now });
        }
        let is_early = |end: &EarlyEnd| end.address == address && end.at.elapsed(now) < ENDS_TOGETHER;
        if !self.early_end.as_ref().is_some_and(is_early) || self.streams_to(address).is_empty() {
            return;
        }
        let is_other = |other: usize| other != slot && self.slots.address(other) == Some(address);
        let others: Vec<usize> = self.kept.slots().filter(|other| is_other(*other)).collect();
        for other in others {
            // The kernel may know by now that this one was closed as well, and not have told it
            // yet.
            if self.is_still_quiet(other) {
                return;
            }
            self.kept.forget(other);
            self.slots.close(other);
        }
        self.address_leaves(address, "it has closed every connection that was kept to it");
    }

    fn address_leaves(&mut self, address: SocketAddr, why: &str) {
        for id in self.streams_to(address) {
            log::debug!("backend: a stream of events is closed, because {address} leaves: {why}");
            self.said.push((id, BackendSays::News(StreamNews::BackendLeaves)));
        }
    }

    /// The open streams that are connected to this address.
    fn streams_to(&self, address: SocketAddr) -> Vec<CallId> {
        let open = self.pending.iter().filter(|(_, pending)| {
            pending.stream.is_some()
                && matches!(&pending.stage, RequestStage::Exchanging(exchange)
                    if self.slots.address(exchange.slot) == Some(address))
        });
        open.map(|(id, _)| *id).collect()
    }
}
