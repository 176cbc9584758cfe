//! Answers of the backend in a person's words.

use ojs_lifecycle::api::{BackendTraits, Directive, Failure, JobState, JobView, Reply, Reservation, WorkerId};

use super::words::{Wrong, deliveries, job, number, period, wrong};

/// An answer of the backend to this request. A heartbeat that is accepted extends each job that it
/// names, unless the answer lists others. An empty list is left out, as the public backends do.
pub fn reply_to(request: &str, text: &str) -> Result<Reply, Wrong> {
    let (text, has_list) = text
        .strip_suffix(" without a list")
        .map_or((text, true), |text| (text, false));
    let mut reply = reply(text)?;
    if !has_list && !matches!(reply, Reply::HeartbeatOk { .. }) {
        return Err(wrong("not an answer to a heartbeat", text));
    }
    if let Reply::HeartbeatOk {
        extended: extended @ None,
        ..
    } = &mut reply
    {
        let named = request.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let named = named
            .into_iter()
            .flat_map(|(named, _)| named.split_whitespace().map(job));
        *extended = Some(named.collect::<Vec<_>>()).filter(|named| has_list && !named.is_empty());
    }
    Ok(reply)
}

/// An answer of the backend.
fn reply(text: &str) -> Result<Reply, Wrong> {
    if let Some(failure) = failure(text)? {
        return Ok(Reply::Failed(failure));
    }
    if let Some(jobs) = text.strip_prefix("jobs ") {
        return Ok(Reply::Fetched(deliveries(jobs)?));
    }
    if let Some(period_text) = text.strip_prefix("registered, every ") {
        let heartbeat_interval = Some(period(period_text)?);
        return Ok(Reply::Registered {
            heartbeat_interval,
            longest_interval: None,
        });
    }
    if let Some(period_text) = text.strip_prefix("registered, at least every ") {
        return Ok(Reply::Registered {
            heartbeat_interval: None,
            longest_interval: Some(period(period_text)?),
        });
    }
    let extended = text.strip_prefix("extended");
    if let Some(jobs) = extended.filter(|jobs| jobs.is_empty() || jobs.starts_with(' ')) {
        let jobs = jobs.split_whitespace().map(job).collect();
        return Ok(Reply::HeartbeatOk {
            directive: None,
            extended: Some(jobs),
        });
    }
    if let Some(view) = text.strip_prefix("it is ") {
        return looked(view);
    }
    let directive = |directive| Reply::HeartbeatOk {
        directive,
        extended: None,
    };
    Ok(match text {
        "ok" => Reply::Accepted,
        "registered" => Reply::Registered {
            heartbeat_interval: None,
            longest_interval: None,
        },
        "no jobs" => Reply::Fetched(Vec::new()),
        "beaten" => directive(None),
        "usual" => Reply::Manifest(BackendTraits::default()),
        "amqp" => Reply::Manifest(BackendTraits {
            discards_requeues: true,
            extends_from_start: false,
        }),
        "lite" => Reply::Manifest(BackendTraits {
            discards_requeues: true,
            extends_from_start: true,
        }),
        "be running" => directive(Some(Directive::Run)),
        "be quiet" => directive(Some(Directive::Quiet)),
        "terminate" => directive(Some(Directive::Terminate)),
        other => return Err(wrong("not an answer", other)),
    })
}

fn failure(text: &str) -> Result<Option<Failure>, Wrong> {
    Ok(Some(match text {
        "unanswered" => Failure::Unanswered,
        "server error" => Failure::ServerError,
        "redirected" => Failure::Redirected,
        "not found" => Failure::NotFound,
        "conflict" => Failure::Conflict { was_sent_twice: false },
        "conflict, sent twice" => Failure::Conflict { was_sent_twice: true },
        "not sent" => Failure::NotSent,
        "no room" => Failure::Overloaded,
        "no credentials" => Failure::NoCredentials,
        "declined" => Failure::RetryLater { retry_after: None },
        "unauthorized" => Failure::Unauthorized,
        "not offered" => Failure::Unsupported,
        "foreign" => Failure::NotFromBackend,
        "unregistered" => Failure::Unregistered,
        "lost" => Failure::Lost,
        "already completed" => Failure::AlreadyCompleted,
        "refused" => Failure::Refused,
        other => match other.strip_prefix("declined, come back after ") {
            Some(after) => Failure::RetryLater {
                retry_after: Some(period(after)?),
            },
            None => return Ok(None),
        },
    }))
}

/// `active`, `active by w1, attempt 2, started s2`, `cancelled` ...
fn looked(text: &str) -> Result<Reply, Wrong> {
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let state = match words.next() {
        Some("active") => JobState::Active,
        Some("cancelled") => JobState::Cancelled,
        Some("completed") => JobState::Completed,
        Some("elsewhere") => JobState::Elsewhere,
        Some("missing") => JobState::Missing,
        Some("hidden") => JobState::Hidden,
        other => return Err(format!("not a state: {other:?}")),
    };
    let mut view = JobView {
        state,
        worker: None,
        reservation: Reservation::default(),
    };
    while let Some(key) = words.next() {
        let value = words.next().ok_or_else(|| wrong("what is shown", text))?;
        match key {
            "by" => view.worker = Some(WorkerId(value.into())),
            "attempt" => view.reservation.attempt = Some(number(value)?),
            "started" => view.reservation.started_at = Some(value.into()),
            other => return Err(wrong("not shown", other)),
        }
    }
    Ok(Reply::JobSeen(view))
}
