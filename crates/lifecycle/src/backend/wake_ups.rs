//! When an idle worker asks for a job that a stream tells of. A stream tells all workers of a fleet
//! at the same moment, and only one of them gets the job.
//!
//! Each worker therefore waits for a time by chance before it asks, and lets go when it hears that
//! another one has the job. The longest such time is its *window*. All workers hear how soon each
//! job was taken, and learn from that one window for all. If it was sooner than *usual*, more of
//! them asked than had to, and the window gets wider. If it was later, all were too lazy, and the
//! window gets narrower. This costs no FETCH, and holds the middle of these times where it should
//! be, for ten workers and for ten thousand. The time that passes if a FETCH goes out at once is no
//! sign of lazy workers. In a fleet that all wakes at once it is long.
//!
//! A worker that asked in vain makes its window much wider, so a new fleet learns its size from a
//! few jobs.
//!
//! The worker that got the job makes its own window wider once more, so the next job is rather for
//! another one. A worker that finds every job may be alone. It then leaves one job to others for
//! longer than they would wait. If it finds that one as well, it is as quick as it can be.
//!
//! Some backends end all streams at one moment. Each worker then asks for its stream again within
//! the window, and for jobs behind that.
//!
//! Some backends do not tell when a job is taken. Another worker then counts as quicker when the
//! time by chance is above the patience, and the job is left to it. Polls find what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{Delivery, JobId, Moment};
use crate::backend::window_step::WindowStep;
use crate::retry::jitter::Jitter;

/// Narrowest window. A worker that is alone asks within this time.
const NARROWEST: Duration = Duration::from_millis(10);

/// Widest window. It is reached where a hundred thousand workers wait for the jobs of one queue.
const WIDEST: Duration = Duration::from_secs(10 * 60);

/// Widest window where streams do not tell when a job is taken. Nobody would see there that a job
/// waits for those who are all lazy.
const WIDEST_WITHOUT_TAKINGS: Duration = Duration::from_secs(5);

/// Half of the jobs wait less than this for the first FETCH, or less than the delay or the time of
/// a FETCH. That is long enough for the news of a taking to stop most of the other workers.
const USUAL: Duration = Duration::from_millis(15);

/// While nobody takes a job, the windows of all are half as wide each time this has passed.
const PATIENCE: Duration = Duration::from_millis(50);

/// The delay is the shortest time of late from a job to the news that it was taken. It rises by
/// this part with each job whose news came later.
const DELAY_RISES_BY: u32 = 32;

/// The time that a FETCH takes is the shortest of late. It rises by this part with each one that
/// takes longer.
const ANSWER_TIME_RISES_BY: u32 = 8;

/// A window becomes so many times as wide by each job that this worker found, and as narrow by each
/// patience that a job was left far too late.
const STEP: u32 = 2;

/// Most jobs of one FETCH that widen the window: a worker that found many would be too lazy for the
/// rest of a fleet that is busy.
const MOST_JOBS_OF_STEP: u32 = 4;

/// A job that nobody took for so many times the patience was left far too late.
const FAR_TOO_LATE: u32 = 2;

/// A window becomes so many times as wide by a FETCH in vain.
const STEP_IN_VAIN: u32 = 4;

/// A worker that found jobs so many times in a row, while nobody else took one, leaves the next job
/// to others for a while. If it finds that one as well it is alone.
const PROBES_AFTER: u8 = 3;

/// The job is left for so long. That is longer than the others of a small fleet wait, which have
/// seen four jobs.
const PROBE: Duration = Duration::from_millis(300);

/// And that has heard of no other worker for so long: one that is the quickest for a while must not
/// believe that it is alone, because the others would leave all jobs to it.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// Least time from a FETCH in vain to the next one that is brought forward: a stream may tell of
/// jobs that nobody gets.
const AFTER_ONE_IN_VAIN: Duration = Duration::from_millis(200);

