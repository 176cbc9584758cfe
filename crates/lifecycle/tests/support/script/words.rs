//! The meaning of a line of a scenario: events and answers in a person's words.

use std::time::Duration;

use ojs_lifecycle::api::{
    ClientId, Delivery, ErrorCode, Event, FromWorker, HolderId, JobError, JobId, NotStarted, OperatorRequest, Probe,
    ProcessId, Progress, PullId, Ready, Reservation, StreamNews, Subject, Text, Wants, WorkerId,
};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;

use super::holders;

/// Why a line is not understood.
pub type Wrong = String;

pub(super) fn wrong(what: &str, text: &str) -> Wrong {
    format!("{what}: `{text}`")
}

/// `250ms`, `1.5s`, `2m`.
pub fn period(text: &str) -> Result<Duration, Wrong> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?.parse::<f64>().ok()?, factor)))
        .map(|(number, factor)| Duration::from_millis((number * factor * 1000.0).round() as u64))
        .ok_or_else(|| wrong("not a period", text))
}

/// A number.
pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, Wrong> {
    text.trim().parse().map_err(|_| wrong("not a number", text))
}

/// The name of a signal.
pub fn signal(text: &str) -> Result<Signal, Wrong> {
    text.parse().map_err(|_| wrong("not a signal", text))
}

pub fn job(text: &str) -> JobId {
    JobId(text.into())
}

/// The event of a line, less the answers of the backend. `incarnation` numbers the workers.
pub fn event(text: &str, incarnation: &mut u32) -> Result<Event, Wrong> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    match first {
        "signal" => Ok(Event::SignalArrived(signal(rest)?)),
        "operator" => Ok(Event::OperatorAsked(OPERATOR, request(rest)?)),
        "client" => client(rest),
        "worker" => worker(rest, incarnation),
        "reaped:" => match rest {
            "children are left" => Ok(Event::Reaped { children_left: true }),
            "nobody is left" => Ok(Event::Reaped { children_left: false }),
            other => Err(wrong("who is left", other)),
        },
        "process" => process(rest),
        "connection" | "holder" => holder(rest),
        "the" if rest == "credentials changed" => Ok(Event::CredentialsChanged),
        "memory" => memory(rest),
        other => Err(wrong("not an event", other)),
    }
}

fn process(text: &str) -> Result<Event, Wrong> {
    if let Some(id) = text.strip_suffix(" is old") {
        return Ok(Event::ProcessIsOld(ProcessId(number(id)?)));
    }
    let id = text.strip_suffix(" is gone");
    let id = id.ok_or_else(|| wrong("what about the process", text))?;
    Ok(Event::ProcessGone(ProcessId(number(id)?)))
}

fn memory(text: &str) -> Result<Event, Wrong> {
    if let Some(bytes) = text.strip_prefix("taken: ") {
        return Ok(Event::MemoryTaken(number(bytes)?));
    }
    if let Some(bytes) = text.strip_prefix("of the worker: ") {
        return Ok(Event::WorkerMemory(number(bytes)?));
    }
    let kills = text.strip_prefix("ran out: oom_kill ");
    Ok(Event::MemoryRanOut(number(
        kills.ok_or_else(|| wrong("what about the memory", text))?,
    )?))
}

/// News of a stream: `opens`, `a job is available`, `job-1 is available`, `job-1 comes due`,
/// `job-1 is taken`, `a job comes later`, `job-1 is cancelled`, `the backend leaves`.
pub fn news(text: &str) -> Result<StreamNews, Wrong> {
    Ok(match text {
        "opens" => StreamNews::Opened,
        "a job is available" => StreamNews::JobAvailable {
            job: None,
            came_due: false,
        },
        "a job comes later" => StreamNews::JobComesLater,
        "the backend leaves" => StreamNews::BackendLeaves,
        other => {
            let (id, what) = other
                .split_once(' ')
                .ok_or_else(|| wrong("what does the stream tell", other))?;
            match what {
                "is available" => StreamNews::JobAvailable {
                    job: Some(job(id)),
                    came_due: false,
                },
                "comes due" => StreamNews::JobAvailable {
                    job: Some(job(id)),
                    came_due: true,
                },
                "is taken" => StreamNews::JobTaken(job(id)),
                "is cancelled" => StreamNews::JobCancelled(job(id)),
                _ => return Err(wrong("what does the stream tell", other)),
            }
        }
    })
}

