//! The bodies of requests to the gateway, against serde_json's values of the same bytes.

use ojs_lifecycle::api::FromWorker;
use ojs_wire::gateway::{read_beat, read_fetch, read_outcome, read_worker, with_worker};
use serde_json::{Map, Value};

/// Our name, with a quote that has to be escaped.
const OURS: &str = "ojs-init \"1\"";

/// A body.
pub fn bodies(data: &[u8]) {
    let fetch = [false, true].map(|is_named| read_fetch(data, is_named));
    let beat = read_beat(data);
    let worker = read_worker(data);
    let outcomes = [false, true].map(|has_failed| read_outcome(data, has_failed));
    let renamed = with_worker(data.to_vec(), OURS);
    let fields: Map<String, Value> = match serde_json::from_slice(data) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => {
            assert!(beat.is_err() && fetch.iter().all(Result::is_err) && outcomes.iter().all(Result::is_err));
            assert_eq!(renamed, data);
            return;
        }
        // serde_json refuses some numbers, half pairs and depths that are passed on as text.
        Err(_) => return,
    };
    let named = name(&fields, "worker_id");
    assert_eq!(worker.as_deref(), named);
    if let [Ok(fetch), _] = &fetch {
        let counts = ["count", "batch_size"].into_iter();
        let count = counts
            .filter_map(|name| fields.get(name)?.as_u64())
            .next()
            .unwrap_or(1)
            .max(1);
        assert_eq!(u64::from(fetch.count), count.min(u64::from(u32::MAX)));
        assert_eq!(fetch.worker.as_deref(), named);
        let queues = texts(fields.get("queues")).filter(|queues| !queues.is_empty());
        let queues = queues.map(|queues| queues.into_iter().map(str::to_owned).collect::<Vec<_>>());
        let read = fetch
            .queues
            .as_ref()
            .map(|queues| queues.iter().map(|queue| queue.to_string()).collect());
        assert_eq!(read, queues);
    }
    let beat = beat.unwrap();
    assert_eq!(beat.worker.as_deref(), named);
    for job in beat.jobs.iter().flatten() {
        assert!(says(&fields, &job.0), "{job}");
    }
    for outcome in &outcomes {
        let job = name(&fields, "job_id");
        match outcome {
            Ok(outcome) => {
                assert_eq!(job, Some(&*outcome.job.0));
                assert_eq!(outcome.said.answers(), Some(&outcome.job));
                if let FromWorker::Ack { result, .. } = &outcome.said {
                    let result = result.as_ref().map(|text| serde_json::from_str::<Value>(text).unwrap());
                    assert_eq!(result.as_ref(), fields.get("result"));
                }
            }
            Err(bad) => assert!(job.is_none() || bad.0.contains("once"), "{bad:?}"),
        }
    }
    let mut expected = fields;
    if let Some(worker) = expected.get_mut("worker_id") {
        *worker = OURS.into();
    }
    assert_eq!(
        serde_json::from_slice::<Value>(&renamed).unwrap(),
        Value::Object(expected)
    );
}

/// A field that is a name.
fn name<'f>(fields: &'f Map<String, Value>, name: &str) -> Option<&'f str> {
    const MOST_NAME_BYTES: usize = 1024;
    let text = fields.get(name)?.as_str();
    text.filter(|text| (1..=MOST_NAME_BYTES).contains(&text.len()))
}

fn texts(value: Option<&Value>) -> Option<Vec<&str>> {
    value?.as_array()?.iter().map(Value::as_str).collect()
}

/// Whether the heartbeat has this job anywhere.
fn says(fields: &Map<String, Value>, job: &str) -> bool {
    let lists = ["active_jobs", "active_job_ids"].into_iter();
    lists
        .filter_map(|name| texts(fields.get(name)))
        .flatten()
        .any(|named| named == job)
        || fields.get("job_id").and_then(Value::as_str) == Some(job)
}