/// A FETCH this much later than it was brought forward to is no wake-up any more.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// A stream that is slower than an answer tells of its jobs within this time. Later it tells of a
/// retry.
const SLOWER_AT_MOST: Duration = Duration::from_secs(1);

/// Most jobs whose ids are kept. Where more wait a FETCH finds one of them anyway.
const MOST_TOLD: usize = 32;

/// The jobs that streams tell of, and how soon this worker asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WakeUps {
    /// A wake-up waits for any time up to this.
    window: Duration,
    step: WindowStep,
    /// A wake-up has found a job.
    has_found: bool,
    /// How often in a row a FETCH found a job that a stream had told of. Nobody else took one in
    /// between.
    found_in_a_row: u8,
    /// Another worker took a job then.
    others_heard_at: Option<Moment>,
    /// Some stream has told that a job was taken.
    takings_are_told: bool,
    /// So long a FETCH takes at least.
    answer_time: Option<Duration>,
    /// So long it takes from a job to the news that it was taken, if a FETCH goes out at once.
    delay: Option<Duration>,
    /// Jobs that are to be had, and since when that is known. No FETCH went out since.
    told: BTreeMap<JobId, Moment>,
    /// A job without an id is to be had since then, or more jobs than are kept.
    told_without_id: Option<Moment>,
    /// These jobs were told of before the last FETCH went out, and are not known to be taken.
    asked_for: BTreeMap<JobId, Moment>,
    /// And one without an id.
    asked_without_id: Option<Moment>,
    /// A FETCH is on its way.
    is_asking: bool,
    /// Jobs that were taken while it was, by it or by others, and how late.
    taken_meanwhile: BTreeMap<JobId, Duration>,
    /// A stream has opened: jobs that came before it are to be had, and no other worker heard that.
    has_opened: bool,
    /// The last FETCH was the first one behind that.
    asked_behind_opening: bool,
    /// The answer to the last FETCH says how quick the others are.
    tells_of_others: bool,
    /// Jobs of late answers whose taking no stream has told of.
    brought: BTreeSet<JobId>,
    /// The last of these answers came then.
    brought_at: Option<Moment>,
    /// FETCH is brought forward to this moment.
    at: Option<Moment>,
    /// Until then nothing is brought forward.
    held_until: Option<Moment>,
}

impl Default for WakeUps {
    fn default() -> Self {
        Self {
            window: NARROWEST,
            step: WindowStep::default(),
            has_found: false,
            found_in_a_row: 0,
            others_heard_at: None,
            takings_are_told: false,
            answer_time: None,
            delay: None,
            told: BTreeMap::new(),
            told_without_id: None,
            asked_for: BTreeMap::new(),
            taken_meanwhile: BTreeMap::new(),
            is_asking: false,
            asked_without_id: None,
            has_opened: false,
            asked_behind_opening: false,
            tells_of_others: false,
            brought: BTreeSet::new(),
            brought_at: None,
            at: None,
            held_until: None,
        }
    }
}

/// News of streams.
impl WakeUps {
    /// A job is to be had.
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

    /// A job is taken, by another worker or by a FETCH of ours.
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

    /// Whether a job is to be had that no FETCH went out for.
    pub(super) fn is_any_told(&self) -> bool {
        !self.told.is_empty() || self.told_without_id.is_some() || self.has_opened
    }

    /// Whether a job is left of those that the last FETCH was for, as far as is known.
    pub(super) fn is_any_left(&self) -> bool {
        !self.asked_for.is_empty() || self.asked_without_id.is_some()
    }

    /// Whether the stream has told of this job, as far as that is known.
    pub(super) fn was_told(&self, job: &JobId) -> bool {
        let is_known_by_id =
            self.told.contains_key(job) || self.asked_for.contains_key(job) || self.taken_meanwhile.contains_key(job);
        is_known_by_id || self.told_without_id.is_some() || self.asked_without_id.is_some()
    }

    /// Whether the last FETCH was the first one behind the opening of a stream. The stream tells of
    /// no job of the time before.
    pub(super) fn asked_behind_opening(&self) -> bool {
        self.asked_behind_opening
    }

