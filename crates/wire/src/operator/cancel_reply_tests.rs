use std::sync::Arc;

use super::*;
use ojs_lifecycle::api::JobId;

fn subject() -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId("j1".into()),
        kind: "mail".into(),
        queue: "default".into(),
        attempt: Some(1),
        max_attempts: None,
        trace: None,
    })
}

fn stopping() -> StoppingJob {
    StoppingJob {
        job: subject(),
        reason: CancelReason::Operator,
        is_news: true,
        ends_in: Some(Duration::from_secs(30)),
        drain_left: None,
        others: 0,
        unanswered: JobEnd::Failed,
    }
}

fn told(mode: &str, stopping: StoppingJob) -> CancelReply {
    let facts = InstanceInfo {
        mode: mode.to_owned(),
        kill_lead: Duration::from_secs(if mode == "exec" { 2 } else { 0 }),
        ..InstanceInfo::default()
    };
    reply(&CancelAnswer::Stops(stopping), &facts)
}

fn refused(refusal: CancelRefusal) -> CancelReply {
    reply(&CancelAnswer::Refused(refusal), &InstanceInfo::default())
}

#[test]
fn the_answer_says_what_happens_to_the_job_and_by_when() {
    let fails = "without an answer it fails, retryable (cancelled_by_operator)";
    let cases = [
        (
            "socket",
            "job j1 (mail): its handler is told to stop; its process is ended in 30 s unless the job is answered",
        ),
        (
            "gateway",
            "job j1 (mail): its SDK gets no message; its process is ended in 30 s unless the job is answered",
        ),
        (
            "exec",
            "job j1 (mail): its process gets SIGTERM now, and SIGKILL in 28 s if it does not end",
        ),
    ];
    for (mode, begin) in cases {
        let reply = told(mode, stopping());
        assert_eq!(reply.message, format!("{begin}; {fails}"));
        assert!(reply.ok && reply.changed);
    }
    assert_eq!(told("exec", stopping()).ends_in_ms, Some(28_000));
}

#[test]
fn the_other_jobs_of_the_process_and_an_earlier_stop_phase_are_named() {
    let crowded = StoppingJob {
        others: 2,
        drain_left: Some(Duration::from_secs(12)),
        unanswered: JobEnd::Requeued,
        ..stopping()
    };
    let message = told("socket", crowded.clone()).message;
    assert!(
        message.ends_with(
            "; without an answer it is given back; its process has 2 other jobs, which are given back then; the stop \
             phase begins before, in 12 s"
        ),
        "{message}"
    );
    // Each job of mode exec has its own process.
    let reply = told("exec", crowded);
    assert!(!reply.message.contains("other jobs"), "{reply:?}");
    assert_eq!(reply.other_jobs, None);
}

#[test]
fn a_second_cancel_says_that_it_changes_nothing() {
    let again = StoppingJob {
        is_news: false,
        reason: CancelReason::Timeout,
        ..stopping()
    };
    let reply = told("socket", again.clone());
    assert!(reply.ok && !reply.changed);
    assert_eq!(
        reply.message,
        "job j1 (mail) is told to stop already (timeout): its process is ended in 30 s; without an answer it fails, \
         retryable (timeout)"
    );
    let ending = StoppingJob { ends_in: None, ..again };
    assert_eq!(
        told("socket", ending).message,
        "job j1 (mail) is told to stop already, and its process is being ended"
    );
}

#[test]
fn a_job_without_a_handler_is_decided_at_once() {
    let decided = |end| reply(&CancelAnswer::Decided(subject(), end), &InstanceInfo::default());
    assert_eq!(
        decided(JobEnd::Failed).message,
        "job j1 (mail) had not been started: it fails, retryable (cancelled_by_operator)"
    );
    assert!(decided(JobEnd::Requeued).message.ends_with("it is given back"));
}

#[test]
fn each_refusal_has_a_code_and_says_what_to_do() {
    let cases = [
        (
            CancelRefusal::Unknown,
            "unknown_job",
            "ojs-init jobs lists the active jobs",
        ),
        (CancelRefusal::Ambiguous, "ambiguous", "give more of the id"),
        (
            CancelRefusal::Decided(subject(), JobEnd::Acked),
            "too_late",
            "job j1 (mail) is acked",
        ),
        (
            CancelRefusal::CannotBeTold(subject()),
            "impossible",
            "gateway.enforce_timeouts is off",
        ),
        (CancelRefusal::Dropped(subject()), "impossible", "ojs-init stop"),
    ];
    for (refusal, code, words) in cases {
        let reply = refused(refusal);
        assert!(!reply.ok && !reply.changed);
        assert_eq!(reply.code.as_deref(), Some(code));
        assert!(reply.message.contains(words), "{reply:?}");
    }
}

#[test]
fn the_line_is_read_as_it_was_written() {
    let reply = told("socket", stopping());
    let line = serde_json::to_vec(&reply).unwrap();
    assert_eq!(decode(&line), Some(reply));
    assert_eq!(decode(b"no json"), None);
}
