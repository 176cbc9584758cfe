//! Between the jobs and the other parts: the orders of the jobs, and the decisions in several
//! steps. Each of these steps depends on the change that the step before made in another part.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::api::ids::{CallId, HolderId, JobId, ProcessId, PullId, WorkerId};
use crate::api::{Delivery, JobRequest, Moment, OfPull, Outcome, Reply};
use crate::backend::link::Link;
use crate::backend::purpose::Purpose;
use crate::jobs::dispatch::Claimed;
use crate::jobs::facts::EndFacts;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;
use crate::machine::Lifecycle;

impl Lifecycle {
    /// Lets the jobs decide, and carries out their orders.
    pub(crate) fn jobs<T>(&mut self, now: Moment, decide: impl FnOnce(&mut Jobs, &Context) -> T) -> T {
        let shutdown = &self.ending.shutdown;
        let draws = Cell::new(self.link.draws);
        let context = Context {
            options: &self.options,
            end: EndFacts {
                phase: self.ending.phase,
                told: self.ending.told,
                has_its_one_job: self.ending.has_its_one_job(&self.options),
                is_reporting: shutdown.is_reporting(),
                goes_without_checkpoints: shutdown.goes_without_checkpoints,
                cancel_grace_left: shutdown.cancel_grace_left(now),
            },
            shutdown_error: &|| self.ending.shutdown_error(&self.options, now),
            takes_jobs: self.workers.are_taking_jobs(self.ending.phase),
            backend: &self.link,
            takers: &self.workers,
            draws: &draws,
            now,
        };
        let decided = decide(&mut self.jobs, &context);
        self.link.draws = draws.get();
        self.carry_out(|machine| &mut machine.jobs.said, Self::jobs_said, now);
        decided
    }

    fn jobs_said(&mut self, said: Said, now: Moment) {
        match said {
            Said::Order(effect) => self.order(effect),
            Said::Notify(notice) => self.notify(notice),
            Said::Call { id, call, request } => self.link(now, |link, cx| {
                link.call_as(id, call, Purpose::OfJob(request), cx.options.request_timeout, cx);
            }),
            Said::Hedge(call) => self.link(now, |link, cx| link.hedge(call, cx)),
            Said::DropCall(call) => self.link(now, |link, _| drop(link.forget_call(call))),
            Said::StoreSeen(at) => self.link.store_was_seen(at),
            Said::OutcomeTaken => self.link.session.outcome_taken_at = Some(now),
            Said::PauseFetch => self.link(now, Link::pause_fetch),
            Said::Claimed => self.ending.idle.has_claimed = true,
            Said::CutOff(job) => self.ending.job_cut_off(&job),
            Said::Unanswered(claim) => self.jobs(now, |jobs, cx| jobs.is_unanswered(claim, cx)),
            Said::Holds(holder, held, overdue) => self.workers.holders.has_jobs(holder, held, overdue),
            Said::Spend(pull) => self.workers.pulls.spend(pull),
            Said::Keep(process) => self.workers.keep(process),
            Said::KeepNone => self.workers.keep_no_more(),
            Said::Tell(holder, word) => self.workers(now, |workers, cx| workers.tell(holder, word, cx)),
            Said::Give(holder, word) => self.workers(now, |workers, cx| workers.give(holder, word, cx)),
            Said::AnswerPull(pull, jobs) => self.workers(now, |workers, _| workers.answer_pull(pull, jobs)),
            Said::EndPullsOf(holder) => self.workers(now, |workers, _| workers.end_pulls_of(holder)),
            Said::EndProcess(process, cause) => {
                self.workers(now, |workers, cx| workers.end_process(process, cause, cx));
            }
        }
    }

    /// A request of the jobs was answered, or not.
    pub(crate) fn job_request_replied(&mut self, request: JobRequest, call: CallId, reply: Reply, now: Moment) {
        self.jobs(now, |jobs, cx| match request {
            JobRequest::Report(claim) => jobs.report_replied(claim, call, reply, cx),
            JobRequest::LookBeforeRepeat(claim) => jobs.looked_before_repeat(claim, reply, cx),
            JobRequest::LookAgain(claim) => jobs.looked_again(claim, reply, cx),
            JobRequest::CheckUnextended(claim) => jobs.looked_for_lost(claim, reply, cx),
            JobRequest::Progress(claim) => jobs.progress_replied(claim, &reply, cx),
            JobRequest::Checkpoint(claim) => jobs.checkpoint_replied(claim, &reply, cx),
        });
    }

    /// Enters the jobs of a FETCH. Returns whether any of them is new to ojs-init.
    pub(crate) fn claim(
        &mut self,
        deliveries: Vec<Delivery>,
        worker: &WorkerId,
        asked_at: Moment,
        now: Moment,
    ) -> bool {
        let mut is_news = false;
        let claimed = Claimed {
            worker,
            is_former: !self.link.session.is(worker),
            asked_at,
        };
        let mut seen: BTreeSet<JobId> = BTreeSet::new();
        for delivery in deliveries {
            if seen.insert(delivery.subject.id.clone()) {
                is_news |= self.jobs(now, |jobs, cx| jobs.claim(delivery, claimed, cx));
            }
        }
        is_news
    }

