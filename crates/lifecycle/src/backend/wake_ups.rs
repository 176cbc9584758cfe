//! When an idle worker asks for a job that a stream reports. A stream reports it to all workers of
//! a fleet at the same moment, and only one of them gets the job.
//!
//! Each worker therefore waits for a random time before it asks. It does not ask if a stream
//! reports meanwhile that another worker fetched the job. The longest random time is the worker's
//! *window*. All workers learn how soon each job was fetched, and adjust their windows to one
//! common value. If a job was fetched sooner than *usual*, too many workers asked, and the window
//! widens. If it was fetched later, all workers waited too long, and the window narrows. This costs
//! no FETCH, and keeps the median of these times at its target for ten workers and for ten
//! thousand. The time that passes if a FETCH is sent at once does not count as waiting. That time
//! is long in a fleet that wakes up all at once.
//!
//! A worker whose FETCH returned no job makes its window much wider, so a new fleet learns its size
//! from a few jobs.
//!
//! The worker that got the job widens its own window once more, so another worker is more likely to
//! get the next job. A worker that finds every job may be alone. It then leaves one job to others
//! for longer than they would wait. If it finds that one as well, its window becomes the narrowest.
//!
//! Some backends end all streams at one moment. Each worker then asks for its stream again within
//! the window, and for jobs as soon as the stream is open.
//!
//! Some backends do not report when a job is fetched. A worker then leaves the job to others if its
//! random time is above the patience. Polls find the jobs that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{Delivery, JobId, Moment};
use crate::backend::window_step::WindowStep;
use crate::retry::jitter::Jitter;

/// Narrowest window. A worker that is alone asks within this time.
const NARROWEST: Duration = Duration::from_millis(10);

/// Widest window. It is reached if a hundred thousand workers wait for the jobs of one queue.
const WIDEST: Duration = Duration::from_secs(10 * 60);

/// Widest window if streams do not report when a job is fetched. Workers cannot notice there that a
/// job waits because all windows are too wide.
const WIDEST_WITHOUT_TAKINGS: Duration = Duration::from_secs(5);

/// Target: half of the jobs wait less than this for the first FETCH, or less than the delay or the
/// time of a FETCH. That is long enough for the news of the fetched job to stop most of the other
/// workers.
const USUAL: Duration = Duration::from_millis(15);

/// The target is longer by this part of the window. A backend reports to one stream after the
/// other, and the window grows with the number of streams: this part is some 1 µs for each.
const PARTS_OF_NEWS: u32 = 25_000;

/// The target is longer by this at most.
const LONGEST_NEWS: Duration = Duration::from_millis(10);

/// While no worker fetches a job, the windows of all workers halve each time this has passed.
const PATIENCE: Duration = Duration::from_millis(50);

/// The delay is the shortest recent time from a job to the news that it was fetched. It rises by
/// this part with each job whose news arrived later.
const DELAY_RISES_BY: u32 = 32;

/// The time of a FETCH is the shortest recent one. It rises by this part with each FETCH that takes
/// longer.
const ANSWER_TIME_RISES_BY: u32 = 8;

/// Each job that this worker finds multiplies the window by this factor. A job that was left
/// far too late divides it once, and once more for each patience. If streams do not report fetched
/// jobs, a FETCH with a job divides by it, and one without a job multiplies.
const STEP: u32 = 2;

/// Most jobs of one FETCH that widen the window. A worker that found more would otherwise wait too
/// long for the rest of a busy fleet.
const MOST_JOBS_OF_STEP: u32 = 4;

/// A job that no worker took for this many times the patience was left far too late.
const FAR_TOO_LATE: u32 = 2;

/// A FETCH without a job multiplies the window by this factor if streams report fetched jobs.
const STEP_IN_VAIN: u32 = 4;

/// A worker that found jobs this many times in a row, while no other worker fetched one, leaves the
/// next job to others for a while. If it finds that one as well, it is alone.
const PROBES_AFTER: u8 = 3;

/// The job is left for this long. The others of a small fleet, which have seen four jobs, wait for
/// less.
const PROBE: Duration = Duration::from_millis(300);

/// The worker must also have heard of no other worker for this long. One that is the quickest for a
/// while must not count as alone, because the others would leave all jobs to it.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// Least time from a FETCH without a job to the next one that is brought forward. A stream may
/// report jobs that no worker gets.
const AFTER_ONE_IN_VAIN: Duration = Duration::from_millis(200);

