//! Between the link to the backend and the other parts: the facts that it decides by, and what follows from what it says.

use crate::lifecycle::api::ids::WorkerId;
use crate::lifecycle::api::{Failure, Moment, Timer, Trouble};
use crate::lifecycle::backend::link::{Context, EndFacts, Kept, Link, Reservations};
use crate::lifecycle::backend::link_said::Said;
use crate::lifecycle::backend::retry_state::{Failures, RetryNow};
use crate::lifecycle::jobs::job::{LookStep, Report};
use crate::lifecycle::jobs::ledger::Ledger;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::shutdown::ending::Ending;

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
    /// Lets the link decide something, and carries out what it says.
    pub(in crate::lifecycle) fn link<T>(&mut self, now: Moment, decide: impl FnOnce(&mut Link, &Context) -> T) -> T {
        let shutdown = self.ending.shutdown();
        let context = Context {
            options: &self.options,
            end: EndFacts {
                phase: self.ending.phase(),
                state: self.ending.state(),
                has_said_goodbye: shutdown.has_said_goodbye(),
                is_saying_goodbye: shutdown.is_saying_goodbye(),
                is_reporting: shutdown.is_reporting(),
                calls_end: shutdown.calls_end(),
            },
            takes_jobs: self.is_taking_jobs(),
            jobs: &self.jobs,
            now,
        };
        let decided = decide(&mut self.link, &context);
        for said in self.link.take_said() {
            self.link_said(said, now);
        }
        decided
    }

    fn link_said(&mut self, said: Said, now: Moment) {
        match said {
            Said::Order(effect) => self.order(effect),
            Said::Notify(notice) => self.notify(notice),
            Said::ReportNotSent(claim) => {
                let report = self.jobs.report_mut(claim);
                report.into_iter().for_each(Report::did_not_get_there);
            }
            Said::ReportSentAgain(claim) => self.jobs.report_mut(claim).into_iter().for_each(Report::goes_out),
            Said::Cancelled(job) => self.is_said_to_be_cancelled(&job, now),
            Said::RetryJobs { failures, at, is_soon } => self.retry_jobs(failures, at, is_soon),
            Said::HeartbeatAccepted { heartbeat, extended } => {
                self.note_extended(&heartbeat, extended.as_ref(), now);
                self.look_for_lost(&heartbeat, extended.as_ref(), now);
            }
            Said::Directed { directive, is_new } => {
                self.end(now, |ending, cx| ending.directed(directive, is_new, cx));
            }
            Said::HeartbeatDone { beats_again } => self.link(now, |link, cx| link.heartbeat_done(beats_again, cx)),
            Said::LastHeartbeatAnswered => self.end(now, Ending::last_heartbeat_answered),
        }
    }

    /// Retries reports and looks whose last failure has no cause any more.
    fn retry_jobs(&mut self, failures: Failures, at: Moment, is_soon: bool) {
        let mut verdicts: Vec<(Timer, RetryNow)> = Vec::new();
        let mut timer = |timer, verdict| verdicts.push((timer, verdict));
        for (claim, report) in self.jobs.reports() {
            let is_in_flight = !report.step.is_pause();
            let verdict = report.setbacks.retry_now(failures, is_in_flight, is_soon);
            timer(Timer::Report(claim), verdict);
        }
        for (claim, again) in self.jobs.agains() {
            let is_in_flight = again.step != LookStep::Pausing;
            let verdict = again.setbacks.retry_now(failures, is_in_flight, is_soon);
            timer(Timer::LookAgain(claim), verdict);
        }
        for (timer, verdict) in verdicts {
            match verdict {
                RetryNow::Unchanged => {}
                RetryNow::NextPauseIsShort => self.link.retries_at(at),
                RetryNow::EndPause => {
                    if self.timers.deadline_of(timer).is_some() {
                        self.timers.arm_at_latest(timer, at);
                        self.link.retries_at(at);
                    }
                }
            }
        }
    }

    /// Why the backend does not work for us, if so.
    pub(in crate::lifecycle) fn trouble(&self, now: Moment) -> Option<Trouble> {
        self.link.trouble(&self.options, &self.jobs, now)
    }

    /// Whether new jobs may come: they may be given out, and there is memory for them.
    pub(in crate::lifecycle) fn is_open_for_jobs(&self) -> bool {
        self.is_taking_jobs() && !self.link.memory_gate().is_closed()
    }

    /// How long to wait before a request about a job is repeated that has failed `before` times, and like this now.
    pub(in crate::lifecycle) fn retry_pause(&mut self, before: u32, failure: Failure) -> std::time::Duration {
        self.link.retry_pause(before, failure, self.ending.phase())
    }
}
