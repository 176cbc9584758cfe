//! What is told of an end: to a person who began it, how it went and what became of the jobs from then on; to the backend
//! why a job was cut off; to the orchestrator an exit status.

use crate::exit::Ended;
use crate::lifecycle::api::{
    Claim, Effect, EndCause, EndReport, EndedBy, JobError, MOST_LEFT_NAMES, Manner, Moment, Notice, ShutdownCounts,
};
use crate::lifecycle::jobs::job::Place;
use crate::lifecycle::machine::Lifecycle;
use crate::signal::Signal;

/// Exit status if the one job of `--once` was claimed and not acknowledged.
const NOT_DONE: u8 = 1;

impl Lifecycle {
    /// Counts what is said to the log: nothing becomes of a job in silence.
    pub(in crate::lifecycle) fn count_for_end(&mut self, notice: &Notice) {
        self.idle.note(notice);
        if *notice == Notice::TooManyRestarts {
            self.tally.has_ended_too_often = true;
        }
        if let Notice::EndingProcess { cause, .. } = notice
            && *cause != EndCause::Orphaned
        {
            self.account_for_ended_process(cause);
        }
        if !self.phase.is_terminating() && self.tally.ended_for.is_none() {
            return;
        }
        if let Notice::Settled { job, outcome, .. } = notice {
            self.tally.settled(&job.id, outcome);
        }
        if let Notice::Abandoned(job, _) = notice {
            self.tally.left += 1;
            if self.tally.left_names.len() < MOST_LEFT_NAMES {
                self.tally.left_names.insert(job.id.clone(), job.kind.clone());
            }
        }
        if let Notice::JobsDied { jobs, .. } = notice {
            self.tally.died += jobs.len();
            for job in jobs {
                if self.tally.died_names.len() < MOST_LEFT_NAMES {
                    self.tally.died_names.insert(job.id.clone(), job.kind.clone());
                }
            }
        }
        self.tally.is_fetch_abandoned |= *notice == Notice::FetchAbandoned;
    }

    /// What becomes of the jobs of such a process belongs to the account of an end that follows from its own.
    fn account_for_ended_process(&mut self, cause: &EndCause) {
        if !self.phase.is_terminating() {
            self.tally = ShutdownCounts::default();
        }
        self.tally.ended_for = Some(cause.clone());
    }

    /// The end begins. What was counted before counts only where we ended a process of the worker a moment ago; and where
    /// somebody asked for the end, nothing but what is left of that.
    pub(super) fn begin_account(&mut self, now: Moment) {
        let before = std::mem::take(&mut self.tally);
        if self.worker.has_just_ended_for(now).is_none() {
            self.tally.has_ended_too_often = before.has_ended_too_often;
        } else if self.shutdown.is_asked() {
            self.tally = ShutdownCounts {
                left: before.left,
                left_names: before.left_names,
                ended_for: before.ended_for,
                ..ShutdownCounts::default()
            };
        } else {
            self.tally = before;
        }
    }

    /// A shutdown cut this job off.
    pub(in crate::lifecycle) fn count_cut_off(&mut self, claim: Claim) {
        self.shutdown.job_cut_off();
        if let Some(job) = self.jobs.get(claim) {
            let subject = job.subject();
            self.tally.names.insert(subject.id.clone(), subject.kind.clone());
        }
    }

    /// The stop phase begins: should somebody kill us before its end, this is what is known.
    pub(super) fn account_for_stop(&mut self, now: Moment) {
        self.tally.stop = Some((self.shutdown.took(now), self.shutdown.forced_by().is_some()));
        let mut account = self.account(now);
        let held = self
            .jobs
            .iter()
            .filter(|(_, job)| job.holder().is_some() && !job.is_lost);
        let held: Vec<_> = held.map(|(_, job)| job.subject()).collect();
        account.cut_off = held.len();
        let named = held.iter().map(|subject| (subject.id.clone(), subject.kind.clone()));
        account.tally.names = named.collect();
        self.order(Effect::WriteTerminationLog(Box::new(account)));
    }

    /// Nothing was finished: for the summary.
    pub(super) fn count_what_is_left(&mut self) {
        let is_ack = |place: &Place| matches!(place, Place::Reporting(report) if report.what.is_ack());
        for _ in self.jobs.iter().filter(|(_, job)| is_ack(&job.place)) {
            self.shutdown.ack_unreported();
        }
        self.account_for_abandoning();
    }

