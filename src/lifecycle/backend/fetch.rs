//! The conversation with the backend: what we know of it, FETCH, and how often it is asked again. Registration and
//! heartbeats have files of their own.

use std::time::Duration;

use crate::lifecycle::api::{Call, Failure, FetchForm, LinkTimer, Moment, Notice, Reply, Text};
use crate::lifecycle::backend::fetch_pace::{MOST_ASKED_FOR, MOST_FETCHES, fewest_for_second, most_of_two};
use crate::lifecycle::backend::link::Link;
use crate::lifecycle::backend::purpose::{Purpose, SentFetch};
use crate::lifecycle::backend::retry_state::RetryState;
use crate::lifecycle::machine::Lifecycle;

impl Lifecycle {
    /// Asks for as many jobs as can be taken, and for none outside running.
    pub(in crate::lifecycle) fn fetch(&mut self, now: Moment) {
        for _ in 0..MOST_FETCHES {
            if !self.is_kept_from_fetching() {
                self.fetch_once(now);
            }
        }
    }

    fn fetch_once(&mut self, now: Moment) {
        let Some(worker) = self.link.agent.worker().cloned() else {
            return;
        };
        let (others, asked) = self.link.fetches_on_their_way();
        let pushed = self.pushed_credit().saturating_sub(asked);
        let is_for_pushed = pushed > 0 && !self.deadline_is_set(LinkTimer::Fetch);
        let is_one_of_two = is_for_pushed && self.is_second_fetch_worth_it(now);
        if others >= if is_one_of_two { MOST_FETCHES } else { 1 } {
            return;
        }
        let (queues, wanted) = if is_for_pushed {
            (None, pushed + self.workers.pulls().wanted())
        } else {
            let (queues, wanted) = self.workers.pulls().next();
            (queues.map(<[Text]>::to_vec), wanted)
        };
        let free = wanted.min(self.room().saturating_sub(asked));
        let places = self.places();
        if others > 0 && free < fewest_for_second(places) {
            return;
        }
        let count = free.min(if is_one_of_two {
            most_of_two(places)
        } else {
            MOST_ASKED_FOR
        });
        if let Ok(asked @ 1..) = u32::try_from(count) {
            if others > 0 {
                self.link.agent.fetch_pace.second_goes_out(now);
            }
            let is_woken = self.link.streams.fetch_goes_out();
            let fetch = SentFetch {
                worker: worker.clone(),
                at: now,
                count,
                queues: queues.clone(),
                pull: self.workers.pulls().newest(),
                is_woken,
                is_for_pushed,
                is_second: others > 0,
            };
            let call = Call::Fetch {
                worker,
                count: asked,
                queues,
                visibility: self.options.visibility_timeout,
                form: self.link.agent.fetch_forms.next(),
            };
            self.call(call, Purpose::Fetch(fetch), self.options.request_timeout, now);
        }
    }

    fn deadline_is_set(&self, timer: LinkTimer) -> bool {
        self.link.timers.deadline_of(timer).is_some()
    }

    /// Whether no FETCH may go out, whatever room there is.
    fn is_kept_from_fetching(&self) -> bool {
        !self.link.agent.is_registration_answered()
            || self.link.agent.heartbeats.awaits_resume()
            || self.link.is_fetch_held_up()
            || self.deadline_is_set(LinkTimer::FetchReturned)
    }

    /// Whether a job that becomes available would be fetched, now or after the pause between two polls.
    pub(in crate::lifecycle) fn is_looking_for_jobs(&self) -> bool {
        let is_wanted = self.pushed_credit() > 0 || self.workers.holders().pull();
        is_wanted && self.is_open_for_jobs() && !self.is_kept_from_fetching() && !self.link.is_in_outage()
    }

    /// Ends the pause between two polls. Returns false if nobody waits for a job: no FETCH would follow.
    pub(in crate::lifecycle) fn fetch_once_more(&mut self) -> bool {
        self.link.timers.cancel(LinkTimer::Fetch);
        self.pushed_credit() > 0 || self.workers.pulls().wait_for_a_fetch()
    }

