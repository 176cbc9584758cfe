//! The operations of the loop and the gateway on tunnels.

use mio::event::Event;

use crate::daemon::backend::client::{Backend, BackendTurn, Parts};
use crate::daemon::backend::reach::Sign;
use crate::daemon::backend::tunnel::{Tunnel, TunnelId, TunnelNews};
use crate::daemon::backend::tunnels::TunnelTurn;
use ojs_lifecycle::api::Moment;
use ojs_wire::http::tunnel::TunnelRequest;

impl Backend {
    /// Queues a request of a gateway's client for the next turn. `id` belongs to no other tunnel.
    /// [`Backend::tunnel_news`] returns all its news, the last one being done or failed. If
    /// [`Backend::tunnel_took`] has reported the end, neither follows.
    pub fn open_tunnel(&mut self, id: TunnelId, request: TunnelRequest, now: Moment) {
        self.tunnels.open(id, request, now);
    }

    /// Offers bytes of the request's body, and returns how many were accepted. The caller offers
    /// the rest again after [`TunnelNews::HasRoom`]. An ended tunnel accepts none.
    pub fn tunnel_offer(&mut self, id: TunnelId, bytes: &[u8]) -> usize {
        self.tunnels.offer(id, bytes)
    }

    /// All of the body was accepted, and nothing follows. The tunnel fails if an announced length
    /// is not reached.
    pub fn tunnel_body_done(&mut self, id: TunnelId) {
        self.tunnels.body_done(id);
    }

    /// The received part of the answer's body. It stays until the caller reports how much it has
    /// read.
    #[must_use]
    pub fn tunnel_body(&self, id: TunnelId) -> &[u8] {
        self.tunnels.get(id).map_or(&[], Tunnel::body)
    }

    /// So many bytes of the answer's body were read, so there is room for more. Returns true if
    /// these were the last ones: then the tunnel has ended, and no news of it follow.
    pub fn tunnel_took(&mut self, id: TunnelId, count: usize) -> bool {
        self.tunnels.took(id, count)
    }

    /// The client is gone. Resets its connection to the backend; no more news of the tunnel follow.
    pub fn close_tunnel(&mut self, id: TunnelId) {
        self.tunnels.close(id);
    }

    /// The client is gone, and the backend has the whole request and may still answer. News follow
    /// as for any other tunnel, also if the answer takes too long or another request needs the
    /// place.
    pub fn abandon_tunnel(&mut self, id: TunnelId, now: Moment) {
        self.tunnels.abandon(id, now);
    }

    /// The next thing to know of a tunnel.
    pub fn tunnel_news(&mut self) -> Option<(TunnelId, TunnelNews)> {
        self.tunnels.next_news()
    }

    /// The kernel reported an event on the connection of a tunnel, in this slot.
    pub fn tunnel_is_ready(&mut self, slot: usize, event: &Event) {
        self.tunnels.is_ready(slot, event);
    }

    /// The tunnels have their turn.
    pub(in crate::daemon::backend) fn turn_tunnels(&mut self, turn: BackendTurn<'_>) {
        let now = turn.now;
        let Parts {
            tunnels, outcomes, way, ..
        } = self.parts(turn);
        tunnels.turn(&mut TunnelTurn { way, outcomes });
        // A kept connection that ends is compared only with those of ojs-init's own requests.
        self.signs.retain(|sign| matches!(sign, Sign::Refused(_)));
        self.heed_signs(now);
    }
}