/// A client that asks, and disconnects with the answer.
pub const OPERATOR: ClientId = ClientId(0);

/// A client that stays until the script lets it leave: `1 asks wait until idle, at most 30s`.
fn client(text: &str) -> Result<Event, Wrong> {
    let (id, rest) = text.split_once(' ').ok_or_else(|| wrong("which client", text))?;
    let id = ClientId(number(id)?);
    match rest.split_once(' ').unwrap_or((rest, "")) {
        ("connects", "") => Ok(Event::OperatorConnected(id)),
        ("asks", what) => Ok(Event::OperatorAsked(id, request(what)?)),
        ("leaves", "") => Ok(Event::OperatorLeft(id)),
        _ => Err(wrong("what about the client", rest)),
    }
}

fn request(text: &str) -> Result<OperatorRequest, Wrong> {
    if let Some(wait) = text.strip_prefix("wait ") {
        let for_idle = wait.strip_prefix("until idle, ");
        let most = for_idle.unwrap_or(wait).strip_prefix("at most ");
        return Ok(OperatorRequest::Wait {
            until_idle: for_idle.is_some(),
            most: period(most.ok_or_else(|| wrong("how long does it wait", wait))?)?,
        });
    }
    if let Some(job) = text.strip_prefix("cancel ") {
        return Ok(OperatorRequest::Cancel(job.into()));
    }
    Ok(match text {
        "quiet" => OperatorRequest::Quiet,
        "resume" => OperatorRequest::Resume,
        "terminate" => OperatorRequest::Terminate,
        "stop" => OperatorRequest::Stop,
        "recycle" => OperatorRequest::Recycle,
        "jobs" => OperatorRequest::Jobs,
        "prestop" => OperatorRequest::Prestop,
        "status" => OperatorRequest::Status { until_end: false },
        "status until the end" => OperatorRequest::Status { until_end: true },
        "whether it lives" => OperatorRequest::Health(Probe::Live),
        "whether it is ready" => OperatorRequest::Health(Probe::Ready),
        other => return Err(wrong("not a request", other)),
    })
}

fn worker(text: &str, incarnation: &mut u32) -> Result<Event, Wrong> {
    let is_same = text.starts_with("started again as ");
    let process = text.strip_prefix("started as ");
    if let Some(process) = process.or_else(|| text.strip_prefix("started again as ")) {
        *incarnation += u32::from(!is_same);
        return Ok(Event::WorkerStarted {
            process: ProcessId(number(process)?),
            worker: WorkerId(format!("w{incarnation}").into()),
        });
    }
    if let Some(process) = text.strip_prefix("next started as ") {
        return Ok(Event::NextStarted(ProcessId(number(process)?)));
    }
    if text == "next not started" {
        return Ok(Event::NextNotStarted(NotStarted::Shortage));
    }
    if let Some(status) = text.strip_prefix("next not started: status ") {
        return Ok(Event::NextNotStarted(NotStarted::Refused(number(status)?)));
    }
    if text == "not started: no process to be had" {
        return Ok(Event::WorkerNotStarted(NotStarted::Shortage));
    }
    if let Some(status) = text.strip_prefix("not started: status ") {
        return Ok(Event::WorkerNotStarted(NotStarted::Refused(number(status)?)));
    }
    if let Some(status) = text.strip_prefix("ended with status ") {
        return Ok(Event::WorkerEnded(Ended::Exited(number(status)?)));
    }
    if let Some(name) = text.strip_prefix("ended by signal ") {
        return Ok(Event::WorkerEnded(Ended::Signalled(signal(name)?)));
    }
    Err(wrong("what about the worker", text))
}

