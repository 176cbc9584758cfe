//! The ends of the worker and of ojs-init, as records of the log. The very last record names the
//! cause, because `kubectl logs --tail=1` shows it, and level warn keeps it.

use std::fmt;

use log::Level;

use crate::daemon::log::record::LogRecord;
use crate::daemon::log::words::{info, jobs, named, warn};
use ojs_lifecycle::api::{EndCause, EndReport, EndedBy, Manner, Trouble, WorkerEnd};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_wire::trouble::sentence;

/// The words if no shortage is known.
const NO_PROCESS: (&str, &str) = ("the system has none", "raise the limit on processes");

/// Facts that the last records need, collected before the end.
#[derive(Debug, Default)]
pub struct LastWords {
    /// Why there is no worker, if the last attempt to start it failed: the fault and the advice.
    no_worker: Option<String>,
    /// Why there is no process for the worker at the moment, and the advice.
    shortage: Option<(String, &'static str)>,
    /// The worker may be a program that does not know ojs-init: it should announce ready on the
    /// worker socket, and has not since the first start.
    may_be_no_worker: bool,
}

impl LastWords {
    /// The state for a worker in mode socket, or in another one.
    pub fn new(speaks_our_protocol: bool) -> Self {
        Self {
            may_be_no_worker: speaks_our_protocol,
            ..Self::default()
        }
    }

    /// The worker has announced ready.
    pub fn said_ready(&mut self) {
        self.may_be_no_worker = false;
    }

    /// The worker could not be started, for this reason.
    pub fn not_started(&mut self, why: String) {
        self.no_worker = Some(why);
    }

    /// Why the last attempt to start it failed for good, if it did.
    pub fn why_none(&self) -> Option<&str> {
        self.no_worker.as_deref()
    }

    /// There is no process for it at the moment, for this reason.
    pub fn no_process_yet(&mut self, why: String, remedy: &'static str) {
        self.shortage = Some((why, remedy));
    }

    /// The worker was started.
    pub fn started(&mut self) {
        *self = Self::new(self.may_be_no_worker);
    }

    /// The record that there is no process for the worker at the moment.
    pub fn start_postponed(&self) -> LogRecord {
        let (why, remedy) = self.shortage.as_ref().map_or(NO_PROCESS, |(why, remedy)| (why, remedy));
        warn(format_args!(
            "cannot create a process for the worker yet, trying for 10 s: {why}; {remedy}"
        ))
    }

    /// The last record of all.
    pub fn summary(&self, account: &EndReport, backend_error: Option<&str>, status: u8) -> LogRecord {
        let left = left_undone(account);
        if account.is_abandoned {
            return warn(format_args!("Worker stopped at once{left}; exit status {status}"));
        }
        match (account.cause, account.worker) {
            (EndedBy::Asked(_), _) if left.is_empty() && never_registered(account).is_some() => {
                let why = never_registered(account).map_or(String::new(), |trouble| sentence(trouble, backend_error));
                warn(format_args!(
                    "Worker stopped, and never registered: {why}; exit status {status}"
                ))
            }
            (EndedBy::Asked(_), _) if left.is_empty() && account.tally.died > 0 => warn(format_args!(
                "Worker stopped; its process ended with {}; exit status {status}",
                died(account)
            )),
            (EndedBy::Asked(_), _) if left.is_empty() && account.is_forced() => {
                info(format_args!("Worker stopped by force; exit status {status}"))
            }
            (EndedBy::Asked(_), _) if left.is_empty() => {
                info(format_args!("Worker stopped gracefully; exit status {status}"))
            }
            (EndedBy::Asked(_), _) => warn(format_args!(
                "Worker stopped; {} cut off, {} finished and not reported{}; exit status {status}",
                jobs(account.cut_off),
                jobs(account.unreported),
                left_to_lapse(account)
            )),
            (EndedBy::AtOnce, _) => warn(format_args!("Worker stopped at once{left}; exit status {status}")),
            (EndedBy::NotStarted(_), _) => self.not_started_at_all(&left, status),
            (EndedBy::WorkerEnded, end) => unasked(account, end, &left, status),
            (EndedBy::WorkerWasEnded, _) => was_ended(account, &left, status),
        }
    }

