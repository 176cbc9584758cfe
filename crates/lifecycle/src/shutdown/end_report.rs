//! The account of an end: the outcomes of the jobs since its beginning, why a job was cut off, and
//! the exit status.

use std::time::Duration;

use crate::api::{
    EndCause, EndReport, EndedBy, JobError, JobNotice, LinkNotice, MOST_LEFT_NAMES, Manner, Moment, Notice, Options,
    ShutdownCounts, Subject, Trouble, WorkerEnd, WorkerNotice,
};
use crate::shutdown::ending::{Context, Ending};
use crate::shutdown::said::Said;
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

/// Exit status if the one job of `--once` was claimed and not acknowledged.
const NOT_DONE: u8 = 1;

/// Facts about the last worker, for the account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastWorker {
    pub(crate) ended: Option<WorkerEnd>,
    pub(crate) ran: Option<Duration>,
    /// The exit status of ojs-init if the worker could not be started.
    pub(crate) start_failure_status: Option<u8>,
    /// ojs-init ended the worker.
    pub(crate) was_ended: bool,
}

impl Ending {
    /// Counts a notice to the log, because every outcome of a job has its notice.
    pub(crate) fn note(&mut self, notice: &Notice) {
        if let Notice::Job(JobNotice::Settled { outcome, .. }) = notice {
            self.idle.has_acked |= outcome.is_ack();
        }
        if *notice == Notice::Worker(WorkerNotice::TooManyRestarts) {
            self.tally.has_ended_too_often = true;
        }
        if let Notice::Worker(WorkerNotice::EndingProcess { cause, .. }) = notice
            && !matches!(cause, EndCause::Orphaned | EndCause::Recycled)
        {
            self.account_for_ended_process(cause);
        }
        if !self.phase.is_terminating() && self.tally.ended_for.is_none() {
            return;
        }
        if let Notice::Job(JobNotice::Settled { job, outcome, .. }) = notice {
            self.tally.settled(&job.id, outcome);
        }
        if let Notice::Job(JobNotice::Abandoned(job, _)) = notice {
            self.tally.left += 1;
            if self.tally.left_names.len() < MOST_LEFT_NAMES {
                self.tally.left_names.insert(job.id.clone(), job.kind.clone());
            }
        }
        if let Notice::Job(JobNotice::JobsDied { jobs, .. }) = notice {
            self.tally.died += jobs.len();
            for job in jobs {
                if self.tally.died_names.len() < MOST_LEFT_NAMES {
                    self.tally.died_names.insert(job.id.clone(), job.kind.clone());
                }
            }
        }
        self.tally.is_fetch_abandoned |= *notice == Notice::Link(LinkNotice::FetchAbandoned);
    }

    /// Counts the jobs of a process that ojs-init ended. They belong to the account of an end that
    /// follows from the process's end.
    fn account_for_ended_process(&mut self, cause: &EndCause) {
        if !self.phase.is_terminating() {
            self.tally = ShutdownCounts::default();
        }
        self.tally.ended_for = Some(cause.clone());
    }

    /// Begins the account. Earlier counts stay only if ojs-init ended a process of the worker a
    /// moment ago. If the end was requested, only the jobs left behind by that process stay
    /// counted.
    pub(super) fn begin_account(&mut self, cx: &Context) {
        let before = std::mem::take(&mut self.tally);
        if !cx.facts.worker_was_just_ended {
            self.tally.has_ended_too_often = before.has_ended_too_often;
        } else if self.shutdown.is_asked {
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

    /// The end cut this job off.
    pub(crate) fn job_cut_off(&mut self, job: &Subject) {
        self.shutdown.cut_off += 1;
        self.tally.names.insert(job.id.clone(), job.kind.clone());
    }

    /// Writes the account at the start of the stop phase, in case ojs-init is killed before its
    /// end.
    pub(super) fn account_for_stop(&mut self, cx: &Context) {
        self.tally.stop = Some((self.shutdown.took(cx.now), self.shutdown.forced.is_some()));
        self.say(Said::WriteAccount);
    }

    /// How this end of the worker fits the request.
    pub(crate) fn manner(&self, ended: Ended, options: &Options) -> Manner {
        let is_killed = ended == Ended::Signalled(Signal::KILL) && self.shutdown.is_killing();
        if !self.phase.is_terminating() {
            let is_success = options.remap_exit.apply(ended) == 0;
            return if is_success { Manner::Unasked } else { Manner::Failed };
        }
        if WorkerEnd::is_orderly(ended, &options.remap_exit) || is_killed {
            Manner::Orderly
        } else {
            Manner::Disorderly
        }
    }

    /// The account of the end, with the facts known so far.
    pub(crate) fn account(&self, worker: LastWorker, backend: Option<Trouble>, now: Moment) -> EndReport {
        let is_abandoned = self.shutdown.abandoned_with.is_some();
        let cause = match (self.shutdown.is_asked, worker.start_failure_status) {
            (true, _) => EndedBy::Asked(self.shutdown.reason),
            (false, _) if is_abandoned => EndedBy::AtOnce,
            (false, Some(status)) => EndedBy::NotStarted(status),
            (false, None) if worker.was_ended => EndedBy::WorkerWasEnded,
            (false, None) => EndedBy::WorkerEnded,
        };
        EndReport {
            cause,
            worker: worker.ended,
            ran: worker.ran,
            took: self.shutdown.took(now),
            status: None,
            is_abandoned,
            unreported: self.shutdown.unreported,
            cut_off: self.shutdown.cut_off,
            backend,
            tally: self.tally.clone(),
        }
    }

    /// The FAIL of a job that was cut off (GS-005, worker protocol 7.2.5, requirements C-05).
    pub(crate) fn shutdown_error(&self, options: &Options, now: Moment) -> JobError {
        let elapsed = self.shutdown.took(now);
        let details = format!(
            r#"{{"reason":"shutdown","kind":"{}","trigger":"{}","grace_ms":{},"elapsed_ms":{}}}"#,
            if self.shutdown.forced.is_some() {
                "forced"
            } else {
                "ShutdownTimeout"
            },
            self.shutdown.reason.name(),
            // The grace that was in force. The orchestrator's limit may have made it shorter than
            // the configured one.
            self.shutdown.granted.as_millis(),
            elapsed.as_millis(),
        );
        JobError {
            code: Some(options.shutdown_error_code.clone()),
            kind: Some(options.shutdown_error_type.clone()),
            details: Some(details.into()),
            ..JobError::new("the worker was shut down before the job was finished")
        }
    }

    /// The exit status. `of_worker` is the status that follows from the end of the worker without a
    /// request.
    pub(crate) fn exit_status(&self, of_worker: u8, options: &Options) -> u8 {
        if let Some(status) = self.shutdown.abandoned_with {
            return status;
        }
        let status = if !self.shutdown.is_asked {
            of_worker
        } else if self.shutdown.cut_off > 0 {
            options.interrupted_exit
        } else {
            0
        };
        if status == 0 && self.lacks_its_one_ack(options) {
            NOT_DONE
        } else {
            status
        }
    }
}
