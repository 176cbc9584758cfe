//! The invariants of the machine, which hold after each event. Debug builds and tests check them.

use crate::api::ids::CallId;
use crate::api::{EndingTimer, JobTimer, LinkTimer, Phase, Timer, WorkerTimer};
use crate::jobs::job::Place;
use crate::jobs::stages::ReportStage;
use crate::machine::Lifecycle;
use crate::worker::holder::Holder;

/// Most jobs and holders with which debug builds check after each event. The check is a walk: with
/// thousands of them a debug build would do nothing else, and errors with thousands also show with
/// a few.
const MOST_THINGS_OF_A_SMALL_ONE: usize = 50;

impl Lifecycle {
    /// [`Self::invariants`] of a machine with few jobs and holders.
    pub(super) fn invariants_if_small(&self) -> Result<(), String> {
        if self.jobs.ledger.unfinished() + self.workers.holders.len() > MOST_THINGS_OF_A_SMALL_ONE {
            return Ok(());
        }
        self.invariants()
    }

    /// Checks that the machine agrees with itself, by a walk through its whole state. After the
    /// exit nothing is checked.
    ///
    /// # Errors
    ///
    /// The first contradiction, in words.
    pub fn invariants(&self) -> Result<(), String> {
        if self.phase() == Phase::Exited {
            return Ok(());
        }
        self.jobs.ledger.check()?;
        self.jobs.memory.check()?;
        let counted = |id| {
            (
                self.jobs.ledger.held_by(id).len(),
                self.jobs.ledger.overdue_of(id).len(),
            )
        };
        self.workers.holders.check(counted)?;
        self.link.calls.check()?;
        self.check_holders()?;
        self.check_pulls()?;
        self.check_isolation()?;
        self.check_reports()?;
        self.check_deadlines()?;
        self.check_credit()
    }

    /// Checks that each holder of a job exists.
    fn check_holders(&self) -> Result<(), String> {
        let stranger = self
            .jobs
            .ledger
            .holders()
            .find(|id| self.workers.holders.get(*id).is_none());
        stranger.map_or(Ok(()), |id| Err(format!("holder {id} has jobs and is not there")))
    }

    /// A suspect is alone with its process, and no suspect waits for nothing.
    fn check_isolation(&self) -> Result<(), String> {
        let Some(isolation) = self.jobs.suspects.isolation else {
            let waits = self.is_taking_jobs() && !self.jobs.ledger.suspects().is_empty();
            return if waits {
                Err("a suspect waits for no isolation".to_owned())
            } else {
                Ok(())
            };
        };
        let is_due = self.jobs.timers.is_armed(JobTimer::Suspect);
        let mut holders = self.workers.holders.of(isolation.process);
        let (held, pulls) = (
            self.workers.holders.jobs_of(isolation.process),
            holders.any(|(_, holder)| holder.asked_queues.has_asked()),
        );
        if !is_due || isolation.is_running && held > 1 && !pulls {
            return Err(format!("a suspect is not alone: {isolation:?}, {held} jobs, {is_due}"));
        }
        Ok(())
    }

    /// Checks that each pull has a holder and is answered in time, and that no job waits that a
    /// pull would accept.
    fn check_pulls(&self) -> Result<(), String> {
        self.workers.pulls.check()?;
        if !self.is_open_for_jobs() && !self.workers.pulls.is_empty() {
            return Err("somebody is kept waiting for jobs where none may come".to_owned());
        }
        for (id, pull) in self.workers.pulls.iter() {
            let is_there = self.workers.holders.get(pull.holder).is_some_and(Holder::is_there);
            let is_due = self.workers.timers.is_armed(WorkerTimer::Pull(id));
            let wanted = self.jobs.ledger.waiting().oldest_from(pull.queues.as_deref());
            if !is_there || !is_due || pull.left == 0 || wanted.is_some() {
                return Err(format!(
                    "pull {id} is not served: {is_there} {is_due} {} {wanted:?}",
                    pull.left
                ));
            }
        }
        Ok(())
    }

    /// Checks that an outcome in flight has a request in flight.
    fn check_reports(&self) -> Result<(), String> {
        let lacks_its_call = |place: &Place| match place {
            Place::Waiting | Place::Held(_) => false,
            Place::Reporting(report) => match report.step {
                ReportStage::Sent(call, _) | ReportStage::Looking(call, _) => self.link.calls.get(call).is_none(),
                ReportStage::Due | ReportStage::Pausing | ReportStage::Doubtful | ReportStage::ResultRefused => false,
            },
        };
        let lost = self.jobs.ledger.iter().find(|(_, job)| lacks_its_call(&job.place));
        lost.map_or(Ok(()), |(claim, _)| {
            Err(format!("the outcome of {claim} waits for no request"))
        })
    }

