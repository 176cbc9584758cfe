//! Between the workers and the other parts: the facts that the workers decide by, the orders that
//! they return, and the messages of their holders.

use std::sync::Arc;

use crate::api::ids::{HolderId, JobId, ProcessId, WorkerId};
use crate::api::{FromWorker, JobNotice, Manners, Moment, Outcome, Reason, Subject};
use crate::backend::link::Link;
use crate::jobs::job::Job;
use crate::jobs::part::Jobs;
use crate::machine::Lifecycle;
use crate::retry::jitter::Jitter;
use crate::shutdown::phase::Trigger;
use crate::worker::workers::{Context, Workers};
use crate::worker::workers_said::Said;
use ojs_values::exit::Ended;

impl Lifecycle {
    /// Lets the workers decide, and carries out their orders.
    pub(crate) fn workers<T>(&mut self, now: Moment, decide: impl FnOnce(&mut Workers, &Context) -> T) -> T {
        let shutdown = &self.ending.shutdown;
        let context = Context {
            options: &self.options,
            phase: self.ending.phase,
            has_killed: shutdown.has_killed(),
            is_killing: shutdown.is_killing(),
            gate_is_closed: self.is_gate_closed(),
            has_jobs: !self.jobs.ledger.is_empty(),
            now,
        };
        let decided = decide(&mut self.workers, &context);
        self.carry_out(|machine| &mut machine.workers.said, Self::workers_said, now);
        decided
    }

    fn workers_said(&mut self, said: Said, now: Moment) {
        match said {
            Said::Order(effect) => self.order(effect),
            Said::Notify(notice) => self.notify(notice),
            Said::Began(worker) => self.link(now, |link, cx| link.worker_began(worker, cx)),
            Said::NobodyWorks => self.jobs(now, Jobs::end_holds),
            Said::Lost => self.go(Trigger::WorkerLost, Reason::Worker, now),
            Said::Killed => self.ending.shutdown.killed_at = Some(now),
            Said::Ending(holders) => self.jobs(now, |jobs, cx| jobs.cancel_held_by(&holders, cx)),
            Said::DescendantsStay => self.give_up_on_descendants(now),
            Said::SignalPauseIsOver(holder) => {
                if self.jobs.has_cancelled(holder) {
                    self.workers(now, |workers, cx| workers.signal_again(holder, cx));
                }
            }
            Said::QueuesAskedFor(queues) => self.link(now, |link, cx| link.queues_are_asked_for(&queues, cx)),
            Said::JobsAskedFor(asked) => {
                let at_once = asked + self.jobs.ledger.held();
                self.link.jobs_are_asked_for(at_once);
                self.workers(now, |workers, cx| workers.were_asked_at_once(at_once, cx));
            }
        }
    }

    pub(crate) fn holder_came(&mut self, holder: HolderId, process: Option<ProcessId>, manners: Manners, now: Moment) {
        let greeting = (self.link.session.worker.clone(), self.ending.told);
        self.workers(now, |workers, cx| workers.came(holder, process, manners, greeting, cx));
    }

    /// Passes a message of a holder to the part that it concerns.
    pub(crate) fn said(&mut self, id: HolderId, said: FromWorker, now: Moment) {
        if !self.workers(now, |workers, cx| workers.heard(id, cx)) {
            return;
        }
        if !matches!(said, FromWorker::Garbage { .. }) {
            self.workers.makes_sense(id);
        }
        self.take_frame(id, said, now);
        self.workers(now, |workers, cx| workers.expect_life(id, cx));
    }

    fn take_frame(&mut self, id: HolderId, said: FromWorker, now: Moment) {
        match said {
            FromWorker::Ready(ready) => {
                if self.workers(now, |workers, cx| workers.ready(id, ready, cx)) {
                    self.jobs(now, Jobs::wait_anew_for_types);
                    self.workers(now, Workers::said_ready);
                    self.jobs(now, |jobs, cx| jobs.end_if_a_handler_is_stuck(id, cx));
                }
            }
            FromWorker::Ack { job, result } => self.answered(id, &job, Outcome::Acked { result }, now),
            FromWorker::Fail { job, error } => self.answered(id, &job, Outcome::Failed { error }, now),
            FromWorker::Release { job, reason, after } => {
                let reason = reason.unwrap_or_else(|| "released by the worker".into());
                self.answered(id, &job, Outcome::Requeued { reason, after }, now);
            }
            FromWorker::Progress { job, progress } => self.jobs(now, |jobs, cx| {
                if let Some(claim) = jobs.held_by(id, &job) {
                    jobs.progress(claim, progress, cx);
                }
            }),
            FromWorker::Checkpoint { job, state } => self.jobs(now, |jobs, cx| {
                if let Some(claim) = jobs.held_by(id, &job) {
                    jobs.checkpoint(claim, state, cx);
                }
            }),
            FromWorker::Beats { jobs: named } => self.jobs(now, |jobs, cx| jobs.beats(id, named, cx)),
            FromWorker::Heartbeat { job } => {
                if self.jobs(now, |jobs, _| jobs.held_by(id, &job)).is_some() {
                    self.link(now, Link::heartbeat_for_worker);
                }
            }
            FromWorker::Pong { .. } => {}
            FromWorker::Wants(wants) => {
                let pull = wants.pull;
                if self.workers(now, |workers, cx| workers.wants(id, wants, cx)) {
                    self.pull_waits(id, pull, now);
                }
            }
            FromWorker::WantsNoMore { pull } => self.wants_no_more(id, pull, now),
            FromWorker::Garbage {
                code,
                message,
                job,
                answer,
            } => {
                let held = answer.and_then(|answer| Some((self.held_job(id, answer.answers()?)?, *answer)));
                // A frame about a held job shows that the holder speaks this protocol.
                let is_about_held = job.as_ref().is_some_and(|job| self.held_job(id, job).is_some());
                let counts = held.is_none() && !is_about_held;
                self.workers(now, |workers, cx| {
                    workers.invalid_message(id, (code, &message), job, counts, cx);
                });
                if let Some((subject, answer)) = held {
                    self.notify(JobNotice::AnswerMended(subject, message));
                    self.take_frame(id, answer, now);
                }
            }
        }
    }

