//! A suspect runs alone: while it has a process for itself, that process gets no other job, and so the next crash has one holder.
//! One suspect at a time has a turn. Its process first finishes the jobs that it holds. Other processes get other jobs meanwhile, as
//! far as the concurrency has room beside the suspects that wait. No suspect waits longer than `TURN_WITHIN`.

use crate::lifecycle::api::ids::{Claim, HolderId, ProcessId};
use crate::lifecycle::api::{Moment, Notice, Subject, Timer};
use crate::lifecycle::jobs::dispatch::frame_bytes;
use crate::lifecycle::jobs::job::Job;
use crate::lifecycle::jobs::suspects::{ALONE_FOR, EMPTIED_WITHIN, TURN_WITHIN, Turn};
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::worker::holder::Holder;

impl Lifecycle {
    /// Ends the turn of a suspect that is decided, or whose process is going away.
    pub(in crate::lifecycle) fn end_isolation(&mut self) {
        let Some(turn) = self.suspects.turn else { return };
        let is_there = if turn.is_running {
            let holder = self.jobs.get(turn.claim).and_then(Job::holder);
            holder
                .and_then(|holder| self.workers.holders().get(holder))
                .map(|holder| holder.process)
                == Some(turn.process)
        } else {
            self.jobs.suspects().contains(&turn.claim) && self.takers_in(turn.process, turn.claim).next().is_some()
        };
        if !is_there {
            self.end_turn();
        }
    }

    fn end_turn(&mut self) {
        if self.suspects.turn.take().is_some() {
            self.workers.keep_no_more();
            self.timers.cancel(Timer::Suspect);
        }
    }

    /// Gives the oldest suspect a process for itself.
    pub(in crate::lifecycle) fn isolate(&mut self, now: Moment) {
        if !self.is_taking_jobs() {
            return;
        }
        let mut are_released = false;
        while self.suspects.turn.is_none()
            && let Some(claim) = self.jobs.suspects().first().copied()
        {
            match self.emptiest_taker(claim) {
                Some(process) => self.begin_turn(claim, process, now),
                // It runs alone without a turn, or, as of any other job, it is told that nobody takes it.
                None => {
                    self.jobs.is_suspect(claim, false);
                    are_released = true;
                }
            }
        }
        if are_released {
            self.hand_over(now);
        }
        if let Some(turn) = self.suspects.turn.filter(|turn| !turn.is_running) {
            self.go_on_with(turn, now);
        }
        if let Some(turn) = self.suspects.turn {
            let next = self.next_to_wait_no_longer().map(|(_, until)| until);
            let at = next.map_or(turn.until, |next| next.min(turn.until));
            self.timers.arm(Timer::Suspect, at);
        }
    }

    /// Starts the suspect as soon as its process is empty.
    fn go_on_with(&mut self, turn: Turn, now: Moment) {
        let is_empty = self.workers.holders().jobs_of(turn.process) == 0;
        if is_empty && self.give_alone(turn, now) {
            self.suspects.turn = Some(Turn {
                is_running: true,
                until: now.after(ALONE_FOR),
                ..turn
            });
        }
        // Who asks for jobs itself is told that there are none for now: the process shall become empty, or stay alone.
        let holders: Vec<HolderId> = self.workers.holders().of(turn.process).map(|(id, _)| id).collect();
        for holder in holders {
            self.workers(now, |workers, _| workers.end_pulls_of(holder));
        }
    }

    fn begin_turn(&mut self, claim: Claim, process: ProcessId, now: Moment) {
        self.suspects.turn = Some(Turn {
            claim,
            process,
            is_running: false,
            until: now.after(EMPTIED_WITHIN),
        });
        self.workers.keep(process);
    }

