//! The requests of the link to the shell and to the other parts.

use std::collections::BTreeSet;

use crate::api::ids::{Claim, JobId};
use crate::api::{Directive, Effect, Moment, Notice};
use crate::backend::heartbeat_state::SentHeartbeat;
use crate::retry::state::Failures;

/// A request of the link to the shell or to another part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    /// An order for the shell.
    Order(Effect),
    /// Write to the log.
    Notify(Notice),
    /// An attempt to report this outcome was never sent.
    ReportNotSent(Claim),
    /// The report of this outcome is sent again.
    ReportSentAgain(Claim),
    /// An event stream reports that this job was cancelled.
    Cancelled(JobId),
    /// Retry the requests with this failure at this moment. Requests in flight may fail once more
    /// without a long pause, unless a retry of this kind was less than a second ago.
    RetryJobs {
        failures: Failures,
        at: Moment,
        is_soon: bool,
    },
    /// The backend accepted a heartbeat. `extended` has the jobs whose reservations it extended, if
    /// its answer has such a list.
    HeartbeatAccepted {
        heartbeat: SentHeartbeat,
        extended: Option<BTreeSet<JobId>>,
    },
    /// A registration was answered. The backend may be another one than before.
    RegistrationAnswered,
    /// The directive in the backend's reply. It is new if the reply before had another one.
    Directed { directive: Option<Directive>, is_new: bool },
    /// The answer to a heartbeat is handled: the link continues.
    HeartbeatDone { beats_again: bool },
    /// The last heartbeat was answered in time.
    LastHeartbeatAnswered,
}
