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

/// While other workers fetch the jobs that streams report, a poll is put off by this long at most.
/// That is safe because a worker that fetches a job asks for all jobs there are.
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
    pub(super) pause: Option<Pause>,
    /// A FETCH has returned no job since the streams opened, so they have reported every job that
    /// became available since.
    has_seen_none: bool,
    /// The last FETCH probably returned every available job.
    pub(super) has_brought_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pause {
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

    /// Workers, this one included, have fetched a job of each queue at this time or later. Their
    /// FETCHes asked for all jobs there are, so the pause restarts then. It doubles up to `most`,
    /// as if a poll had found no job. With a short pause, all workers of a fleet would poll as soon
    /// as no job comes for a moment.
    pub(super) fn others_looked(&mut self, at: Moment, most: Duration) {
        if let Some(pause) = &mut self.pause {
            if pause.since.after(pause.long) <= at && pause.long * 2 <= most {
                pause.long *= 2;
            }
            let latest = pause.since.after(LONGEST_PUT_OFF);
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
        self.has_seen_none = false;
    }

    /// A stream has opened. It reports no job that became available before. `was_cut`: it was
    /// closed for a moment, so the longest pause stays.
    pub(super) fn stream_opened(&mut self, was_cut: bool) {
        self.has_seen_none = false;
        if !was_cut {
            self.begins_again();
        }
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

    fn judge_silence(&mut self, now: Moment) {
        let is_late = |(_, found): &(JobId, Moment)| found.elapsed(now) >= WORD_COMES_WITHIN;
        if self.without_a_word.as_ref().is_some_and(is_late) {
            self.without_a_word = None;
            self.distrust(now);
        }
    }

    fn distrust(&mut self, now: Moment) {
        self.trusted_from = Some(now.after(DISTRUST_FOR));
        self.has_seen_none = false;
    }
}

/// Answers with fewer jobs than the FETCH asked for.
impl PollPace {
    /// A FETCH for `count` jobs returned `brought`. `is_any_left`: streams reported jobs that are
    /// still left.
    pub(super) fn brought(&mut self, brought: usize, count: usize, is_any_left: bool) {
        // A backend that leaves a reported job may return one job for each FETCH.
        self.has_seen_none = brought == 0 || self.has_seen_none && !is_any_left;
        self.has_brought_all = (1..count).contains(&brought) && self.has_seen_none;
        self.pause = None;
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
    fn a_poll_is_put_off_for_an_hour_at_most_while_others_look() {
        let mut pace = PollPace::default();
        pace.pause_begins(NORMAL * 10, at(0));
        for (looked, ends) in [(7, 17), (3, 17), (59, 69), (3_599, 3_600)] {
            pace.others_looked(at(looked), NORMAL * 10);
            assert_eq!(pace.pause_ends(), Some(at(ends)));
        }
    }

    #[test]
    fn a_pause_doubles_up_to_the_longest_while_others_look() {
        let mut pace = PollPace::default();
        pace.pause_begins(NORMAL * 2, at(0));
        for (looked, ends) in [(1, 3), (2, 6), (3, 7), (4, 12), (9, 17), (99, 107)] {
            pace.others_looked(at(looked), NORMAL * 10);
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
    fn fewer_jobs_than_asked_for_are_all_once_a_fetch_found_none_and_no_reported_job_is_left() {
        let mut pace = PollPace::default();
        pace.brought(2, 10, false);
        assert!(!pace.has_brought_all);
        pace.brought(0, 8, false);
        assert!(!pace.has_brought_all);
        for (brought, is_any_left, is_all) in [
            (3, false, true),
            (10, false, false),
            (1, true, false),
            (1, false, false),
            (0, false, false),
            (1, false, true),
        ] {
            pace.brought(brought, 10, is_any_left);
            assert_eq!(pace.has_brought_all, is_all, "{brought} jobs, left: {is_any_left}");
        }
        pace.stream_opened(true);
        pace.brought(1, 10, false);
        assert!(!pace.has_brought_all, "the stream reports no job of the time before");
    }
}
