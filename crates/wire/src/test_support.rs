//! Values that the tests of this folder send and get.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::request::{Answer, HttpAnswer, Identity, read, read_jobs};
use ojs_lifecycle::api::{
    Call, Farewell, FetchForm, HeartbeatForm, JobError, JobId, Outcome, Progress, Reply, Subject, Takes, WorkerId,
    WorkerState,
};

pub(super) fn us() -> Identity {
    Identity {
        hostname: "host".to_owned(),
        pid: 7,
        queues: vec!["high".to_owned(), "low".to_owned()],
        concurrency: 3,
        labels: vec!["gpu".to_owned()],
        started_at: "2026-01-02T03:04:05Z".to_owned(),
    }
}

pub(super) fn worker() -> WorkerId {
    WorkerId("w-1".into())
}

pub(super) fn job(id: &str) -> JobId {
    JobId(id.into())
}

pub(super) fn subject() -> Arc<Subject> {
    Arc::new(Subject {
        id: job("j"),
        kind: "t".into(),
        queue: "q".into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    })
}

pub(super) fn ack() -> Call {
    Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Acked { result: None },
        is_bare: false,
    }
}

pub(super) fn error() -> JobError {
    JobError {
        code: Some("shutdown".into()),
        kind: Some("ShutdownError".into()),
        details: Some(r#"{"reason":"shutdown"}"#.into()),
        backtrace: Some(r#"["a"]"#.into()),
        ..JobError::new("cut off")
    }
}

pub(super) fn fail(is_bare: bool) -> Call {
    Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Failed { error: error() },
        is_bare,
    }
}

pub(super) fn requeue_call() -> Call {
    Call::Report {
        worker: worker(),
        job: job("j"),
        outcome: Outcome::Requeued {
            reason: "surplus".into(),
            after: Duration::ZERO,
        },
        is_bare: false,
    }
}

pub(super) fn fetch(count: u32) -> Call {
    Call::Fetch {
        worker: worker(),
        count,
        queues: None,
        visibility: Duration::from_secs(120),
        form: FetchForm::Full,
    }
}

pub(super) fn beat() -> Call {
    Call::Heartbeat {
        worker: worker(),
        state: WorkerState::Quiet,
        active: vec![job("a"), job("b")],
        visibility: Duration::from_secs(120),
        takes: Takes::default(),
        form: HeartbeatForm::Full,
    }
}

pub(super) fn register() -> Call {
    Call::Register {
        worker: worker(),
        takes: Takes::default(),
    }
}

pub(super) fn deregister() -> Call {
    Call::Deregister {
        worker: worker(),
        way: Farewell::Full,
    }
}

pub(super) fn look() -> Call {
    Call::GetJob { job: job("j") }
}

pub(super) fn progress() -> Call {
    Call::Progress {
        job: job("j"),
        progress: Progress {
            fraction: "0.50".into(),
            message: Some("half".into()),
            data: Some("[1]".into()),
        },
    }
}

pub(super) fn checkpoint() -> Call {
    Call::Checkpoint {
        job: job("j"),
        state: r#"{"page": 3}"#.into(),
    }
}

pub(super) fn every_call() -> Vec<Call> {
    vec![
        register(),
        beat(),
        fetch(2),
        ack(),
        fail(false),
        fail(true),
        requeue_call(),
        look(),
        progress(),
        checkpoint(),
        deregister(),
    ]
}

pub(super) fn read_any(call: &Call, answered: HttpAnswer<'_>) -> Answer {
    read_jobs(call, answered.status, answered.body.to_vec().into()).unwrap_or_else(|_| read(call, answered))
}

pub(super) fn read_with(call: &Call, status: u16, retry_after: Option<&str>, body: &str) -> Reply {
    let answered = HttpAnswer {
        status,
        retry_after,
        now: Duration::ZERO,
        body: body.as_bytes(),
        is_whole: true,
        was_sent_twice: false,
    };
    read_any(call, answered).reply
}

pub(super) fn reply(call: &Call, status: u16, body: &str) -> Reply {
    read_with(call, status, None, body)
}
