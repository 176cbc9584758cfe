//! When an idle worker asks for a job that a stream tells of. A stream tells all workers of a fleet
//! at the same moment, and only one of them gets the job.
//!
//! Each worker therefore waits for a time by chance before it asks, and lets go when it hears that
//! another one has the job. The longest such time is its *window*. A FETCH in vain makes the window
//! of that worker wider. A job that nobody takes within the *patience* makes the windows of all
//! narrower, because all of them see it. So the eager pay for their eagerness and the lazy gain
//! from it, which keeps the shares of the workers alike (the principle of AIMD, RFC 5681). A worker
//! that finds jobs and sees nobody else take one is alone, and becomes as quick as it can be.
//!
//! Some backends do not tell when a job is taken. Another worker then counts as quicker when the
//! time by chance is above the patience, and the job is left to it. Polls find what is left.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{Delivery, JobId, Moment};
use crate::retry::jitter::Jitter;

/// Narrowest window. A worker that is alone asks within this time.
const NARROWEST: Duration = Duration::from_millis(10);

/// Widest window. It is reached where a hundred thousand workers wait for the jobs of one queue.
const WIDEST: Duration = Duration::from_secs(10 * 60);

/// Widest window where streams do not tell when a job is taken. Nobody would see there that a job
/// waits for those who are all lazy.
const WIDEST_WITHOUT_TAKINGS: Duration = Duration::from_secs(5);

/// A worker of a fleet takes a job within this time of hearing of it, as everybody else expects.
const PATIENCE: Duration = Duration::from_millis(100);

/// The patience is at least so many times what the last FETCH took: a slow backend makes all
/// workers late alike.
const PATIENCE_IN_FETCHES: u32 = 4;

/// A FETCH in vain makes the window so many times as wide.
const WIDER: u32 = 2;

/// And so many times until the first wake-up has found a job, because nothing is known yet of the
/// others.
const WIDER_AT_FIRST: u32 = 4;

/// A worker is alone that found jobs so many times in a row while nobody else took one.
const ALONE_AFTER: u8 = 3;

/// Least time from a FETCH in vain to the next one that is brought forward: a stream may tell of
/// jobs that nobody gets.
const AFTER_ONE_IN_VAIN: Duration = Duration::from_millis(200);

/// A FETCH this much later than it was brought forward to is no wake-up any more.
const STALE_AFTER: Duration = Duration::from_secs(1);

/// Most jobs whose ids are kept. Where more wait a FETCH finds one of them anyway.
const MOST_TOLD: usize = 32;

/// The jobs that streams tell of, and how soon this worker asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WakeUps {
    /// A wake-up waits for any time up to this.
    window: Duration,
    /// A wake-up has found a job.
    has_found: bool,
    /// How often in a row a FETCH found a job that a stream had told of. Nobody else took one in
    /// between.
    found_in_a_row: u8,
    /// Some stream has told that a job was taken.
    takings_are_told: bool,
    /// The last FETCH that was answered took so long.
    answer_time: Duration,
    /// Jobs that are to be had, and since when that is known. No FETCH went out since.
    told: BTreeMap<JobId, Moment>,
    /// A job without an id is to be had since then, or more jobs than are kept.
    told_without_id: Option<Moment>,
    /// These jobs were told of before the last FETCH went out, and are not known to be taken.
    asked_for: BTreeMap<JobId, Moment>,
    /// And one without an id.
    asked_without_id: Option<Moment>,
    /// A stream has opened: jobs that came before it are to be had, and no other worker heard that.
    has_opened: bool,
    /// The answer to the last FETCH says how quick the others are.
    tells_of_others: bool,
    /// FETCH is brought forward to this moment.
    at: Option<Moment>,
    /// Until then nothing is brought forward.
    held_until: Option<Moment>,
}

impl Default for WakeUps {
    fn default() -> Self {
        Self {
            window: NARROWEST,
            has_found: false,
            found_in_a_row: 0,
            takings_are_told: false,
            answer_time: Duration::ZERO,
            told: BTreeMap::new(),
            told_without_id: None,
            asked_for: BTreeMap::new(),
            asked_without_id: None,
            has_opened: false,
            tells_of_others: false,
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
            Some(job) => {
                self.told.entry(job).or_insert(now);
            }
            None => self.told_without_id = self.told_without_id.or(Some(now)),
        }
    }

