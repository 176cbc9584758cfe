//! The link to the backend and the memory gate, as records of the log.

use std::time::Duration;

use log::Level;

use crate::daemon::log::narrate_outage::OutageNarrator;
use crate::daemon::log::record::LogRecord;
use crate::daemon::log::words::{info, warn};
use ojs_lifecycle::api::{Endpoint, FetchForm, HeartbeatForm, InPlaceOfDeaf, LinkNotice};
use ojs_wire::text::seconds;

/// The record of a notice. `said` is the text of the backend's answer, if there is one.
pub fn record(notice: &LinkNotice, outages: &mut OutageNarrator, said: Option<&str>) -> LogRecord {
    match notice {
        LinkNotice::Hedged(endpoint) => hedged(*endpoint),
        LinkNotice::Registered(worker) => info(format_args!("Worker registered: {worker}")),
        LinkNotice::NotRegistered => not_registered(),
        LinkNotice::HeartbeatForm(form) => heartbeat_form(*form),
        LinkNotice::QuietStays => warn(QUIET_STAYS),
        LinkNotice::HeartbeatsRefused => heartbeats_refused(said),
        LinkNotice::FetchForm(form) => fetch_form(*form),
        LinkNotice::Listening => info(LISTENING),
        LinkNotice::NotListening(_) => not_listening(said),
        LinkNotice::StreamsAreDeaf(instead) => deaf_streams(*instead),
        LinkNotice::WokenUp => LogRecord::new(Level::Debug, "a stream of events brings the next FETCH forward"),
        LinkNotice::HeartbeatIntervalCut { configured, used } => interval_cut(*configured, *used),
        LinkNotice::BackendIsAway(outage) => outages.begins(outage, said),
        LinkNotice::BackendIsStillAway(outage) => outages.goes_on(outage),
        LinkNotice::BackendIsBack(outage) => outages.is_over(outage),
        LinkNotice::BackendIsUnsteady { failed } => outages.is_unsteady(*failed),
        LinkNotice::MemoryGateClosed {
            taken,
            most,
            reopens_at,
        } => memory_gate_closed(*taken, *most, *reopens_at),
        LinkNotice::MemoryGateOpened { taken } => info(format_args!(
            "memory gate open: {taken}% of the memory limit is taken; jobs are fetched again"
        ))
        .with(MEMORY_TAKEN, u64::from(*taken)),
        LinkNotice::FetchAbandoned => warn(FETCH_ABANDONED),
    }
}

const QUIET_STAYS: &str = "the backend still asks for quiet, and its word counts: it has to take that back, and where it cannot, a new worker process is needed (it has another worker id)";

const FETCH_ABANDONED: &str = "a FETCH was not answered: jobs that it claimed wait for their visibility timeout";

/// The record of a request that was sent a second time, by the name that a person knows.
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

/// The record if the backend streams events.
const LISTENING: &str = "event stream open: new jobs are fetched at once (worker.wake)";

/// The record if the backend opens streams and announces no jobs on them.
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

/// Heartbeats are tried in another form.
fn heartbeat_form(form: HeartbeatForm) -> LogRecord {
    let form = match form {
        HeartbeatForm::Full => "the full form",
        HeartbeatForm::Counted => "the form with active_jobs as a number",
        HeartbeatForm::Protocol => "the fields of the worker protocol and no others",
        HeartbeatForm::Bare => "the form of the bare JSON schema",
    };
    info(format_args!(
        "the backend refuses this form of heartbeat; trying {form}"
    ))
}

/// The backend accepts none of the forms.
fn heartbeats_refused(words: Option<&str>) -> LogRecord {
    let said = words.map_or(String::new(), |words| format!(" ({words})"));
    let why = "the backend refuses heartbeats in every form";
    let message = format!(
        "{why}{said}: it does not know that this worker is there, and jobs lapse; every form is tried again at each interval"
    );
    warn(message).of_error("refused", why)
}

/// The backend accepts FETCHes in this form from now on.
fn fetch_form(form: FetchForm) -> LogRecord {
    match form {
        FetchForm::Full => info("the backend takes a FETCH with a visibility timeout again"),
        FetchForm::WithoutVisibility => warn(
            "the backend refuses visibility_timeout_ms in a FETCH: until the first heartbeat jobs are reserved for the \
             backend's own visibility timeout; set that longer than worker.heartbeat_interval",
        ),
        FetchForm::Bare => warn(
            "the backend refuses all of a FETCH but queues and count: until the first heartbeat jobs are reserved for the \
             backend's own visibility timeout; set that longer than worker.heartbeat_interval",
        ),
    }
}

/// All in percent of the container's limit.
fn memory_gate_closed(taken: u8, most: u8, reopens_at: u8) -> LogRecord {
    warn(format_args!(
        "memory gate closed: {taken}% of the memory limit is taken, more than {most}% (worker.memory_gate); no job is fetched \
         until it is {reopens_at}%"
    ))
    .with(MEMORY_TAKEN, u64::from(taken))
}

const MEMORY_TAKEN: &str = "memory_taken_percent";