    fn not_started_at_all(&self, left: &str, status: u8) -> LogRecord {
        let why = self.no_worker.as_deref().unwrap_or("the worker could not be started");
        LogRecord::new(Level::Error, format_args!("{why}{left}; exit status {status}"))
            .fatal()
            .of_error("not_started", why)
    }
}

/// Why the backend has never accepted a heartbeat, if that is known.
fn never_registered(account: &EndReport) -> Option<&Trouble> {
    account.backend.as_ref().filter(|trouble| trouble.is_from_the_start)
}

/// Jobs whose outcome the backend should have received and did not; empty if there are none.
fn left_undone(account: &EndReport) -> String {
    let mut left = String::new();
    if account.cut_off > 0 {
        left.push_str(&format!(", {} cut off", jobs(account.cut_off)));
    }
    if account.unreported > 0 {
        left.push_str(&format!(", {} finished and not reported", jobs(account.unreported)));
    }
    left + &left_to_lapse(account)
}

/// Jobs without an accepted outcome that `left_undone` has not counted yet.
fn left_to_lapse(account: &EndReport) -> String {
    let tally = &account.tally;
    let settled = tally.cut_off_failed + tally.cut_off_handed_back;
    let counted = account.unreported + account.cut_off.saturating_sub(settled);
    match tally.left.saturating_sub(counted) {
        0 => String::new(),
        left => format!(", {} left to the visibility timeout", jobs(left)),
    }
}

/// `, it held 2 jobs: 01a2 (mail), 01a3 (mail)`; empty if it held none.
fn held(account: &EndReport) -> String {
    match account.tally.died {
        0 => String::new(),
        _ => format!(", it held {}", died(account)),
    }
}

/// The jobs that failed because their process had ended, with their names.
fn died(account: &EndReport) -> String {
    let tally = &account.tally;
    let names = tally.died_names.iter().map(|(id, kind)| (&*id.0, &**kind));
    format!("{}: {}", jobs(tally.died), named(names, tally.died))
}

fn given_up(account: &EndReport) -> &'static str {
    if account.tally.has_ended_too_often {
        "given up after more than 10 restarts in 10 minutes: "
    } else {
        ""
    }
}

/// The record of a worker that ojs-init ended, without another one.
fn was_ended(account: &EndReport, left: &str, status: u8) -> LogRecord {
    let why = account.tally.ended_for.as_ref();
    let why = why.map_or_else(String::new, |cause| format!(": {cause}"));
    error(format_args!(
        "{}the worker was ended{why}{}{left}; exit status {status}",
        given_up(account),
        held(account)
    ))
}

/// The worker ended unasked, and no other one is started.
fn unasked(account: &EndReport, end: Option<WorkerEnd>, left: &str, status: u8) -> LogRecord {
    let given_up = given_up(account);
    let how = match end {
        Some(end) => fate(end, status),
        None => "not even SIGKILL ends the worker".to_owned(),
    };
    let held = held(account);
    if status == 0 {
        warn(format_args!(
            "{given_up}{how}, with success{held}{left}; exit status {status}"
        ))
    } else {
        error(format_args!("{given_up}{how}{held}{left}; exit status {status}"))
    }
}

/// `the worker was killed by SIGKILL`; the status only if that of ojs-init differs.
fn fate(end: WorkerEnd, status: u8) -> String {
    match end.ended {
        Ended::Signalled(_) => format!("the worker was {end}"),
        Ended::Exited(own) if own == status => format!("the worker ended by itself{}", end.out_of_memory()),
        Ended::Exited(own) => format!("the worker ended by itself with status {own}{}", end.out_of_memory()),
    }
}

/// The worker's process was reaped.
pub fn worker_ended(end: WorkerEnd, manner: Manner, last_words: &LastWords) -> LogRecord {
    let record = match manner {
        Manner::Orderly => info(format_args!("the worker ended: {end}")),
        Manner::Disorderly => warn(format_args!(
            "the worker ended, but not as it was asked to: {end}; accepted: exit status 0, 130 or 143, a status that \
             --remap-exit maps to 0, SIGTERM or SIGINT; its own output says why"
        )),
        Manner::Unasked => warn(format_args!(
            "the worker ended by itself, with success: {end}{}",
            hint(end.ended, last_words)
        )),
        Manner::Failed => error(format_args!("the worker failed: {end}{}", hint(end.ended, last_words))),
    };
    how_it_ended(record, end)
}

/// The record of a worker that ojs-init has ended.
pub fn worker_was_ended(end: WorkerEnd, cause: &EndCause) -> LogRecord {
    let record = error(format_args!("the worker was ended: {cause} ({end})"));
    how_it_ended(about_cause(record, cause), end)
}

fn how_it_ended(record: LogRecord, end: WorkerEnd) -> LogRecord {
    let record = match end.ended {
        Ended::Exited(status) => record.with("exit_status", u64::from(status)),
        Ended::Signalled(signal) => record.with("signal", signal.to_string().as_str()),
    };
    record.with_any("oom_kills", Some(end.oom_kills).filter(|kills| *kills > 0))
}

/// Adds the job that is the cause, if a job is.
pub fn about_cause(record: LogRecord, cause: &EndCause) -> LogRecord {
    if let EndCause::Hung { job, .. } = cause {
        record.of_job(job, None)
    } else {
        record
    }
}

/// The hint about a worker that ended unasked.
fn hint(ended: Ended, last_words: &LastWords) -> &'static str {
    match ended {
        Ended::Signalled(Signal::HUP) => "; ojs-init passes SIGHUP on, and the worker has no handler for it",
        Ended::Exited(_) if last_words.may_be_no_worker => {
            "; it never said ready on OJS_SOCKET; a program that does one job and ends needs OJS_MODE=exec"
        }
        Ended::Signalled(_) | Ended::Exited(_) => "",
    }
}

fn error(message: impl fmt::Display) -> LogRecord {
    LogRecord::new(Level::Error, message)
}