    /// A stream has opened. It tells of no job that became available before.
    pub(super) fn opened(&mut self) {
        self.has_opened = true;
    }

    /// A job is taken. If no FETCH of ours went out for it, there are other workers.
    pub(super) fn taken(&mut self, job: &JobId, now: Moment) {
        self.takings_are_told = true;
        self.asked_for.remove(job);
        if let Some(since) = self.told.remove(job) {
            self.found_in_a_row = 0;
            if self.at.is_some_and(|at| at > now) {
                self.nobody_was_quick(since, now);
            }
        }
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
        let is_known_by_id = self.told.contains_key(job) || self.asked_for.contains_key(job);
        is_known_by_id || self.told_without_id.is_some() || self.asked_without_id.is_some()
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
        // of the window. A window is at most `WIDEST`, which ends this after 13 rounds.
        while chance > patience && self.takings_are_told {
            waited += patience;
            window /= 2;
            chance = jitter.up_to(window);
        }
        let is_left_to_others = chance > patience;
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
        self.asked_without_id = self.told_without_id.take();
        let is_about_the_past = std::mem::take(&mut self.has_opened);
        self.tells_of_others = is_woken && !is_about_the_past;
        is_woken
    }

    /// A FETCH failed: its jobs are still to be had.
    pub(super) fn fetch_failed(&mut self) {
        let asked_for = std::mem::take(&mut self.asked_for);
        self.told.extend(asked_for.into_iter().take(MOST_TOLD));
        self.told_without_id = self.told_without_id.or(self.asked_without_id.take());
    }

    /// A FETCH that went out at `sent_at` was answered with these jobs.
    pub(super) fn answered(&mut self, sent_at: Moment, is_woken: bool, jobs: &[Delivery], now: Moment) {
        self.answer_time = sent_at.elapsed(now);
        let since = self.asked_for.values().copied().chain(self.asked_without_id).min();
        for job in jobs {
            self.told.remove(&job.subject.id);
            self.asked_for.remove(&job.subject.id);
        }
        let tells_of_others = std::mem::take(&mut self.tells_of_others);
        if jobs.is_empty() {
            if tells_of_others {
                self.found_in_a_row = 0;
                self.set_window(self.window * if self.has_found { WIDER } else { WIDER_AT_FIRST });
            }
            if is_woken {
                self.hold_until(now.after(AFTER_ONE_IN_VAIN));
            }
            return;
        }
        if since.is_some() && !self.takings_are_told {
            self.set_window(self.window / 2);
        }
        if tells_of_others {
            self.has_found = true;
            self.found_in_a_row = ALONE_AFTER.min(self.found_in_a_row + 1);
            if let Some(since) = since.filter(|_| self.takings_are_told) {
                self.nobody_was_quick(since, sent_at);
            }
            if self.found_in_a_row == ALONE_AFTER {
                self.set_window(self.window / 2);
            }
        }
    }

    /// A job was to be had since then and nobody has taken it before now.
    fn nobody_was_quick(&mut self, since: Moment, now: Moment) {
        let mut late = since.elapsed(now);
        let patience = self.patience();
        while late >= patience && self.window > NARROWEST {
            late -= patience;
            self.set_window(self.window / 2);
        }
    }

    fn set_window(&mut self, window: Duration) {
        let widest = if self.takings_are_told {
            WIDEST
        } else {
            WIDEST_WITHOUT_TAKINGS
        };
        self.window = window.clamp(NARROWEST, widest);
    }

