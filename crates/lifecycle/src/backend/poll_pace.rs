//! How often an idle worker polls for jobs that no stream reports.
//!
//! Without streams the pause is `worker.poll_interval`. With trusted streams it doubles up to
//! `worker.poll_interval_max`. Streams are trusted while every queue has an open one and no poll
//! has found a job that its stream had not reported. Most backends send no event when a retry or a
//! scheduled job becomes due.

use std::time::Duration;

use crate::api::{JobId, Moment};

/// After a job that no stream reported, or whose due time the backend will not report, the worker
/// polls for this long as without streams.
const DISTRUST_FOR: Duration = Duration::from_secs(10 * 60);

/// A stream may report a job this much later than a poll finds it.
const WORD_COMES_WITHIN: Duration = Duration::from_secs(2);

/// While other workers fetch the jobs that streams report, a poll is put off to at most this many
/// times its pause. That is safe because a worker that fetches a job asks for all jobs there are.
const PUT_OFF_AT_MOST: u32 = 6;

/// Alternatively a poll is put off to at most this many times the window of a wake-up. The window
/// grows with the number of workers, so a large fleet polls as often in total as a small one.
const PUT_OFF_IN_WINDOWS: u32 = 20;

/// A poll is put off by this long at most.
const LONGEST_PUT_OFF: Duration = Duration::from_secs(60 * 60);

/// The pause between two polls, and its conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct PollPace {
    /// The longest next pause while streams are trusted.
    longest: Duration,
    /// Streams are trusted only from this moment on.
    trusted_from: Option<Moment>,
    /// The job that a poll found at this moment and that no stream has reported yet.
    without_a_word: Option<(JobId, Moment)>,
    /// The backend reports when a scheduled job or a retry becomes due.
    due_jobs_are_told: bool,
    /// The present pause.
    pause: Option<Pause>,
    /// The last FETCH sent right behind one that returned fewer jobs than it asked for returned
    /// none.
    is_short_all: bool,
    /// The last FETCH returned some jobs, but fewer than it asked for.
    was_short: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pause {
    since: Moment,
    long: Duration,
    ends: Moment,
}

impl PollPace {
    /// The longest time until the next poll. That is `least` without streams, and up to `most` if
    /// every queue has an open stream (`are_streams_open`).
    pub(super) fn longest_pause(
        &mut self,
        least: Duration,
        most: Duration,
        are_streams_open: bool,
        now: Moment,
    ) -> Duration {
        self.judge_silence(now);
        let are_trusted = self.are_streams_trusted(now);
        if !are_trusted {
            self.begins_again();
        }
        if !are_trusted || !are_streams_open {
            return least;
        }
        let longest = self.longest.max(least);
        self.longest = (longest * 2).min(most.max(least));
        longest
    }

    /// Whether polls have lately found no job that the streams had not reported.
    pub(super) fn are_streams_trusted(&self, now: Moment) -> bool {
        self.trusted_from.is_none_or(|from| from <= now)
    }

    pub(super) fn pause_begins(&mut self, long: Duration, now: Moment) {
        let ends = now.after(long);
        self.pause = Some(Pause { since: now, long, ends });
    }

    pub(super) fn pause_ends(&self) -> Option<Moment> {
        self.pause.map(|pause| pause.ends)
    }

    /// Other workers have fetched a job of each queue at this time or later. Their FETCHes asked
    /// for all jobs there are, so the pause restarts from that time.
    pub(super) fn others_looked(&mut self, at: Moment, window: Duration) {
        if let Some(pause) = &mut self.pause {
            let most = (pause.long * PUT_OFF_AT_MOST).max(window * PUT_OFF_IN_WINDOWS);
            let latest = pause.since.after(most.min(LONGEST_PUT_OFF));
            pause.ends = pause.ends.max(at.after(pause.long).min(latest));
        }
    }

    /// Ends the present pause at this moment, or sooner.
    pub(super) fn ends_at_latest(&mut self, latest: Moment) {
        if let Some(pause) = &mut self.pause {
            pause.ends = pause.ends.min(latest);
            pause.long = pause.long.min(pause.since.elapsed(latest));
        }
    }

    /// A job may be left, so the next poll happens at this moment, or sooner. The pause continues
    /// once the job is fetched.
    pub(super) fn looks_again_at(&mut self, latest: Moment) {
        if let Some(pause) = &mut self.pause {
            pause.ends = pause.ends.min(latest);
        }
    }

    /// No job is left that calls for an earlier poll.
    pub(super) fn goes_on(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.ends = pause.ends.max(pause.since.after(pause.long));
        }
    }

    /// A stream was closed for longer than a moment, or is new: the longest pause grows from the
    /// start again.
    pub(super) fn begins_again(&mut self) {
        self.longest = Duration::ZERO;
    }

    /// A poll found a job that no stream has reported yet.
    pub(super) fn found_untold(&mut self, job: JobId, now: Moment) {
        self.without_a_word.get_or_insert((job, now));
        self.begins_again();
    }

    /// A stream reports that a job is available. `came_due`: it was scheduled or waited for its
    /// retry.
    pub(super) fn told(&mut self, job: Option<&JobId>, came_due: bool) {
        self.due_jobs_are_told |= came_due;
        let is_it = |(untold, _): &(JobId, Moment)| job.is_none_or(|job| job == untold);
        if self.without_a_word.as_ref().is_some_and(is_it) {
            self.without_a_word = None;
        }
    }

    /// A stream reports that a job is scheduled or waits for its retry. Returns whether the worker
    /// has to poll for it.
    pub(super) fn job_comes_later(&mut self, now: Moment) -> bool {
        if !self.due_jobs_are_told {
            self.distrust(now);
        }
        !self.due_jobs_are_told
    }

    /// A FETCH failed, so the next one is no poll.
    pub(super) fn fetch_failed(&mut self) {
        self.pause = None;
    }

    /// Forgets the backend, because the next one may differ.
    pub(super) fn forget_backend(&mut self) {
        *self = Self::default();
    }

    fn judge_silence(&mut self, now: Moment) {
        let is_late = |(_, found): &(JobId, Moment)| found.elapsed(now) >= WORD_COMES_WITHIN;
        if self.without_a_word.as_ref().is_some_and(is_late) {
            self.without_a_word = None;
            self.distrust(now);
        }
    }

    fn distrust(&mut self, now: Moment) {
        self.trusted_from = Some(now.after(DISTRUST_FOR));
        self.is_short_all = false;
    }
}

