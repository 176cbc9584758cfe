//! The records against docs/log-records.md: each message with its level, category, state and
//! attributes.
#![allow(
    clippy::unwrap_used,
    reason = "a test whose page or record cannot be read has failed"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::config::LogFormat;
use ojs_lifecycle::api::{
    CancelReason, CapacityNews, DropCause, EndCause, EndReport, EndedBy, Endpoint, Failure, FetchForm, HeartbeatForm,
    HolderId, InPlaceOfDeaf, JobError, JobId, Manner, Outcome, ProcessId, ShutdownCounts, Subject, Trouble, WorkerEnd,
    WorkerNotice,
};
use ojs_values::exit::Ended;
use ojs_values::signal::Signal;
use ojs_wire::backend::request::Words;

use super::*;

#[path = "narrate_samples_tests.rs"]
mod samples;
use samples::{
    drains, given_back_again, heartbeat, hung, last_words, lost, memory_gate, out_of_memory, recyclings, requeued,
    stops,
};

const PAGE: &str = include_str!("../../../docs/log-records.md");

/// A row of a table: the message, the level, the job's state, the attributes.
#[derive(Debug)]
struct Row {
    message: String,
    level: String,
    state: Option<String>,
    attributes: BTreeSet<String>,
}

impl Row {
    /// The rows of the table below this heading.
    fn below(heading: &str) -> Vec<Self> {
        let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|line| {
            let (message, rest) = line.split_once("` |").unwrap();
            let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
            let (level, state, attributes) = match cells.as_slice() {
                [level, state, attributes, _] => (*level, Some((*state).to_owned()), *attributes),
                [level, attributes, _] => (*level, None, *attributes),
                _ => unreachable!("{line}"),
            };
            let names = attributes.split([',', ' ']).filter(|name| !matches!(*name, "" | "or"));
            Self {
                message: message.to_owned(),
                level: level.to_owned(),
                state,
                attributes: names.map(str::to_owned).collect(),
            }
        })
        .collect()
    }

    /// True if its message is this one; `{…}` matches any text.
    fn is_of(&self, said: &str) -> bool {
        let mut rest = said;
        let mut parts = self
            .message
            .split('{')
            .map(|part| part.split_once('}').map_or(part, |(_, after)| after));
        let begins = parts.next().is_some_and(|first| match rest.strip_prefix(first) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        });
        let mut ends = !self.message.contains('{');
        let follows = parts.all(|part| {
            ends = part.is_empty() || rest.ends_with(part);
            rest.find(part)
                .map(|at| rest = rest.get(at + part.len()..).unwrap_or_default())
                .is_some()
        });
        begins && follows && ends && (self.message.contains('{') || rest.is_empty())
    }
}

/// The record as a program reads it.
pub(super) fn read(note: &LogRecord) -> Value {
    serde_json::from_str(&note.line(LogFormat::Json, jiff::Timestamp::UNIX_EPOCH, None)).unwrap()
}

pub(super) fn narrator() -> Narrator {
    Narrator {
        began: Duration::ZERO,
        concurrency: Some(1),
        queues: Some(String::new()),
        jobs: JobNarrator::default(),
        ended_by: None,
        last_words: LastWords::default(),
        outages: OutageNarrator::new("http://backend"),
        backend_error: None,
    }
}

fn job(attempt: u64) -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId("j1".into()),
        kind: "t".into(),
        queue: "q".into(),
        attempt: Some(attempt),
        max_attempts: Some(3),
        trace: None,
    })
}

fn error() -> JobError {
    JobError {
        code: Some("handler_error".into()),
        kind: Some("ValueError".into()),
        ..JobError::new("no")
    }
}

/// Words that name this state of the job.
fn words_of(state: Option<&str>) -> Words {
    Words {
        failure: None,
        state: state.map(str::to_owned),
    }
}

/// How long a worker had the job.
const TOOK: Option<Duration> = Some(Duration::from_millis(1250));

/// The backend has received this outcome of a job that a worker had.
fn settled(attempt: u64, outcome: Outcome) -> Notice {
    let (job, took) = (job(attempt), TOOK);
    Notice::Job(JobNotice::Settled { job, outcome, took })
}

