//! The word behind each vector of ojs-init.

use std::sync::Arc;
use std::time::Duration;

use ojs_lifecycle::api::{
    About, CancelReason, ErrorCode, GivenJob, JobId, Reason, Subject, Text, ToWorker, WorkerId, WorkerState,
};
use ojs_wire::worker::HelloContext;

const MAIL: &str = r#"{"id":"job-1","type":"mail.send"}"#;

fn job_id() -> JobId {
    JobId("job-1".into())
}

fn hello(worker: &str, state: WorkerState) -> ToWorker {
    let worker = WorkerId(worker.into());
    ToWorker::Hello { worker, state }
}

pub fn subject() -> Arc<Subject> {
    Arc::new(Subject {
        id: job_id(),
        kind: "t".into(),
        queue: "q".into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    })
}

pub fn job(envelope: &str, checkpoint: Option<&str>) -> ToWorker {
    ToWorker::Job(GivenJob {
        subject: subject(),
        envelope: envelope.into(),
        checkpoint: checkpoint.map(Text::from),
    })
}

fn lifecycle(state: WorkerState, reason: Reason, remaining_ms: Option<u64>) -> ToWorker {
    ToWorker::Lifecycle {
        state,
        reason,
        // A part of a millisecond does not count.
        remaining: remaining_ms.map(|millis| Duration::from_millis(millis) + Duration::from_nanos(999_999)),
    }
}

fn cancel(reason: CancelReason) -> ToWorker {
    ToWorker::Cancel {
        job: job_id(),
        reason,
        grace: Duration::from_secs(5),
    }
}

fn ok(about: About) -> ToWorker {
    ToWorker::Ok {
        job: job_id(),
        about,
        is_settled: true,
    }
}

fn error(code: ErrorCode, job: Option<JobId>) -> ToWorker {
    let message = "m".into();
    ToWorker::Error { code, message, job }
}

pub fn context(concurrency: u32, queues: &[&str], max_frame: usize) -> HelloContext {
    HelloContext {
        concurrency,
        queues: queues.iter().map(|queue| Text::from(*queue)).collect(),
        max_frame,
    }
}

/// The fields beside the word in the vector with this name.
pub fn context_of(name: &str) -> HelloContext {
    match name {
        "hello" => context(10, &["default", "mail"], 4 << 20),
        "hello, while it ends" => context(10, &["a\"b"], 4 << 20),
        _ => context(1, &[], 4096),
    }
}

/// The word that is encoded as the vector with this name.
pub fn word(name: &str) -> Option<ToWorker> {
    Some(match name {
        "hello" => hello("worker-1", WorkerState::Running),
        "hello, no queues and names to escape" => hello("w \"1\"", WorkerState::Quiet),
        "hello, while it ends" => hello("worker-1", WorkerState::Terminate),
        "job" => job(
            r#"{"id":"job-1","type":"mail.send","queue":"default","args":[1]}"#,
            None,
        ),
        "job, as the backend spelled it" => job(
            concat!(
                r#"{ "specversion":"1.0","id":"job-1","type":"mail.send","#,
                r#""x":{"z":1,"a":9007199254740993,"z":1e400},"args":["\u00e9\/"] }"#
            ),
            None,
        ),
        "job, with a checkpoint" => job(MAIL, Some(r#"{"row":9007199254740993}"#)),
        "job, with a checkpoint that is null" => job(MAIL, Some("null")),
        "lifecycle, sigterm" => lifecycle(WorkerState::Terminate, Reason::Sigterm, Some(25_000)),
        "lifecycle, sigint" => lifecycle(WorkerState::Terminate, Reason::Sigint, Some(0)),
        "lifecycle, sigquit" => lifecycle(WorkerState::Terminate, Reason::Sigquit, Some(1)),
        "lifecycle, sigtstp" => lifecycle(WorkerState::Quiet, Reason::Sigtstp, None),
        "lifecycle, sigcont" => lifecycle(WorkerState::Running, Reason::Sigcont, None),
        "lifecycle, server" => lifecycle(WorkerState::Quiet, Reason::Server, None),
        "lifecycle, control" => lifecycle(WorkerState::Quiet, Reason::Control, None),
        "lifecycle, worker" => lifecycle(WorkerState::Terminate, Reason::Worker, Some(31_536_000_000)),
        "cancel, shutdown" => cancel(CancelReason::Shutdown),
        "cancel, timeout" => cancel(CancelReason::Timeout),
        "cancel, cancelled" => cancel(CancelReason::Cancelled),
        "cancel, lost" => cancel(CancelReason::Lost),
        "ok, ack" => ok(About::Ack),
        "ok, fail" => ok(About::Fail),
        "ok, release" => ok(About::Release),
        "ok, progress" => ok(About::Progress),
        "ok, checkpoint" => ok(About::Checkpoint),
        "ping" => ToWorker::Ping { id: 7 },
        "ping, the largest id" => ToWorker::Ping { id: (1 << 53) - 1 },
        _ => return error_word(name),
    })
}

fn error_word(name: &str) -> Option<ToWorker> {
    Some(match name {
        "error, not_json" => error(ErrorCode::NotJson, None),
        "error, invalid_frame" => error(ErrorCode::InvalidFrame, None),
        "error, frame_too_long" => error(ErrorCode::FrameTooLong, None),
        "error, unknown_type" => error(ErrorCode::UnknownType, None),
        "error, unsupported_protocol" => error(ErrorCode::UnsupportedProtocol, None),
        "error, not_held" => error(ErrorCode::NotHeld, Some(job_id())),
        "error, lost" => error(ErrorCode::Lost, Some(job_id())),
        "error, refused" => error(ErrorCode::Refused, Some(job_id())),
        "error, not_offered" => error(ErrorCode::NotOffered, Some(job_id())),
        "error, unavailable" => error(ErrorCode::Unavailable, Some(job_id())),
        "error, names to escape" => ToWorker::Error {
            code: ErrorCode::NotHeld,
            message: "a\"b\\c\nd\0é".into(),
            job: Some(JobId("\t😀".into())),
        },
        _ => return None,
    })
}
