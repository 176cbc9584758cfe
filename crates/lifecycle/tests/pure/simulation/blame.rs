//! The reference for workers that ojs-init itself ended: whether it did, the consequences, and the
//! fate of jobs that had no part in it. Judged by the signals that the machine ordered.

use std::time::Duration;

use ojs_lifecycle::api::{
    Call, Effect, EndCause, EndingNotice, Event, JobId, NotStarted, Notice, Options, Outcome, Phase, ProcessId, Reason,
    Restart, WorkerNotice,
};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::ledger::Ledger;
use super::links::Link;
use super::promise::{Kept, promise};

/// How long after its grace the end of one process may bring about that of its parent.
const CONSEQUENCE: Duration = Duration::from_secs(10);

/// How soon a worker may be started again for the eleventh time.
const WINDOW: Duration = Duration::from_secs(600);

/// A process that was ended.
#[derive(Debug, Clone)]
struct Ending {
    process: ProcessId,
    cause: EndCause,
    at: Duration,
}

/// The record of the endings.
#[derive(Debug, Default)]
pub struct Blame {
    main: Option<ProcessId>,
    /// The endings of the present worker, and the rest of the former worker's.
    endings: Vec<Ending>,
    /// Whether the last worker was ended by ojs-init, and because of a handler that hung.
    was_ended: bool,
    has_hung: bool,
    /// The last worker was ended for a recycling, which is no fault to be reported.
    was_recycled: bool,
    /// Since when the present worker is being recycled.
    recycled_since: Option<Duration>,
    /// The old one of two worker processes, which is asked to end.
    old: Option<ProcessId>,
    /// The next one of two worker processes, which is asked to end in a shutdown.
    next: Option<ProcessId>,
    /// How many of the first endings are no cause for an end of the present worker.
    of_old: usize,
    ended: Option<Ended>,
    restarts: Vec<Duration>,
}

impl Blame {
    pub fn event(&mut self, event: &Event, phase: Phase, options: &Options, now: Duration) {
        if let Event::WorkerStarted { process, .. } = event {
            *self = Self {
                main: Some(*process),
                restarts: std::mem::take(&mut self.restarts),
                ..Self::default()
            };
        } else if let Event::WorkerEnded(ended) = event {
            // The end may be an answer to the cancel of its jobs.
            let cancelled_at = self.recycled_since.map(|since| since + options.times.grace_period);
            if let Some((process, at)) = self.main.zip(cancelled_at.filter(|at| *at <= now)) {
                let cause = EndCause::Recycled;
                let before = self.endings.iter().take_while(|ending| ending.at < at).count();
                self.endings.insert(before, Ending { process, cause, at });
            }
            let cause = self.cause_of_end(*ended, options, now);
            let cause = cause.filter(|_| !matches!(phase, Phase::EndGame | Phase::Stop));
            self.was_ended = cause.is_some();
            self.was_recycled = cause == Some(EndCause::Recycled);
            self.has_hung = matches!(cause, Some(EndCause::Hung { .. }));
            self.ended = Some(*ended);
            self.main = None;
        } else if let Event::NextStarted(process) = event {
            self.next = Some(*process);
        } else if let Event::NextNotStarted(NotStarted::Shortage) = event {
            self.recycled_since = Some(now);
        } else if let Event::WorkerNotStarted(NotStarted::Refused(_)) = event {
            self.ended = None;
        }
    }

    /// The next of two worker processes is the worker from here on.
    pub fn takes_over(&mut self, process: ProcessId) {
        self.old = self.main.replace(process);
        self.next = None;
        self.of_old = self.endings.len();
        self.recycled_since = None;
    }

