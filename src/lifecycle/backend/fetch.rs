//! The conversation with the backend: what we know of it, FETCH, and how often it is asked again. Registration and
//! heartbeats have files of their own.

use std::time::Duration;

use crate::lifecycle::api::{Call, Failure, FetchForm, Moment, Notice, Phase, Reply, Text, Timer};
use crate::lifecycle::backend::purpose::{Purpose, SentFetch};
use crate::lifecycle::backend::retry_state::{RetryState, asked_for, is_of_an_outage, is_of_credentials};
use crate::lifecycle::jobs::job::LookStep;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::timeouts::{LONGEST_RETRY_AT_THE_END, LONGEST_RETRY_IN_A_DRAIN};

/// Most jobs asked for by one FETCH. What comes with its answer is here several times for a moment (its bytes, the deliveries, what
/// is told of each), and that moment decides how much memory we ever take.
const MOST_IN_ONE_FETCH: usize = 256;

/// Least time between two moments at which what waits is brought forward.
const RETRY_NOW_EVERY: Duration = Duration::from_secs(1);

/// Within this time after an outage what it held up is tried again.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(1);

impl Lifecycle {
    /// Asks for as many jobs as can be taken, and for none outside running.
    pub(in crate::lifecycle) fn fetch(&mut self, now: Moment) {
        if self.is_kept_from_fetching() || self.is_fetching() {
            return;
        }
        let Some(worker) = self.agent.worker().cloned() else {
            return;
        };
        let pushed = self.pushed_credit();
        let is_for_pushed = pushed > 0 && !self.deadline_is_set(Timer::Fetch);
        let (queues, wanted) = if is_for_pushed {
            (None, pushed + self.pulls.wanted())
        } else {
            let (queues, wanted) = self.pulls.next();
            (queues.map(<[Text]>::to_vec), wanted)
        };
        let count = wanted.min(self.room()).min(MOST_IN_ONE_FETCH);
        if let Ok(asked @ 1..) = u32::try_from(count) {
            let is_woken = self.streams.fetch_goes_out();
            let fetch = SentFetch {
                worker: worker.clone(),
                at: now,
                count,
                queues: queues.clone(),
                pull: self.pulls.newest(),
                is_woken,
                is_for_pushed,
            };
            let call = Call::Fetch {
                worker,
                count: asked,
                queues,
                visibility: self.options.visibility_timeout,
                form: self.agent.fetch_forms.next(),
            };
            self.call(call, Purpose::Fetch(fetch), self.options.request_timeout, now);
        }
    }

    fn deadline_is_set(&self, timer: Timer) -> bool {
        self.timers.deadline_of(timer).is_some()
    }

    /// Whether no FETCH may go out, whatever room there is.
    fn is_kept_from_fetching(&self) -> bool {
        !self.agent.is_registration_answered()
            || self.agent.heartbeats.awaits_resume()
            || self.is_fetch_held_up()
            || self.deadline_is_set(Timer::FetchReturned)
    }

    /// Whether a job that becomes available would be fetched, now or after the pause between two polls.
    pub(in crate::lifecycle) fn is_looking_for_jobs(&self) -> bool {
        let is_wanted = self.pushed_credit() > 0 || self.holders.pull();
        is_wanted && self.is_open_for_jobs() && !self.is_kept_from_fetching() && !self.is_in_outage()
    }

    /// Ends the pause between two polls. Returns false if nobody waits for a job: no FETCH would follow.
    pub(in crate::lifecycle) fn fetch_once_more(&mut self) -> bool {
        self.timers.cancel(Timer::Fetch);
        self.pushed_credit() > 0 || self.pulls.wait_for_a_fetch()
    }

    /// Whether FETCH pauses because the last one failed.
    pub(in crate::lifecycle) fn is_fetch_held_up(&self) -> bool {
        self.deadline_is_set(Timer::FetchAgain)
    }

    /// Jobs that can be taken now: none outside running, and no more than holders and concurrency have room for.
    pub(in crate::lifecycle) fn credit(&self) -> usize {
        self.room().min(self.pushed_credit() + self.pulls.wanted())
    }

    /// The same, whoever would take them.
    fn room(&self) -> usize {
        if self.is_open_for_jobs() && !self.ending.has_its_one_job(&self.options) {
            self.most_active().saturating_sub(self.jobs.reserved())
        } else {
            0
        }
    }

