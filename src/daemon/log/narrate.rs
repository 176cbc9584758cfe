//! Notices of the lifecycle as records of the log; `narrate_jobs` has those of jobs. Ids of jobs
//! may appear, arguments and results never.

use std::time::Duration;

use log::Level;

use crate::daemon::log::last_words::LastWords;
use crate::daemon::log::narrate_jobs::JobNarrator;
use crate::daemon::log::narrate_outage::{Failed, OutageNarrator};
use crate::daemon::log::record::LogRecord;
use crate::daemon::log::sink::{say, set_worker};
use crate::daemon::log::words::{because_of, in_progress, info, jobs, what_follows};
use crate::daemon::log::{narrate_link, narrate_stop, narrate_workers};
use ojs_lifecycle::api::{
    Call, EndReport, EndingNotice, JobNotice, LinkNotice, Notice, Reason, WorkerId, WorkerNotice, WorkerState,
};
use ojs_os::clock;
use ojs_os::process::Pid;
use ojs_wire::backend::request::Words;
use ojs_wire::names::worker_state;
use ojs_wire::text::{asked_by, milliseconds, seconds};

/// Writes the notices of the lifecycle to the log.
#[derive(Debug)]
pub struct Narrator {
    /// When ojs-init began, on the monotonic clock.
    began: Duration,
    /// `None` if it is not set.
    concurrency: Option<u32>,
    queues: Option<String>,
    jobs: JobNarrator,
    /// The reason why the worker ended, if the lifecycle gave one.
    ended_by: Option<Reason>,
    last_words: LastWords,
    outages: OutageNarrator,
    /// The error of the last request that failed because the backend does.
    backend_error: Option<String>,
}

impl Narrator {
    /// A narrator for a worker with these settings, if they are set, and the backend at this
    /// address. In mode socket the worker `speaks_our_protocol`.
    pub fn new(concurrency: Option<u32>, queues: Option<&[String]>, url: &str, speaks_our_protocol: bool) -> Self {
        Self {
            began: clock::monotonic(),
            concurrency,
            queues: queues.map(|queues| queues.join(",")),
            jobs: JobNarrator::default(),
            ended_by: None,
            last_words: LastWords::new(speaks_our_protocol),
            outages: OutageNarrator::new(url),
            backend_error: None,
        }
    }

    /// The last error of a registration, a heartbeat or an outage, as the log has it. It counts
    /// while the backend does not work.
    pub fn backend_error(&self) -> Option<String> {
        self.backend_error.clone()
    }

    /// Why there is no worker, as the log has it, if the last attempt to start it failed for good.
    pub fn no_worker(&self) -> Option<&str> {
        self.last_words.why_none()
    }

    /// Writes the record of a notice. `words` are those of the answer that the lifecycle handles,
    /// and empty while it handles none.
    pub fn narrate(&mut self, notice: &Notice, words: &Words) {
        let is_greeting = if let Notice::CallFailed { what, .. } = notice {
            matches!(*what, "heartbeat" | "registration" | "final heartbeat")
        } else {
            matches!(
                notice,
                Notice::Link(LinkNotice::BackendIsAway(_) | LinkNotice::HeartbeatsRefused)
            )
        };
        if is_greeting {
            self.backend_error.clone_from(&words.failure);
        }
        // Each job brings two of them, and making one costs more than the machine's part in the
        // job.
        if matches!(notice, Notice::Job(JobNotice::Claimed(_) | JobNotice::HandedOver(..)))
            && !log::log_enabled!(Level::Debug)
        {
            return;
        }
        if let Some(note) = self.note(notice, words, clock::monotonic()) {
            say(&note);
        }
    }

    /// The worker was started, and this is its name from here on, in every record.
    pub fn worker_started(&mut self, pid: Pid, worker: &WorkerId) {
        self.last_words.started();
        set_worker(&worker.0);
        say(&self.started(u64::try_from(pid.number()).unwrap_or_default(), worker));
    }

    /// The next worker was started beside the one that runs.
    pub fn next_started(pid: Pid) {
        say(&next_started(u64::try_from(pid.number()).unwrap_or_default()));
    }

    /// There is no process for the worker at the moment, for this reason.
    pub fn no_process_yet(&mut self, why: String, remedy: &'static str) {
        self.last_words.no_process_yet(why, remedy);
    }

    /// There is no worker, for this reason; the lifecycle decides whether that is the end.
    pub fn worker_not_started(&mut self, why: String) {
        self.last_words.not_started(why);
    }

    /// Logs a request to the backend.
    pub fn calling(call: &Call) {
        if let Some(note) = calling_note(call) {
            say(&note);
        }
    }

