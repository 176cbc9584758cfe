//! What the lifecycle has to say, as lines of the log. Job ids may appear, arguments and results never.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use log::{debug, error, info, warn};

use crate::daemon::seldom::Seldom;
use crate::lifecycle::effect::{CancelReason, HeartbeatForm, Outcome, Reason, Remark, WorkerState};
use crate::lifecycle::event::Failure;
use crate::lifecycle::ids::{ConnectionId, Text};

/// Characters of a client's name that are logged; it may send a novel.
const CLIENT_CHARS: usize = 100;

/// For a person: seconds to the millisecond, without zeros at the end.
pub fn seconds(duration: Duration) -> String {
    let milliseconds = (duration.as_secs_f64() * 1000.0).round();
    format!("{} s", milliseconds / 1000.0)
}

/// Writes to the log what the lifecycle has to say.
#[derive(Debug, Default)]
pub struct Narrator {
    /// Outcomes that could not be delivered, by the reason: in an outage each active job has many of them.
    undelivered: BTreeMap<&'static str, Seldom>,
}

impl Narrator {
    /// Writes it to the log.
    pub fn narrate(&mut self, remark: Remark) {
        match remark {
            Remark::StateChanged { state, reason } => state_changed(state, reason),
            Remark::Stayed { what, why } => info!("{}: nothing changes: {why}", reason_of(what)),
            Remark::DrainBegan { active, left } | Remark::Draining { active, left } => draining(active, left),
            Remark::Drained => info!("no job is active: asking the worker to end"),
            Remark::StopBegan { held, is_forced } => stop_began(held, is_forced),
            Remark::Killing => info!("SIGKILL to what is left"),
            Remark::KillGaveUp => error!("processes are left that SIGKILL did not end in time; going on without them"),
            Remark::WorkerEnded(ended) => info!("the worker ended: {ended}"),
            Remark::DescendantsLeft(left) => {
                info!("the worker left processes behind: they have {} to end", seconds(left))
            }
            Remark::RestartIn(pause) => info!("starting the worker again in {}", seconds(pause)),
            Remark::TooManyRestarts => error!("more than 10 restarts of the worker in 10 minutes: giving up"),
            Remark::StartPostponed => warn!("the system has no process for the worker yet; trying again for 10 s"),
            Remark::NotReady => not_ready(),
            Remark::ConnectionReady {
                connection,
                concurrency,
                client,
            } => ready(connection, concurrency, client),
            Remark::EndingProcess { process, why, jobs } => {
                warn!("ending process {process}, which holds {}: {why}", self::jobs(jobs));
            }
            Remark::Claimed(job) => debug!("job {job}: claimed"),
            Remark::HandedOver(job, connection) => debug!("job {job}: given to connection {connection}"),
            Remark::Settled(job, Outcome::Acked) => debug!("job {job}: done, the backend has the ACK"),
            Remark::Settled(job, Outcome::Failed) => info!("job {job}: failed, the backend has the FAIL"),
            Remark::Settled(job, Outcome::Requeued) => info!("job {job}: given back"),
            Remark::Abandoned(job, why) => warn!("job {job}: left to its visibility timeout: {why}"),
            Remark::Adopted(job) => warn!("job {job}: delivered again; its handler goes on with the new reservation"),
            Remark::ReservationLost(job, CancelReason::Cancelled) => info!("job {job}: cancelled at the backend"),
            Remark::ReservationLost(job, CancelReason::Lost | CancelReason::Shutdown | CancelReason::Timeout) => {
                warn!("job {job}: the reservation is lost; its outcome is not reported");
            }
            Remark::TimedOut(job) => warn!("job {job}: its timeout is over; the handler is told to stop"),
            Remark::ResultDropped(job) => warn!("job {job}: the backend does not take its result; ACK without it"),
            Remark::NoHandler(job) => {
                warn!(
                    "job {job}: no worker takes jobs of type {:?}; failing it, retryable",
                    job.kind
                )
            }
            Remark::CallFailed {
                what,
                failure,
                retry_in,
            } => self.call_failed(what, failure, retry_in),
            Remark::Registered(worker) => info!("Worker registered: {worker}"),
            Remark::NotRegistered => {
                debug!("the backend has no registration; the first heartbeat introduces the worker")
            }
            Remark::HeartbeatForm(form) => heartbeat_form(form),
            Remark::HeartbeatIntervalCut { configured, used } => warn!(
                "worker.heartbeat_interval = {} is more than a third of the backend's timeouts: using {}",
                seconds(configured),
                seconds(used)
            ),
            Remark::BackendIsBack => info!("the backend answers again"),
            Remark::FetchAbandoned => {
                warn!("a FETCH was not answered: jobs that it claimed wait for their visibility timeout")
            }
            Remark::PrestopRan { left } => prestop_ran(left),
            Remark::PrestopLapsed { later } => prestop_lapsed(later),
            Remark::Summary {
                cut_off,
                unreported,
                is_asked,
                status,
            } => summary(cut_off + unreported, cut_off, is_asked, status),
        }
    }

