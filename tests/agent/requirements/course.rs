//! Helpers of the tests of a shutdown: a worker that holds a job, and what the backend
//! heard, line by line.

use std::time::Instant;

use super::OBEYS;
use crate::backend::{Endpoint, Record};
use crate::stage::{Init, Stage};

/// A worker that obeys and holds the job j1, started with these variables.
pub fn holding(stage: &Stage, variables: &[(&str, &str)]) -> Init {
    holding_all(stage, 1, variables)
}

/// A worker that obeys and holds the jobs j1 to the last one.
pub fn holding_all(stage: &Stage, last: u32, variables: &[(&str, &str)]) -> Init {
    stage.enqueue(1..=last);
    let mut init = stage.worker(OBEYS).with_all(variables).start();
    for number in 1..=last {
        init.notes_line(&format!("job j{number}"));
    }
    init
}

/// Every request from this moment on, in the order of their arrival: `beat quiet [j1]`, `fetch`,
/// `ack j1`, `fail j1`, `requeue j1`, `deregister`. Looks at a job, and streams that are asked for,
/// are left out.
pub fn course(stage: &Stage, from: Instant) -> Vec<String> {
    let records = stage.backend.records();
    records
        .iter()
        .filter(|record| record.at >= from)
        .filter_map(line)
        .collect()
}

/// The place of a line in a course.
#[track_caller]
pub fn place(course: &[String], line: &str) -> usize {
    let found = course.iter().position(|other| other == line);
    found.unwrap_or_else(|| panic!("{line:?} is not in {course:#?}"))
}

fn line(record: &Record) -> Option<String> {
    let body = record.json();
    let job = || record.job().unwrap_or_default();
    Some(match record.endpoint {
        Endpoint::Register => "register".to_owned(),
        Endpoint::Deregister => "deregister".to_owned(),
        Endpoint::Heartbeat => {
            let ids = body["active_job_ids"].as_array().cloned().unwrap_or_default();
            let ids: Vec<&str> = ids.iter().filter_map(serde_json::Value::as_str).collect();
            format!("beat {} [{}]", record.text("state").unwrap_or_default(), ids.join(" "))
        }
        Endpoint::Fetch => "fetch".to_owned(),
        Endpoint::Ack => format!("ack {}", job()),
        Endpoint::Nack if body["requeue"] == true => format!("requeue {}", job()),
        Endpoint::Nack => format!("fail {}", job()),
        Endpoint::Progress => format!("progress {}", job()),
        Endpoint::Checkpoint => format!("checkpoint {}", job()),
        Endpoint::Job => return None,
        // This backend has none, and says so whenever it gets to that.
        Endpoint::Other if record.request.path.contains("/events") => return None,
        Endpoint::Other => format!("{} {}", record.request.method, record.request.path),
    })
}
