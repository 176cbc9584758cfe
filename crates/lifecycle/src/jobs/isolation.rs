//! A suspect runs alone: while it has a process for itself, that process gets no other job, and so
//! the next crash has one holder.
//!
//! One suspect at a time has a turn. Its process first finishes the jobs that it holds. Other
//! processes get other jobs meanwhile, as far as the concurrency has room beside the suspects that
//! wait. No suspect waits longer than `TURN_WITHIN`.

use crate::api::ids::{Claim, ProcessId};
use crate::api::{JobNotice, JobTimer, Moment};
use crate::jobs::dispatch::offered;
use crate::jobs::job::Job;
use crate::jobs::part::{Context, Jobs};
use crate::jobs::said::Said;
use crate::jobs::suspects::{ALONE_FOR, EMPTIED_WITHIN, SuspectTurn, TURN_WITHIN};

impl Jobs {
    /// Ends the turn of a suspect that is decided, or whose process is going away.
    pub(crate) fn end_isolation(&mut self, cx: &Context) {
        let Some(turn) = self.suspects.turn else { return };
        let is_there = if turn.is_running {
            let holder = self.ledger.get(turn.claim).and_then(Job::holder);
            holder.and_then(|holder| cx.takers.process_of(holder)) == Some(turn.process)
        } else {
            let job = self.ledger.get(turn.claim);
            self.ledger.suspects().contains(&turn.claim)
                && job.is_some_and(|job| cx.takers.is_taken_in(turn.process, offered(job)))
        };
        if !is_there {
            self.end_turn();
        }
    }

    fn end_turn(&mut self) {
        if self.suspects.turn.take().is_some() {
            self.say(Said::KeepNone);
            self.timers.cancel(JobTimer::Suspect);
        }
    }

    /// Gives the oldest suspect a process for itself. Returns whether there are suspects that need
    /// none, or that nobody takes: they are jobs like any other now.
    pub(crate) fn choose_suspect(&mut self, cx: &Context) -> bool {
        let mut are_released = false;
        while self.suspects.turn.is_none()
            && let Some(claim) = self.ledger.suspects().first().copied()
        {
            let job = self.ledger.get(claim);
            match job.and_then(|job| cx.takers.emptiest_taker(offered(job))) {
                Some(process) => self.begin_turn(claim, process, cx),
                // The suspect runs alone without a turn. If no holder takes it, the log says so, as
                // of any other job.
                None => {
                    self.ledger.is_suspect(claim, false);
                    are_released = true;
                }
            }
        }
        are_released
    }

    /// Goes on with the turn of a suspect, and sets when it ends.
    pub(crate) fn go_on_with_turn(&mut self, cx: &Context) {
        if let Some(turn) = self.suspects.turn.filter(|turn| !turn.is_running) {
            self.start_when_empty(turn, cx);
        }
        if let Some(turn) = self.suspects.turn {
            let next = self.next_to_wait_no_longer().map(|(_, until)| until);
            let at = next.map_or(turn.until, |next| next.min(turn.until));
            self.timers.arm(JobTimer::Suspect, at);
        }
    }

    /// Starts the suspect as soon as its process is empty.
    fn start_when_empty(&mut self, turn: SuspectTurn, cx: &Context) {
        let is_empty = cx.takers.jobs_of(turn.process) == 0;
        if is_empty && self.give_alone(turn, cx) {
            self.suspects.turn = Some(SuspectTurn {
                is_running: true,
                until: cx.now.after(ALONE_FOR),
                ..turn
            });
        }
        // Holders that ask for jobs get none for now, because the process has to become empty, or
        // stay alone.
        for holder in cx.takers.holders_of(turn.process) {
            self.say(Said::EndPullsOf(holder));
        }
    }

    fn begin_turn(&mut self, claim: Claim, process: ProcessId, cx: &Context) {
        self.suspects.turn = Some(SuspectTurn {
            claim,
            process,
            is_running: false,
            until: cx.now.after(EMPTIED_WITHIN),
        });
        self.say(Said::Keep(process));
    }

    /// The process was not empty in time, or the suspect had its time alone: others run beside it.
    /// Or suspects have waited for long enough, and are jobs like any other.
    pub(crate) fn isolation_is_over(&mut self, cx: &Context) {
        while let Some((claim, until)) = self.next_to_wait_no_longer()
            && until <= cx.now
        {
            self.ledger.is_suspect(claim, false);
        }
        if let Some(turn) = self.suspects.turn.filter(|turn| turn.until <= cx.now) {
            self.ledger.is_suspect(turn.claim, false);
            self.end_turn();
        }
    }

    /// The suspect that came first, and until when it waits for its turn.
    fn next_to_wait_no_longer(&self) -> Option<(Claim, Moment)> {
        let claim = *self.ledger.suspects().first()?;
        Some((claim, self.ledger.get(claim)?.claimed_at.after(TURN_WITHIN)))
    }

    /// Gives it to a holder of its process that can be given a job now.
    fn give_alone(&mut self, turn: SuspectTurn, cx: &Context) -> bool {
        let Some(job) = self.ledger.get(turn.claim) else {
            return false;
        };
        let (subject, offered) = (job.subject(), offered(job));
        let pull = cx.takers.pull_in(turn.process, offered);
        let idle = cx.takers.idle_in(turn.process, offered);
        match (pull, idle) {
            (Some(pull), _) => self.give_to_pull(turn.claim, pull, cx),
            (None, Some(holder)) => self.give(turn.claim, holder, cx),
            (None, None) => return false,
        }
        self.notify(JobNotice::RunsAlone(subject));
        true
    }
}
