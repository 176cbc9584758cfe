//! Jobs whose type no holder takes: how long they wait for one that may still come, and which of them do not.

use crate::lifecycle::api::ids::Claim;
use crate::lifecycle::api::{Moment, Notice, Timer};
use crate::lifecycle::jobs::dispatch::{error, frame_bytes};
use crate::lifecycle::jobs::job::Place;
use crate::lifecycle::machine::Lifecycle;

impl Lifecycle {
    /// Of these it is news that nobody takes them. One that holds the last free credit would stop the whole worker: the newest of
    /// all that nobody takes is failed instead. The others wait until `worker.type_wait` after they were found to be without a
    /// taker, which is their delivery or the end of the last holder that took them.
    pub(super) fn nobody_takes(&mut self, news: &[Claim], now: Moment) {
        if self.workers.holders().pull() {
            return self.nobody_asked(news, now);
        }
        let newest = self.jobs.waiting().untaken().last().copied();
        let given_up = newest.filter(|_| self.holds_last_credit());
        for claim in news.iter().copied().filter(|claim| given_up != Some(*claim)) {
            self.waits_for_type(claim, now);
        }
        if let Some(claim) = given_up {
            self.fail_unhandled(claim, now);
        }
    }

    /// Whether nothing could be fetched and handed over, however soon the backend takes the outcomes that are on their way.
    fn holds_last_credit(&self) -> bool {
        let waiting = self.jobs.waiting().len();
        waiting + self.jobs.held() >= self.most_active() || waiting >= self.workers.holders().free()
    }

    fn waits_for_type(&mut self, claim: Claim, now: Moment) {
        if self.timers.deadline_of(Timer::NoHandler(claim)).is_some() {
            return;
        }
        let Some(job) = self.jobs.get(claim) else { return };
        let subject = job.subject();
        let until = if self.workers.supervision().has_been_ready() {
            now.after(self.options.type_wait)
        } else {
            self.workers.supervision().ready_by(self.options.ready_timeout)
        };
        self.timers.arm(Timer::NoHandler(claim), until);
        self.notify(Notice::NoHandler {
            job: subject,
            waits: Some(until.remaining(now)),
            taken: self.workers.holders().types_taken(),
        });
    }

    /// A holder said ready: others may follow it, so that what waits begins to wait anew; but never longer than the worker
    /// itself may take to say ready, however often it says so.
    pub(in crate::lifecycle) fn wait_anew_for_types(&mut self, now: Moment) {
        let is_first = !self.workers.supervision().has_been_ready();
        for claim in self.jobs.waiting().untaken().clone() {
            let timer = Timer::NoHandler(claim);
            let (Some(due), Some(job)) = (self.timers.deadline_of(timer), self.jobs.get(claim)) else {
                continue;
            };
            let longest = self.options.ready_timeout.max(self.options.type_wait);
            let until = now.after(self.options.type_wait).min(job.claimed_at.after(longest));
            self.timers.arm(timer, if is_first { until } else { until.max(due) });
        }
    }

    /// Its time is over.
    pub(in crate::lifecycle) fn no_handler(&mut self, claim: Claim, now: Moment) {
        if self.is_unhandled(claim) && self.workers.holders().pull() {
            self.give_back_unasked(claim, now);
        } else if self.is_unhandled(claim) {
            self.fail_for_type(claim, now);
        }
    }

    fn fail_unhandled(&mut self, claim: Claim, now: Moment) {
        let has_waited = self.timers.deadline_of(Timer::NoHandler(claim)).is_some();
        if let Some(job) = self.jobs.get(claim).filter(|_| !has_waited) {
            let job = job.subject();
            let taken = self.workers.holders().types_taken();
            self.notify(Notice::NoHandler {
                job,
                waits: None,
                taken,
            });
        }
        self.fail_for_type(claim, now);
    }

    fn is_unhandled(&self, claim: Claim) -> bool {
        self.jobs.get(claim).is_some_and(|job| {
            let (kind, bytes) = (&job.delivery.subject.kind, frame_bytes(&job.delivery));
            job.place == Place::Waiting && !self.workers.holders().take(kind, bytes)
        })
    }

    fn fail_for_type(&mut self, claim: Claim, now: Moment) {
        let Some(job) = self.jobs.get(claim) else { return };
        let message = format!("no worker here takes jobs of type {}", job.delivery.subject.kind);
        self.fail(claim, error("handler_not_found", &message, true), now);
    }
}
