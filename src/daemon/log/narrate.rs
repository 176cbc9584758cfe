//! Notices of the lifecycle as records of the log; `narrate_jobs` has those of jobs. Ids of jobs
//! may appear, arguments and results never.

use std::time::Duration;

use log::Level;

use crate::daemon::log::last_words::{self, LastWords};
use crate::daemon::log::narrate_jobs::JobNarrator;
use crate::daemon::log::narrate_outage::{Failed, OutageNarrator};
use crate::daemon::log::record::{LogRecord, RecordFields};
use crate::daemon::log::sink::{say, set_worker};
use crate::daemon::log::words::{because_of, in_progress, info, jobs, warn, what_follows};
use crate::daemon::log::{narrate_forms, narrate_memory, narrate_stop};
use ojs_lifecycle::api::{
    Call, CapacityNews, EndCause, EndReport, Endpoint, InPlaceOfDeaf, Notice, ProcessId, Reason, WorkerId, WorkerState,
};
use ojs_os::clock;
use ojs_os::process::Pid;
use ojs_wire::backend::request::Words;
use ojs_wire::names::worker_state;
use ojs_wire::text::{asked_by, milliseconds, seconds};

/// Characters of a client's name that are logged; it may send a novel.
const CLIENT_CHARS: usize = 100;

/// Writes to the log what the lifecycle has to say.
#[derive(Debug)]
pub struct Narrator {
    /// When ojs-init began, on the monotonic clock.
    began: Duration,
    /// As far as they are set.
    concurrency: Option<u32>,
    queues: Option<String>,
    jobs: JobNarrator,
    /// The reason why the worker ended, if the lifecycle has said one.
    ended_by: Option<Reason>,
    last_words: LastWords,
    outages: OutageNarrator,
    /// The error of the last request that failed because the backend does.
    backend_error: Option<String>,
}

impl Narrator {
    /// For a worker with these settings, as far as they are set, and the backend at this address.
    pub fn new(concurrency: Option<u32>, queues: Option<&[String]>, url: &str) -> Self {
        Self {
            began: clock::monotonic(),
            concurrency,
            queues: queues.map(|queues| queues.join(",")),
            jobs: JobNarrator::default(),
            ended_by: None,
            last_words: LastWords::default(),
            outages: OutageNarrator::new(url),
            backend_error: None,
        }
    }

    /// The last error of a registration, a heartbeat or an outage, as the log has it. It counts
    /// while the backend does not work.
    pub fn backend_error(&self) -> Option<String> {
        self.backend_error.clone()
    }

