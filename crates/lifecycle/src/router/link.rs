//! Between the link to the backend and the other parts: the facts that the link decides by, and the
//! orders that it returns.

use crate::api::ids::{Text, WorkerId};
use crate::api::{HeartbeatForm, LinkTimer, Moment, Reply, Trouble};
use crate::backend::fetch::Demand;
use crate::backend::fetch_pace::MOST_FETCHES;
use crate::backend::link::{Context, EndFacts, Kept, Link, Reservations};
use crate::backend::link_said::Said;
use crate::backend::purpose::SentFetch;
use crate::jobs::doubts::AcceptedHeartbeat;
use crate::jobs::ledger::Ledger;
use crate::jobs::part::KnownBackend;
use crate::machine::Lifecycle;
use crate::shutdown::ending::Ending;

impl Reservations for Ledger {
    fn kept(&self) -> Vec<Kept> {
        let kept = self.iter().filter(|(_, job)| job.is_kept_reserved());
        let kept = kept.map(|(claim, job)| Kept {
            id: job.id().clone(),
            claim,
            claimed_at: job.claimed_at,
            visibility: job.delivery.visibility,
        });
        kept.collect()
    }

    fn has_kept(&self) -> bool {
        self.iter().any(|(_, job)| job.is_kept_reserved())
    }

    fn reporting(&self) -> usize {
        self.iter().filter(|(_, job)| job.is_reporting()).count()
    }

    fn has_any_of(&self, worker: &WorkerId) -> bool {
        Self::has_any_of(self, worker)
    }
}

impl Lifecycle {
    /// Lets the link decide, and carries out its orders.
    pub(crate) fn link<T>(&mut self, now: Moment, decide: impl FnOnce(&mut Link, &Context) -> T) -> T {
        let shutdown = &self.ending.shutdown;
        let context = Context {
            options: &self.options,
            end: EndFacts {
                phase: self.ending.phase,
                state: self.ending.state(),
                has_said_goodbye: shutdown.has_said_goodbye(),
                is_saying_goodbye: shutdown.is_saying_goodbye(),
                is_reporting: shutdown.is_reporting(),
                calls_end: shutdown.calls_end,
            },
            takes_jobs: self.is_taking_jobs(),
            jobs: &self.jobs.ledger,
            now,
        };
        let decided = decide(&mut self.link, &context);
        self.carry_out(|machine| &mut machine.link.said, Self::link_said, now);
        decided
    }

    fn link_said(&mut self, said: Said, now: Moment) {
        match said {
            Said::Order(effect) => self.order(effect),
            Said::Notify(notice) => self.notify(notice),
            Said::ReportNotSent(claim) => self.jobs.report_did_not_get_there(claim),
            Said::ReportSentAgain(claim) => self.jobs.report_goes_out(claim),
            Said::Cancelled(job) => self.jobs(now, |jobs, cx| jobs.is_said_to_be_cancelled(&job, cx)),
            Said::RetryJobs { failures, at, is_soon } => {
                if self.jobs.retry_now(failures, at, is_soon) {
                    self.link.session.retried_now_at = Some(at);
                }
            }
            Said::HeartbeatAccepted { heartbeat, extended } => {
                let accepted = AcceptedHeartbeat {
                    at: heartbeat.at,
                    kept_for: (heartbeat.form != HeartbeatForm::Protocol).then_some(heartbeat.kept_for),
                    named: &heartbeat.named,
                    extended: extended.as_ref(),
                };
                self.jobs(now, |jobs, cx| {
                    jobs.note_extended(&accepted, cx);
                    jobs.look_for_lost(&accepted, cx);
                });
            }
            Said::RegistrationAnswered => self.jobs.backend = KnownBackend::default(),
            Said::Directed { directive, is_new } => {
                self.end(now, |ending, cx| ending.directed(directive, is_new, cx));
            }
            Said::HeartbeatDone { beats_again } => self.link(now, |link, cx| link.heartbeat_done(beats_again, cx)),
            Said::LastHeartbeatAnswered => self.end(now, Ending::last_heartbeat_answered),
        }
    }