    /// Whether two FETCHes bring jobs faster than one. Whoever asks for jobs itself waits for the answer to one FETCH.
    fn is_second_fetch_worth_it(&self, now: Moment) -> bool {
        self.workers.pulls().is_empty()
            && self.link.agent.fetch_pace.is_worth_second(now)
            && self.link.agent.fetch_forms.is_full_accepted()
    }

    /// What was given back must not come straight back to us: no FETCH before a pause is over; in terminate there is none anyway.
    pub(in crate::lifecycle) fn pause_fetch(&mut self, now: Moment) {
        self.pause_fetch_for(LinkTimer::FetchReturned, self.options.poll_interval, now);
    }

    fn pause_fetch_for(&mut self, timer: LinkTimer, pause: Duration, now: Moment) {
        if self.phase().is_terminating() {
            return;
        }
        let until = now.after(pause);
        if self.link.timers.deadline_of(timer).is_none_or(|due| due < until) {
            self.link.timers.arm(timer, until);
        }
    }

    pub(in crate::lifecycle) fn fetch_replied(&mut self, fetch: SentFetch, reply: Reply, now: Moment) {
        match reply {
            Reply::Fetched(deliveries) => {
                self.link.agent.fetches = RetryState::default();
                let has_jobs = !deliveries.is_empty();
                let places = self.places();
                self.link
                    .agent
                    .fetch_pace
                    .answered(&fetch, deliveries.len(), places, now);
                if has_jobs {
                    self.link(now, |link, cx| link.listen_to_queues_of(&deliveries, cx));
                }
                self.link(now, |link, cx| link.judge_streams(&fetch, &deliveries, cx));
                if let Some(form) = self.link.agent.fetch_forms.accepted(now) {
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
                if is_news && fetch.is_for_pushed {
                    // The pause is one after the other FETCH, which brought no job: this one did.
                    self.link.timers.cancel(LinkTimer::Fetch);
                }
                if !is_news && fetch.is_for_pushed {
                    let pause = self.link.jitter.poll_pause(self.options.poll_interval);
                    self.pause_fetch_for(LinkTimer::Fetch, pause, now);
                    self.link(now, Link::fetch_was_in_vain);
                } else if is_news && self.link.agent.fetch_forms.sent() != FetchForm::Full {
                    // They are reserved for as long as the backend likes, until a heartbeat names them.
                    self.link(now, Link::heartbeat_for_worker);
                }
                self.link(now, |link, cx| link.is_known_now(&worker, cx));
            }
            // Another form goes out without a pause, if there is still room for jobs.
            Reply::Failed(Failure::Refused) if self.link.agent.fetch_forms.refused() => {
                self.link.agent.fetch_pace.failed();
                self.ending.renew_idle_time();
            }
            Reply::Failed(_)
            | Reply::Registered { .. }
            | Reply::HeartbeatOk { .. }
            | Reply::Accepted
            | Reply::JobSeen(_)
            | Reply::Manifest(_) => {
                self.link.agent.fetch_pace.failed();
                self.answers_pulls(&fetch);
                self.fetch_failed(reply.failure(), now);
            }
        }
    }

    /// The pulls that a FETCH was for get no more than it brought: they do not wait for the next one.
    fn answers_pulls(&mut self, fetch: &SentFetch) {
        if let Some(pull) = fetch.pull {
            self.workers.were_asked_for(fetch.queues.as_ref(), pull);
        }
    }

    fn fetch_failed(&mut self, failure: Failure, now: Moment) {
        if self.phase().is_terminating() {
            if matches!(failure, Failure::Unanswered | Failure::ServerError) {
                self.notify(Notice::FetchAbandoned);
            }
            return;
        }
        let before = self.link.agent.fetches.add(failure, now);
        let pause = self.link.retry_pause(before, failure, self.phase());
        self.link.timers.arm(LinkTimer::FetchAgain, now.after(pause));
        self.notify(Notice::CallFailed {
            what: "FETCH",
            job: None,
            failure,
            retry_in: Some(pause),
        });
    }
}
