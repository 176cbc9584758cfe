//! The wait after a resume. The backend may have asked for quiet, and only the reply to a heartbeat
//! shows whether it still does.
//!
//! Without the wait ojs-init would send a FETCH beside the heartbeat, and might have to give the
//! fetched jobs back.

use crate::api::{Directive, LinkNotice, Reason, Reply};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::backend::link::Link;
use crate::backend::resumed::Resumed;

impl Link {
    /// The worker resumed. No FETCH is sent until the next heartbeat is answered or has failed.
    pub(crate) fn resumed(&mut self, reason: Reason) {
        let is_operators = matches!(reason, Reason::Sigcont | Reason::Control);
        let was_asked = self.session.last_directive == Some(Directive::Quiet);
        let is_contested = is_operators && was_asked;
        self.session.heartbeats.resumed = Some(Resumed { is_contested });
    }

    /// A heartbeat was answered or failed. If it was sent after the resume, the wait ends.
    pub(super) fn resume_is_answered(&mut self, heartbeat: &SentHeartbeat, reply: &Reply) {
        if !heartbeat.is_after_resume {
            return;
        }
        let Some(resumed) = self.session.heartbeats.resumed.take() else {
            return;
        };
        let asks_for_quiet = matches!(
            reply,
            Reply::HeartbeatOk {
                directive: Some(Directive::Quiet),
                ..
            }
        );
        if resumed.is_contested && asks_for_quiet {
            self.notify(LinkNotice::QuietStays);
        }
    }
}