fn holder(text: &str) -> Result<Event, Wrong> {
    let (id, rest) = text.split_once(' ').ok_or_else(|| wrong("which connection", text))?;
    let id = HolderId(number(id.trim_end_matches(':'))?);
    if let Some(event) = holders::comes(id, rest)? {
        return Ok(event);
    }
    match rest {
        "does not take all" => Ok(Event::OutboundFilled(id)),
        "has taken all" => Ok(Event::OutboundEmptied(id)),
        "sends a part of a frame" => Ok(Event::HeardPart(id)),
        "is not read from" => Ok(Event::ReadingStopped(id)),
        "is read from again" => Ok(Event::ReadingResumed(id)),
        "hung up" => Ok(Event::HungUp(id)),
        frame => Ok(Event::Said(id, said(frame)?)),
    }
}

/// `release job-1 not mine`, `release job-1 later 30 not mine`, in seconds.
fn release(name: &str, more: &str) -> Result<FromWorker, Wrong> {
    let (after, reason) = match more.strip_prefix("later ") {
        Some(more) => {
            let (seconds, reason) = more.split_once(' ').unwrap_or((more, ""));
            (period(&format!("{seconds}s"))?, reason)
        }
        None => (Duration::ZERO, more),
    };
    Ok(FromWorker::Release {
        job: job(name),
        reason: (!reason.is_empty()).then(|| reason.into()),
        after,
    })
}

fn said(text: &str) -> Result<FromWorker, Wrong> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_about_a_job = [
        "ack",
        "fail",
        "release",
        "progress",
        "checkpoint",
        "heartbeat",
        "invalid",
    ]
    .contains(&first);
    if is_about_a_job && name.is_empty() {
        return Err(wrong("about which job", text));
    }
    let more_text = || Text::from(more);
    let optional = || (!more.is_empty()).then(more_text);
    Ok(match first {
        "ready" => FromWorker::Ready(ready(rest)?),
        "ack" => FromWorker::Ack {
            job: job(name),
            result: optional(),
        },
        "fail" => FromWorker::Fail {
            job: job(name),
            error: JobError {
                code: Some("handler_error".into()),
                kind: Some("Oops".into()),
                ..JobError::new(more_text())
            },
        },
        "release" => release(name, more)?,
        "progress" => FromWorker::Progress {
            job: job(name),
            progress: Progress {
                fraction: more_text(),
                message: None,
                data: None,
            },
        },
        "checkpoint" => FromWorker::Checkpoint {
            job: job(name),
            state: more_text(),
        },
        "heartbeat" if more.is_empty() => FromWorker::Heartbeat { job: job(name) },
        "pong" => FromWorker::Pong { id: number(rest)? },
        "wants" if rest.starts_with("no more of pull ") => FromWorker::WantsNoMore {
            pull: PullId(number(rest.trim_start_matches("no more of pull "))?),
        },
        "wants" => FromWorker::Wants(wants(rest)?),
        "beats" => FromWorker::Beats { jobs: beats(rest)? },
        "garbage" if rest.is_empty() => garbage(ErrorCode::NotJson, "not a JSON object", None),
        "invalid" => garbage(ErrorCode::InvalidFrame, "nested too deep", Some(job(name))),
        "unknown" if rest.is_empty() => garbage(ErrorCode::UnknownType, "unknown type", None),
        _ => return Err(wrong("not a frame", text)),
    })
}

fn garbage(code: ErrorCode, message: &str, job: Option<JobId>) -> FromWorker {
    FromWorker::Garbage {
        code,
        message: message.into(),
        job,
        answer: None,
    }
}

/// `2 as pull 7, from mail sms, within 5s`
fn wants(text: &str) -> Result<Wants, Wrong> {
    let (count, rest) = text
        .split_once(" as pull ")
        .ok_or_else(|| wrong("how many, as which pull", text))?;
    let mut parts = rest.split(", ");
    let mut wants = Wants {
        pull: PullId(number(parts.next().unwrap_or_default())?),
        count: number(count)?,
        queues: None,
        within: Duration::from_secs(5),
    };
    for part in parts {
        match part.split_once(' ').unwrap_or((part, "")) {
            ("from", queues) => wants.queues = Some(queues.split(' ').map(Text::from).collect()),
            ("within", time) => wants.within = period(time)?,
            (other, _) => return Err(wrong("not a condition", other)),
        }
    }
    Ok(wants)
}