    /// Writes the record of a notice. `words` are those of the answer that the lifecycle handles,
    /// and empty while it handles none.
    pub fn narrate(&mut self, notice: &Notice, words: &Words) {
        let is_greeting = if let Notice::CallFailed { what, .. } = notice {
            matches!(*what, "heartbeat" | "registration" | "final heartbeat")
        } else {
            matches!(notice, Notice::BackendIsAway(_) | Notice::HeartbeatsRefused)
        };
        if is_greeting {
            self.backend_error.clone_from(&words.failure);
        }
        // Each job brings two of them, and making one costs more than the machine's part in the
        // job.
        if matches!(notice, Notice::Claimed(_) | Notice::HandedOver(..)) && !log::log_enabled!(Level::Debug) {
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

    /// There is no process for the worker at the moment, for this reason.
    pub fn no_process_yet(&mut self, why: String) {
        self.last_words.no_process_yet(why);
    }

    /// There is no worker, for this reason; the lifecycle decides whether that is the end.
    pub fn worker_not_started(&mut self, why: String) {
        self.last_words.not_started(why);
    }

    /// A request goes to the backend.
    pub fn calling(call: &Call) {
        if let Some(note) = calling_note(call) {
            say(&note);
        }
    }

    fn started(&self, pid: u64, worker: &WorkerId) -> LogRecord {
        let fields = RecordFields::default()
            .with("pid", pid)
            .with_any("concurrency", self.concurrency.map(u64::from))
            .with_any("queues", self.queues.as_deref());
        let most = match self.concurrency {
            Some(most) => format!("up to {} at once", jobs(most)),
            None => "as many jobs as it asks for".to_owned(),
        };
        info(format_args!("Worker started with pid {pid}, for {most}, as {worker}")).about(fields)
    }

    /// The record about what may come of many jobs at once.
    fn told_now_and_then(&mut self, notice: &Notice, words: &Words, now: Duration) -> Option<LogRecord> {
        if let Notice::NoHandler { job, waits, taken } = notice {
            self.jobs.no_handler(job, *waits, taken, now)
        } else if let Notice::GivenBackAgain {
            job,
            times,
            is_of_type,
            is_held,
        } = notice
        {
            self.jobs.given_back_again(job, *times, (*is_of_type, *is_held), now)
        } else if let Notice::CheckpointNotSaved(job, failure) = notice {
            let said = words.failure.as_deref();
            Some(self.jobs.checkpoint_not_saved(job, *failure, said, now))
        } else {
            self.call_failed(notice, words, now)
        }
    }

    /// The record about it, unless there was one like it a moment ago.
    fn note(&mut self, notice: &Notice, words: &Words, now: Duration) -> Option<LogRecord> {
        let failure = words.failure.as_deref();
        Some(match notice {
            // A worker that could not be started has no story: the last words say it all.
            Notice::StateChanged { reason, .. } if *reason == Reason::Worker && self.last_words.has_none() => {
                return None;
            }
            Notice::StateChanged { state, reason } => self.state_changed(*state, *reason),
            Notice::Stayed { what, why } => stayed(*what, why),
            Notice::DrainBegan { .. } | Notice::Draining { .. } => return self.draining(notice),
            Notice::Drained => info("no job is active: asking the worker to end"),
            Notice::SameRequest(what, after) => narrate_stop::same_request(*what, *after),
            Notice::StopBegan { held, forced } => narrate_stop::began(*held, *forced),
            Notice::GraceEnded(force) => narrate_stop::grace_ended(*force),
            Notice::EndingAtOnce(force) => narrate_stop::ending_at_once(*force),
            Notice::Killing => warn("SIGKILL to what is left"),
            Notice::KillGaveUp(still_there) => narrate_stop::kill_gave_up(*still_there),
            Notice::WorkerEnded(end, manner) => last_words::worker_ended(*end, *manner),
            Notice::WorkerWasEnded { end, cause } => last_words::worker_was_ended(*end, cause),
            Notice::DescendantsLeft(left) => descendants_left(*left),
            Notice::RestartIn(pause) => restart_in(*pause),
            Notice::TooManyRestarts => LogRecord::new(Level::Error, TOO_MANY_RESTARTS),
            Notice::StartPostponed => self.last_words.start_postponed(),
            Notice::NotReady | Notice::NothingAskedFor => nobody_is_ready(notice),
            Notice::HolderReady { .. } => return ready(notice),
            Notice::Capacity(news) => capacity(*news),
            Notice::EndingProcess { process, cause, jobs } => ending_process(process, cause, *jobs),
            Notice::RunsAlone(job) => JobNarrator::runs_alone(job),
            Notice::JobsDied { death, jobs } => JobNarrator::died(death, jobs),
            Notice::Claimed(job) => JobNarrator::claimed(job),
            Notice::HandedOver(job, connection) => JobNarrator::handed_over(job, *connection),
            Notice::OutcomeSent { .. } => return None,
            Notice::Settled { job, outcome, took } => self.jobs.settled(job, outcome, *took, words.state.as_deref()),
            Notice::Abandoned(job, why) => JobNarrator::abandoned(job, why),
            Notice::Void(job, why) => JobNarrator::void(job, why),
            Notice::Adopted(job) => JobNarrator::adopted(job),
            Notice::Replaced(job) => JobNarrator::replaced(job),
            Notice::ReservationLost(job, reason) => JobNarrator::reservation_lost(job, *reason, failure),
            Notice::DoneTwice(job) => JobNarrator::done_twice(job, failure),
            Notice::Unanswered(job, reason) => JobNarrator::unanswered(job, *reason),
            Notice::TimedOut(job, elapsed) => JobNarrator::timed_out(job, *elapsed),
            Notice::TimeoutPassed(job, elapsed) => JobNarrator::timeout_passed(job, *elapsed),
            Notice::Dropped(job, why) => JobNarrator::dropped(job, *why),
            Notice::NamedAgain(job) => JobNarrator::named_again(job),
            Notice::ResultDropped(job) => JobNarrator::result_dropped(job),
            Notice::NoHandler { .. }
            | Notice::CheckpointNotSaved(..)
            | Notice::GivenBackAgain { .. }
            | Notice::CallFailed { .. } => return self.told_now_and_then(notice, words, now),
            Notice::Hedged(endpoint) => hedged(*endpoint),
            Notice::Registered(worker) => info(format_args!("Worker registered: {worker}")),
            Notice::NotRegistered => not_registered(),
            Notice::HeartbeatForm(form) => narrate_forms::heartbeat(*form),
            Notice::QuietStays => warn(QUIET_STAYS),
            Notice::HeartbeatsRefused => narrate_forms::heartbeats_refused(failure),
            Notice::FetchForm(form) => narrate_forms::fetch(*form),
            Notice::Listening => info(LISTENING),
            Notice::NotListening(_) => not_listening(failure),
            Notice::StreamsAreDeaf(instead) => deaf_streams(*instead),
            Notice::WokenUp => LogRecord::new(Level::Debug, "a stream of events brings the next FETCH forward"),
            Notice::HeartbeatIntervalCut { configured, used } => interval_cut(*configured, *used),
            Notice::BackendIsAway(outage) => self.outages.begins(outage, failure),
            Notice::BackendIsStillAway(outage) => self.outages.goes_on(outage),
            Notice::BackendIsBack(outage) => self.outages.is_over(outage),
            Notice::BackendIsUnsteady { failed } => self.outages.is_unsteady(*failed),
            Notice::MemoryGateClosed { .. } | Notice::MemoryGateOpened { .. } => return narrate_memory::gate(notice),
            Notice::FetchAbandoned => warn(FETCH_ABANDONED),
            Notice::PrestopRan { left } => prestop_ran(*left),
            Notice::PrestopLapsed { later } => prestop_lapsed(*later),
            Notice::Summary(account) => self.summary(account, now),
        })
    }

    fn call_failed(&mut self, notice: &Notice, words: &Words, now: Duration) -> Option<LogRecord> {
        let Notice::CallFailed {
            what,
            job,
            failure,
            retry_in,
        } = notice
        else {
            return None;
        };
        let failed = Failed {
            what,
            job: job.as_deref(),
            failure: *failure,
            retry_in: *retry_in,
        };
        Some(self.outages.failed(failed, words.failure.as_deref(), now))
    }

    fn summary(&self, account: &EndReport, now: Duration) -> LogRecord {
        let status = account.status.unwrap_or_default();
        let last_words = self.last_words.summary(account, self.backend_error.as_deref(), status);
        last_words.and(|fields| self.with_totals(fields, status, now))
    }

    fn state_changed(&mut self, state: WorkerState, reason: Reason) -> LogRecord {
        if state == WorkerState::Terminate {
            self.ended_by = Some(reason);
        }
        let fields = because_of(reason).with("worker_state", worker_state(state));
        let why = if (state, reason) == (WorkerState::Running, Reason::Prestop) {
            "a preStop hook came to nothing".to_owned()
        } else if let Reason::Idle(time) = reason {
            format!("no job for {} (worker.exit_when_idle)", seconds(time))
        } else {
            asked_by(reason).to_owned()
        };
        info(format_args!("{why}: {}", what_follows(state))).about(fields)
    }

    fn draining(&self, notice: &Notice) -> Option<LogRecord> {
        let (Notice::DrainBegan {
            active,
            reporting,
            left,
        }
        | Notice::Draining {
            active,
            reporting,
            left,
        }) = notice
        else {
            return None;
        };
        let (active, reporting) = (*active, *reporting);
        let fields = self.ended_by.map(because_of).unwrap_or_default();
        let fields = fields
            .with("active_jobs", active)
            .with_any("reporting_jobs", (reporting > 0).then_some(reporting))
            .with("remaining_ms", milliseconds(*left));
        let what = in_progress(active, reporting);
        Some(info(format_args!("Worker draining, {what}; {} left", seconds(*left))).about(fields))
    }

    fn with_totals(&self, fields: RecordFields, status: u8, now: Duration) -> RecordFields {
        fields
            .with("exit_status", u64::from(status))
            .with("total_processed", self.jobs.completed())
            .with("uptime_seconds", now.saturating_sub(self.began).as_secs())
    }
}

const TOO_MANY_RESTARTS: &str = "more than 10 restarts of the worker in 10 minutes: giving up";

fn nobody_is_ready(notice: &Notice) -> LogRecord {
    warn(if *notice == Notice::NotReady {
        NOT_READY
    } else {
        NOTHING_ASKED_FOR
    })
}

const NOT_READY: &str = "the worker has not said ready on the socket in OJS_SOCKET within worker.ready_timeout: it gets no jobs before it \
                         does; one that talks to the backend by itself needs OJS_MODE=gateway, or --no-agent (OJS_MODE=none)";

const NOTHING_ASKED_FOR: &str = "the worker has not asked for jobs within worker.ready_timeout: it has to take the backend's URL from OJS_URL, \
                                 OJS_BACKEND_URL or OJS_SERVER_URL, which is ours; one that speaks our socket needs OJS_MODE=socket";

const QUIET_STAYS: &str = "the backend still asks for quiet, and its word counts: it has to take that back, and where it cannot, a new worker process is needed (it has another worker id)";

const FETCH_ABANDONED: &str = "a FETCH was not answered: jobs that it claimed wait for their visibility timeout";

fn calling_note(call: &Call) -> Option<LogRecord> {
    let Call::Heartbeat { state, active, .. } = call else {
        return None;
    };
    let fields = RecordFields::default()
        .with("active_jobs", active.len())
        .with("worker_state", worker_state(*state));
    Some(LogRecord::new(Level::Debug, "Worker heartbeat sent").about(fields))
}

fn stayed(what: Reason, why: &str) -> LogRecord {
    info(format_args!("{}: nothing changes: {why}", asked_by(what))).about(because_of(what))
}

fn prestop_ran(left: Option<Duration>) -> LogRecord {
    let fields = RecordFields::default().with_any("remaining_ms", left.map(milliseconds));
    match left {
        Some(left) => info(format_args!(
            "a preStop hook ran: the orchestrator's clock runs, SIGKILL is expected in {}",
            seconds(left)
        )),
        None => info("a preStop hook ran: the orchestrator's clock runs"),
    }
    .about(fields)
}

fn prestop_lapsed(later: Option<Duration>) -> LogRecord {
    const LAPSED: &str = "a preStop hook ran and no SIGTERM followed within the limit";
    let fields = RecordFields::default().with_any("remaining_ms", later.map(milliseconds));
    match later {
        Some(left) => warn(format_args!(
            "{LAPSED}: the clock of a later one counts, SIGKILL is expected in {}",
            seconds(left)
        )),
        None => warn(format_args!("{LAPSED}: going on without its clock")),
    }
    .about(fields)
}

fn descendants_left(left: Duration) -> LogRecord {
    let fields = RecordFields::default().with("remaining_ms", milliseconds(left));
    info(format_args!(
        "the worker left processes behind: they have {} to end",
        seconds(left)
    ))
    .about(fields)
}

fn restart_in(pause: Duration) -> LogRecord {
    let fields = RecordFields::default().with("retry_ms", milliseconds(pause));
    warn(format_args!("starting the worker again in {}", seconds(pause))).about(fields)
}

fn ready(notice: &Notice) -> Option<LogRecord> {
    let Notice::HolderReady {
        holder: connection,
        concurrency,
        client,
    } = notice
    else {
        return None;
    };
    let client = client.as_deref().unwrap_or("unnamed client");
    let client: String = client.chars().take(CLIENT_CHARS).collect();
    let fields = RecordFields::default()
        .with("connection", connection.0)
        .with("concurrency", u64::from(*concurrency))
        .with("client", client.as_str());
    let takes = match *concurrency {
        0 => "takes no more jobs".to_owned(),
        most => format!("takes up to {}", jobs(most)),
    };
    Some(info(format_args!("connection {connection} ({client}) {takes}")).about(fields))
}

fn capacity(news: CapacityNews) -> LogRecord {
    match news {
        CapacityNews::Lost {
            lost: Some((connection, process)),
            more,
            takes,
            most,
        } => {
            let more = if more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            warn(format_args!(
                "connection {connection} of process {process}{more} closed: {takes} of {most} jobs can be taken now"
            ))
            .about(RecordFields::default().with("connection", connection.0).with("capacity", takes))
        }
        CapacityNews::Lost { takes, most, .. } => info(format_args!(
            "the worker asks for fewer jobs: {takes} of {most} can be taken now"
        ))
        .about(RecordFields::default().with("capacity", takes)),
        CapacityNews::Gained { takes, most } => {
            info(format_args!("{takes} of {most} jobs can be taken now")).about(RecordFields::default().with("capacity", takes))
        }
        CapacityNews::Differs { takes, allowed } if takes < u64::from(allowed) => warn(format_args!(
            "the worker takes {} at once, worker.concurrency (OJS_CONCURRENCY) allows {allowed}: set it to {takes}, or let the worker take more",
            jobs(takes)
        ))
        .about(RecordFields::default().with("capacity", takes)),
        CapacityNews::Differs { takes, allowed } => warn(format_args!(
            "the worker would take {} at once, worker.concurrency (OJS_CONCURRENCY) allows {allowed}: set it to {takes} to make use of that",
            jobs(takes)
        ))
        .about(RecordFields::default().with("capacity", takes)),
    }
}

fn ending_process(process: &ProcessId, cause: &EndCause, held: usize) -> LogRecord {
    let fields = last_words::about_cause(cause)
        .with("pid", process.pid())
        .with("active_jobs", held);
    warn(format_args!(
        "ending process {process}, which holds {}: {cause}",
        jobs(held)
    ))
    .about(fields)
}

/// The record of a request that went out a second time, with the name that a person knows.
fn hedged(endpoint: Endpoint) -> LogRecord {
    let what = match endpoint {
        Endpoint::Register => "registration",
        Endpoint::Heartbeat => "heartbeat",
        Endpoint::Fetch => "FETCH",
        Endpoint::Ack => "ACK",
        Endpoint::Nack => "FAIL or requeue",
        Endpoint::Info => "look at a job",
        Endpoint::Progress => "progress",
        Endpoint::Checkpoint => "checkpoint",
        Endpoint::Manifest => "manifest",
        Endpoint::Events => "stream of events",
        Endpoint::Deregister => "deregistration",
    };
    let text = format!("backend: no answer to the {what}, and others are answered: once more on another connection");
    LogRecord::new(Level::Debug, text)
}

fn not_registered() -> LogRecord {
    LogRecord::new(
        Level::Debug,
        "the backend has no registration; the first heartbeat introduces the worker",
    )
}

/// The record where the backend streams events.
const LISTENING: &str = "the backend tells of new jobs as they come (worker.wake)";

/// The record where the backend opens streams and tells nothing on them.
const TRIES_OTHER_STREAM: &str = "the backend's event streams do not tell of new jobs: polls found jobs that GET \
                                  /queues/NAME/events had not announced; trying GET /events?queues=";
const DEAF_STREAMS: &str = "the backend's event streams do not tell of new jobs: polls found jobs that they had not \
                            announced; closing them, the worker polls every worker.poll_interval";

const SOME_DEAF_STREAMS: &str = "some of the backend's event streams do not tell of new jobs: polls found jobs that they had not \
                                 announced; closing these, their queues are polled every worker.poll_interval";

fn deaf_streams(instead: InPlaceOfDeaf) -> LogRecord {
    info(match instead {
        InPlaceOfDeaf::OtherKind => TRIES_OTHER_STREAM,
        InPlaceOfDeaf::OtherQueues => SOME_DEAF_STREAMS,
        InPlaceOfDeaf::Polls => DEAF_STREAMS,
    })
}

fn not_listening(words: Option<&str>) -> LogRecord {
    let said = words.map_or(String::new(), |words| format!(" ({words})"));
    let text = format!(
        "the backend does not tell of new jobs as they come{said}: it is asked every worker.poll_interval, as ever"
    );
    LogRecord::new(Level::Debug, text)
}

fn interval_cut(configured: Duration, used: Duration) -> LogRecord {
    warn(format_args!(
        "worker.heartbeat_interval = {} is more than a third of the backend's timeouts: using {}",
        seconds(configured),
        seconds(used)
    ))
}

#[cfg(test)]
#[path = "narrate_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "narrate_drain_tests.rs"]
mod drain_tests;