    /// The job that this holder has under this id.
    fn held_job(&self, holder: HolderId, id: &JobId) -> Option<Arc<Subject>> {
        let ledger = &self.jobs.ledger;
        let mut jobs = ledger.held_by(holder).iter().filter_map(|claim| ledger.get(*claim));
        Some(jobs.find(|job| job.id() == id)?.subject())
    }

    /// Notes that a part of a message arrived from a holder.
    pub(crate) fn heard_part(&mut self, id: HolderId, now: Moment) {
        self.workers(now, |workers, cx| {
            if workers.heard(id, cx) {
                workers.expect_life(id, cx);
            }
        });
    }

    pub(crate) fn hung_up(&mut self, id: HolderId, now: Moment) {
        if let Some(process) = self.workers(now, |workers, cx| workers.hung_up(id, cx)) {
            self.end_process_if_stuck(process, now);
            self.workers(now, Workers::expect_ready);
        }
    }

    pub(crate) fn worker_started(&mut self, process: ProcessId, worker: WorkerId, now: Moment) {
        let chance = self.chance_of_life();
        self.workers(now, |workers, cx| workers.worker_started(process, worker, chance, cx));
    }

    /// See [`Workers::next_started`].
    pub(crate) fn next_worker_started(&mut self, process: ProcessId, now: Moment) {
        let chance = self.chance_of_life();
        self.workers(now, |workers, cx| workers.next_started(process, chance, cx));
    }

    /// Chance for the limits of a worker process.
    fn chance_of_life(&self) -> u64 {
        let life = self.workers.recycling.lives;
        Jitter::new(self.options.seed.wrapping_add(life)).chance()
    }

    /// Recycles a worker that has reached a limit, and asks it to end once nothing is left for it
    /// to do. The jobs of a FETCH in flight are still the old worker's.
    pub(crate) fn recycle(&mut self, now: Moment) {
        if self.workers.recycling.is_at_its_limit() {
            self.workers(now, Workers::recycle_if_due);
        }
        if self.workers.recycling.is_closed_for_jobs() {
            // The last job that could arrive may have been given out just now.
            self.end_pulls(now);
        }
        if self.workers.recycling.is_draining() && self.is_recycled_worker_idle() {
            self.jobs(now, |jobs, cx| jobs.outcomes_are_ours(cx));
            self.workers(now, Workers::end_recycled);
        }
    }

    /// Whether a worker that is being recycled has nothing left to do. Its last outcomes may come
    /// back to it, so the backend has them first if there is time.
    fn is_recycled_worker_idle(&self) -> bool {
        let recycling = &self.workers.recycling;
        if recycling.has_old() {
            return self.workers.holders.held_by_old == 0;
        }
        let is_on_its_way = |job: &Job| {
            job.report()
                .is_some_and(|report| !report.is_surplus && !report.is_held())
        };
        let is_idle = !self.has_held_jobs() && !self.may_bring_jobs();
        is_idle && (recycling.is_cancelling() || !self.jobs.ledger.iter().any(|(_, job)| is_on_its_way(job)))
    }

    pub(crate) fn worker_ended(&mut self, ended: Ended, now: Moment) {
        let manner = self.ending.manner(ended, &self.options);
        self.workers(now, |workers, cx| workers.worker_ended(ended, manner, cx));
    }

    pub(crate) fn reaped(&mut self, are_left: bool, now: Moment) {
        let drain_left = self.ending.time_to_deadline(now);
        self.workers(now, |workers, cx| workers.reaped(are_left, drain_left, cx));
    }

    /// Gives up on descendants that are not known to have ended. Their jobs are left alone, because
    /// the descendants may still work on them.
    pub(crate) fn give_up_on_descendants(&mut self, now: Moment) {
        if self.workers.supervision.is_clearing() {
            self.give_up_on_the_killed(now);
            self.workers(now, Workers::nothing_is_left);
        }
    }

    /// Follows a worker process of which nothing is left.
    pub(crate) fn start_next_worker(&mut self, now: Moment) {
        if self.workers.is_cleared() {
            // The unread messages of its processes are decided before anything else follows.
            self.workers(now, Workers::nothing_is_left);
            self.resolve_gone_processes(now);
        }
        if self.workers.supervision.is_between_two() {
            self.workers(now, Workers::start_next);
        }
    }

    /// See [`Workers::end_pulls`].
    pub(crate) fn end_pulls(&mut self, now: Moment) {
        if !self.workers.pulls.is_empty() {
            self.workers(now, Workers::end_pulls);
        }
    }

    /// See [`Workers::answer_asked_pulls`].
    pub(crate) fn answer_asked_pulls(&mut self, now: Moment) {
        if !self.workers.pulls.is_empty() {
            self.workers(now, |workers, _| workers.answer_asked_pulls());
        }
    }

    /// Whether a holder has a job on which its process may still work.
    pub(crate) fn has_held_jobs(&self) -> bool {
        self.jobs.ledger.holders().next().is_some()
    }

    /// Whether new jobs may be given out.
    pub(crate) fn is_taking_jobs(&self) -> bool {
        self.workers.are_taking_jobs(self.phase())
    }
}
