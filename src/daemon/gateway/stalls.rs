//! Loss of a permit for a large body. A client that sends nothing loses its permit to one that
//! waits.

use std::time::Duration;

use crate::daemon::gateway::book::LinkId;
use crate::daemon::gateway::departures::LAST_BYTES_WITHIN;
use crate::daemon::gateway::link::{Filled, GatewayLink, LinkStage};
use crate::daemon::gateway::{Gateway, GatewayTimer};
use ojs_lifecycle::api::Moment;
use ojs_wire::gateway::GatewayError;

/// How long a client may send nothing while others wait for its permit. An outcome is answered at
/// most 25 s after its last byte, and SDKs wait for 30 s: this fits in between.
const LONGEST_STALL: Duration = Duration::from_secs(3);

/// How long a client that had to wait for its permit may send nothing from then on, if it has sent
/// nothing for `LONGEST_STALL` before. A client was blocked while ojs-init did not read, and needs
/// a moment to continue.
const FIRST_BYTES_WITHIN: Duration = Duration::from_millis(200);

const STALLED: GatewayError<'static> = GatewayError {
    status: 408,
    code: "gateway_stalled",
    message: "the rest of the body did not come, and others wait for its place",
};

impl Gateway {
    /// Gives free permits to the connections that wait. If there are too few, ends the connection
    /// that has a permit and has sent nothing for the longest time.
    pub(super) fn give_permits(&mut self, now: Moment) {
        loop {
            self.give_what_is_left(now);
            if self.body_permits.first().is_none() {
                return self.deadlines.cancel(GatewayTimer::Permits);
            }
            if self.deadlines.deadline_of(GatewayTimer::Permits).is_some() {
                return;
            }
            let Some((id, ends)) = self.longest_silent() else {
                return;
            };
            if ends > now {
                return self.deadlines.arm(GatewayTimer::Permits, ends);
            }
            self.end_stall(id, now);
        }
    }

    fn give_what_is_left(&mut self, now: Moment) {
        while let Some(id) = self.body_permits.first() {
            let stage = self.links.get_mut(&id).map(|link| &mut link.stage);
            let Some(LinkStage::Gathering(request)) = stage else {
                // The connection has ended meanwhile.
                self.body_permits.first_is_served();
                continue;
            };
            let Some(permit) = self.body_permits.permit_for_first(request.head.body) else {
                return;
            };
            request.permit = Some(permit);
            request.waits_for_permit = false;
            request.has_permit_since = Some(now);
            self.body_permits.first_is_served();
            if self.links.get(&id).is_some_and(|link| link.is_left_behind) {
                self.deadlines
                    .arm_at_latest(GatewayTimer::Link(id), now.after(LAST_BYTES_WITHIN));
            }
            self.enqueue(id);
        }
    }

    /// Of the connections with a permit that wait for their client, the one whose time ends first,
    /// and when that is.
    fn longest_silent(&self) -> Option<(LinkId, Moment)> {
        let ends = |link: &GatewayLink| {
            let LinkStage::Gathering(request) = &link.stage else {
                return None;
            };
            if request.permit.is_none() || link.is_queued {
                return None;
            }
            let at_first = request.has_permit_since.map(|since| since.after(FIRST_BYTES_WITHIN));
            let ends = link.heard_at.after(LONGEST_STALL);
            Some(at_first.map_or(ends, |at_first| ends.max(at_first)))
        };
        let holders = self.links.iter();
        let silent = holders.filter_map(|(id, link)| Some((*id, ends(link)?)));
        silent.min_by_key(|(_, ends)| *ends)
    }

    fn end_stall(&mut self, id: LinkId, now: Moment) {
        if !self.has_come(id, now) {
            self.refuse(id, &STALLED);
        }
    }

    /// Reads once more from a link before its silence counts: bytes may have arrived while ojs-init
    /// was held up. If some have, the link gets its turn.
    pub(super) fn has_come(&mut self, id: LinkId, now: Moment) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return true;
        };
        link.look_again();
        if link.fill(&mut self.buffer) == Filled::Nothing {
            return false;
        }
        link.heard_at = now;
        self.enqueue(id);
        true
    }
}