/// Answers with fewer jobs than the FETCH asked for.
impl PollPace {
    /// A FETCH for `count` jobs returned `brought`. `is_any_left`: streams reported jobs that are
    /// still left.
    pub(super) fn brought(&mut self, brought: usize, count: usize, is_any_left: bool) {
        let is_behind_short = std::mem::replace(&mut self.was_short, (1..count).contains(&brought));
        if is_behind_short && self.pause.is_none() {
            self.is_short_all = brought == 0;
        }
        if self.was_short && is_any_left {
            self.is_short_all = false;
        }
        self.pause = None;
    }

    /// Whether the last FETCH probably returned every available job. It returned fewer jobs than it
    /// asked for, and the last FETCH right behind such an answer found none.
    pub(super) fn has_brought_all(&self) -> bool {
        self.was_short && self.is_short_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn job(id: &str) -> JobId {
        JobId(id.into())
    }

    fn pauses(pace: &mut PollPace, now: Moment) -> [u64; 5] {
        let most = Duration::from_secs(10);
        [(); 5].map(|()| pace.longest_pause(NORMAL, most, true, now).as_secs())
    }

    #[test]
    fn the_pause_doubles_while_each_queue_is_heard() {
        let mut pace = PollPace::default();
        assert_eq!(pauses(&mut pace, at(0)), [1, 2, 4, 8, 10]);
        assert_eq!(pace.longest_pause(NORMAL, NORMAL * 10, false, at(0)), NORMAL);
        assert_eq!(pace.longest_pause(NORMAL * 20, NORMAL * 10, true, at(0)), NORMAL * 20);
    }

    #[test]
    fn a_job_without_a_word_brings_the_pace_of_polls_alone_for_ten_minutes() {
        let mut pace = PollPace::default();
        pace.found_untold(job("a"), at(0));
        assert_eq!(pauses(&mut pace, at(1)), [1, 2, 4, 8, 10]);
        assert_eq!(pauses(&mut pace, at(2)), [1; 5]);
        assert_eq!(pauses(&mut pace, at(601)), [1; 5]);
        assert_eq!(pauses(&mut pace, at(602)), [1, 2, 4, 8, 10]);
    }

    #[test]
    fn a_word_that_comes_after_the_poll_is_a_word() {
        for said in [Some(job("a")), None] {
            let mut pace = PollPace::default();
            pace.found_untold(job("a"), at(0));
            pace.told(Some(&job("b")), false);
            pace.told(said.as_ref(), false);
            assert_eq!(pauses(&mut pace, at(2)), [1, 2, 4, 8, 10]);
        }
    }

    #[test]
    fn a_job_that_comes_later_matters_unless_the_backend_tells_when_it_comes() {
        let mut pace = PollPace::default();
        assert!(pace.job_comes_later(at(0)));
        assert_eq!(pauses(&mut pace, at(1)), [1; 5]);
        pace.told(None, true);
        assert!(!pace.job_comes_later(at(700)));
        assert_eq!(pauses(&mut pace, at(700)), [1, 2, 4, 8, 10]);
    }

    #[test]
    fn a_poll_is_put_off_to_six_times_its_pause_or_to_twenty_windows_while_others_look() {
        let mut pace = PollPace::default();
        pace.pause_begins(NORMAL * 10, at(0));
        for (looked, window, ends) in [(7, 0, 17), (3, 0, 17), (59, 0, 60), (99, 5, 100), (8_000, 500, 3_600)] {
            pace.others_looked(at(looked), NORMAL * window);
            assert_eq!(pace.pause_ends(), Some(at(ends)));
        }
    }

    #[test]
    fn a_pause_that_a_job_cut_short_goes_on_when_the_job_is_taken() {
        let mut pace = PollPace::default();
        pace.pause_begins(NORMAL * 10, at(0));
        pace.looks_again_at(at(1));
        assert_eq!(pace.pause_ends(), Some(at(1)));
        pace.goes_on();
        assert_eq!(pace.pause_ends(), Some(at(10)));
        pace.ends_at_latest(at(2));
        pace.goes_on();
        assert_eq!(pace.pause_ends(), Some(at(2)), "no stream tells of jobs any more");
    }

    #[test]
    fn fewer_jobs_than_asked_for_are_all_once_a_fetch_behind_them_was_in_vain() {
        let mut pace = PollPace::default();
        pace.brought(2, 10, false);
        assert!(!pace.has_brought_all());
        pace.brought(0, 8, false);
        pace.pause_begins(NORMAL, at(0));
        pace.brought(3, 10, false);
        assert!(pace.has_brought_all());
        pace.pause_begins(NORMAL, at(0));
        pace.brought(1, 10, true);
        assert!(!pace.has_brought_all());
        pace.brought(0, 9, false);
        pace.pause_begins(NORMAL, at(0));
        pace.brought(10, 10, false);
        assert!(!pace.has_brought_all());
    }
}
