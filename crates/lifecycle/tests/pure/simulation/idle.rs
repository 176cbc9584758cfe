//! Ends that begin without a request: when they may, and their exit status.

use std::collections::BTreeSet;
use std::time::Duration;

use ojs_lifecycle::api::{
    Call, Effect, EndingNotice, JobId, JobNotice, Notice, Options, Outcome, Reason, Reply, WorkerState,
};

use super::chance::Chance;
use super::course::Course;
use super::plan::ms;
use super::promise::{Kept, promise};

/// Separates this chance from that of the plan, so the worlds without an idle end stay unchanged.
const APART: u64 = 0x1D1E_0E2D;

/// The time without a job after which the end begins in this run: one in eight has one.
pub fn time(seed: u64) -> Option<Duration> {
    let mut chance = Chance::new(seed ^ APART);
    chance.one_in(8).then(|| ms(*chance.pick(&[50, 400, 2_000])))
}

/// Whether this run accepts one job only.
pub fn once(seed: u64) -> bool {
    Chance::new(seed ^ APART.rotate_left(7)).one_in(16)
}

/// The concurrency of this run, in place of the usual one.
pub fn concurrency(seed: u64, usual: u32) -> u32 {
    if once(seed) { 1 } else { usual }
}

/// The settings that these ends depend on.
#[derive(Debug)]
pub struct Idle {
    time: Option<Duration>,
    once: bool,
    /// When the first FETCH without jobs was answered since the last other event.
    empty_since: Option<Duration>,
    has_claimed: bool,
    has_acked: bool,
    /// Lost jobs whose handlers have used up their time to end.
    pub unanswered: BTreeSet<JobId>,
}

impl Idle {
    pub fn new(options: &Options) -> Self {
        Self {
            time: options.exit_when_idle,
            once: options.once,
            empty_since: None,
            has_claimed: false,
            has_acked: false,
            unanswered: BTreeSet::new(),
        }
    }

    pub fn replied(&mut self, call: Option<&Call>, reply: &Reply, now: Duration) {
        let Some(Call::Fetch { .. }) = call else { return };
        let is_empty = matches!(reply, Reply::Fetched(brought) if brought.is_empty());
        self.empty_since = is_empty.then(|| self.empty_since.unwrap_or(now));
    }

    /// After each fact: a job, a worker that does not run and quiet renew the time.
    pub fn after(&mut self, is_idle: bool, state: WorkerState) {
        if !is_idle || state != WorkerState::Running {
            self.empty_since = None;
        }
    }

    pub fn effect(&mut self, effect: &Effect, is_busy: bool, course: &mut Course, now: Duration) -> Kept {
        if matches!(
            effect,
            Effect::CallBackend {
                call: Call::Fetch { .. },
                ..
            }
        ) {
            let is_first = !(self.once && self.has_claimed);
            promise!("no FETCH after the one job", is_first, "{self:?}");
        }
        let Effect::Notify(notice) = effect else {
            return Ok(());
        };
        if let Notice::Job(JobNotice::Claimed(_)) = notice {
            promise!("one job only", !(self.once && self.has_claimed), "{self:?}");
            self.has_claimed = true;
        }
        if let Notice::Job(JobNotice::Unanswered(job, _)) = notice {
            self.unanswered.insert(job.id.clone());
        }
        if let Notice::Job(JobNotice::Settled { outcome, .. }) = notice {
            self.has_acked |= matches!(outcome, Outcome::Acked { .. });
        }
        let Notice::Ending(EndingNotice::StateChanged { reason, .. }) = notice else {
            return Ok(());
        };
        if let Reason::Idle(time) = reason {
            let is_due = self.empty_since.is_some_and(|since| now >= since + *time);
            let may_end = self.time == Some(*time) && is_due && !is_busy;
            promise!(
                "an idle end is one of an idle worker",
                may_end,
                "{self:?}, {is_busy} at {now:?}"
            );
            course.terminate(now, true);
        }
        if matches!(reason, Reason::OnceDone | Reason::OnceNotDone) {
            promise!("the end comes after the one job", self.once && !is_busy, "{self:?}");
            course.terminate(now, true);
        }
        Ok(())
    }

    /// The status is the one without `--once`, and 1 in place of 0 if the job was not done.
    pub fn at_exit(&self, status: u8, course: &Course, cut_off: (usize, usize)) -> Kept {
        let is_not_done = self.once && self.has_claimed && !self.has_acked && course.abandoned.is_none();
        promise!(
            "a job that is not done is told",
            !(is_not_done && status == 0),
            "{self:?}"
        );
        if self.once && !self.has_acked && status == 1 && course.at_exit(0, cut_off).is_ok() {
            return Ok(());
        }
        course.at_exit(status, cut_off)
    }
}
