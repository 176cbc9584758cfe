//! A suspect runs alone. While it has a process for itself, that process gets no other job, and so
//! the next crash has one holder.
//!
//! One suspect at a time is isolated. Its process first finishes the jobs that it holds. Other
//! processes get other jobs meanwhile, as far as the concurrency has room beside the suspects that
//! wait. No suspect waits longer than `ISOLATED_WITHIN`.

use crate::api::ids::{Claim, ProcessId};
use crate::api::{JobNotice, JobTimer, Moment};
use crate::jobs::dispatch::offered;
use crate::jobs::job::Job;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;
use crate::jobs::suspects::{ALONE_FOR, EMPTIED_WITHIN, ISOLATED_WITHIN, Isolation};

impl Jobs {
    /// Ends the isolation of a suspect that is decided, or whose process ends.
    pub(crate) fn end_isolation(&mut self, cx: &Context) {
        let Some(isolation) = self.suspects.isolation else {
            return;
        };
        let is_there = if isolation.is_running {
            let holder = self.ledger.get(isolation.claim).and_then(Job::holder);
            holder.and_then(|holder| cx.takers.process_of(holder)) == Some(isolation.process)
        } else {
            let job = self.ledger.get(isolation.claim);
            self.ledger.suspects().contains(&isolation.claim)
                && job.is_some_and(|job| cx.takers.is_taken_in(isolation.process, offered(job)))
        };
        if !is_there {
            self.forget_isolation();
        }
    }

    fn forget_isolation(&mut self) {
        if self.suspects.isolation.take().is_some() {
            self.say(Said::KeepNone);
            self.timers.cancel(JobTimer::Suspect);
        }
    }

    /// Gives the oldest suspect a process for itself. Returns whether suspects became ordinary
    /// jobs, because they need no isolation or no holder accepts them.
    pub(crate) fn choose_suspect(&mut self, cx: &Context) -> bool {
        let mut are_released = false;
        while self.suspects.isolation.is_none()
            && let Some(claim) = self.ledger.suspects().first().copied()
        {
            let job = self.ledger.get(claim);
            match job.and_then(|job| cx.takers.emptiest_taker(offered(job))) {
                Some(process) => self.begin_isolation(claim, process, cx),
                // The suspect runs alone without an isolation. If no holder accepts the suspect,
                // the log reports that as for any job.
                None => {
                    self.ledger.is_suspect(claim, false);
                    are_released = true;
                }
            }
        }
        are_released
    }

    /// Continues the isolation of a suspect, and sets when it ends.
    pub(crate) fn go_on_with_isolation(&mut self, cx: &Context) {
        if let Some(isolation) = self.suspects.isolation.filter(|isolation| !isolation.is_running) {
            self.start_when_empty(isolation, cx);
        }
        if let Some(isolation) = self.suspects.isolation {
            let next = self.next_to_wait_no_longer().map(|(_, until)| until);
            let at = next.map_or(isolation.until, |next| next.min(isolation.until));
            self.timers.arm(JobTimer::Suspect, at);
        }
    }

    /// Starts the suspect as soon as its process is empty.
    fn start_when_empty(&mut self, isolation: Isolation, cx: &Context) {
        let is_empty = cx.takers.jobs_of(isolation.process) == 0;
        if is_empty && self.give_alone(isolation, cx) {
            self.suspects.isolation = Some(Isolation {
                is_running: true,
                until: cx.now.after(ALONE_FOR),
                ..isolation
            });
        }
        // Holders that ask for jobs get none for now, because the process has to become empty, or
        // stay alone.
        for holder in cx.takers.holders_of(isolation.process) {
            self.say(Said::EndPullsOf(holder));
        }
    }

    fn begin_isolation(&mut self, claim: Claim, process: ProcessId, cx: &Context) {
        self.suspects.isolation = Some(Isolation {
            claim,
            process,
            is_running: false,
            until: cx.now.after(EMPTIED_WITHIN),
        });
        self.say(Said::Keep(process));
    }

    /// Ends an isolation whose process was not empty in time, or whose suspect had its time alone.
    /// Other jobs then run beside the suspect. Suspects that have waited for `ISOLATED_WITHIN`
    /// become ordinary jobs.
    pub(crate) fn isolation_is_over(&mut self, cx: &Context) {
        while let Some((claim, until)) = self.next_to_wait_no_longer()
            && until <= cx.now
        {
            self.ledger.is_suspect(claim, false);
        }
        if let Some(isolation) = self.suspects.isolation.filter(|isolation| isolation.until <= cx.now) {
            self.ledger.is_suspect(isolation.claim, false);
            self.forget_isolation();
        }
    }

    /// The oldest suspect, and until when that suspect waits for its isolation.
    fn next_to_wait_no_longer(&self) -> Option<(Claim, Moment)> {
        let claim = *self.ledger.suspects().first()?;
        Some((claim, self.ledger.get(claim)?.claimed_at.after(ISOLATED_WITHIN)))
    }

    /// Gives the suspect to a holder of its process that can get a job now.
    fn give_alone(&mut self, isolation: Isolation, cx: &Context) -> bool {
        let Some(job) = self.ledger.get(isolation.claim) else {
            return false;
        };
        let (subject, offered) = (job.subject(), offered(job));
        let pull = cx.takers.pull_in(isolation.process, offered);
        let idle = cx.takers.idle_in(isolation.process, offered);
        match (pull, idle) {
            (Some(pull), _) => self.give_to_pull(isolation.claim, pull, cx),
            (None, Some(holder)) => self.give(isolation.claim, holder, cx),
            (None, None) => return false,
        }
        self.notify(JobNotice::RunsAlone(subject));
        true
    }
}
