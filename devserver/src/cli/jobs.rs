//! `ojs-devserver jobs`, `job` and `cancel`

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::backend::BackendArgs;
use super::client::{Client, parse, segment};
use super::failure::Failure;
use super::table;
use crate::JobState;
use crate::json::{Object, raw};

/// How often a watched list is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many jobs are looked at for changes.
const WATCHED_JOBS: u64 = 1_000;

/// Moves to the upper left corner and clears everything below it.
const REDRAW: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub(super) struct Jobs {
    /// Go on showing them; when the output is no terminal, one line for each change
    #[arg(long)]
    watch: bool,
    /// Only those in this state
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<JobState>,
    /// Only those in this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    #[command(flatten)]
    backend: BackendArgs,
}

fn state(name: &str) -> Result<JobState, String> {
    JobState::named(name).ok_or_else(|| format!("one of {}", JobState::names()))
}

#[derive(Deserialize)]
struct JobsPage {
    jobs: Vec<ListedJob>,
    counts: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct ListedJob {
    id: String,
    r#type: String,
    queue: String,
    state: String,
    attempt: u32,
    #[serde(default)]
    worker_id: String,
    #[serde(default)]
    error: Option<JobError>,
}

#[derive(Deserialize, Default)]
struct JobError {
    #[serde(default)]
    r#type: String,
}

impl ListedJob {
    fn row(self) -> Vec<String> {
        let error = self.error.unwrap_or_default().r#type;
        vec![
            self.id,
            self.r#type,
            self.queue,
            self.state,
            self.attempt.to_string(),
            self.worker_id,
            error,
        ]
    }
}

/// Shows the newest jobs, once or for ever.
pub(super) fn run(jobs: &Jobs, out: &mut impl Write) -> Result<(), Failure> {
    let client = Client::new(&jobs.backend)?;
    if !jobs.watch {
        return Ok(write_list(&list(&client, jobs)?, out)?);
    }
    if io::stdout().is_terminal() {
        redraw(&client, jobs, out)
    } else {
        follow(&client, jobs, out)
    }
}

/// The path at which these jobs are listed.
fn path(jobs: &Jobs, limit: u64, state: Option<JobState>) -> String {
    let mut path = format!("/ojs/v1/jobs?limit={limit}");
    if let Some(state) = state {
        path.push_str(&format!("&state={state}"));
    }
    if let Some(queue) = &jobs.queue {
        path.push_str(&format!("&queue={}", segment(queue)));
    }
    path
}

fn list(client: &Client, jobs: &Jobs) -> Result<String, String> {
    let body = client.get(&path(jobs, jobs.limit, jobs.state))?;
    let page: JobsPage = parse(&body)?;
    let states = JobState::ALL.map(JobState::name);
    let counts = states
        .iter()
        .map(|state| format!("{state} {}", page.counts.get(*state).copied().unwrap_or_default()));
    let mut rows = vec![
        ["ID", "TYPE", "QUEUE", "STATE", "ATTEMPT", "WORKER", "LAST ERROR"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(page.jobs.into_iter().map(ListedJob::row));
    let counts = counts.collect::<Vec<_>>().join(", ");
    Ok(format!("{counts}\n\n{}", table::lines(&rows).join("\n")))
}

fn write_list(list: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{list}")?;
    out.flush()
}

/// Writes the list to a terminal, again and again. An outage is shown, and waited out.
fn redraw(client: &Client, jobs: &Jobs, out: &mut impl Write) -> Result<(), Failure> {
    loop {
        let list = list(client, jobs).unwrap_or_else(|error| error);
        write_list(&format!("{REDRAW}{list}"), out)?;
        wait_to_look_again();
    }
}

/// Writes a line for each job that is not as it was.
fn follow(client: &Client, jobs: &Jobs, out: &mut impl Write) -> Result<(), Failure> {
    let path = path(jobs, WATCHED_JOBS, None);
    let mut seen: BTreeMap<String, (String, u32)> = BTreeMap::new();
    loop {
        let page: JobsPage = parse(&client.get(&path)?)?;
        let mut now = BTreeMap::new();
        for job in page.jobs.into_iter().rev() {
            let is_new = seen
                .get(&job.id)
                .is_none_or(|(state, attempt)| *state != job.state || *attempt != job.attempt);
            now.insert(job.id.clone(), (job.state.clone(), job.attempt));
            if is_new && jobs.state.is_none_or(|wanted| wanted.name() == job.state) {
                writeln!(out, "{}", job.row().join(" ").trim_end())?;
            }
        }
        out.flush()?;
        seen = now;
        wait_to_look_again();
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a tool for people that only looks now and then"
)]
fn wait_to_look_again() {
    thread::sleep(LOOK_EVERY);
}

/// Shows all fields of a job in their spelling: a field on each line, or the whole as JSON.
pub(super) fn show(client: &Client, id: &str, as_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let body = client.get(&format!("/ojs/v1/jobs/{}", segment(id)))?;
    let answer = Object::read(body.as_bytes())?;
    let job: Option<Object> = answer
        .get("job", "an object")
        .map_err(|_| "the answer has no job".to_owned())?;
    let job = job.unwrap_or_default();
    if as_json {
        return Ok(writeln!(out, "{}", raw(&job).get())?);
    }
    let rows: Vec<_> = job
        .fields()
        .map(|(name, value)| format!("{name}: {}", value.get()))
        .collect();
    Ok(writeln!(out, "{}", rows.join("\n"))?)
}

/// Cancels a job.
pub(super) fn cancel(client: &Client, id: &str, out: &mut impl Write) -> Result<(), Failure> {
    client.delete(&format!("/ojs/v1/jobs/{}", segment(id)))?;
    Ok(writeln!(out, "{id} is cancelled")?)
}