    /// Passes on the outcome that a holder reports.
    pub(crate) fn answered(&mut self, id: HolderId, job: &JobId, what: Outcome, now: Moment) {
        // A holder that pauses gets no slot back by its answer.
        if self.jobs(now, |jobs, cx| jobs.answered(id, job, what, cx)) {
            self.jobs(now, |jobs, cx| jobs.end_if_a_handler_is_stuck(id, cx));
        }
    }

    /// Gives back jobs that no holder can get, looks at repeated deliveries, and ends the isolation
    /// of a suspect if it is due.
    pub(crate) fn look_after_jobs(&mut self, now: Moment) {
        let jobs = &self.jobs.ledger;
        if !jobs.waiting().is_empty() || !jobs.to_look().is_empty() || self.jobs.suspects.isolation.is_some() {
            self.jobs(now, |jobs, cx| {
                jobs.return_surplus(cx);
                jobs.look_at_redelivered(cx);
                jobs.end_isolation(cx);
            });
        }
    }

    /// See [`Jobs::send_reports`].
    pub(crate) fn send_reports(&mut self, now: Moment) {
        let goes_without_checkpoints = self.ending.shutdown.goes_without_checkpoints;
        if self.jobs.ledger.next_due(goes_without_checkpoints).is_some() {
            self.jobs(now, Jobs::send_reports);
        }
    }

    /// Gives the jobs that wait, the oldest first, each to the holder with most room for it.
    pub(crate) fn hand_over(&mut self, now: Moment) {
        let are_others = self.workers.holders.take_new_offers();
        if !self.is_taking_jobs() || self.jobs.ledger.waiting().is_empty() {
            return;
        }
        if are_others {
            self.jobs.others_take_jobs();
        }
        self.give_to_pulls(now);
        let untaken = self.jobs(now, Jobs::ask_who_takes);
        while !self.jobs.ledger.waiting().is_empty() && self.jobs(now, Jobs::give_next) {}
        if !self.jobs.ledger.waiting().untaken().is_empty() {
            self.jobs(now, |jobs, cx| jobs.nobody_takes(&untaken, cx));
        }
    }

    /// Gives new jobs to the oldest pulls that accept them.
    fn give_to_pulls(&mut self, now: Moment) {
        if self.workers.pulls.is_empty() {
            return;
        }
        let fresh = self.jobs.fresh();
        let dealt = fresh.into_iter();
        let dealt = dealt.filter_map(|(claim, queue)| Some((claim, self.workers.deal(&queue)?)));
        let dealt = dealt.collect();
        self.jobs(now, |jobs, cx| jobs.go_to_pulls(dealt, cx));
    }

    /// Gives the oldest suspect a process for itself.
    pub(crate) fn isolate(&mut self, now: Moment) {
        if !self.is_taking_jobs() || !self.jobs.has_suspects() {
            return;
        }
        if self.jobs(now, Jobs::choose_suspect) {
            self.hand_over(now);
        }
        self.jobs(now, Jobs::go_on_with_isolation);
    }

    /// Gives waiting jobs to a pull that waits.
    pub(crate) fn pull_waits(&mut self, holder: HolderId, pull: PullId, now: Moment) {
        if self.workers.is_kept(holder) {
            // The holder gets the suspect that the process is kept for, or nothing for now.
            self.isolate(now);
            if self.workers.pulls.get(pull).is_some() {
                self.workers(now, |workers, _| workers.end_pulls_of(holder));
            }
            return;
        }
        if let Some(waiting) = self.workers.pulls.get(pull) {
            let (left, queues) = (waiting.left, waiting.queues.clone());
            let to = OfPull { pull, holder };
            self.jobs(now, |jobs, cx| jobs.give_what_waits(to, left, queues.as_deref(), cx));
        }
        if self.link.is_fetch_held_up() {
            self.workers(now, |workers, _| workers.answer_pull(pull, Vec::new()));
        }
    }

    /// Handles the departure of a client that waited for the reply to a pull.
    pub(crate) fn wants_no_more(&mut self, holder: HolderId, pull: PullId, now: Moment) {
        if !self.workers.wants_no_more(holder, pull) {
            self.jobs(now, |jobs, cx| jobs.answer_is_unread(holder, pull, cx));
        }
    }

    /// Ends a process if overdue jobs occupy all its slots.
    pub(crate) fn end_process_if_stuck(&mut self, process: ProcessId, now: Moment) {
        self.jobs(now, |jobs, cx| jobs.end_process_if_stuck(process, cx));
    }
}