    /// The process was not empty in time, or the suspect had its time alone: others run beside it. Or suspects have waited for long
    /// enough, and are jobs like any other.
    pub(in crate::lifecycle) fn isolation_is_over(&mut self, now: Moment) {
        while let Some((claim, until)) = self.next_to_wait_no_longer()
            && until <= now
        {
            self.jobs.is_suspect(claim, false);
        }
        if let Some(turn) = self.suspects.turn.filter(|turn| turn.until <= now) {
            self.jobs.is_suspect(turn.claim, false);
            self.end_turn();
        }
    }

    /// The suspect that came first, and until when it waits for its turn.
    fn next_to_wait_no_longer(&self) -> Option<(Claim, Moment)> {
        let claim = *self.jobs.suspects().first()?;
        Some((claim, self.jobs.get(claim)?.claimed_at.after(TURN_WITHIN)))
    }

    /// Gives it to a holder of its process that can be given a job now.
    fn give_alone(&mut self, turn: Turn, now: Moment) -> bool {
        let Some(subject) = self.jobs.get(turn.claim).map(Job::subject) else {
            return false;
        };
        let holders: Vec<HolderId> = self.workers.holders().of(turn.process).map(|(id, _)| id).collect();
        let pull = holders
            .iter()
            .find_map(|id| self.workers.pulls().of_holder_for(*id, &subject.queue));
        let is_idle = |(_, holder): &(HolderId, &Holder)| holder.free() > 0 && !holder.is_busy;
        let idle = self.takers_in(turn.process, turn.claim).find(is_idle).map(|(id, _)| id);
        if pull.is_none() && idle.is_none() {
            return false;
        }
        if let Some(pull) = pull {
            self.give_to_one_pull(turn.claim, pull, now);
        } else if let Some(holder) = idle {
            self.give(turn.claim, holder, now);
        }
        self.notify(Notice::RunsAlone(subject));
        true
    }

    /// The process with the fewest jobs that takes this job; none where nobody takes it, or only processes that take one at a time.
    fn emptiest_taker(&self, claim: Claim) -> Option<ProcessId> {
        let processes = self.workers.holders().iter().map(|(_, holder)| holder.process);
        let takers = processes.filter(|process| self.takers_in(*process, claim).next().is_some());
        let takers: Vec<ProcessId> = takers.collect();
        let are_needed = takers.iter().any(|process| self.takes_several(*process));
        let takers = takers.into_iter().filter(|_| are_needed);
        takers.min_by_key(|process| self.workers.holders().jobs_of(*process))
    }

    /// Whether a process may hold several jobs at a time.
    fn takes_several(&self, process: ProcessId) -> bool {
        let holders = || self.workers.holders().of(process).map(|(_, holder)| holder);
        let most = holders().filter_map(|holder| holder.ready.as_ref());
        let most: u64 = most.map(|ready| u64::from(ready.concurrency)).sum();
        most > 1 || holders().any(|holder| holder.asks.has_asked())
    }

    /// The holders of a process that take this job, now or later.
    fn takers_in(&self, process: ProcessId, claim: Claim) -> impl Iterator<Item = (HolderId, &Holder)> {
        let job = self
            .jobs
            .get(claim)
            .map(|job| (job.subject(), frame_bytes(&job.delivery)));
        let takes = move |holder: &Holder, (subject, bytes): &(std::sync::Arc<Subject>, usize)| {
            let is_offered = holder.ready.as_ref().is_some_and(|ready| {
                let types = ready.types.as_ref();
                let fits = holder.manners.frame_limit.is_none_or(|most| *bytes <= most);
                ready.concurrency > 0 && fits && types.is_none_or(|types| types.contains(&subject.kind))
            });
            holder.is_there() && (is_offered || holder.asks.take(&subject.queue))
        };
        let is_ending = self.workers.holders().ending(process).is_some() || self.workers.holders().is_gone(process);
        let theirs = self.workers.holders().of(process).filter(move |_| !is_ending);
        theirs.filter(move |(_, holder)| job.as_ref().is_some_and(|job| takes(holder, job)))
    }
}