/// Every notice about jobs, once for each of its texts. Outcomes whose words are the backend's are
/// left out.
fn about_jobs() -> Vec<Notice> {
    let job = job(3);
    let cancelled = |has_handler| {
        let job = Arc::clone(&job);
        Notice::Job(JobNotice::CancelledByOperator { job, has_handler })
    };
    let too_large = |is_saved| {
        let job = Arc::clone(&job);
        Notice::Job(JobNotice::CheckpointTooLarge { job, is_saved })
    };
    vec![
        Notice::Job(JobNotice::Claimed(Arc::clone(&job))),
        Notice::Job(JobNotice::HandedOver(Arc::clone(&job), HolderId(1))),
        cancelled(true),
        cancelled(false),
        Notice::Job(JobNotice::TimedOut(Arc::clone(&job), TOOK)),
        Notice::Job(JobNotice::TimeoutPassed(Arc::clone(&job), TOOK)),
        Notice::Job(JobNotice::Dropped(Arc::clone(&job), DropCause::NotNamed)),
        Notice::Job(JobNotice::Dropped(Arc::clone(&job), DropCause::Silent)),
        Notice::Job(JobNotice::NamedAgain(Arc::clone(&job))),
        settled(3, Outcome::Acked { result: None }),
        Notice::Job(JobNotice::ReservationLost(Arc::clone(&job), CancelReason::Cancelled)),
        Notice::Job(JobNotice::ReservationLost(Arc::clone(&job), CancelReason::Lost)),
        Notice::Job(JobNotice::DoneTwice(Arc::clone(&job))),
        Notice::Job(JobNotice::Unanswered(Arc::clone(&job), CancelReason::Cancelled)),
        Notice::Job(JobNotice::Unanswered(Arc::clone(&job), CancelReason::Lost)),
        Notice::Job(JobNotice::Adopted(Arc::clone(&job))),
        Notice::Job(JobNotice::Replaced(Arc::clone(&job))),
        Notice::Job(JobNotice::Void(Arc::clone(&job), "why")),
        Notice::Job(JobNotice::NoHandler {
            job: Arc::clone(&job),
            waits: Some(Duration::from_secs(5)),
            taken: Vec::new(),
        }),
        Notice::Job(JobNotice::NoHandler {
            job: Arc::new(Subject {
                kind: "u".into(),
                ..(*job).clone()
            }),
            waits: None,
            taken: Vec::new(),
        }),
        Notice::Job(JobNotice::RunsAlone(Arc::clone(&job))),
        Notice::Job(JobNotice::AnswerMended(
            Arc::clone(&job),
            "a frame has at most 10 bytes".into(),
        )),
        Notice::Job(JobNotice::ResultDropped(Arc::clone(&job))),
        Notice::Job(JobNotice::CheckpointNotSaved(Arc::clone(&job), Failure::Refused)),
        Notice::Job(JobNotice::CheckpointNotSaved(Arc::clone(&job), Failure::Unanswered)),
        Notice::Job(JobNotice::CheckpointNotSaved(Arc::clone(&job), Failure::NotSent)),
        Notice::Job(JobNotice::CheckpointNotSaved(Arc::clone(&job), Failure::Unauthorized)),
        Notice::Job(JobNotice::CheckpointNotSaved(Arc::clone(&job), Failure::Unsupported)),
        too_large(false),
        too_large(true),
        Notice::Job(JobNotice::Abandoned(job, "why")),
    ]
}