    /// Jobs that holders are ready for which did not ask for each.
    fn pushed_credit(&self) -> usize {
        // A process that is kept for a suspect takes no other job. Each suspect that waits needs a slot as well, although only one has
        // a turn: a further suspect could only wait behind them, and there may be more of them than slots.
        let kept = self.suspects.turn.map_or(0, |turn| self.holders.room_of(turn.process));
        let suspects = self.jobs.suspects().len();
        let waiting = self.jobs.waiting().len() - suspects;
        self.holders
            .free()
            .saturating_sub(kept.max(suspects))
            .saturating_sub(waiting)
    }

    pub(in crate::lifecycle) fn is_fetching(&self) -> bool {
        self.calls.is_any(|purpose| matches!(purpose, Purpose::Fetch(..)))
    }

    /// What was given back must not come straight back to us: no FETCH before a pause is over; in terminate there is none anyway.
    pub(in crate::lifecycle) fn pause_fetch(&mut self, now: Moment) {
        self.pause_fetch_for(Timer::FetchReturned, self.options.poll_interval, now);
    }

    fn pause_fetch_for(&mut self, timer: Timer, pause: Duration, now: Moment) {
        if self.phase().is_terminating() {
            return;
        }
        let until = now.after(pause);
        if self.timers.deadline_of(timer).is_none_or(|due| due < until) {
            self.timers.arm(timer, until);
        }
    }

