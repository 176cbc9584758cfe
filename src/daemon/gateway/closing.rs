//! Ends of connections. The client has its last answer, and ojs-init waits until the client closes
//! its side.
//!
//! Many clients read an answer only after they have sent all of their request, even if the answer
//! arrives earlier. A close before that resets the connection. The client then sees an error of the
//! network in place of the answer, and repeats a request that is refused for good.

use std::time::Duration;

use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::link::{GatewayLink, LinkStage};
use crate::daemon::gateway::{Gateway, GatewayTimer};
use ojs_lifecycle::api::Moment;

/// How long a client that has its last answer may send nothing before it closes the connection.
/// Each byte renews it, up to `LONGEST_CLOSING`.
pub(super) const CLOSING_PATIENCE: Duration = Duration::from_secs(5);

/// How long a client with its last answer may keep sending. SDKs give up a request after 30 s.
const LONGEST_CLOSING: Duration = Duration::from_secs(30);

impl Gateway {
    /// The last answer is written. The connection ends when the client closes it, or at its
    /// deadline.
    pub(super) fn begin_closing(&mut self, id: LinkId, now: Moment) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.finish_writing();
        link.closes_by = now.after(LONGEST_CLOSING);
        self.deadlines
            .arm_at_latest(GatewayTimer::Link(id), now.after(CLOSING_PATIENCE));
    }
}

/// The new deadline of a connection that has reached its deadline. `None`: it gets no more time.
pub(super) fn renewed_patience(link: &GatewayLink, now: Moment) -> Option<Moment> {
    let is_closing = matches!(link.stage, LinkStage::Closing);
    // A caller that is not the worker gets no more time, and a dead one reads nothing.
    if !is_closing || link.is_refused || link.is_deaf {
        return None;
    }
    let ends = link.heard_at.after(CLOSING_PATIENCE).min(link.closes_by);
    Some(ends).filter(|ends| *ends > now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its connection has failed")]
mod tests {
    use std::net::TcpListener;

    use mio::net::TcpStream;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    /// A client that got its last answer at 100 s and sent a byte at `heard_at`.
    fn closing(heard_at: u64) -> GatewayLink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut link = GatewayLink::new(stream, at(90));
        link.stage = LinkStage::Closing;
        link.heard_at = at(heard_at);
        link.closes_by = at(100).after(LONGEST_CLOSING);
        link
    }

    #[test]
    fn a_client_that_still_sends_gets_five_more_seconds_and_thirty_in_all() {
        for (heard_at, now, until) in [
            (95, 105, None),
            (103, 105, Some(108)),
            (127, 128, Some(130)),
            (129, 130, None),
        ] {
            assert_eq!(
                renewed_patience(&closing(heard_at), at(now)),
                until.map(at),
                "{heard_at}"
            );
        }
    }

    #[test]
    fn a_caller_that_is_refused_or_dead_gets_no_more_time() {
        let mut refused = closing(103);
        refused.is_refused = true;
        let mut dead = closing(103);
        dead.leave_behind();
        let mut asks = closing(103);
        asks.stage = LinkStage::Head;
        for link in [refused, dead, asks] {
            assert_eq!(renewed_patience(&link, at(105)), None, "{link:?}");
        }
    }
}