/// A FETCH this much later than it was brought forward to is no wake-up any more.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// A stream that is slower than an answer reports its jobs within this time. A later report is that
/// of a retry.
const SLOWER_AT_MOST: Duration = Duration::from_secs(1);

/// Most jobs whose ids are kept. If more wait, a FETCH finds one of them anyway.
const MOST_TOLD: usize = 32;

/// The jobs that streams report, and how soon this worker asks for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct WakeUps {
    /// Longest time that a wake-up waits, zero until it is first set; see `window()`.
    window: Duration,
    step: WindowStep,
    /// A wake-up has found a job.
    has_found: bool,
    /// How often in a row a FETCH found a job that a stream had reported, while no other worker
    /// fetched one.
    found_in_a_row: u8,
    /// When another worker last fetched a job.
    others_heard_at: Option<Moment>,
    /// Some stream has reported that a job was fetched.
    takings_are_told: bool,
    /// Shortest recent time of a FETCH.
    answer_time: Option<Duration>,
    /// Shortest recent time from a job to the news that it was fetched.
    delay: Option<Duration>,
    /// Available jobs that no FETCH has been sent for, and since when each is known.
    told: BTreeMap<JobId, Moment>,
    /// Since when a job without an id is available, or more jobs than are kept.
    told_without_id: Option<Moment>,
    /// Jobs that were reported before the last FETCH was sent, and that are not known to be
    /// fetched.
    asked_for: BTreeMap<JobId, Moment>,
    /// The report of such a job without an id.
    asked_without_id: Option<Moment>,
    /// A FETCH is in flight.
    is_asking: bool,
    /// Jobs that were fetched while the FETCH was in flight, by this worker or another, and how
    /// late.
    taken_meanwhile: BTreeMap<JobId, Duration>,
    /// A stream has opened. It reports no job that became available before, and other workers do
    /// not know that one may wait.
    has_opened: bool,
    /// The last FETCH was the first one after a stream had opened.
    pub(super) asked_behind_opening: bool,
    /// The answer to the last FETCH says how quick the others are.
    tells_of_others: bool,
    /// Jobs of recent answers that no stream has reported as fetched.
    brought: BTreeSet<JobId>,
    /// When the last of these answers arrived.
    brought_at: Option<Moment>,
    /// FETCH is brought forward to this moment.
    pub(super) at: Option<Moment>,
    /// FETCH is not brought forward to a moment before this one.
    held_until: Option<Moment>,
}

/// Events of streams.
impl WakeUps {
    /// A job is available.
    pub(super) fn told(&mut self, job: Option<JobId>, now: Moment) {
        match job.filter(|_| self.told.len() < MOST_TOLD) {
            Some(job) if self.takings_are_told && self.has_brought(&job, now) => {}
            Some(job) => {
                self.told.entry(job).or_insert(now);
            }
            None => self.told_without_id = self.told_without_id.or(Some(now)),
        }
    }

    fn has_brought(&self, job: &JobId, now: Moment) -> bool {
        let is_late = |at: Moment| at.elapsed(now) >= SLOWER_AT_MOST;
        self.brought.contains(job) && !self.brought_at.is_none_or(is_late)
    }

    /// A stream has opened. It tells of no job that became available before.
    pub(super) fn opened(&mut self) {
        self.has_opened = true;
    }

    /// A job was fetched, by another worker or by a FETCH of this one.
    pub(super) fn taken(&mut self, job: &JobId, now: Moment) {
        self.takings_are_told = true;
        self.brought.remove(job);
        let is_waited_for = self.at.is_some_and(|at| at > now);
        let told = self.told.remove(job);
        let Some(since) = self.asked_for.remove(job).or(told) else {
            return;
        };
        if self.is_asking {
            self.taken_meanwhile.insert(job.clone(), since.elapsed(now));
        } else {
            self.others_took(since.elapsed(now), is_waited_for, now);
        }
    }

    fn others_took(&mut self, late: Duration, is_waited_for: bool, now: Moment) {
        self.found_in_a_row = 0;
        self.others_heard_at = Some(now);
        self.learn(late, is_waited_for);
    }

