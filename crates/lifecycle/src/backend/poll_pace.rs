//! How often an idle worker asks for jobs of which no stream tells.
//!
//! Without streams that is each `worker.poll_interval`. While every queue has an open stream, and
//! no poll has found a job of which the stream had not told, the pause doubles up to
//! `worker.poll_interval_max`. Backends differ in what they tell of: the usual ones say nothing
//! when a retry or a scheduled job comes due.

use std::time::Duration;

use crate::api::{JobId, Moment, Options};

/// After a job that no stream had told of, or whose time a backend will not tell, the pace is that
/// of a worker without streams for so long.
const DISTRUST_FOR: Duration = Duration::from_secs(10 * 60);

/// The word of a stream may come so much later than the job: a poll may be quicker than the stream.
const WORD_COMES_WITHIN: Duration = Duration::from_secs(2);

/// While others take the jobs that streams tell of, a poll is put off to at most this many times
/// its pause: whoever takes a job has asked for all that there is.
const PUT_OFF_AT_MOST: u32 = 6;

/// After so many FETCHes in vain, each right behind one that brought fewer jobs than it asked for,
/// fewer jobs mean that there are no more.
const FETCHES_OF_PROOF: u8 = 1;

/// The pause between two polls, and what it depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct PollPace {
    /// The longest next pause, while streams are trusted.
    longest: Duration,
    /// Streams are not trusted before.
    trusted_from: Option<Moment>,
    /// A poll found this job then, and no stream has told of it so far.
    without_a_word: Option<(JobId, Moment)>,
    /// The backend tells when a scheduled job or a retry comes due.
    due_jobs_are_told: bool,
    /// The pause at present: when it began, how long it is, and when it ends.
    pause: Option<Pause>,
    /// FETCHes in vain in a row that went out right behind one that brought fewer than it asked for.
    in_vain_behind_short: u8,
    /// The last FETCH brought fewer jobs than it asked for, but some.
    was_short: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pause {
    since: Moment,
    long: Duration,
    ends: Moment,
}

impl PollPace {
    /// The longest time until the next poll. `are_streams_open`: each queue has one.
    pub(super) fn longest_pause(&mut self, options: &Options, are_streams_open: bool, now: Moment) -> Duration {
        self.judge_silence(now);
        if !are_streams_open || !self.are_streams_trusted(now) {
            self.longest = options.poll_interval;
            return options.poll_interval;
        }
        let longest = self.longest.max(options.poll_interval);
        self.longest = (longest * 2).min(options.poll_interval_max.max(options.poll_interval));
        longest
    }

    /// Whether polls have found nothing lately of which the streams had not told.
    pub(super) fn are_streams_trusted(&self, now: Moment) -> bool {
        self.trusted_from.is_none_or(|from| from <= now)
    }

    /// A pause begins.
    pub(super) fn pause_begins(&mut self, long: Duration, now: Moment) {
        let ends = now.after(long);
        self.pause = Some(Pause { since: now, long, ends });
    }

    /// The end of the present pause.
    pub(super) fn pause_ends(&self) -> Option<Moment> {
        self.pause.map(|pause| pause.ends)
    }

    /// Others have taken a job of each queue at this time or later, so that they have looked for all
    /// jobs that there are: the pause goes on from there.
    pub(super) fn others_looked(&mut self, at: Moment, now: Moment) {
        if self.are_streams_trusted(now)
            && let Some(pause) = &mut self.pause
        {
            let latest = pause.since.after(pause.long * PUT_OFF_AT_MOST);
            pause.ends = pause.ends.max(at.after(pause.long).min(latest));
        }
    }

    /// The present pause is over at this moment, or sooner.
    pub(super) fn ends_at_latest(&mut self, latest: Moment) {
        if let Some(pause) = &mut self.pause {
            pause.ends = pause.ends.min(latest);
        }
    }

    /// A stream ended, or is new: the pace begins from the start.
    pub(super) fn begins_again(&mut self) {
        self.longest = Duration::ZERO;
    }

    /// A poll found a job of which no stream has told so far.
    pub(super) fn found_untold(&mut self, job: JobId, now: Moment) {
        self.without_a_word.get_or_insert((job, now));
        self.begins_again();
    }

    /// A stream tells that a job is available, and whether it was waiting for its time.
    pub(super) fn told(&mut self, job: Option<&JobId>, came_due: bool) {
        self.due_jobs_are_told |= came_due;
        let is_it = |(untold, _): &(JobId, Moment)| job.is_none_or(|job| job == untold);
        if self.without_a_word.as_ref().is_some_and(is_it) {
            self.without_a_word = None;
        }
    }

    /// A stream tells that a job waits for its time. Returns whether it has to be polled for.
    pub(super) fn job_comes_later(&mut self, now: Moment) -> bool {
        if !self.due_jobs_are_told {
            self.distrust(now);
        }
        !self.due_jobs_are_told
    }

    /// The next backend may differ.
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
        self.in_vain_behind_short = 0;
    }
}

/// Answers with fewer jobs than were asked for.
impl PollPace {
    /// A FETCH for so many jobs brought so many.
    pub(super) fn brought(&mut self, brought: usize, count: usize) {
        let is_behind_short = std::mem::replace(&mut self.was_short, (1..count).contains(&brought));
        if is_behind_short && self.pause.is_none() {
            self.in_vain_behind_short = match brought {
                0 => FETCHES_OF_PROOF.min(self.in_vain_behind_short + 1),
                _ => 0,
            };
        }
        self.pause = None;
    }

    /// Whether the last FETCH brought all that there was, as far as is known: it brought fewer jobs
    /// than it asked for, and that was always all.
    pub(super) fn has_brought_all(&self) -> bool {
        self.was_short && self.in_vain_behind_short >= FETCHES_OF_PROOF
    }
}
