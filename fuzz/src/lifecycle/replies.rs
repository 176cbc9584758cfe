//! Replies of a backend, of which the bytes choose.

use std::sync::Arc;

use ojs_lifecycle::api::{
    BackendTraits, Call, Delivery, Directive, Failure, JobError, JobId, JobState, JobView, Reply, Reservation,
    StreamNews, Subject, WorkerId,
};

use super::bytes::Bytes;
use super::options::ms;

/// Ids of jobs: few, so that they come again.
const JOBS: usize = 8;

pub fn job(bytes: &mut Bytes<'_>) -> JobId {
    JobId(format!("j{}", bytes.below(JOBS)).into())
}

pub fn jobs(bytes: &mut Bytes<'_>) -> Vec<JobId> {
    (0..bytes.below(4)).map(|_| job(bytes)).collect()
}

pub fn error(bytes: &mut Bytes<'_>) -> JobError {
    JobError {
        retryable: bytes.one_in(2),
        details: bytes.pick([None, Some("{\"a\":1}".into()), Some("no JSON".into())]),
        ..JobError::new("broken")
    }
}

/// A reply that fits the call, most of the time.
pub fn reply(call: &Call, bytes: &mut Bytes<'_>) -> Reply {
    match bytes.below(8) {
        0 => Reply::Failed(failure(bytes)),
        1 => any(bytes),
        _ => fitting(call, bytes),
    }
}

fn fitting(call: &Call, bytes: &mut Bytes<'_>) -> Reply {
    match call {
        Call::Register { .. } => registered(bytes),
        Call::Heartbeat { active, .. } => beaten(bytes.pick([Some(active.clone()), None, Some(Vec::new())]), bytes),
        Call::Fetch { count, .. } => fetched(usize::try_from(*count).unwrap_or(0).min(4), bytes),
        Call::GetJob { .. } => seen(bytes),
        Call::Manifest => described(bytes),
        Call::Report { .. }
        | Call::Progress { .. }
        | Call::Checkpoint { .. }
        | Call::Listen { .. }
        | Call::Deregister { .. } => Reply::Accepted,
    }
}

fn any(bytes: &mut Bytes<'_>) -> Reply {
    match bytes.below(6) {
        0 => registered(bytes),
        1 => {
            let extended = jobs(bytes);
            beaten(Some(extended), bytes)
        }
        2 => fetched(4, bytes),
        3 => seen(bytes),
        4 => described(bytes),
        _ => Reply::Accepted,
    }
}

fn registered(bytes: &mut Bytes<'_>) -> Reply {
    Reply::Registered {
        heartbeat_interval: bytes.pick([None, Some(ms(100)), Some(ms(60_000))]),
        longest_interval: bytes.pick([None, Some(ms(100)), Some(ms(5_000))]),
    }
}

fn beaten(extended: Option<Vec<JobId>>, bytes: &mut Bytes<'_>) -> Reply {
    let directives = [
        None,
        None,
        None,
        Some(Directive::Run),
        Some(Directive::Quiet),
        Some(Directive::Terminate),
    ];
    Reply::HeartbeatOk {
        directive: bytes.pick(directives),
        extended,
    }
}

/// Jobs, one more than wanted at most.
fn fetched(most: usize, bytes: &mut Bytes<'_>) -> Reply {
    let count = bytes.below(most + 2);
    Reply::Fetched((0..count).map(|_| delivery(bytes)).collect())
}

fn delivery(bytes: &mut Bytes<'_>) -> Delivery {
    let id = job(bytes);
    let attempt = bytes.pick([None, Some(1), Some(2), Some(u64::MAX)]);
    let subject = Subject {
        id: id.clone(),
        kind: bytes.pick(["t0", "t1", ""]).into(),
        queue: bytes.pick(["q0", "q1", ""]).into(),
        attempt,
        max_attempts: bytes.pick([None, Some(1), Some(0)]),
        trace: None,
    };
    Delivery {
        subject: Arc::new(subject),
        envelope: (&*id.0).into(),
        checkpoint: bytes.pick([None, Some("1".into())]),
        timeout: bytes.pick([None, Some(ms(1)), Some(ms(u64::MAX))]),
        reservation: reservation(attempt, bytes),
        has_crashed: bytes.one_in(4),
        visibility: bytes.pick([None, Some(ms(1)), Some(ms(3_000)), Some(ms(u64::MAX))]),
        waited: bytes.pick([None, Some(ms(u64::MAX))]),
    }
}

fn reservation(attempt: Option<u64>, bytes: &mut Bytes<'_>) -> Reservation {
    Reservation {
        attempt,
        started_at: bytes.pick([None, Some("one".into()), Some("two".into())]),
    }
}

fn seen(bytes: &mut Bytes<'_>) -> Reply {
    let states = [
        JobState::Active,
        JobState::Cancelled,
        JobState::Completed,
        JobState::Elsewhere,
        JobState::Missing,
        JobState::Hidden,
    ];
    let attempt = bytes.pick([None, Some(1), Some(2)]);
    Reply::JobSeen(JobView {
        state: bytes.pick(states),
        worker: bytes.pick([None, Some(WorkerId("w1".into())), Some(WorkerId("another".into()))]),
        reservation: reservation(attempt, bytes),
    })
}

fn described(bytes: &mut Bytes<'_>) -> Reply {
    Reply::Manifest(BackendTraits {
        discards_requeues: bytes.one_in(2),
        extends_from_start: bytes.one_in(2),
    })
}

pub fn failure(bytes: &mut Bytes<'_>) -> Failure {
    bytes.pick([
        Failure::NotSent,
        Failure::Unanswered,
        Failure::ServerError,
        Failure::NotFound,
        Failure::Refused,
        Failure::Overloaded,
        Failure::NoCredentials,
        Failure::RetryLater { retry_after: None },
        Failure::RetryLater {
            retry_after: Some(ms(u64::MAX)),
        },
        Failure::Redirected,
        Failure::Unauthorized,
        Failure::Unsupported,
        Failure::NotFromBackend,
        Failure::Unregistered,
        Failure::Lost,
        Failure::Conflict { was_sent_twice: false },
        Failure::Conflict { was_sent_twice: true },
        Failure::AlreadyCompleted,
    ])
}

pub fn news(bytes: &mut Bytes<'_>) -> StreamNews {
    let job = job(bytes);
    bytes.pick([
        StreamNews::Opened,
        StreamNews::JobAvailable {
            job: None,
            came_due: false,
        },
        StreamNews::JobAvailable {
            job: Some(job.clone()),
            came_due: true,
        },
        StreamNews::JobTaken(job.clone()),
        StreamNews::JobComesLater,
        StreamNews::JobCancelled(job),
        StreamNews::BackendLeaves,
    ])
}
