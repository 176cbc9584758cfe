//! Ends of connections. The client has its last answer, and ojs-init waits until the client closes
//! its side.
//!
//! Many clients read an answer only when they have sent all of their request, also if the answer
//! comes before. A close before that resets the connection: the client then sees an error of the
//! network in place of the answer, and repeats a request that is refused for good.

use std::time::Duration;

use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::link::{GatewayLink, LinkStage};
use crate::daemon::gateway::{Gateway, GatewayTimer};
use ojs_lifecycle::api::Moment;

/// How long a client that has its last answer may send nothing before it closes the connection.
/// Each byte renews it, up to `LONGEST_CLOSING`.
pub(super) const CLOSING_PATIENCE: Duration = Duration::from_secs(5);

/// How long such a client may go on sending. SDKs give up a request after 30 s.
const LONGEST_CLOSING: Duration = Duration::from_secs(30);

impl Gateway {
    /// The last answer is written: the connection ends when the client closes it, or has had its
    /// time.
    pub(super) fn begin_closing(&mut self, id: LinkId, now: Moment) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.finish_writing();
        link.closes_by = now.after(LONGEST_CLOSING);
        self.deadlines
            .arm_at_latest(GatewayTimer::Link(id), now.after(CLOSING_PATIENCE));
    }
}

/// The new deadline of a connection whose deadline is over. `None`: it has had its time.
pub(super) fn renewed_patience(link: &GatewayLink, now: Moment) -> Option<Moment> {
    let is_closing = matches!(link.stage, LinkStage::Closing);
    // A caller that is not the worker gets no more time, and a dead one reads nothing.
    if !is_closing || link.is_refused || link.is_deaf {
        return None;
    }
    Some(patience_ends(link.heard_at, link.closes_by)).filter(|ends| *ends > now)
}

/// When a client has had its time that was heard last at `heard_at`.
fn patience_ends(heard_at: Moment, closes_by: Moment) -> Moment {
    heard_at.after(CLOSING_PATIENCE).min(closes_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_gives_a_client_five_more_seconds_but_not_beyond_the_end() {
        let at = |seconds| Moment::new(Duration::from_secs(seconds));
        assert_eq!(patience_ends(at(3), at(30)), at(8));
        assert_eq!(patience_ends(at(24), at(30)), at(29));
        assert_eq!(patience_ends(at(29), at(30)), at(30));
    }
}
