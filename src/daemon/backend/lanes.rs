//! The way from the lifecycle's calls to the backend and back: a few named threads that wait, so that the loop does not.
//!
//! Each kind of call has threads of its own: a FETCH that hangs delays no heartbeat, and a thousand reports delay
//! neither. Every call is answered exactly once, also when there is no room, no thread, no time or a panic.

use std::fmt;
use std::sync::Arc;

use crate::daemon::backend::http::{BackendTarget, Http};
pub use crate::daemon::backend::pool::Heard;
use crate::daemon::backend::pool::{IDLE_LIMIT, LanePlan, MakeWork, Pool, STACK_BYTES, TakeAnswer, Ticket, Work};
use crate::daemon::backend::settings::{LaneError, LaneSettings};
use crate::lifecycle::api::ids::CallId;
use crate::lifecycle::api::{Call, Lane, Moment, Reply};

/// Most report threads that are wanted at once; as many again stand in for those that hang.
const MOST_REPORTERS: usize = 64;

/// Fewest reports that may wait for a thread.
const FEWEST_WAITING_REPORTS: usize = 64;

/// The lane of register, heartbeat and deregister: further threads where the first one hangs. A new worker's register, an
/// old one's deregister and a heartbeat may hang at the same time, and the last heartbeat waits for none of them.
const BEAT: LanePlan = LanePlan {
    name: "beat",
    most_threads: 4,
    kept_threads: 1,
    most_waiting: 4,
    idle_limit: IDLE_LIMIT,
    stack_bytes: STACK_BYTES,
};

/// The lane of FETCH: there is never a reason for two at once.
const FETCH: LanePlan = LanePlan {
    name: "fetch",
    most_threads: 1,
    kept_threads: 1,
    most_waiting: 1,
    idle_limit: IDLE_LIMIT,
    stack_bytes: STACK_BYTES,
};

/// The lane of progress, checkpoints and the manifest: it can wait.
const SIDE: LanePlan = LanePlan {
    name: "side",
    most_threads: 4,
    kept_threads: 0,
    most_waiting: 256,
    idle_limit: IDLE_LIMIT,
    stack_bytes: STACK_BYTES,
};

/// The threads that talk to the backend. Dropping it ends them, each after the request that it is at.
pub struct Lanes {
    beat: Pool,
    fetch: Pool,
    report: Pool,
    side: Pool,
}

impl Lanes {
    /// Lanes whose answers go to `answer`, on whatever thread, also that of [`Lanes::send`]; it must not block.
    /// No thread is started before the first call.
    ///
    /// # Errors
    /// A certificate or key that cannot be used.
    pub fn start(
        settings: LaneSettings,
        answer: impl Fn(CallId, Reply, Heard) + Send + Sync + 'static,
    ) -> Result<Self, LaneError> {
        let concurrency = usize::try_from(settings.identity.concurrency).unwrap_or(usize::MAX);
        let target = Arc::new(BackendTarget::new(settings)?);
        let make: MakeWork = Arc::new(move || -> Box<dyn Work> { Box::new(Http::new(Arc::clone(&target))) });
        let answer: TakeAnswer = Arc::new(answer);
        let pool = |plan| Pool::new(plan, Arc::clone(&make), Arc::clone(&answer));
        Ok(Self {
            beat: pool(BEAT),
            fetch: pool(FETCH),
            report: pool(reports(concurrency)),
            side: pool(SIDE),
        })
    }

    /// Sends a request, without waiting. Its answer comes at `give_up` at the latest.
    pub fn send(&mut self, id: CallId, call: Call, give_up: Moment) {
        let pool = match call.endpoint().lane() {
            Lane::Beat => &mut self.beat,
            Lane::Fetch => &mut self.fetch,
            Lane::Report => &mut self.report,
            Lane::Side => &mut self.side,
        };
        pool.send(Ticket { id, call, give_up });
        // An outcome is not to wait for a thread to be had.
        self.report.keep_one();
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

/// The lanes of ACK, FAIL, requeue and looks: each active job may have one under way and one that hangs.
fn reports(concurrency: usize) -> LanePlan {
    LanePlan {
        name: "report",
        most_threads: concurrency.clamp(1, MOST_REPORTERS) * 2,
        kept_threads: 1,
        most_waiting: concurrency.saturating_mul(2).max(FEWEST_WAITING_REPORTS),
        idle_limit: IDLE_LIMIT,
        stack_bytes: STACK_BYTES,
    }
}