    fn call_failed(&mut self, what: &str, failure: Failure, retry_in: Option<Duration>) {
        let why = match failure {
            Failure::NotSent => "the backend cannot be reached",
            Failure::NoRoom => {
                "there is no thread or no room for it here; raise the limit of processes (ulimit -u, pids.max) if this goes on"
            }
            Failure::NoCredentials => "there is no token for it; check backend.auth_token_file",
            Failure::Unanswered => "the backend did not answer clearly",
            Failure::Declined { .. } => "the backend is busy",
            Failure::Unauthorized => {
                "the backend does not accept our credentials; check backend.auth_token_file or OJS_AUTH_TOKEN"
            }
            Failure::NotOffered => "the backend does not offer it; check backend.url",
            Failure::Foreign => "somebody in front of the backend answers, and not the backend",
            Failure::Unregistered => "the backend does not know this worker",
            Failure::Lost => "the job is not ours any more",
            Failure::AlreadyCompleted => "the job is completed already",
            Failure::Refused => "the backend refuses the request",
        };
        let next = retry_in.map_or(String::new(), |pause| format!("; next attempt in {}", seconds(pause)));
        match what {
            "ACK" | "FAIL" | "requeue" => self
                .undelivered
                .entry(why)
                .or_default()
                .warn(format_args!("{what} failed: {why}{next}")),
            _ if failure == Failure::Unauthorized => error!("{what} failed: {why}{next}"),
            _ => warn!("{what} failed: {why}{next}"),
        }
    }
}

/// `1 job`, `2 jobs`.
fn jobs(count: impl fmt::Display) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} job{plural}")
}

fn state_changed(state: WorkerState, reason: Reason) {
    let why = if (state, reason) == (WorkerState::Running, Reason::Prestop) {
        "a preStop hook came to nothing"
    } else {
        reason_of(reason)
    };
    info!("{why}: {}", what_follows(state));
}

fn prestop_ran(left: Option<Duration>) {
    match left {
        Some(left) => info!(
            "a preStop hook ran: the orchestrator's clock runs, SIGKILL is expected in {}",
            seconds(left)
        ),
        None => info!("a preStop hook ran: the orchestrator's clock runs"),
    }
}

fn prestop_lapsed(later: Option<Duration>) {
    const LAPSED: &str = "a preStop hook ran and no SIGTERM followed within the limit";
    match later {
        Some(left) => warn!(
            "{LAPSED}: the clock of a later one counts, SIGKILL is expected in {}",
            seconds(left)
        ),
        None => warn!("{LAPSED}: going on without its clock"),
    }
}

fn draining(active: usize, left: Duration) {
    info!("Worker draining, {} in progress; {} left", jobs(active), seconds(left));
}

fn stop_began(held: usize, is_forced: bool) {
    let why = if is_forced {
        "forced"
    } else {
        "the grace period is over"
    };
    if held == 0 {
        info!("stop phase: {why}");
    } else {
        warn!("stop phase: {why}, cancelling {}", jobs(held));
    }
}

fn not_ready() {
    warn!(
        "the worker has not said ready on the socket in OJS_SOCKET within worker.ready_timeout: it gets no jobs before \
         it does"
    );
}

fn ready(connection: ConnectionId, concurrency: u32, client: Option<Text>) {
    let client: String = client
        .as_deref()
        .unwrap_or("unnamed client")
        .chars()
        .take(CLIENT_CHARS)
        .collect();
    info!("connection {connection} ({client}) takes up to {}", jobs(concurrency));
}

fn summary(lost: usize, cut_off: usize, is_asked: bool, status: u8) {
    if lost > 0 {
        let unreported = lost - cut_off;
        warn!(
            "Worker stopped; {} cut off, {} finished and not reported; exit status {status}",
            jobs(cut_off),
            jobs(unreported)
        );
    } else if is_asked {
        info!("Worker stopped gracefully; exit status {status}");
    } else {
        info!("nothing is left to do without the worker; exit status {status}");
    }
}

fn heartbeat_form(form: HeartbeatForm) {
    let form = match form {
        HeartbeatForm::Full => "the full form",
        HeartbeatForm::Counted => "the form with active_jobs as a number",
        HeartbeatForm::Bare => "the form of the bare JSON schema",
    };
    info!("the backend refuses this form of heartbeat; trying {form}");
}

fn reason_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Sigterm => "SIGTERM",
        Reason::Sigint => "SIGINT",
        Reason::Sigquit => "SIGQUIT",
        Reason::Sigtstp => "SIGTSTP",
        Reason::Sigcont => "SIGCONT",
        Reason::Server => "asked by the backend",
        Reason::Control => "asked by the operator",
        Reason::Prestop => "a preStop hook",
        Reason::Worker => "the worker ended by itself",
    }
}

fn what_follows(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running => "running, taking jobs",
        WorkerState::Quiet => "quiet, taking no new jobs",
        WorkerState::Terminate => "terminating, taking no new jobs",
        WorkerState::Terminated => "gone",
    }
}
