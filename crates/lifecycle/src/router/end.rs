//! Between the end and the other parts: the facts that the end decides by, and the orders that it
//! returns.

use std::time::Duration;

use ojs_values::small;

use crate::api::{Effect, EndCause, EndReport, EndingNotice, LinkNotice, Moment, Reason, WorkerTimer};
use crate::backend::link::Link;
use crate::backend::purpose::Purpose;
use crate::jobs::part::Jobs;
use crate::machine::Lifecycle;
use crate::shutdown::end_report::LastWorker;
use crate::shutdown::ending::{Context, Ending, Facts};
use crate::shutdown::phase::Trigger;
use crate::shutdown::said::Said;
use crate::worker::workers::Workers;

impl Lifecycle {
    /// Lets the end decide, and carries out its orders.
    pub(crate) fn end<T>(&mut self, now: Moment, decide: impl FnOnce(&mut Ending, &Context) -> T) -> T {
        let facts = self.facts(now);
        let context = Context {
            options: &self.options,
            facts,
            now,
        };
        let decided = decide(&mut self.ending, &context);
        self.carry_out(|machine| &mut machine.ending.said, Self::end_said, now);
        decided
    }

    /// Passes on a trigger from outside the end.
    pub(crate) fn go(&mut self, trigger: Trigger, reason: Reason, now: Moment) {
        self.end(now, |ending, cx| ending.go(trigger, reason, cx));
    }

    /// See [`Ending::end_if_idle`].
    pub(crate) fn end_if_idle(&mut self, now: Moment) {
        if self.ending.may_end_by_itself(&self.options) {
            self.end(now, Ending::end_if_idle);
        }
    }

    /// See [`Ending::advance`].
    pub(crate) fn advance(&mut self, now: Moment) -> bool {
        self.ending.is_waiting_for_something() && self.end(now, Ending::advance)
    }