    pub(in crate::lifecycle) fn fetch_replied(&mut self, fetch: SentFetch, reply: Reply, now: Moment) {
        match reply {
            Reply::Fetched(deliveries) => {
                self.agent.fetches = RetryState::default();
                let has_jobs = !deliveries.is_empty();
                if has_jobs {
                    self.listen_to_queues_of(&deliveries, now);
                }
                self.judge_streams(&fetch, &deliveries, now);
                if let Some(form) = self.agent.fetch_forms.accepted(now) {
                    self.notify(Notice::FetchForm(form));
                }
                if deliveries.len() < fetch.count {
                    self.answers_pulls(&fetch);
                }
                let SentFetch { worker, at, .. } = fetch;
                if has_jobs {
                    self.store_was_seen(at);
                } else {
                    self.end(now, |ending, cx| ending.found_no_job(at, cx));
                }
                let is_news = self.claim(deliveries, worker.clone(), now);
                if !is_news && fetch.is_for_pushed {
                    let pause = self.jitter.poll_pause(self.options.poll_interval);
                    self.pause_fetch_for(Timer::Fetch, pause, now);
                    self.fetch_was_in_vain(now);
                } else if is_news && self.agent.fetch_forms.sent() != FetchForm::Full {
                    // They are reserved for as long as the backend likes, until a heartbeat names them.
                    self.heartbeat_for_worker(now);
                }
                self.is_known_now(&worker, now);
            }
            // Another form goes out without a pause, if there is still room for jobs.
            Reply::Failed(Failure::Refused) if self.agent.fetch_forms.refused() => self.ending.renew_idle_time(),
            Reply::Failed(_)
            | Reply::Registered { .. }
            | Reply::HeartbeatOk { .. }
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_) => {
                self.answers_pulls(&fetch);
                self.fetch_failed(reply.failure(), now);
            }
        }
    }

    /// The pulls that a FETCH was for get no more than it brought: they do not wait for the next one.
    fn answers_pulls(&mut self, fetch: &SentFetch) {
        if let Some(pull) = fetch.pull {
            self.pulls.were_asked_for(fetch.queues.as_ref(), pull);
        }
    }

    fn fetch_failed(&mut self, failure: Failure, now: Moment) {
        if self.phase().is_terminating() {
            if matches!(failure, Failure::Unanswered | Failure::ServerError) {
                self.notify(Notice::FetchAbandoned);
            }
            return;
        }
        let before = self.agent.fetches.add(failure, now);
        let pause = self.retry_pause(before, failure);
        self.timers.arm(Timer::FetchAgain, now.after(pause));
        self.notify(Notice::CallFailed {
            what: "FETCH",
            job: None,
            failure,
            retry_in: Some(pause),
        });
    }

    /// How long to wait before a request is repeated that has failed so often before, and like this now.
    pub(in crate::lifecycle) fn retry_pause(&mut self, before: u32, failure: Failure) -> Duration {
        let asked_for = asked_for(failure);
        let pause = self.jitter.retry_pause(before, asked_for);
        match self.phase() {
            Phase::Running | Phase::Quiet => pause,
            Phase::Delay | Phase::Drain => pause.min(LONGEST_RETRY_IN_A_DRAIN.max(asked_for.unwrap_or_default())),
            Phase::EndGame | Phase::Stop | Phase::Exited => pause.min(LONGEST_RETRY_AT_THE_END),
        }
    }

    /// What was refused, or could not be sent for want of credentials, gets its next chance now.
    pub(in crate::lifecycle) fn credentials_changed(&mut self, now: Moment) {
        self.retry_now(is_of_credentials, Duration::ZERO, now);
        self.listen_again(now);
    }

    /// A heartbeat got through again: so may what failed as the last ones did, but not from all workers at once.
    pub(super) fn outage_is_over(&mut self, now: Moment) {
        let spread = self.jitter.up_to(BACK_WITHIN);
        self.retry_now(is_of_an_outage, spread, now);
    }

    /// Ends the pauses that such failures began, so much later; for one attempt, and no more often than once a second:
    /// neither who can write next to the token nor a network that comes and goes makes us ask without a pause.
    fn retry_now(&mut self, such: fn(Failure) -> bool, later: Duration, now: Moment) {
        let last = self.agent.retried_now_at();
        let is_soon = last.is_some_and(|last| last.after(RETRY_NOW_EVERY).remaining(now) > Duration::ZERO);
        let at = match last {
            Some(last) if last.remaining(now) > Duration::ZERO => last,
            Some(last) => now.after(later.max(last.after(RETRY_NOW_EVERY).remaining(now))),
            None => now.after(later),
        };
        let mut timers = Vec::new();
        let is_registering = self.calls.is_any(|purpose| matches!(purpose, Purpose::Register(_)));
        let is_fetching = self.is_fetching();
        let mut is_news = false;
        let mut look_at = |setbacks: &mut RetryState, is_in_flight: bool, timer: Timer| {
            if setbacks.last_was(such) && is_in_flight && !is_soon {
                // It may fail in the same way once more; that shall not be followed by a long pause.
                setbacks.reset();
                is_news = true;
            } else if setbacks.last_was(such) && !is_in_flight {
                timers.push(timer);
            }
        };
        look_at(&mut self.agent.registrations, is_registering, Timer::Register);
        look_at(&mut self.agent.fetches, is_fetching, Timer::FetchAgain);
        for (claim, report) in self.jobs.reports() {
            let is_in_flight = !report.step.is_pause();
            look_at(&mut report.setbacks, is_in_flight, Timer::Report(claim));
        }
        for (claim, again) in self.jobs.agains() {
            let is_in_flight = again.step != LookStep::Pausing;
            look_at(&mut again.setbacks, is_in_flight, Timer::LookAgain(claim));
        }
        if is_news {
            self.agent.retries_at(at);
        }
        for timer in timers {
            if self.timers.deadline_of(timer).is_some() {
                self.timers.arm_at_latest(timer, at);
                self.agent.retries_at(at);
            }
        }
    }

    /// Whether the backend is there. What somebody else answers, or that something broke, can be a matter of one job or of
    /// one path: it tells something about the backend where a worker introduces itself or says that it is there.
    pub(in crate::lifecycle) fn note_backend_health(&mut self, purpose: &Purpose, reply: &Reply, now: Moment) {
        let is_greeting = matches!(
            purpose,
            Purpose::Register(_) | Purpose::Heartbeat(_) | Purpose::FinalHeartbeat { .. }
        );
        if matches!(reply, Reply::Failed(Failure::Overloaded | Failure::NoCredentials))
            || (matches!(reply, Reply::Failed(Failure::ServerError | Failure::NotFromBackend)) && !is_greeting)
        {
            return;
        }
        if let Reply::Failed(failure) = reply
            && is_of_an_outage(*failure)
        {
            self.request_lost(*failure, now);
        } else {
            self.request_answered(now);
        }
    }
}
