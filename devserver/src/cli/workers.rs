//! `ojs-devserver workers`

use std::io::Write;

use serde::Deserialize;

use super::client::{Client, parse};
use super::failure::Failure;
use super::table;

#[derive(Deserialize)]
struct WorkersPage {
    workers: Vec<ListedWorker>,
}

#[derive(Deserialize)]
struct ListedWorker {
    id: String,
    state: String,
    directive: String,
    active_jobs: u64,
    last_heartbeat: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    queues: Vec<String>,
}

/// Shows the workers.
pub(super) fn run(client: &Client, out: &mut impl Write) -> Result<(), Failure> {
    let body = client.get("/ojs/v1/admin/workers")?;
    let page: WorkersPage = parse(&body)?;
    let heading = ["ID", "STATE", "TOLD", "ACTIVE", "LAST HEARTBEAT", "HOST", "QUEUES"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(page.workers.into_iter().map(|worker| {
        vec![
            worker.id,
            worker.state,
            worker.directive,
            worker.active_jobs.to_string(),
            worker.last_heartbeat,
            worker.hostname,
            worker.queues.join(","),
        ]
    }));
    Ok(writeln!(out, "{}", table::lines(&rows).join("\n"))?)
}