    /// Whether streams tell when a job is taken. Nothing is known before the first job.
    pub(super) fn may_tell_of_takings(&self) -> bool {
        self.takings_are_told || !self.has_found
    }

    /// A job that was given back would be told of: until then nothing is brought forward.
    pub(super) fn hold_until(&mut self, until: Moment) {
        self.held_until = self.held_until.max(Some(until));
    }
}

/// When FETCH goes out.
impl WakeUps {
    /// The moment to which FETCH is brought forward, if it is.
    pub(super) fn at(&self) -> Option<Moment> {
        self.at
    }

    /// FETCH is not brought forward any more.
    pub(super) fn cancel(&mut self) {
        self.at = None;
    }

    /// A job is to be had: when to ask for it. None: others are quicker, or the poll that is `due`.
    pub(super) fn bring_forward(&mut self, due: Moment, jitter: &mut Jitter, now: Moment) -> Option<Moment> {
        let patience = self.patience();
        let mut waited = Duration::ZERO;
        let mut window = if self.has_opened { NARROWEST } else { self.window };
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

    /// A FETCH for pushed jobs goes out: whether a stream brought it forward.
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

    /// A FETCH failed: its jobs are still to be had.
    pub(super) fn fetch_failed(&mut self) {
        self.is_asking = false;
        let asked_for = std::mem::take(&mut self.asked_for);
        self.told.extend(asked_for.into_iter().take(MOST_TOLD));
        self.told_without_id = self.told_without_id.or(self.asked_without_id.take());
    }

    /// A FETCH that went out at `sent_at` was answered with these jobs.
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
                self.set_window(self.window.saturating_mul(step));
            }
        } else if !self.takings_are_told {
            if late.is_some() {
                self.set_window(self.window / STEP);
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
        self.set_window(self.window * STEP.pow(jobs));
    }

    fn are_others_forgotten(&self, now: Moment) -> bool {
        let is_long_ago = |at: Moment| at.elapsed(now) >= FORGOTTEN_AFTER;
        self.others_heard_at.is_none_or(is_long_ago)
    }

    /// A job was taken this late. If this worker waited for its time to ask, so did others.
    fn learn(&mut self, late: Duration, is_waited_for: bool) {
        let delay = shortest_of_late(self.delay, late, DELAY_RISES_BY);
        self.delay = Some(delay);
        // A slow backend hands the job to a FETCH that was on its way before, and no delay shows.
        let answer_time = self.answer_time.unwrap_or_default();
        let usual = USUAL.max(delay).max(answer_time);
        let late = late.saturating_sub(delay.max(answer_time / 2));
        let is_too_soon = late < usual;
        if !is_too_soon && !is_waited_for {
            return;
        }
        let rounds = u32::try_from(late.as_nanos() / self.patience().as_nanos()).unwrap_or(u32::MAX);
        if rounds >= FAR_TOO_LATE {
            // All that time nobody asked, so the windows were wider by so much.
            return self.set_window(self.window / STEP.saturating_pow(rounds.saturating_add(1)));
        }
        let parts = self.step.next(is_too_soon);
        self.set_window(if is_too_soon {
            self.window + self.window / parts
        } else {
            self.window - self.window / (parts + 1)
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

    /// The window. It grows with the number of workers that wait for the same jobs.
    pub(super) fn window(&self) -> Duration {
        self.window
    }

    fn patience(&self) -> Duration {
        // A slow backend makes all workers late alike.
        PATIENCE.max(self.answer_time.unwrap_or_default())
    }
}

/// The shortest time of late, which rises by this part with each time that is longer.
fn shortest_of_late(shortest: Option<Duration>, time: Duration, rises_by: u32) -> Duration {
    shortest.map_or(time, |shortest| time.min(shortest + shortest / rises_by))
}

#[cfg(test)]
#[path = "wake_ups_tests.rs"]
mod tests;