    /// Whether a job is available that no FETCH was sent for.
    pub(super) fn is_any_told(&self) -> bool {
        !self.told.is_empty() || self.told_without_id.is_some() || self.has_opened
    }

    /// Whether a job of those that the last FETCH asked for is left, as far as is known.
    pub(super) fn is_any_left(&self) -> bool {
        !self.asked_for.is_empty() || self.asked_without_id.is_some()
    }

    /// Whether a stream has reported this job, as far as is known.
    pub(super) fn was_told(&self, job: &JobId) -> bool {
        let is_known_by_id =
            self.told.contains_key(job) || self.asked_for.contains_key(job) || self.taken_meanwhile.contains_key(job);
        is_known_by_id || self.told_without_id.is_some() || self.asked_without_id.is_some()
    }

    /// Whether streams tell when a job is taken. Nothing is known before the first job.
    pub(super) fn may_tell_of_takings(&self) -> bool {
        self.takings_are_told || !self.has_found
    }

    /// Brings FETCH forward to no moment before `until`, because streams would report a returned
    /// job.
    pub(super) fn hold_until(&mut self, until: Moment) {
        self.held_until = self.held_until.max(Some(until));
    }
}

/// When FETCH is sent.
impl WakeUps {
    /// Undoes the wake-up.
    pub(super) fn cancel(&mut self) {
        self.at = None;
    }

    /// A job is available. Returns when to ask for it. None: other workers are quicker, or the poll
    /// at `due` is.
    pub(super) fn bring_forward(&mut self, due: Moment, jitter: &mut Jitter, now: Moment) -> Option<Moment> {
        let patience = self.patience();
        let mut waited = Duration::ZERO;
        let mut window = if self.has_opened { NARROWEST } else { self.window() };
        let mut chance = jitter.up_to(window);
        // Nobody took the job within the patience: all others are as lazy, so it goes on with half
        // of the window. A window is at most `WIDEST`, which ends this after 14 rounds.
        while chance > patience && self.takings_are_told {
            waited += patience;
            window /= STEP;
            chance = jitter.up_to(window);
        }
        let is_left_to_others = chance > patience;
        if self.found_in_a_row == PROBES_AFTER && self.takings_are_told && self.are_others_forgotten(now) {
            (waited, chance) = (PROBE, Duration::ZERO);
        }
        let at = now.after(waited + chance);
        let at = at.max(self.held_until.unwrap_or(at));
        self.at = Some(at).filter(|at| !is_left_to_others && *at < due);
        self.at
    }

    /// A FETCH for pushed jobs is sent. Returns whether a stream brought it forward.
    pub(super) fn fetch_goes_out(&mut self, now: Moment) -> bool {
        let is_woken = self
            .at
            .take()
            .is_some_and(|at| at <= now && at.elapsed(now) < STALE_AFTER);
        self.asked_for = std::mem::take(&mut self.told);
        self.taken_meanwhile.clear();
        self.is_asking = true;
        self.asked_without_id = self.told_without_id.take();
        self.asked_behind_opening = std::mem::take(&mut self.has_opened);
        self.tells_of_others = is_woken && !self.asked_behind_opening;
        is_woken
    }

    /// A FETCH failed. The jobs that it asked for count as available again.
    pub(super) fn fetch_failed(&mut self) {
        self.is_asking = false;
        let asked_for = std::mem::take(&mut self.asked_for);
        self.told.extend(asked_for.into_iter().take(MOST_TOLD));
        self.told_without_id = self.told_without_id.or(self.asked_without_id.take());
    }

    /// A FETCH that was sent at `sent_at` was answered with these jobs.
    pub(super) fn answered(&mut self, sent_at: Moment, is_woken: bool, jobs: &[Delivery], now: Moment) {
        let took = sent_at.elapsed(now);
        self.answer_time = Some(shortest_of_late(self.answer_time, took, ANSWER_TIME_RISES_BY));
        self.is_asking = false;
        let since = self.asked_for.values().copied().chain(self.asked_without_id).min();
        let mut late = since.map(|since| since.elapsed(now));
        self.keep_brought(jobs, now);
        for job in jobs {
            self.told.remove(&job.subject.id);
            self.asked_for.remove(&job.subject.id);
            late = self.taken_meanwhile.remove(&job.subject.id).max(late);
        }
        for late in std::mem::take(&mut self.taken_meanwhile).into_values() {
            self.others_took(late, false, now);
        }
        let tells_of_others = std::mem::take(&mut self.tells_of_others);
        self.has_found |= tells_of_others && !jobs.is_empty();
        if jobs.is_empty() {
            if is_woken {
                self.hold_until(now.after(AFTER_ONE_IN_VAIN));
            }
            if tells_of_others {
                let step = if self.takings_are_told { STEP_IN_VAIN } else { STEP };
                self.set_window(self.window().saturating_mul(step));
            }
        } else if !self.takings_are_told {
            if late.is_some() {
                self.set_window(self.window() / STEP);
            }
        } else if tells_of_others {
            self.found(jobs.len(), late, now);
        }
    }