    /// The cause of the main process's own end, else of the last end of another one, if that was a
    /// moment ago.
    fn cause_of_end(&self, ended: Ended, options: &Options, now: Duration) -> Option<EndCause> {
        let of_main = self
            .endings
            .iter()
            .skip(self.of_old)
            .find(|ending| Some(ending.process) == self.main);
        let is_recent = |ending: &&Ending| now < ending.at + options.cancel_grace + CONSEQUENCE;
        // The old one of two workers does not take the next one with it.
        let is_of_old = |ending: &Ending| self.old.is_some() && Some(ending.process) < self.main;
        let mut others = self.endings.iter().skip(self.of_old).rev();
        let last = others.find(|ending| ending.cause != EndCause::Recycled && !is_of_old(ending));
        let ending = of_main.or(last.filter(is_recent))?;
        let by_signal = matches!(
            ended,
            Ended::Exited(143) | Ended::Signalled(Signal::TERM | Signal::KILL)
        );
        (ending.cause != EndCause::Disconnected || by_signal).then(|| ending.cause.clone())
    }

    pub fn effect(&mut self, effect: &Effect, ledger: &Ledger, options: &Options, now: Duration) -> Kept {
        match effect {
            Effect::Notify(notice) => self.notice(notice, ledger, options, now),
            Effect::CallBackend { call, .. } => self.call(call, ledger),
            Effect::SignalProcess(process, Signal::TERM) => {
                let is_said = self.main.is_none()
                    || self.old == Some(*process)
                    || self.next == Some(*process)
                    || self.endings.iter().any(|ending| ending.process == *process);
                promise!("nobody is ended in silence", is_said, "{effect:?}");
                Ok(())
            }
            Effect::SignalWorker(Signal::TERM) if self.recycled_since.is_some() => {
                self.endings.extend(self.main.map(|process| Ending {
                    process,
                    cause: EndCause::Recycled,
                    at: now,
                }));
                Ok(())
            }
            Effect::StartNext => {
                self.recycled_since = None;
                Ok(())
            }
            Effect::StartWorker { .. }
            | Effect::TakeOver(_)
            | Effect::SignalWorker(_)
            | Effect::SignalProcess(..)
            | Effect::TerminateDescendants
            | Effect::KillDescendants
            | Effect::KillEverything
            | Effect::Tell(..)
            | Effect::ReadToEnd(_)
            | Effect::Close(..)
            | Effect::Answer(..)
            | Effect::Show(..)
            | Effect::AbandonCall(_)
            | Effect::AnswerPull { .. }
            | Effect::AnswerBeat { .. }
            | Effect::DropClient(_)
            | Effect::WriteTerminationLog(_)
            | Effect::Exit(_) => Ok(()),
        }
    }

    fn notice(&mut self, notice: &Notice, ledger: &Ledger, options: &Options, now: Duration) -> Kept {
        if let Notice::Worker(WorkerNotice::EndingProcess { process, cause, .. }) = notice {
            if *cause == EndCause::Orphaned {
                return Ok(());
            }
            if let EndCause::Hung { job, .. } = cause {
                let is_held = ledger.claims.iter().any(|claim| {
                    let link = claim.holder.and_then(|holder| ledger.links.get(&holder));
                    let is_unanswered = claim.answer.is_none() && !claim.is_decided;
                    claim.id == job.id && is_unanswered && link.is_some_and(|link| link.process == *process)
                });
                promise!("who hangs holds the job", is_held, "{notice:?}");
            }
            self.endings.push(Ending {
                process: *process,
                cause: cause.clone(),
                at: now,
            });
        } else if let Notice::Worker(WorkerNotice::Recycling { .. }) = notice {
            self.recycled_since = Some(now);
        } else if let Notice::Worker(WorkerNotice::WorkerEnded(..)) = notice {
            let is_fault = self.was_ended && !self.was_recycled;
            promise!("a worker that was ended is called that", !is_fault, "{notice:?}");
        } else if let Notice::Worker(WorkerNotice::WorkerWasEnded { .. }) = notice {
            promise!(
                "a worker that ended by itself is called that",
                self.was_ended,
                "{notice:?}"
            );
        } else if let Notice::Worker(WorkerNotice::RestartIn(_)) = notice {
            promise!("restarts as configured", self.is_restarted(options), "{notice:?}");
            self.restarts.retain(|at| now < *at + WINDOW);
            self.restarts.push(now);
            promise!("restarts are bounded", self.restarts.len() <= 10, "{:?}", self.restarts);
        } else if let Notice::Ending(EndingNotice::StateChanged {
            reason: Reason::Worker, ..
        }) = notice
            && self.ended.is_some()
        {
            let are_many = self.restarts.iter().filter(|at| now < **at + WINDOW).count() >= 10;
            promise!(
                "restarts as configured",
                are_many || !self.is_restarted(options),
                "{notice:?} after {:?}",
                self.ended
            );
        }
        Ok(())
    }