    /// Why the backend does not work for ojs-init, if so.
    pub(crate) fn trouble(&self, now: Moment) -> Option<Trouble> {
        self.link.trouble(&self.options, &self.jobs.ledger, now)
    }

    /// Whether new jobs may arrive: they may be given out, and the gate is open.
    pub(crate) fn is_open_for_jobs(&self) -> bool {
        self.is_taking_jobs() && !self.is_gate_closed()
    }

    /// Whether no job may be fetched, although the worker could be given one: there is no memory
    /// for more jobs, or the worker is being recycled. The jobs of a FETCH in flight are given out.
    pub(crate) fn is_gate_closed(&self) -> bool {
        let is_recycling = self.workers.recycling.is_closed_for_jobs();
        self.link.memory_gate_is_closed || is_recycling && !self.may_bring_jobs()
    }

    /// Whether a FETCH in flight may bring jobs, or a job waits for a holder.
    pub(crate) fn may_bring_jobs(&self) -> bool {
        self.link.is_fetching() || !self.jobs.ledger.waiting().is_empty()
    }

    /// Retires former workers that have no job left, and asks for streams of events.
    pub(crate) fn look_after_link(&mut self, now: Moment) {
        self.link(now, Link::retire_workers);
        self.link(now, Link::watch_streams);
    }

    /// Fetches as many jobs as there is credit for, and none outside the phase running.
    pub(crate) fn fetch(&mut self, now: Moment) {
        for _ in 0..MOST_FETCHES {
            if self.link.may_fetch(!self.workers.pulls.is_empty()) {
                let demand = self.demand();
                self.link(now, |link, cx| link.fetch(demand, cx));
            }
        }
    }

    fn demand(&self) -> Demand {
        let pulls = &self.workers.pulls;
        let (queues, of_next_pulls) = pulls.next();
        Demand {
            pushed: self.pushed_credit(),
            room: self.room(),
            capacity: self.capacity(),
            pulled: pulls.wanted(),
            of_next_pulls,
            queues: queues.map(<[Text]>::to_vec),
            newest_pull: pulls.newest(),
        }
    }

    /// Whether a job that becomes available would be fetched, now or after the pause between two
    /// polls.
    pub(crate) fn is_looking_for_jobs(&self) -> bool {
        let is_wanted = self.pushed_credit() > 0 || self.workers.holders.pull();
        is_wanted && self.is_open_for_jobs() && self.link.is_able_to_fetch()
    }

    /// Ends the pause between two polls. Returns false if no holder waits for a job, because no
    /// FETCH would follow.
    pub(crate) fn fetch_once_more(&mut self) -> bool {
        self.link.timers.cancel(LinkTimer::Fetch);
        self.pushed_credit() > 0 || self.workers.pulls.wait_for_a_fetch()
    }

    pub(crate) fn fetch_replied(&mut self, fetch: &SentFetch, reply: Reply, now: Moment) {
        if let Reply::Fetched(mut deliveries) = reply {
            fetch.name_queue_of(&mut deliveries);
            let capacity = self.capacity();
            self.link(now, |link, cx| link.fetch_brought(fetch, &deliveries, capacity, cx));
            if deliveries.is_empty() {
                self.end(now, |ending, cx| ending.found_no_job(fetch.at, cx));
            }
            let are_fewer = deliveries.len() < fetch.count;
            let is_news = self.claim(deliveries, &fetch.worker, fetch.at, now);
            // Jobs that the worker has already are no reason for another FETCH at once: the backend
            // may return the same ones again.
            if are_fewer || !is_news {
                self.answers_pulls(fetch);
            }
            self.link(now, |link, cx| link.fetch_is_done(fetch, is_news, cx));
        } else if self.link(now, |link, cx| link.fetch_failed(reply.failure(), cx)) {
            // The FETCH is repeated in another form without a pause, if there is still room for
            // jobs.
            self.ending.renew_idle_time();
        } else {
            self.answers_pulls(fetch);
        }
    }

    /// Ends the wait of the pulls that a FETCH was for, even if it returned no job for them.
    fn answers_pulls(&mut self, fetch: &SentFetch) {
        if let Some(pull) = fetch.pull {
            self.workers.pulls.were_asked_for(fetch.queues.as_ref(), pull);
        }
    }
}