    fn patience(&self) -> Duration {
        PATIENCE.max(self.answer_time * PATIENCE_IN_FETCHES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Reservation, Subject};

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    fn job(id: &str) -> JobId {
        JobId(id.into())
    }

    fn delivery(id: &str) -> Delivery {
        Delivery {
            has_crashed: false,
            subject: Subject {
                id: job(id),
                kind: "mail".into(),
                queue: "default".into(),
                attempt: None,
                max_attempts: None,
                trace: None,
            }
            .into(),
            envelope: "{}".into(),
            checkpoint: None,
            timeout: None,
            reservation: Reservation::default(),
            visibility: None,
            waited: None,
        }
    }

    /// A FETCH that a stream brought forward to this moment is answered at once.
    fn woken(wake_ups: &mut WakeUps, millis: u64, jobs: &[Delivery]) {
        wake_ups.at = Some(at(millis));
        assert!(wake_ups.fetch_goes_out(at(millis)));
        wake_ups.answered(at(millis), true, jobs, at(millis));
    }

    /// After a job was told of at the start of each second, and taken by another worker in time.
    fn in_a_fleet() -> WakeUps {
        let mut wake_ups = WakeUps::default();
        for second in 0..10 {
            wake_ups.told(Some(job("a")), at(second * 1_000));
            woken(&mut wake_ups, second * 1_000 + 10, &[]);
            wake_ups.taken(&job("a"), at(second * 1_000 + 20));
        }
        wake_ups
    }

    #[test]
    fn fetches_in_vain_make_the_window_wider_and_jobs_that_nobody_takes_narrower() {
        let mut wake_ups = in_a_fleet();
        assert_eq!(wake_ups.window, WIDEST);
        wake_ups.told(Some(job("b")), at(20_000));
        wake_ups.at = Some(at(30_000));
        wake_ups.taken(&job("b"), at(20_000).after(PATIENCE * 2));
        assert_eq!(wake_ups.window, WIDEST / 4);
    }

    #[test]
    fn a_worker_that_finds_every_job_alone_becomes_as_quick_as_can_be() {
        let mut wake_ups = in_a_fleet();
        for second in 20..60 {
            wake_ups.told(Some(job("b")), at(second * 1_000));
            woken(&mut wake_ups, second * 1_000 + 10, &[delivery("b")]);
        }
        assert_eq!(wake_ups.window, NARROWEST);
    }

    #[test]
    fn a_stream_that_opens_again_and_again_teaches_nothing_of_others() {
        let mut wake_ups = WakeUps::default();
        for second in 0..100 {
            wake_ups.opened();
            assert!(wake_ups.is_any_told());
            woken(&mut wake_ups, second * 1_000, &[]);
        }
        assert_eq!(wake_ups.window, NARROWEST);
    }

    #[test]
    fn a_fetch_that_no_stream_brought_forward_teaches_nothing_of_others() {
        let before = in_a_fleet();
        let mut wake_ups = before.clone();
        wake_ups.told(Some(job("b")), at(20_000));
        assert!(!wake_ups.fetch_goes_out(at(90_000)));
        wake_ups.answered(at(90_000), false, &[delivery("b")], at(90_000));
        assert_eq!(wake_ups.window, before.window);
    }

    #[test]
    fn jobs_that_were_told_of_and_neither_came_nor_were_taken_are_left() {
        let mut wake_ups = WakeUps::default();
        for id in ["a", "b", "c"] {
            wake_ups.told(Some(job(id)), at(0));
        }
        woken(&mut wake_ups, 10, &[delivery("a")]);
        assert!(wake_ups.is_any_left());
        wake_ups.taken(&job("b"), at(20));
        assert!(wake_ups.is_any_left());
        wake_ups.taken(&job("c"), at(30));
        assert!(!wake_ups.is_any_left());
    }

    #[test]
    fn a_fetch_that_fails_leaves_its_jobs_to_the_next_one() {
        let mut wake_ups = WakeUps::default();
        wake_ups.told(Some(job("a")), at(0));
        assert!(!wake_ups.fetch_goes_out(at(10)));
        assert!(!wake_ups.is_any_told());
        wake_ups.fetch_failed();
        assert!(wake_ups.is_any_told() && wake_ups.was_told(&job("a")));
    }

    #[test]
    fn more_jobs_than_are_kept_are_told_of_without_their_ids() {
        let mut wake_ups = WakeUps::default();
        for number in 0..MOST_TOLD * 2 {
            wake_ups.told(Some(job(&number.to_string())), at(0));
        }
        assert_eq!(wake_ups.told.len(), MOST_TOLD);
        assert!(wake_ups.was_told(&job("none of them")));
    }

    #[test]
    fn where_takings_are_told_a_job_that_nobody_takes_is_asked_for_within_two_seconds() {
        let mut jitter = Jitter::new(7);
        for _ in 0..1_000 {
            let mut wake_ups = in_a_fleet();
            let asks = wake_ups.bring_forward(at(600_000), &mut jitter, at(30_000));
            assert!(asks.is_some_and(|asks| asks <= at(32_000)), "{asks:?}");
        }
    }
}