/// `with [1, 2]`, `with []`; without these words the heartbeat does not list its jobs
fn beats(text: &str) -> Result<Option<Vec<JobId>>, Wrong> {
    if text.is_empty() {
        return Ok(None);
    }
    let list = text.strip_prefix("with [").and_then(|text| text.strip_suffix(']'));
    let list = list.ok_or_else(|| wrong("not a list of jobs", text))?;
    let names = list.split(", ").filter(|name| !name.is_empty());
    Ok(Some(names.map(job).collect()))
}

/// `for 2, types mail sms, ping, no ok, cancel signal`
fn ready(text: &str) -> Result<Ready, Wrong> {
    let mut ready = Ready {
        concurrency: 1,
        types: None,
        ping: false,
        ok: true,
        cancel_signal: false,
        client: None,
    };
    for part in text.split(", ") {
        let (key, value) = part.split_once(' ').unwrap_or((part, ""));
        match key {
            "for" => ready.concurrency = number(value)?,
            "types" => ready.types = Some(value.split(' ').map(Text::from).collect()),
            "ping" if value.is_empty() => ready.ping = true,
            "no" if value == "ok" => ready.ok = false,
            "cancel" if value == "signal" => ready.cancel_signal = true,
            _ => return Err(wrong("not a condition", part)),
        }
    }
    Ok(ready)
}

/// `job-1 job-2(type sms, timeout 5s, attempt 3/3, started s2, size 500, id_bytes 1025, checkpoint
/// {})`
pub fn deliveries(text: &str) -> Result<Vec<Delivery>, Wrong> {
    let mut jobs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let name_ends = rest.find([' ', '(']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_ends);
        let (conditions, after) = match after.strip_prefix('(') {
            Some(inside) => inside
                .split_once(')')
                .ok_or_else(|| wrong("no closing parenthesis", rest))?,
            None => ("", after),
        };
        jobs.push(delivery(name, conditions)?);
        rest = after.trim_start();
    }
    Ok(jobs)
}

fn delivery(name: &str, conditions: &str) -> Result<Delivery, Wrong> {
    let mut subject = Subject {
        id: job(name),
        kind: "mail".into(),
        queue: "default".into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    };
    let mut delivery = Delivery {
        has_crashed: false,
        subject: subject.clone().into(),
        envelope: format!(r#"{{"id":"{name}"}}"#).into(),
        checkpoint: None,
        timeout: None,
        reservation: Reservation {
            attempt: Some(1),
            started_at: None,
        },
        visibility: None,
        waited: None,
    };
    for condition in conditions.split(", ").filter(|condition| !condition.is_empty()) {
        let (key, value) = condition.split_once(' ').unwrap_or((condition, ""));
        match key {
            "type" => subject.kind = value.into(),
            "queue" => subject.queue = value.into(),
            "visibility" => delivery.visibility = Some(period(value)?),
            "attempt" if value == "unknown" => delivery.reservation.attempt = None,
            "timeout" => delivery.timeout = Some(period(value)?),
            "waited" => delivery.waited = Some(period(value)?),
            "attempt" => {
                let (attempt, most) = value.split_once('/').map_or((value, None), |(a, m)| (a, Some(m)));
                delivery.reservation.attempt = Some(number(attempt)?);
                subject.max_attempts = most.map(number).transpose()?;
            }
            "started" => delivery.reservation.started_at = Some(value.into()),
            "id_bytes" => {
                let filler = number::<usize>(value)?.saturating_sub(name.len());
                subject.id = job(&format!("{name}{}", "x".repeat(filler)));
            }
            "crashed" if value.is_empty() => delivery.has_crashed = true,
            "size" => delivery.envelope = "x".repeat(number(value)?).into(),
            "checkpoint" => delivery.checkpoint = Some(value.into()),
            _ => return Err(wrong("not a condition of a job", condition)),
        }
    }
    subject.attempt = delivery.reservation.attempt;
    delivery.subject = subject.into();
    Ok(delivery)
}

/// The words for a drain: the number of active jobs, and how many of them are finished and only
/// wait until the backend has their outcome.
pub fn drain(what: &str, active: usize, reporting: usize, left: Duration) -> String {
    let of_them = if reporting == 0 {
        String::new()
    } else {
        format!(", {reporting} of them reporting")
    };
    format!("{what}: {active} active{of_them}, {:.3} s left", left.as_secs_f64())
}