/// Every one about the backend.
fn about_the_backend() -> Vec<Notice> {
    let soon = Duration::from_secs(1);
    let failed = |failure| Notice::CallFailed {
        what: "heartbeat",
        job: None,
        failure,
        retry_in: Some(soon),
    };
    vec![
        Notice::Link(LinkNotice::Hedged(Endpoint::Ack)),
        Notice::Link(LinkNotice::Registered(WorkerId("w1".into()))),
        Notice::Link(LinkNotice::NotRegistered),
        Notice::Link(LinkNotice::HeartbeatForm(HeartbeatForm::Bare)),
        Notice::Link(LinkNotice::QuietStays),
        Notice::Link(LinkNotice::HeartbeatsRefused),
        Notice::Link(LinkNotice::FetchForm(FetchForm::Full)),
        Notice::Link(LinkNotice::FetchForm(FetchForm::WithoutVisibility)),
        Notice::Link(LinkNotice::FetchForm(FetchForm::Bare)),
        Notice::Link(LinkNotice::Listening),
        Notice::Link(LinkNotice::NotListening(Failure::Unsupported)),
        Notice::Link(LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::OtherKind)),
        Notice::Link(LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::OtherQueues)),
        Notice::Link(LinkNotice::StreamsAreDeaf(InPlaceOfDeaf::Polls)),
        Notice::Link(LinkNotice::WokenUp),
        Notice::Link(LinkNotice::HeartbeatIntervalCut {
            configured: soon,
            used: soon,
        }),
        failed(Failure::RetryLater { retry_after: None }),
        failed(Failure::Unauthorized),
        Notice::Link(LinkNotice::BackendIsAway(outage(0, None))),
        Notice::Link(LinkNotice::BackendIsStillAway(outage(2, Some(soon)))),
        Notice::Link(LinkNotice::BackendIsStillAway(outage(0, Some(Duration::ZERO)))),
        Notice::Link(LinkNotice::BackendIsBack(outage(2, None))),
        Notice::Link(LinkNotice::BackendIsUnsteady { failed: 3 }),
        Notice::Link(LinkNotice::FetchAbandoned),
        memory_gate(true),
        memory_gate(false),
    ]
}

/// Every notice about the worker.
fn about_the_worker() -> Vec<Notice> {
    let (soon, reason) = (Duration::from_secs(1), Reason::Sigterm);
    let ended = |ended: Ended, manner| Notice::Worker(WorkerNotice::WorkerEnded(ended.into(), manner));
    let hung = hung();
    vec![
        Notice::Worker(WorkerNotice::HolderReady {
            holder: HolderId(1),
            concurrency: 2,
            client: Some("c".into()),
        }),
        Notice::Worker(WorkerNotice::NotReady),
        Notice::Worker(WorkerNotice::NothingAskedFor),
        Notice::Ending(EndingNotice::StateChanged {
            state: WorkerState::Terminate,
            reason,
        }),
        Notice::Ending(EndingNotice::Stayed {
            what: reason,
            why: "why",
        }),
        Notice::Ending(EndingNotice::PrestopRan { left: Some(soon) }),
        Notice::Ending(EndingNotice::PrestopRan { left: None }),
        Notice::Ending(EndingNotice::PrestopLapsed { later: Some(soon) }),
        Notice::Ending(EndingNotice::PrestopLapsed { later: None }),
        Notice::Worker(WorkerNotice::Capacity(lost(Some((HolderId(3), ProcessId(7))), 0))),
        Notice::Worker(WorkerNotice::Capacity(lost(Some((HolderId(3), ProcessId(7))), 2))),
        Notice::Worker(WorkerNotice::Capacity(lost(None, 0))),
        Notice::Worker(WorkerNotice::Capacity(CapacityNews::Gained { takes: 6, most: 6 })),
        Notice::Worker(WorkerNotice::Capacity(CapacityNews::Differs { takes: 6, allowed: 10 })),
        Notice::Worker(WorkerNotice::Capacity(CapacityNews::Differs { takes: 50, allowed: 10 })),
        Notice::Worker(WorkerNotice::Capacity(CapacityNews::TooManyAskedFor {
            asked: 25,
            allowed: 10,
        })),
        Notice::Worker(WorkerNotice::QueuesRefused(vec!["emails".into(), "reports".into()])),
        Notice::Worker(WorkerNotice::EndingProcess {
            process: ProcessId(7),
            cause: hung.clone(),
            jobs: 1,
        }),
        Notice::Worker(WorkerNotice::WorkerWasEnded {
            end: Ended::Exited(143).into(),
            cause: hung,
        }),
        Notice::Worker(WorkerNotice::WorkerWasEnded {
            end: Ended::Signalled(Signal::KILL).into(),
            cause: EndCause::Silent,
        }),
        Notice::Worker(WorkerNotice::Killing { held: 1 }),
        ended(Ended::Exited(0), Manner::Orderly),
        ended(Ended::Signalled(Signal::TERM), Manner::Orderly),
        ended(Ended::Exited(1), Manner::Disorderly),
        ended(Ended::Signalled(Signal::HUP), Manner::Disorderly),
        ended(Ended::Signalled(Signal::HUP), Manner::Failed),
        ended(Ended::Exited(0), Manner::Unasked),
        ended(Ended::Exited(1), Manner::Failed),
        Notice::Worker(WorkerNotice::WorkerEnded(out_of_memory(), Manner::Failed)),
        Notice::Worker(WorkerNotice::TooManyRestarts),
        Notice::Worker(WorkerNotice::StartPostponed),
    ]
    .into_iter()
    .chain(recyclings(soon))
    .chain(drains(soon))
    .chain(stops())
    .chain(
        last_words()
            .into_iter()
            .map(|account| Notice::Ending(EndingNotice::Summary(Box::new(account)))),
    )
    .collect()
}