    fn started(&self, pid: u64, worker: &WorkerId) -> LogRecord {
        let most = match self.concurrency {
            Some(most) => format!("up to {} at once", jobs(most)),
            None => "as many jobs as it asks for".to_owned(),
        };
        info(format_args!("Worker started with pid {pid}, for {most}, as {worker}"))
            .with("pid", pid)
            .with_any("concurrency", self.concurrency.map(u64::from))
            .with_any("queues", self.queues.as_deref())
    }

    /// The record about it, unless there was one like it a moment ago.
    fn note(&mut self, notice: &Notice, words: &Words, now: Duration) -> Option<LogRecord> {
        let said = words.failure.as_deref();
        match notice {
            Notice::Ending(notice) => self.ending(notice, now),
            Notice::Link(notice) => Some(narrate_link::record(notice, &mut self.outages, said)),
            Notice::Worker(notice) => {
                if let WorkerNotice::HolderReady { .. } = notice {
                    self.last_words.said_ready();
                }
                Some(narrate_workers::record(notice, &self.last_words))
            }
            Notice::Job(notice) => self.jobs.record(notice, words, now),
            Notice::CallFailed {
                what,
                job,
                failure,
                retry_in,
            } => {
                let failed = Failed {
                    what,
                    job: job.as_deref(),
                    failure: *failure,
                    retry_in: *retry_in,
                };
                Some(self.outages.failed(failed, said, now))
            }
        }
    }

    fn ending(&mut self, notice: &EndingNotice, now: Duration) -> Option<LogRecord> {
        Some(match notice {
            // A worker that could not be started has no story, so the last words suffice.
            EndingNotice::StateChanged { reason, .. }
                if *reason == Reason::Worker && self.last_words.why_none().is_some() =>
            {
                return None;
            }
            EndingNotice::StateChanged { state, reason } => self.state_changed(*state, *reason),
            EndingNotice::Stayed { what, why } => narrate_stop::stayed(*what, why),
            EndingNotice::DrainBegan {
                active,
                reporting,
                left,
            }
            | EndingNotice::Draining {
                active,
                reporting,
                left,
            } => self.draining(*active, *reporting, *left),
            EndingNotice::Drained => info("no job is active: asking the worker to end"),
            EndingNotice::SameRequest(what, after) => narrate_stop::same_request(*what, *after),
            EndingNotice::StopBegan { held, forced } => narrate_stop::began(*held, *forced),
            EndingNotice::GraceEnded { by, active } => narrate_stop::grace_ended(*by, *active),
            EndingNotice::EndingAtOnce { by, active } => narrate_stop::ending_at_once(*by, *active),
            EndingNotice::KillGaveUp { why, held } => narrate_stop::kill_gave_up(*why, *held),
            EndingNotice::PrestopRan { left } => narrate_stop::prestop_ran(*left),
            EndingNotice::PrestopLapsed { later } => narrate_stop::prestop_lapsed(*later),
            EndingNotice::Summary(account) => self.summary(account, now),
        })
    }

    fn summary(&self, account: &EndReport, now: Duration) -> LogRecord {
        let status = account.status.unwrap_or_default();
        let last_words = self.last_words.summary(account, self.backend_error.as_deref(), status);
        last_words
            .with("exit_status", u64::from(status))
            .with("total_processed", self.jobs.completed())
            .with("uptime_seconds", now.saturating_sub(self.began).as_secs())
    }

    fn state_changed(&mut self, state: WorkerState, reason: Reason) -> LogRecord {
        if state == WorkerState::Terminate {
            self.ended_by = Some(reason);
        }
        let why = if (state, reason) == (WorkerState::Running, Reason::Prestop) {
            "a preStop hook came to nothing".to_owned()
        } else if let Reason::Idle(time) = reason {
            format!("no job for {} (worker.exit_when_idle)", seconds(time))
        } else {
            asked_by(reason).to_owned()
        };
        let record = info(format_args!("{why}: {}", what_follows(state)));
        because_of(record, Some(reason)).with("worker_state", worker_state(state))
    }

    fn draining(&self, active: usize, reporting: usize, left: Duration) -> LogRecord {
        let what = in_progress(active, reporting);
        let record = info(format_args!("Worker draining, {what}; {} left", seconds(left)));
        because_of(record, self.ended_by)
            .with("active_jobs", active)
            .with_any("reporting_jobs", (reporting > 0).then_some(reporting))
            .with("remaining_ms", milliseconds(left))
    }
}

fn calling_note(call: &Call) -> Option<LogRecord> {
    let Call::Heartbeat { state, active, .. } = call else {
        return None;
    };
    let record = LogRecord::new(Level::Debug, "Worker heartbeat sent")
        .with("active_jobs", active.len())
        .with("worker_state", worker_state(*state));
    Some(record)
}

fn next_started(pid: u64) -> LogRecord {
    info(format_args!(
        "the next worker was started beside the old one, with pid {pid}"
    ))
    .with("pid", pid)
}

#[cfg(test)]
#[path = "narrate_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "narrate_drain_tests.rs"]
mod drain_tests;
