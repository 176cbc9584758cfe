//! The worker's processes and holders, as records of the log.

use std::time::Duration;

use log::Level;

use crate::daemon::log::last_words::{LastWords, about_cause, worker_ended, worker_was_ended};
use crate::daemon::log::record::LogRecord;
use crate::daemon::log::words::{info, jobs, warn};
use ojs_lifecycle::api::{CapacityNews, EndCause, HolderId, ProcessId, RecycleReason, Text, WorkerNotice};
use ojs_values::text::clipped;
use ojs_wire::text::{milliseconds, seconds};

/// Characters of a client's name that are logged; it may send a novel.
const CLIENT_CHARS: usize = 100;

/// Bytes of a queue's name that are logged.
const QUEUE_BYTES: usize = 64;

/// Most queues that are listed in one line.
const LISTED_QUEUES: usize = 8;

/// The record of a notice.
pub fn record(notice: &WorkerNotice, last_words: &LastWords) -> LogRecord {
    match notice {
        WorkerNotice::Killing { held } => killing(*held),
        WorkerNotice::WorkerEnded(end, manner) => worker_ended(*end, *manner, last_words),
        WorkerNotice::WorkerWasEnded { end, cause } => worker_was_ended(*end, cause),
        WorkerNotice::DescendantsLeft(left) => descendants_left(*left),
        WorkerNotice::Recycling { reason, held, grace } => recycling(*reason, *held, *grace),
        WorkerNotice::NextNotReady(pause) => next_not_ready(*pause),
        WorkerNotice::Recycled { reason, took } => recycled(*reason, *took),
        WorkerNotice::RestartIn(pause) => restart_in(*pause),
        WorkerNotice::TooManyRestarts => LogRecord::new(Level::Error, TOO_MANY_RESTARTS),
        WorkerNotice::StartPostponed => last_words.start_postponed(),
        WorkerNotice::NotReady => warn(NOT_READY),
        WorkerNotice::NothingAskedFor => warn(NOTHING_ASKED_FOR),
        WorkerNotice::HolderReady {
            holder,
            concurrency,
            client,
        } => ready(*holder, *concurrency, client.as_ref()),
        WorkerNotice::Capacity(news) => capacity(*news),
        WorkerNotice::QueuesRefused(queues) => queues_refused(queues),
        WorkerNotice::EndingProcess { process, cause, jobs } => ending_process(process, cause, *jobs),
    }
}

const TOO_MANY_RESTARTS: &str = "more than 10 restarts of the worker in 10 minutes: giving up";

const NOT_READY: &str = "the worker has not said ready on the socket in OJS_SOCKET within worker.ready_timeout: it gets no jobs before it \
                         does; one that talks to the backend by itself needs OJS_MODE=gateway, or --no-agent (OJS_MODE=none)";

const NOTHING_ASKED_FOR: &str = "the worker has not asked for jobs within worker.ready_timeout: its SDK has to take the backend's URL from OJS_URL, \
                                 OJS_BACKEND_URL or OJS_SERVER_URL, where ojs-init listens; a worker with a socket client needs OJS_MODE=socket";

fn killing(held: usize) -> LogRecord {
    warn(format_args!(
        "SIGKILL to the worker's processes that are left, which hold {}: the cancel grace is over, or a forced stop \
         gave none; handlers have to end on a cancel, programs on SIGTERM",
        jobs(held)
    ))
    .with("active_jobs", held)
}

fn descendants_left(left: Duration) -> LogRecord {
    info(format_args!(
        "the worker left processes behind: they have {} to end",
        seconds(left)
    ))
    .with("remaining_ms", milliseconds(left))
}

fn recycling(reason: RecycleReason, held: usize, grace: Duration) -> LogRecord {
    info(format_args!(
        "recycling the worker, because {reason}: it holds {}, with {} to finish (shutdown.grace_period); new jobs go to the next worker once it is ready",
        jobs(held),
        seconds(grace)
    ))
    .with("reason", reason.word())
    .with("active_jobs", held)
    .with("remaining_ms", milliseconds(grace))
}

fn next_not_ready(pause: Duration) -> LogRecord {
    warn(format_args!(
        "the next worker ended before it said ready, so the old one goes on; another attempt in {}",
        seconds(pause)
    ))
    .with("retry_ms", milliseconds(pause))
}

fn recycled(reason: RecycleReason, took: Duration) -> LogRecord {
    info(format_args!("the worker was recycled in {}", seconds(took)))
        .with("reason", reason.word())
        .with("duration_ms", milliseconds(took))
}

fn restart_in(pause: Duration) -> LogRecord {
    warn(format_args!("starting the worker again in {}", seconds(pause))).with("retry_ms", milliseconds(pause))
}

fn ready(connection: HolderId, concurrency: u32, client: Option<&Text>) -> LogRecord {
    let client = client.map_or("unnamed client", |client| client);
    let client: String = client.chars().take(CLIENT_CHARS).collect();
    let takes = match concurrency {
        0 => "takes no more jobs".to_owned(),
        most => format!("takes up to {}", jobs(most)),
    };
    info(format_args!("connection {connection} ({client}) {takes}"))
        .with("connection", connection.0)
        .with("concurrency", u64::from(concurrency))
        .with("client", client.as_str())
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
            .with("connection", connection.0)
            .with("capacity", takes)
        }
        CapacityNews::Lost { takes, most, .. } => info(format_args!(
            "the worker asks for fewer jobs: {takes} of {most} can be taken now"
        ))
        .with("capacity", takes),
        CapacityNews::Gained { takes, most } => {
            info(format_args!("{takes} of {most} jobs can be taken now")).with("capacity", takes)
        }
        CapacityNews::Differs { takes, allowed } if takes < u64::from(allowed) => warn(format_args!(
            "the worker takes {} at once, worker.concurrency (OJS_CONCURRENCY) allows {allowed}: set it to {takes}, or let the worker take more",
            jobs(takes)
        ))
        .with("capacity", takes),
        CapacityNews::TooManyAskedFor { asked, allowed } => warn(format_args!(
            "the worker asks for {} at once, worker.concurrency (OJS_CONCURRENCY) allows {allowed} and it gets no more: set it to {asked}, or \
             leave it out",
            jobs(asked)
        ))
        .with("capacity", asked),
        CapacityNews::Differs { takes, allowed } => warn(format_args!(
            "the worker would take {} at once, worker.concurrency (OJS_CONCURRENCY) allows {allowed}: set it to {takes} to make use of that",
            jobs(takes)
        ))
        .with("capacity", takes),
    }
}

fn queues_refused(queues: &[Text]) -> LogRecord {
    let names: Vec<String> = queues
        .iter()
        .take(LISTED_QUEUES)
        .map(|name| clipped(name, QUEUE_BYTES))
        .collect();
    let more = match queues.len().saturating_sub(LISTED_QUEUES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    warn(format_args!(
        "the worker asks for queues that worker.queues (OJS_QUEUES) does not have, and gets no jobs of them: {}{more}; add them, or leave it out",
        names.join(", ")
    ))
}

fn ending_process(process: &ProcessId, cause: &EndCause, held: usize) -> LogRecord {
    let record = warn(format_args!(
        "ending process {process}, which holds {}: {cause}",
        jobs(held)
    ));
    about_cause(record, cause)
        .with("pid", process.pid())
        .with("active_jobs", held)
}
