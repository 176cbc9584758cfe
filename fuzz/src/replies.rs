//! The bodies of the backend's answers, and its streams of events.

use std::time::Duration;

use ojs_lifecycle::api::{
    Call, Farewell, FetchForm, HeartbeatForm, JobId, Outcome, Reply, StreamNews, StreamTopic, Takes, WorkerId,
    WorkerState,
};
use ojs_wire::backend::request::{HttpAnswer, is_of_ojs, read, read_jobs};
use ojs_wire::backend::spare::Spare;
use ojs_wire::backend::split::{JobsBody, JobsReader};
use ojs_wire::backend::stream::EventStreamReader;
use serde_json::Value;

use super::pieces::same_in_any_pieces;

/// Stands for a long text in a body: only long jobs are split from their answers. JSON has no such
/// byte.
const LONG: u8 = 1;

/// Length of that text, in bytes.
const LONG_BYTES: usize = 40_000;

/// Most long texts of one body.
const MOST_LONG: usize = 3;

/// An answer: the kind of request and the status in the first line, then the body.
pub fn replies(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (line, body) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let Some(call) = words.next().and_then(call) else {
        return;
    };
    let status = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let retry_after = words.next();
    let body = lengthened(body);
    let split = same_in_any_pieces(&body, |pieces| {
        let (mut reader, mut spare, mut length) = (JobsReader::default(), Spare::default(), 0);
        for piece in pieces {
            reader.push(piece, 0, &mut spare);
            length += piece.len();
            assert_eq!(reader.len(), length);
        }
        reader.into_body()
    });
    assert_eq!(split.bytes(), body.len());
    assert_eq!(split.clone().join(), body);
    let _ = is_of_ojs(&body);
    for is_whole in [true, false] {
        let answer = read(
            &call,
            HttpAnswer {
                status,
                retry_after,
                now: Duration::from_secs(1_800_000_000),
                body: &body,
                is_whole,
                was_sent_twice: false,
            },
        );
        let is_success = matches!(
            answer.reply,
            Reply::Registered { .. } | Reply::HeartbeatOk { .. } | Reply::Fetched(_) | Reply::Manifest(_)
        );
        assert!(!is_success || (200..300).contains(&status));
    }
    let answers = [split, JobsBody::from(body.clone())].map(|body| read_jobs(&call, status, body));
    assert_eq!(answers[0], answers[1], "large jobs are jobs like others");
    if let [Ok(answer), _] = &answers {
        check_jobs(&answer.reply, &body);
    }
}

/// Compares jobs with those that serde_json finds, if the body is regular.
fn check_jobs(reply: &Reply, body: &[u8]) {
    let Reply::Fetched(deliveries) = reply else { return };
    for delivery in deliveries {
        assert!(!delivery.subject.id.0.is_empty());
        assert!(!delivery.envelope.contains(['\n', '\r']));
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return;
    };
    let text = String::from_utf8_lossy(body);
    // Of a doubled field serde_json has the last value alone.
    if text.matches("\"job").count() > 1 || text.contains("\\u") {
        return;
    }
    let jobs = match fields.get("jobs") {
        Some(Value::Array(jobs)) => jobs.clone(),
        _ => fields.get("job").cloned().into_iter().collect(),
    };
    let is_usable = |job: &&Value| job.get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    let expected: Vec<&Value> = jobs.iter().filter(is_usable).collect();
    if !fields
        .get("jobs")
        .is_some_and(|jobs| !jobs.is_array() && !jobs.is_null())
    {
        assert_eq!(deliveries.len(), expected.len());
    }
    for (delivery, expected) in deliveries.iter().zip(expected) {
        assert_eq!(&serde_json::from_str::<Value>(&delivery.envelope).unwrap(), expected);
        assert_eq!(
            expected.get("id").and_then(Value::as_str),
            Some(&*delivery.subject.id.0)
        );
    }
}

fn lengthened(body: &[u8]) -> Vec<u8> {
    let mut long = 0;
    let mut whole = Vec::with_capacity(body.len());
    for byte in body {
        if *byte == LONG && long < MOST_LONG {
            long += 1;
            whole.resize(whole.len() + LONG_BYTES, b'x');
        } else {
            whole.push(*byte);
        }
    }
    whole
}

/// The call of this name.
fn call(name: &str) -> Option<Call> {
    let worker = WorkerId("w".into());
    let job = JobId("j".into());
    Some(match name {
        "register" => Call::Register {
            worker,
            takes: Takes::default(),
        },
        "heartbeat" => Call::Heartbeat {
            worker,
            state: WorkerState::Running,
            active: vec![job],
            visibility: Duration::from_secs(120),
            takes: Takes::default(),
            form: HeartbeatForm::Full,
        },
        "fetch" => Call::Fetch {
            worker,
            count: 2,
            queues: None,
            visibility: Duration::from_secs(120),
            form: FetchForm::Full,
        },
        "ack" | "requeue" => Call::Report {
            worker,
            job,
            outcome: if name == "ack" {
                Outcome::Acked { result: None }
            } else {
                Outcome::Requeued {
                    reason: "surplus".into(),
                    after: Duration::ZERO,
                }
            },
            is_bare: false,
        },
        "look" => Call::GetJob { job },
        "manifest" => Call::Manifest,
        "listen" => Call::Listen {
            topic: StreamTopic::Queue("q".into()),
        },
        "deregister" => Call::Deregister {
            worker,
            way: Farewell::Full,
        },
        _ => return None,
    })
}

/// The bytes of a stream of events.
pub fn event_streams(data: &[u8]) {
    let news = same_in_any_pieces(data, |pieces| {
        let (mut reader, mut news) = (EventStreamReader::default(), Vec::new());
        for piece in pieces {
            reader.push(piece, |new| news.push(new));
        }
        news
    });
    // Each event needs an empty line.
    let ends = data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    assert!(news.len() <= ends && !news.contains(&StreamNews::Opened));
}