/// An outage of an hour.
fn outage(waiting: usize, lapses_in: Option<Duration>) -> Trouble {
    Trouble {
        lasted: Duration::from_secs(3600),
        failure: Failure::NotSent,
        failed: 20,
        waiting,
        lapses_in,
        is_from_the_start: false,
    }
}

fn names(object: Option<&Value>) -> BTreeSet<String> {
    let object = object.and_then(Value::as_object);
    object.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Holds records against the rows: each has one row, each row a record, and together they have its
/// attributes.
fn assert_in_step(rows: &[Row], records: &[Value]) {
    let mut seen = vec![BTreeSet::new(); rows.len()];
    let mut is_said = vec![false; rows.len()];
    for record in records {
        let message = record["message"].as_str().unwrap();
        // The more a row has of the message, the more it is the one that is meant.
        let row = (0..rows.len())
            .filter(|at| rows[*at].is_of(message))
            .max_by_key(|at| rows[*at].message.len());
        let at = row.unwrap_or_else(|| unreachable!("{message:?} is not on the page"));
        let row = &rows[at];
        assert_eq!(record["severity"], row.level.to_uppercase(), "{message}");
        let state = record.pointer("/ojs/state").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(state, row.state.as_deref().unwrap_or_default(), "{message}");
        is_said[at] = true;
        seen[at].append(&mut names(record.get("attributes")));
    }
    for (at, row) in rows.iter().enumerate() {
        assert!(is_said[at], "nobody says {:?}", row.message);
        assert_eq!(seen[at], row.attributes, "{}", row.message);
    }
}

#[test]
fn what_is_said_of_jobs_is_on_the_page_of_the_log() {
    let mut narrator = narrator();
    let now = Duration::from_secs(5);
    let mut records: Vec<Value> = [about_jobs(), given_back_again()]
        .iter()
        .flatten()
        .map(|notice| read(&narrator.note(notice, &Words::default(), now).unwrap()))
        .collect();
    // The answer decides, whatever the error and the number of attempts suggest.
    let states = [Some("retryable"), Some("discarded"), Some("parked"), None];
    for (attempt, state) in [1, 3]
        .into_iter()
        .flat_map(|attempt| states.map(|state| (attempt, state)))
    {
        let failed = settled(attempt, Outcome::Failed { error: error() });
        let failed = read(&narrator.note(&failed, &words_of(state), now).unwrap());
        assert_eq!(failed["error"]["type"], "ValueError");
        assert_eq!(failed["error"]["message"], "no");
        let expected = state
            .filter(|state| *state != "parked")
            .map_or(Value::Null, Value::from);
        assert_eq!(failed["ojs"]["state"], expected, "{failed}");
        records.push(failed);
    }
    for state in ["available", "discarded", "parked"] {
        let words = words_of(Some(state));
        records.push(read(&narrator.note(&settled(1, requeued()), &words, now).unwrap()));
    }
    let given_back = read(&narrator.note(&settled(1, requeued()), &Words::default(), now).unwrap());
    assert_eq!(given_back["message"], "Job given back to its queue");
    assert_eq!(given_back["ojs"].get("state"), None, "the backend has not said it");
    assert!(records.iter().all(|record| record["category"] == "lifecycle"));
    assert!(records.iter().all(|record| record["ojs"]["job_id"] == "j1"));
    assert_in_step(&Row::below("Jobs"), &records);
}

#[test]
fn what_is_said_of_the_worker_is_on_the_page_of_the_log() {
    let mut narrator = narrator();
    let now = Duration::from_secs(5);
    let notes: Vec<LogRecord> = about_the_worker()
        .into_iter()
        .chain(about_the_backend())
        .map(|notice| narrator.note(&notice, &Words::default(), now).unwrap())
        .collect();
    let mut records: Vec<Value> = notes.iter().map(read).collect();
    for record in &records {
        let is_error = record.get("error").is_some();
        assert_eq!(record["category"] == "error", is_error, "{record}");
    }
    records.extend(calling_note(&heartbeat()).as_ref().map(read));
    records.push(read(&narrator.started(1, &WorkerId("w1".into()))));
    records.push(read(&next_started(2)));
    assert_in_step(&Row::below("The worker"), &records);
}

#[test]
fn no_remark_is_left_out_here() {
    let source = include_str!("../../../crates/lifecycle/src/api/notice.rs");
    let (_, notices) = source.split_once("pub enum Notice {\n").unwrap();
    let notices = notices.split("\n}\n").next().unwrap();
    let is_name = |line: &&str| line.starts_with(|c: char| c.is_ascii_uppercase());
    let name = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let all: BTreeSet<String> = notices
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(is_name)
        .map(name)
        // This notice is for the metrics alone.
        .filter(|name| name != "OutcomeSent")
        .collect();
    let samples = [about_jobs(), given_back_again(), about_the_worker()]
        .into_iter()
        .flatten()
        .chain(about_the_backend());
    let here: BTreeSet<String> = samples.map(|notice| name(&format!("{notice:?}"))).collect();
    assert_eq!(all, here);
}

#[test]
fn a_failed_request_is_told_with_the_job_and_with_what_the_answer_says() {
    let mut narrator = narrator();
    let failed = Notice::CallFailed {
        what: "ACK",
        job: Some(job(1)),
        failure: Failure::ServerError,
        retry_in: None,
    };
    let words = Words {
        failure: Some("status 500 internal_error: no room\u{1b}[2J".to_owned()),
        state: None,
    };
    let record = read(&narrator.note(&failed, &words, Duration::ZERO).unwrap());
    let said = "ACK failed: something is broken at the backend (status 500 internal_error: no room\u{1b}[2J)";
    assert_eq!(record["message"], said, "in a record, escapes keep it from a terminal");
    assert_eq!(record["ojs"]["job_id"], "j1");
    assert_eq!(record["error"]["type"], "server_error");
    let an_hour_later = Duration::from_secs(3600);
    let record = read(&narrator.note(&failed, &Words::default(), an_hour_later).unwrap());
    assert_eq!(record["message"], "ACK failed: something is broken at the backend");
}

#[test]
fn a_job_whose_outcome_is_refused_because_it_was_cancelled_is_cancelled_and_not_lost() {
    let mut narrator = narrator();
    let lost = Notice::Job(JobNotice::ReservationLost(job(1), CancelReason::Lost));
    let words = Words {
        failure: Some("status 409 conflict: job j1 is cancelled, not active".to_owned()),
        state: Some("cancelled".to_owned()),
    };
    let record = read(&narrator.note(&lost, &words, Duration::ZERO).unwrap());
    assert_eq!(
        (&record["message"], &record["severity"], &record["ojs"]["state"]),
        (&"Job cancelled".into(), &"INFO".into(), &"cancelled".into())
    );
}

#[test]
fn a_job_s_time_is_told_with_its_outcome_where_a_worker_had_it() {
    let mut narrator = narrator();
    let mut told = |notice: &Notice| {
        let record = read(&narrator.note(notice, &Words::default(), Duration::ZERO).unwrap());
        record.pointer("/attributes/duration_ms").and_then(Value::as_u64)
    };
    let outcome = requeued();
    assert_eq!(told(&settled(1, outcome.clone())), Some(1250));
    let (job, took) = (job(1), None);
    assert_eq!(told(&Notice::Job(JobNotice::Settled { job, outcome, took })), None);
}
