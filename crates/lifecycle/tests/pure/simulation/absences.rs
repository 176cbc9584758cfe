//! The reference for jobs that the backend does not find: when an outcome may be given up because
//! of that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ojs_lifecycle::api::{Call, Failure, FetchForm, HeartbeatForm, JobId, JobState, Reply};

use super::plan::ms;

/// The time that a backend grants that was not asked for one.
const UNASKED: Duration = Duration::from_secs(30);

/// A worker whose heartbeats end for so long is dead for the backend.
const TAKEN_FOR_DEAD: Duration = Duration::from_secs(30);

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
    /// When the newest delivery of each job arrived.
    came_at: BTreeMap<JobId, Duration>,
    /// When the last heartbeat was sent that the backend has accepted.
    beaten_at: Option<Duration>,
    absent: BTreeMap<JobId, Absence>,
    /// When the store last showed itself.
    seen: Option<Duration>,
    /// A heartbeat did not extend these jobs, or came after the end of their reservations.
    lapsed: BTreeSet<JobId>,
    /// The backend has sent a list of extended jobs.
    has_sent_lists: bool,
}

impl Absences {
    /// A request of this time was answered.
    pub fn replied(&mut self, call: &Call, sent: Duration, reply: &Reply, now: Duration) {
        match (call, reply) {
            (Call::Fetch { visibility, form, .. }, Reply::Fetched(brought)) if !brought.is_empty() => {
                self.seen = Some(now);
                let granted = if *form == FetchForm::Full { *visibility } else { UNASKED };
                for delivery in brought {
                    let id = &delivery.subject.id;
                    self.absent.remove(id);
                    self.lapsed.remove(id);
                    self.came_at.insert(id.clone(), now);
                    // The answer may have waited.
                    self.reserved_until.insert(id.clone(), sent + granted);
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
                self.has_sent_lists |= extended.is_some();
                let is_late = self.is_taken_for_dead(sent);
                self.beaten_at = Some(sent);
                let is_there = |id: &&JobId| self.came_at.get(id).is_some_and(|came| *came <= sent);
                let active: Vec<&JobId> = active.iter().filter(is_there).collect();
                for id in active {
                    let is_listed = extended.as_ref().map(|extended| extended.contains(id));
                    if is_late || self.is_over(id, sent) || !is_listed.unwrap_or(!self.has_sent_lists) {
                        self.lapsed.insert(id.clone());
                    }
                    if extended.as_ref().is_none_or(|extended| extended.contains(id)) {
                        self.reserved_until.insert(id.clone(), sent + granted);
                    }
                }
            }
            // The next backend may never send lists.
            (Call::Register { .. }, Reply::Registered { .. }) => self.has_sent_lists = false,
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

    fn is_over(&self, id: &JobId, now: Duration) -> bool {
        self.reserved_until.get(id).is_none_or(|until| *until <= now)
    }

    fn is_taken_for_dead(&self, now: Duration) -> bool {
        self.beaten_at
            .is_some_and(|beaten| now.saturating_sub(beaten) >= TAKEN_FOR_DEAD)
    }

    /// Whether another worker may have the job.
    pub fn may_be_elsewhere(&self, id: &JobId, now: Duration) -> bool {
        self.is_over(id, now) || self.lapsed.contains(id) || self.is_taken_for_dead(now)
    }

    /// A look showed the job as this worker's.
    pub fn is_seen(&mut self, id: &JobId) {
        self.lapsed.remove(id);
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
