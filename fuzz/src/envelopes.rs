//! Envelopes: what the runner and a job's command make of them, and how they reach a worker.

use std::ffi::OsString;
use std::sync::Arc;

use ojs_lifecycle::api::{GivenJob, JobId, Subject, ToWorker};
use ojs_wire::backend::envelope::one_line;
use ojs_wire::runner::arguments::{Path, args_of, words};
use ojs_wire::runner::frames::{self, JobFacts, JobOrder, Told};
use ojs_wire::runner::template::{MOST_WORD_BYTES, Template};
use ojs_wire::worker::{HelloContext, encode};
use serde_json::Value;
use serde_json::value::RawValue;

/// An envelope.
pub fn envelopes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let facts = JobFacts::read(text);
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    let value: Option<Value> = serde_json::from_str(text).ok();
    if let Some(args) = args_of(text) {
        let words = words(args);
        for (index, word) in words.iter().enumerate() {
            let path: Path = index.to_string().parse().unwrap();
            assert_eq!(path.find(args).as_deref(), Some(word.as_str()));
        }
    }
    if let Some(facts) = &facts {
        assert!(is_json);
        if let Some(value) = &value {
            let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
            assert_eq!((facts.id.as_str(), facts.kind.as_str()), (text("id"), text("type")));
            assert_eq!(facts.queue, text("queue"));
        }
        fill(facts);
    }
    if is_json {
        deliver(text);
    }
}

/// Fills in a command of every kind of place.
fn fill(facts: &JobFacts<'_>) {
    let command = ["run", "--id={id}", "{type}", "{args.0}", "{args.1.name}"].map(OsString::from);
    let template = Template::read(&command).unwrap();
    if let Ok(words) = template.fill(facts) {
        assert_eq!(words.len(), command.len());
        for word in words {
            let bytes = word.as_encoded_bytes();
            assert!(bytes.len() <= MOST_WORD_BYTES && !bytes.contains(&0));
        }
    }
}

/// The name of the job, which no frame has.
fn subject() -> Arc<Subject> {
    Arc::new(Subject {
        id: JobId("j".into()),
        kind: "k".into(),
        queue: "q".into(),
        attempt: None,
        max_attempts: None,
        trace: None,
    })
}

/// Sends the envelope to a worker, and reads the frame as the runner does.
fn deliver(text: &str) {
    let envelope = one_line(text);
    let context = HelloContext {
        concurrency: 1,
        queues: Vec::new(),
        max_frame: usize::MAX,
    };
    let job = ToWorker::Job(GivenJob {
        subject: subject(),
        envelope: (&*envelope).into(),
        checkpoint: Some("[1]".into()),
    });
    let frame = encode(&job, &context);
    let line = frame.strip_suffix(b"\n").unwrap();
    assert!(!line.contains(&b'\n'));
    let told = frames::decode(line);
    let expected = JobOrder {
        envelope: envelope.trim_ascii().to_owned(),
        checkpoint: Some("[1]".to_owned()),
        traceparent: None,
    };
    // An envelope is an object; null is none.
    let expected = Some(Told::Job(expected)).filter(|_| envelope.trim_ascii() != "null");
    assert_eq!(told, expected);
}