    /// See [`Ending::is_idle`].
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.ledger.is_empty() && !self.link.is_fetching()
    }

    fn facts(&self, now: Moment) -> Facts {
        let jobs = &self.jobs.ledger;
        let is_recycling = self.workers.recycling.is_felt();
        let is_out = |is: fn(&Purpose) -> bool| self.link.calls.is_any(is);
        Facts {
            unfinished: jobs.unfinished(),
            has_jobs: !jobs.is_empty(),
            has_held_jobs: self.has_held_jobs(),
            // Dropped jobs do not count: nothing shows that a worker still has them, and the drain
            // waits for them.
            has_nothing_to_do: jobs.reserved() + jobs.beside() == 0 && jobs.lost() == jobs.unanswered(),
            is_fetching: self.link.is_fetching(),
            // The idle time goes on with the next worker.
            is_looking_for_jobs: self.is_looking_for_jobs() || is_recycling && self.link.is_able_to_fetch(),
            is_recycling,
            worker_is_alive: self.workers.supervision.is_alive(),
            worker_is_over: self.workers.supervision.is_over(),
            worker_was_just_ended: {
                let cause = self.workers.supervision.has_just_ended_for(now);
                cause.is_some_and(|cause| *cause != EndCause::Recycled)
            },
            operators_have_left: self.operators.have_left(),
            is_known: self.link.session.is_known,
            owes_farewell: self.link.session.has_registered(),
            heartbeats: self.link.beats_in_flight(),
            is_saying_last: is_out(|purpose| matches!(purpose, Purpose::FinalHeartbeat { .. })),
            is_registering: self.link.is_registering(),
            is_deregistering: is_out(|purpose| matches!(purpose, Purpose::Deregister(..))),
        }
    }

    fn end_said(&mut self, said: Said, now: Moment) {
        match said {
            Said::Notify(notice) => self.notify(notice),
            Said::SignalWorker(signal) => self.workers(now, |workers, _| workers.signal_workers(signal)),
            Said::TellAll(word) => self.workers(now, |workers, cx| workers.tell_all(&word, cx)),
            Said::Heartbeat => self.link(now, Link::heartbeat_now),
            Said::Resumed(reason) => self.link.resumed(reason),
            Said::QuietBegins => {
                // No FETCH waits for the answer to a heartbeat any more.
                self.link.session.heartbeats.resumed = None;
                self.jobs(now, Jobs::end_holds);
            }
            Said::TerminateBegins => {
                self.workers(now, Workers::end_begins);
                self.link.end_begins();
                self.jobs(now, |jobs, cx| {
                    jobs.outcomes_are_ours(cx);
                    jobs.end_holds(cx);
                });
            }
            Said::TellBackend { from } => self.link(now, |link, cx| link.beat_for_terminate(from, cx)),
            Said::DrainBegins => self.jobs(now, Jobs::shorten_pauses),
            Said::DrainLine { is_first, left } => self.drain_line(is_first, left),
            Said::StopBegins(forced) => {
                let held = self
                    .jobs
                    .ledger
                    .holders()
                    .map(|id| self.jobs.ledger.held_by(id).len())
                    .sum();
                self.notify(EndingNotice::StopBegan { held, forced });
            }
            Said::WriteAccount => self.account_for_stop(now),
            Said::CancelJobs(grace) => self.cancel_jobs(grace, now),
            Said::AskWorkerToEnd => self.workers(now, |workers, _| workers.ask_worker_to_end()),
            Said::Kill => self.workers(now, Workers::kill_everything),
            Said::Report => self.report_leftovers(now),
            Said::GiveUpOnOutcomes(why) => self.give_up_on_outcomes(why, now),
            Said::SayLast(state) => self.link(now, |link, cx| link.say_last(state, cx)),
            Said::Deregister => {
                self.link(now, Link::deregister_everybody);
            }
            Said::ShowEnd => self.show_end(now),
            Said::AskOnceMore { idle_for } => {
                if !self.fetch_once_more() {
                    self.go(Trigger::Terminate, Reason::Idle(idle_for), now);
                }
            }
            Said::Exit => self.exit(now),
        }
    }

    /// Without a worker and without a job an operator waits for nothing.
    fn drain_line(&mut self, is_first: bool, left: Duration) {
        let active = self.jobs.ledger.unfinished();
        if active == 0 && !self.workers.supervision.is_alive() {
            return;
        }
        let reporting = self.jobs.ledger.reporting();
        self.notify(if is_first {
            EndingNotice::DrainBegan {
                active,
                reporting,
                left,
            }
        } else {
            EndingNotice::Draining {
                active,
                reporting,
                left,
            }
        });
    }

    fn cancel_jobs(&mut self, grace: Duration, now: Moment) {
        if self.jobs(now, |jobs, cx| jobs.is_one_with_the_deaf(cx)) {
            // A SIGTERM is all that a holder that receives no cancel can get.
            self.workers(now, |workers, _| workers.ask_worker_to_end());
        }
        self.jobs(now, |jobs, cx| jobs.cancel_all(grace, cx));
    }

    /// Gives up on the jobs that are still held. Every process that could answer has answered or
    /// ended. If the kernel holds a process, its handler may still work on its job.
    fn report_leftovers(&mut self, now: Moment) {
        self.workers.timers.cancel(WorkerTimer::Rescan);
        if self.workers.supervision.is_clearing() {
            self.give_up_on_descendants(now);
        } else if self.has_held_jobs() || !self.workers.supervision.is_over() {
            self.give_up_on_the_killed(now);
        }
        self.jobs(now, |jobs, cx| {
            jobs.hurry_reports(cx);
            jobs.hurry_looks(cx);
        });
        // Requests that hang have less time from now on.
        self.link(now, Link::look_for_hanging);
    }

    /// Stops the wait for processes that got SIGKILL, and reports their last known state.
    pub(crate) fn give_up_on_the_killed(&mut self, now: Moment) {
        let why = self.ending.still_there(now);
        let holders = self.workers.holders_left();
        let held = holders.iter().map(|id| self.jobs.ledger.held_by(*id).len()).sum();
        self.notify(EndingNotice::KillGaveUp { why, held });
        self.jobs(now, |jobs, cx| jobs.give_up_on(&holders, why.why_left(), cx));
    }

    fn give_up_on_outcomes(&mut self, why: &'static str, now: Moment) {
        self.workers.timers.cancel(WorkerTimer::Rescan);
        self.link(now, |link, _| link.says_nothing_more());
        self.ending.shutdown.unreported += self.jobs.unfinished_acks();
        self.jobs(now, |jobs, cx| jobs.let_all_expire(why, cx));
    }

    /// The account of the end, with the facts known so far.
    fn account(&self, now: Moment) -> EndReport {
        let worker = LastWorker {
            ended: self.workers.supervision.ended,
            ran: self.workers.supervision.ran(),
            start_failure_status: self.workers.supervision.start_failure_status,
            was_ended: self.workers.supervision.ended_for.is_some(),
        };
        self.ending.account(worker, self.trouble(now), now)
    }

    fn account_for_stop(&mut self, now: Moment) {
        let mut account = self.account(now);
        let held = self.jobs.held_subjects();
        account.cut_off = held.len();
        let named = held.iter().map(|subject| (subject.id.clone(), subject.kind.clone()));
        account.tally.names = small::gather(named);
        self.order(Effect::WriteTerminationLog(Box::new(account)));
    }

    /// The exit status, by the facts known so far.
    pub(crate) fn exit_status(&self) -> u8 {
        let of_worker = self.workers.supervision.status(&self.options.remap_exit);
        self.ending.exit_status(of_worker, &self.options)
    }

    /// The last order of all.
    fn exit(&mut self, now: Moment) {
        // Answers waiting clients. After a third signal they get no time to leave before the
        // SIGKILL.
        self.answer_waits(now);
        self.operators.timers.clear();
        self.jobs.timers.clear();
        self.workers.timers.clear();
        self.link.timers.clear();
        if self.ending.shutdown.abandoned_with.is_some() {
            self.order(Effect::KillEverything);
            self.count_what_is_left(now);
        }
        let mut account = self.account(now);
        let status = self.exit_status();
        account.status = Some(status);
        self.notify(EndingNotice::Summary(Box::new(account.clone())));
        self.order(Effect::WriteTerminationLog(Box::new(account)));
        self.order(Effect::Exit(status));
    }

    /// Counts the unfinished work after a third signal, because no outcome will arrive any more.
    fn count_what_is_left(&mut self, now: Moment) {
        self.ending.shutdown.unreported += self.jobs.unfinished_acks();
        self.ending.tally.left += self.jobs.ledger.iter().count();
        self.jobs(now, |jobs, _| jobs.cut_all_off());
        if self.link.is_fetching() {
            self.notify(LinkNotice::FetchAbandoned);
        }
    }
}