    fn is_restarted(&self, options: &Options) -> bool {
        match options.restart {
            Restart::Never => false,
            Restart::Hung => self.was_ended,
            Restart::OnFailure => self.was_ended || self.ended != Some(Ended::Exited(0)),
            Restart::Always => true,
        }
    }

    /// A job whose process was ended because of another job is no failure of its own.
    fn call(&self, call: &Call, ledger: &Ledger) -> Kept {
        let Call::Report { job, outcome, .. } = call else {
            return Ok(());
        };
        let is_blamed = match outcome {
            Outcome::Failed { error } if error.kind.as_deref() == Some("handler_not_found") => {
                return self.is_taken_by_nobody(job, ledger);
            }
            Outcome::Failed { error } if error.kind.as_deref() == Some("worker_death") => true,
            Outcome::Requeued { reason, .. } if reason.contains("another job of it hung") => false,
            Outcome::Acked { .. } | Outcome::Failed { .. } | Outcome::Requeued { .. } => return Ok(()),
        };
        let Some(is_innocent) = self.is_innocent(job, ledger) else {
            return Ok(());
        };
        promise!(
            "innocent jobs go back, and others do not",
            is_innocent != is_blamed,
            "{call:?}, {:?}",
            self.endings
        );
        Ok(())
    }

    fn is_innocent(&self, job: &JobId, ledger: &Ledger) -> Option<bool> {
        // A decision that is sent again or was held up is judged no second time.
        let claim = ledger.open().find(|claim| claim.id == *job)?;
        if claim.is_decided || claim.is_orphan {
            return None;
        }
        let process = ledger.links.get(&claim.holder?)?.process;
        let hung = |ending: &Ending| ending.process == process && matches!(ending.cause, EndCause::Hung { .. });
        Some(self.has_hung || self.endings.iter().any(hung))
    }

    /// The exit status if nothing requested the worker's end.
    pub fn own_status(&self) -> Option<u8> {
        self.was_ended.then_some(1)
    }

    /// No connection accepts jobs of this kind.
    fn is_taken_by_nobody(&self, job: &JobId, ledger: &Ledger) -> Kept {
        let claim = ledger.open().find(|claim| claim.id == *job);
        let Some(claim) = claim.filter(|claim| !claim.is_decided) else {
            return Ok(());
        };
        let takes = |link: &Link| {
            let types = link.ready.as_ref().and_then(|ready| ready.types.as_ref());
            link.ready.is_some() && types.is_none_or(|types| types.contains(&claim.kind))
        };
        let is_open =
            |link: &&Link| !link.is_hung_up && !link.is_closing && ledger.gone.get(&link.process) == Some(&false);
        // A process that is being ended gets no jobs.
        let is_ending = |link: &Link| self.endings.iter().any(|ending| ending.process == link.process);
        // Numbers of processes grow, and the next of two workers has the higher ones.
        let is_old = |link: &Link| self.old.is_some() && Some(link.process) < self.main;
        let taker = ledger
            .links
            .values()
            .filter(is_open)
            .find(|link| takes(link) && !is_ending(link) && !is_old(link));
        promise!(
            "a job without a handler is one that nobody takes",
            taker.is_none() || ledger.main.is_none(),
            "{claim:?}, {taker:?}"
        );
        Ok(())
    }
}
