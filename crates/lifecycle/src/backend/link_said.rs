//! The requests of the link to the shell and to the other parts.

use std::collections::BTreeSet;

use crate::api::ids::{Claim, JobId};
use crate::api::{Directive, Effect, Moment, Notice};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::retry::state::Failures;

/// A request of the link to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// Do this.
    Order(Effect),
    /// Tell the log.
    Notify(Notice),
    /// An attempt to report this outcome was never sent.
    ReportNotSent(Claim),
    /// The report of this outcome goes out once more.
    ReportSentAgain(Claim),
    /// An event stream says that this job was cancelled.
    Cancelled(JobId),
    /// Retry what failed like this, at this moment. What is in flight may fail once more without a
    /// long pause, unless a retry of this kind was less than a second ago.
    RetryJobs {
        failures: Failures,
        at: Moment,
        is_soon: bool,
    },
    /// The backend accepted a heartbeat, and named the jobs whose reservations it has extended, if
    /// it names any. It has named such jobs at least once, with this answer or an earlier one
    /// (`has_sent_lists`).
    HeartbeatAccepted {
        heartbeat: SentHeartbeat,
        has_sent_lists: bool,
        extended: Option<BTreeSet<JobId>>,
    },
    /// The backend asks for this. It is new if the answer before asked for something else.
    Directed { directive: Option<Directive>, is_new: bool },
    /// The consequences of a heartbeat's answer are drawn: the link goes on from there.
    HeartbeatDone { beats_again: bool },
    /// The last heartbeat was answered in time.
    LastHeartbeatAnswered,
}