    /// Keeps the ids of these jobs for the time in which a stream may still tell of them.
    fn keep_brought(&mut self, jobs: &[Delivery], now: Moment) {
        if jobs.is_empty() {
            return;
        }
        if self.brought_at.is_none_or(|at| at.elapsed(now) >= SLOWER_AT_MOST) {
            self.brought.clear();
        }
        let room = MOST_TOLD.saturating_sub(self.brought.len());
        let ids = jobs.iter().map(|job| &job.subject.id);
        let untold = ids.filter(|id| !self.taken_meanwhile.contains_key(*id));
        self.brought.extend(untold.take(room).cloned());
        self.brought_at = Some(now);
    }

    fn found(&mut self, jobs: usize, late: Option<Duration>, now: Moment) {
        self.found_in_a_row = self.found_in_a_row.saturating_add(1);
        if self.found_in_a_row > PROBES_AFTER && self.are_others_forgotten(now) {
            return self.set_window(NARROWEST);
        }
        if let Some(late) = late {
            self.learn(late, true);
        }
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX).min(MOST_JOBS_OF_STEP);
        self.set_window(self.window() * STEP.pow(jobs));
    }

    fn are_others_forgotten(&self, now: Moment) -> bool {
        let is_long_ago = |at: Moment| at.elapsed(now) >= FORGOTTEN_AFTER;
        self.others_heard_at.is_none_or(is_long_ago)
    }

    /// A job was fetched this late. If this worker waited for its time to ask, so did the others.
    fn learn(&mut self, late: Duration, is_waited_for: bool) {
        let delay = shortest_of_late(self.delay, late, DELAY_RISES_BY);
        self.delay = Some(delay);
        // A slow backend hands the job to a FETCH that was in flight before, so the delay is near
        // zero.
        let answer_time = self.answer_time.unwrap_or_default();
        let news = (self.window() / PARTS_OF_NEWS).min(LONGEST_NEWS);
        let usual = USUAL.max(delay).max(answer_time) + news;
        let late = late.saturating_sub(delay.max(answer_time / 2));
        let is_too_soon = late < usual;
        if !is_too_soon && !is_waited_for {
            return;
        }
        let rounds = u32::try_from(late.as_nanos() / self.patience().as_nanos()).unwrap_or(u32::MAX);
        if rounds >= FAR_TOO_LATE {
            // No worker asked in all that time, so the windows were too wide by this factor.
            return self.set_window(self.window() / STEP.saturating_pow(rounds.saturating_add(1)));
        }
        let parts = self.step.next(is_too_soon);
        self.set_window(if is_too_soon {
            self.window() + self.window() / parts
        } else {
            self.window() - self.window() / (parts + 1)
        });
    }

    fn set_window(&mut self, window: Duration) {
        let widest = if self.takings_are_told {
            WIDEST
        } else {
            WIDEST_WITHOUT_TAKINGS
        };
        self.window = window.clamp(NARROWEST, widest);
    }

    /// The window. It grows with the number of workers that wait for jobs of one queue.
    pub(super) fn window(&self) -> Duration {
        self.window.max(NARROWEST)
    }

    fn patience(&self) -> Duration {
        // A slow backend delays all workers equally.
        PATIENCE.max(self.answer_time.unwrap_or_default())
    }
}

/// The shortest recent time, which rises by this part with each longer time.
fn shortest_of_late(shortest: Option<Duration>, time: Duration, rises_by: u32) -> Duration {
    shortest.map_or(time, |shortest| time.min(shortest + shortest / rises_by))
}

#[cfg(test)]
#[path = "wake_ups_tests.rs"]
mod tests;
