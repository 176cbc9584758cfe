//! The reference for jobs that the backend does not find: when an outcome may be given up because
//! of that.

use std::collections::BTreeMap;
use std::time::Duration;

use ojs_lifecycle::api::{Call, Failure, FetchForm, HeartbeatForm, JobId, JobState, Reply};

use super::plan::ms;

/// The time that a backend grants that was not asked for one.
const UNASKED: Duration = Duration::from_secs(30);

/// Longest wait for a store.
const LONGEST: Duration = Duration::from_secs(120);

/// A job that was not found.
#[derive(Debug, Clone, Copy)]
struct Absence {
    since: Duration,
    /// The end of its reservation as it stood then.
    until: Duration,
}

/// The jobs that were not found.
#[derive(Debug, Default)]
pub struct Absences {
    reserved_until: BTreeMap<JobId, Duration>,
    absent: BTreeMap<JobId, Absence>,
    /// When the store last showed itself.
    seen: Option<Duration>,
}

impl Absences {
    /// A request was answered.
    pub fn replied(&mut self, call: &Call, reply: &Reply, now: Duration) {
        match (call, reply) {
            (Call::Fetch { visibility, form, .. }, Reply::Fetched(brought)) if !brought.is_empty() => {
                self.seen = Some(now);
                let granted = if *form == FetchForm::Full { *visibility } else { UNASKED };
                for delivery in brought {
                    let id = &delivery.subject.id;
                    self.absent.remove(id);
                    self.reserved_until.insert(id.clone(), now + granted);
                }
            }
            (
                Call::Heartbeat {
                    active,
                    visibility,
                    form,
                    ..
                },
                Reply::HeartbeatOk { extended, .. },
            ) => {
                if extended.as_ref().is_some_and(|extended| !extended.is_empty()) {
                    self.seen = Some(now);
                }
                let granted = if *form == HeartbeatForm::Protocol {
                    UNASKED
                } else {
                    *visibility
                };
                for id in active {
                    if extended.as_ref().is_none_or(|extended| extended.contains(id)) {
                        let until = self.reserved_until.entry(id.clone()).or_default();
                        *until = (*until).max(now + granted);
                    }
                }
            }
            (Call::Report { .. }, Reply::Accepted) => self.seen = Some(now),
            (Call::Report { job, .. }, Reply::Failed(Failure::NotFound)) => self.is_absent(job, now),
            (Call::GetJob { job }, Reply::JobSeen(view)) if view.state == JobState::Missing => self.is_absent(job, now),
            _ => {}
        }
    }

    fn is_absent(&mut self, id: &JobId, now: Duration) {
        let until = self.reserved_until.get(id).copied().unwrap_or_default();
        let until = until.min(now + LONGEST);
        self.absent.entry(id.clone()).or_insert(Absence { since: now, until });
    }

    /// Whether a job may be called lost although the backend has it. The backend must have answered
    /// that it is missing for as long as the reservation was to last, or once more after its store
    /// was available again. A job that a worker holds is judged by looks alone.
    pub fn excuses(&self, id: &JobId, is_held: bool, now: Duration) -> bool {
        self.absent.get(id).is_some_and(|absence| {
            let was_seen = self.seen.is_some_and(|seen| seen >= absence.since);
            is_held || now + ms(1) >= absence.until || was_seen
        })
    }
}
