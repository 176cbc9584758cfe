//! Signs that a backend leaves, as facts about an address, for the streams that are connected
//! there. A server that stops in good order closes its listener and its idle connections at once,
//! and then waits for open requests. An open stream is one.

use std::net::SocketAddr;

use crate::daemon::backend::client::{Backend, BackendSays};
use crate::daemon::backend::idle_limits::ENDS_TOGETHER;
use crate::daemon::backend::kept::EarlyEnd;
use crate::daemon::backend::pending::RequestStage;
use crate::daemon::backend::reach::{Reach, Sign};
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Moment, StreamNews};

impl Backend {
    /// Handles a sign. A peer is leaving if its address refuses a connection. It is also leaving if
    /// it has closed a connection too soon and no other one to it is kept. The end of an old
    /// connection proves nothing, because servers close idle ones. Neither does an end at an idle
    /// age at which the peer has closed one before.
    pub(in crate::daemon::backend) fn heed(&mut self, sign: Sign, now: Moment) {
        let (address, is_early, idle) = match sign {
            Sign::Refused(address) => return self.address_leaves(address, "it refuses connections"),
            Sign::Ended {
                address,
                is_early,
                idle,
            } => (address, is_early, idle),
        };
        if is_early && !idle.is_some_and(|age| self.idle_limits.explain(address, age, now)) {
            self.early_end = Some(EarlyEnd { address, at: now });
        }
        let is_early = |end: &EarlyEnd| end.address == address && end.at.elapsed(now) < ENDS_TOGETHER;
        if !self.early_end.as_ref().is_some_and(is_early) || self.streams_to(address).is_empty() {
            return;
        }
        let Reach { slots, kept, .. } = &mut self.reach;
        let others: Vec<usize> = kept
            .slots()
            .filter(|slot| slots.address(*slot) == Some(address))
            .collect();
        for other in others {
            // The kernel may know that this one was closed as well, without having reported it yet.
            let is_quiet = slots.get(other).is_some_and(|connection| {
                connection.look_again();
                connection.is_quiet(&mut self.upstream.buffers)
            });
            if is_quiet {
                return;
            }
            kept.forget(other);
            slots.close(other);
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
                    if self.reach.slots.address(exchange.slot) == Some(address))
        });
        open.map(|(id, _)| *id).collect()
    }
}