    /// A third signal: nothing more is heard of anything.
    fn account_for_abandoning(&mut self) {
        let claims: Vec<Claim> = self.jobs.iter().map(|(claim, _)| claim).collect();
        self.tally.left += claims.len();
        for claim in claims {
            if self
                .jobs
                .get(claim)
                .is_some_and(|job| matches!(job.place, Place::Held(_)) && !job.is_lost)
            {
                self.count_cut_off(claim);
            }
        }
        if self.is_fetching() {
            self.notify(Notice::FetchAbandoned);
        }
    }

    /// The last words, for whoever reads the log and for whoever reads the termination log.
    pub(super) fn account_for_exit(&mut self, status: u8, now: Moment) {
        let mut account = self.account(now);
        account.status = Some(status);
        self.notify(Notice::Summary(Box::new(account.clone())));
        self.order(Effect::WriteTerminationLog(Box::new(account)));
    }

    /// How this end of the worker fits what was asked for.
    pub(in crate::lifecycle) fn manner(&self, ended: Ended) -> Manner {
        let is_success = self.options.remap_exit.apply(ended) == 0;
        if !self.phase.is_terminating() {
            return if is_success { Manner::Unasked } else { Manner::Failed };
        }
        let is_as_asked = match ended {
            Ended::Exited(status) => [Signal::TERM, Signal::INT]
                .into_iter()
                .any(|signal| Ended::Signalled(signal).status() == status),
            Ended::Signalled(Signal::TERM | Signal::INT) => true,
            Ended::Signalled(Signal::KILL) => self.shutdown.is_killing(),
            Ended::Signalled(_) => false,
        };
        if is_success || is_as_asked {
            Manner::Orderly
        } else {
            Manner::Disorderly
        }
    }

    fn account(&self, now: Moment) -> EndReport {
        let is_abandoned = self.shutdown.abandoned_with().is_some();
        let cause = match (self.shutdown.is_asked(), self.worker.refused_with()) {
            (true, _) => EndedBy::Asked(self.shutdown.reason()),
            (false, _) if is_abandoned => EndedBy::AtOnce,
            (false, Some(status)) => EndedBy::NotStarted(status),
            (false, None) if self.worker.ended_for().is_some() => EndedBy::WorkerWasEnded,
            (false, None) => EndedBy::WorkerEnded,
        };
        EndReport {
            cause,
            worker: self.worker.ended(),
            ran: self.worker.ran(),
            took: self.shutdown.took(now),
            status: None,
            is_abandoned,
            unreported: self.shutdown.unreported(),
            cut_off: self.shutdown.cut_off(),
            backend: self.trouble(now),
            tally: self.tally.clone(),
        }
    }

    /// The FAIL of a job that was cut off (GS-005, worker protocol 7.2.5, requirements C-05).
    pub(in crate::lifecycle) fn shutdown_error(&self, now: Moment) -> JobError {
        let elapsed = self.shutdown.took(now);
        let details = format!(
            r#"{{"reason":"shutdown","kind":"{}","trigger":"{}","grace_ms":{},"elapsed_ms":{}}}"#,
            if self.shutdown.forced_by().is_some() {
                "forced"
            } else {
                "ShutdownTimeout"
            },
            self.shutdown.reason().name(),
            // What was in force, which the orchestrator's limit may have made less than what is configured.
            self.shutdown.granted().as_millis(),
            elapsed.as_millis(),
        );
        JobError {
            code: Some(self.options.shutdown_error_code.clone()),
            kind: Some(self.options.shutdown_error_type.clone()),
            message: "the worker was shut down before the job was finished".into(),
            retryable: true,
            details: Some(details.into()),
            backtrace: None,
        }
    }

    /// With what status to end.
    pub(in crate::lifecycle) fn exit_status(&self) -> u8 {
        if let Some(status) = self.shutdown.abandoned_with() {
            return status;
        }
        let status = if !self.shutdown.is_asked() {
            self.worker.status(&self.options.remap_exit)
        } else if self.shutdown.cut_off() > 0 {
            self.options.interrupted_exit
        } else {
            0
        };
        if status == 0 && self.lacks_its_one_ack() {
            NOT_DONE
        } else {
            status
        }
    }
}
