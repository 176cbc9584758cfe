//! Jobs of a type that no holder accepts, and how long they wait for a holder that may still
//! connect.

use crate::api::ids::Claim;
use crate::api::{JobNotice, JobTimer};
use crate::jobs::dispatch::{error, offered};
use crate::jobs::job::Place;
use crate::jobs::part::{Context, Jobs};

impl Jobs {
    /// Starts the wait of jobs that newly have no taker. A job that holds the last free credit
    /// would stop the whole worker, so the newest of all jobs without a taker fails instead. The
    /// others wait for `worker.type_wait` after they lost their taker or were delivered without
    /// one. If the worker has not sent ready yet, they wait until its time for that ends.
    pub(crate) fn nobody_takes(&mut self, news: &[Claim], cx: &Context) {
        if cx.takers.pull() {
            return self.nobody_asked(news, cx);
        }
        let newest = self.ledger.waiting().untaken().last().copied();
        let given_up = newest.filter(|_| self.holds_last_credit(cx));
        for claim in news.iter().copied().filter(|claim| given_up != Some(*claim)) {
            self.waits_for_type(claim, cx);
        }
        if let Some(claim) = given_up {
            self.fail_unhandled(claim, cx);
        }
    }

    /// Whether no job could be fetched and given out, however soon the backend accepts the outcomes
    /// in flight.
    fn holds_last_credit(&self, cx: &Context) -> bool {
        let waiting = self.ledger.waiting().len();
        waiting + self.ledger.held() >= cx.most_active() || waiting >= cx.takers.free()
    }

    fn waits_for_type(&mut self, claim: Claim, cx: &Context) {
        if self.timers.is_armed(JobTimer::NoHandler(claim)) {
            return;
        }
        let Some(job) = self.ledger.get(claim) else { return };
        let subject = job.subject();
        let ready_by = cx.takers.ready_by(cx.options.ready_timeout);
        let until = ready_by.unwrap_or_else(|| cx.now.after(cx.options.type_wait));
        self.timers.arm(JobTimer::NoHandler(claim), until);
        self.notify(JobNotice::NoHandler {
            job: subject,
            waits: Some(until.remaining(cx.now)),
            taken: cx.takers.types_taken(),
        });
    }

    /// Restarts the wait of jobs without a taker, because a holder sent ready and others may
    /// follow. The wait never lasts longer than the worker itself may need to send ready, however
    /// often it sends it.
    pub(crate) fn wait_anew_for_types(&mut self, cx: &Context) {
        let is_first = cx.takers.ready_by(cx.options.ready_timeout).is_some();
        for claim in self.ledger.waiting().untaken().clone() {
            let timer = JobTimer::NoHandler(claim);
            let (Some(due), Some(job)) = (self.timers.deadline_of(timer), self.ledger.get(claim)) else {
                continue;
            };
            let longest = cx.options.ready_timeout.max(cx.options.type_wait);
            let until = cx.now.after(cx.options.type_wait).min(job.claimed_at.after(longest));
            self.timers.arm(timer, if is_first { until } else { until.max(due) });
        }
    }

    /// Ends the wait of a job without a taker.
    pub(crate) fn no_handler(&mut self, claim: Claim, cx: &Context) {
        if self.is_unhandled(claim, cx) && cx.takers.pull() {
            self.give_back_unasked(claim, cx);
        } else if self.is_unhandled(claim, cx) {
            self.fail_for_type(claim, cx);
        }
    }

    fn fail_unhandled(&mut self, claim: Claim, cx: &Context) {
        let has_waited = self.timers.is_armed(JobTimer::NoHandler(claim));
        if let Some(job) = self.ledger.get(claim).filter(|_| !has_waited) {
            let job = job.subject();
            let taken = cx.takers.types_taken();
            self.notify(JobNotice::NoHandler {
                job,
                waits: None,
                taken,
            });
        }
        self.fail_for_type(claim, cx);
    }

    fn is_unhandled(&self, claim: Claim, cx: &Context) -> bool {
        self.ledger
            .get(claim)
            .is_some_and(|job| job.place == Place::Waiting && !cx.takers.take(offered(job)))
    }

    fn fail_for_type(&mut self, claim: Claim, cx: &Context) {
        let Some(job) = self.ledger.get(claim) else { return };
        let message = format!("no worker here takes jobs of type {}", job.delivery.subject.kind);
        self.fail(claim, error("handler_not_found", &message, true), cx);
    }
}