    /// Checks that each deadline belongs to an existing object, so their number is bounded, and
    /// that each request has a deadline.
    fn check_deadlines(&self) -> Result<(), String> {
        if let Some((timer, _)) = self.all_timers().find(|(timer, _)| !self.has_a_use(*timer)) {
            return Err(format!("nobody needs {timer:?}"));
        }
        let has_a_deadline = |copy: CallId| self.link.timers.is_armed(LinkTimer::Call(copy));
        let mut requests = self.link.calls.iter();
        requests
            .find(|(_, request)| !request.open().any(has_a_deadline))
            .map_or(Ok(()), |(call, _)| Err(format!("request {call} may take for ever")))
    }

    fn has_a_use(&self, timer: Timer) -> bool {
        match timer {
            Timer::Job(timer) => self.has_a_use_for_a_job(timer),
            Timer::Worker(timer) => self.has_a_use_for_the_worker(timer),
            Timer::Client(client) => self.operators.knows(client),
            Timer::Link(LinkTimer::Listen(index)) => self.link.streams.at(index).is_closed(),
            Timer::Ending(EndingTimer::Idle) => self.ending.idle.since.is_some(),
            // A request that was removed keeps its timer, although its answer is not needed.
            Timer::Link(_) | Timer::Ending(_) => true,
        }
    }

    fn has_a_use_for_a_job(&self, timer: JobTimer) -> bool {
        let job = |claim| self.jobs.ledger.get(claim);
        let place = |claim| job(claim).map(|job| &job.place);
        match timer {
            JobTimer::JobTimeout(claim)
            | JobTimer::JobGrace(claim)
            | JobTimer::LostGrace(claim)
            | JobTimer::Silence(claim) => matches!(place(claim), Some(Place::Held(_))),
            JobTimer::NoHandler(claim) => matches!(place(claim), Some(Place::Waiting)),
            JobTimer::WithoutResult(claim) | JobTimer::Report(claim) => {
                matches!(place(claim), Some(Place::Reporting(_)))
            }
            JobTimer::AnswerBy(claim) => {
                let report = job(claim).and_then(|job| job.report());
                report.is_some_and(|report| report.listener.is_some())
            }
            JobTimer::LookAgain(claim) => job(claim).is_some_and(|job| job.again.is_some()),
            JobTimer::Progress(claim) | JobTimer::Checkpoint(claim) => place(claim).is_some(),
            JobTimer::Suspect => self.jobs.suspects.isolation.is_some(),
        }
    }

    fn has_a_use_for_the_worker(&self, timer: WorkerTimer) -> bool {
        let holders = &self.workers.holders;
        let holder = |id| holders.get(id);
        match timer {
            WorkerTimer::Ping(id) => holder(id).is_some_and(|holder| holder.manners.answers_pings),
            WorkerTimer::Stalled(id) => holders.hears(id),
            WorkerTimer::CancelSignal(id) => {
                holder(id).is_some_and(|holder| !holder.is_closed && !holders.is_gone(holder.process))
            }
            WorkerTimer::HungUp(process) | WorkerTimer::KillProcess(process) => holders.process(process).is_some(),
            WorkerTimer::Pull(pull) => self.workers.pulls.get(pull).is_some(),
            WorkerTimer::MaxAge => self.workers.supervision.is_alive() && !self.phase().is_terminating(),
            WorkerTimer::Recycle => self.workers.recycling.under_way().is_some(),
            WorkerTimer::KillDescendants
            | WorkerTimer::GiveUpOnDescendants
            | WorkerTimer::Rescan
            | WorkerTimer::Start
            | WorkerTimer::StartAnyway
            | WorkerTimer::Ready
            | WorkerTimer::Capacity
            | WorkerTimer::Settled => true,
        }
    }

    /// Checks that there are never more jobs than the concurrency allows, with those that may still
    /// be fetched.
    fn check_credit(&self) -> Result<(), String> {
        // Taken from the options, not from the code that is checked.
        let most = usize::try_from(self.options.concurrency).unwrap_or(usize::MAX);
        let (active, credit) = (self.jobs.ledger.active(), self.credit());
        if active > most {
            return Err(format!("{active} jobs are active, of at most {most}"));
        }
        if credit > 0 && self.jobs.ledger.reserved() + credit > most {
            return Err(format!("{credit} more jobs would be more than {most}"));
        }
        Ok(())
    }
}
