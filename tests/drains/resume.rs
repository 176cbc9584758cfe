//! One job that is too long for any of the workers that run it: each of them is shut down in the
//! midst of it, and the next one goes on where it stopped.

use std::time::Duration;

use ojs_devserver::{JobSnapshot, JobState, Options, Server};
use serde_json::Value;

use crate::client::Client;
use crate::stage::{Init, Stage};
use crate::support::wait::{pause, wait_until};

/// Workers that are shut down in its midst, and its rows, where nobody asks for other numbers.
const SHUTDOWNS: u64 = 5;
const ROWS: u64 = 150;

/// How long a row takes, in milliseconds.
const ROW: u64 = 20;

/// The time of a worker that is asked to end, in milliseconds: more than a row, and less than
/// all of them.
const GRACE: u64 = 500;

/// How long a start may take, and the end of the job: on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the job is cut: `RESUME_ROWS`, `RESUME_SHUTDOWNS` and `RESUME_GRACE_MS` ask for more.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub shutdowns: u64,
    pub rows: u64,
    /// In milliseconds.
    pub grace: u64,
}

impl Plan {
    pub fn asked(number: fn(&str, u64) -> u64) -> Self {
        Self {
            shutdowns: number("RESUME_SHUTDOWNS", SHUTDOWNS),
            rows: number("RESUME_ROWS", ROWS),
            grace: number("RESUME_GRACE_MS", GRACE),
        }
    }

    /// How long a worker works on it before it is asked to end.
    fn turn(self) -> Duration {
        Duration::from_millis((self.rows * ROW / (self.shutdowns + 1)).saturating_sub(100).max(100))
    }
}

/// The mistakes; empty: none.
pub fn play(client: &Client, plan: Plan) -> String {
    let server = Server::start(Options {
        heartbeat_timeout: Duration::from_secs(3600),
        ..Options::default()
    })
    .unwrap();
    let id = server
        .enqueue(&format!(r#"{{"type":"fixture.iterate","args":[{},{ROW}]}}"#, plan.rows))
        .unwrap();
    let job = || server.job(&id).unwrap();
    let mut position = None;
    for turn in 0..=plan.shutdowns {
        let stage = Stage::new();
        let mut init = start(client, &server, &stage, plan);
        let deliveries = u32::try_from(turn).unwrap() + 1;
        if !wait_until(PATIENCE, || job().times_delivered == deliveries || !init.is_running()) || !init.is_running() {
            return format!("turn {turn}: the job did not come\n{}", init.story());
        }
        if turn < plan.shutdowns {
            pause(plan.turn());
        } else {
            wait_until(PATIENCE + plan.turn() * 4, || job().state == JobState::Completed);
        }
        init.signal(libc::SIGTERM);
        wait_until(PATIENCE, || !init.is_running());
        let now = job();
        if now.state == JobState::Completed {
            return finished(&now, plan, position, turn, &init);
        }
        let reached = cursor(&now);
        // Each of them does a row at least, and none is counted as an attempt that failed.
        if reached <= position || now.state != JobState::Available || !now.errors.is_empty() {
            let story = init.story();
            return format!("turn {turn}: from {position:?} to {reached:?}: {now:#?}\n{story}");
        }
        position = reached;
    }
    format!("not done: {:#?}", job())
}

fn finished(job: &JobSnapshot, plan: Plan, position: Option<u64>, interruptions: u64, init: &Init) -> String {
    let result: Value = serde_json::from_str(job.result.as_deref().unwrap_or("null")).unwrap();
    let rows: Vec<u64> = serde_json::from_value(result["rows"].clone()).unwrap_or_default();
    // Before it stopped a worker had finished what its position says, and nothing behind it: so
    // each row was done once.
    let expected: Vec<u64> = (position.map_or(0, |position| position + 1)..plan.rows).collect();
    if rows != expected || interruptions < plan.shutdowns / 2 {
        let story = init.story();
        return format!("after {interruptions} interruptions at {position:?} the last one did {rows:?}\n{story}");
    }
    String::new()
}

/// The index of the last row that is finished.
fn cursor(job: &JobSnapshot) -> Option<u64> {
    let checkpoint: Value = serde_json::from_str(job.checkpoint.as_deref()?).ok()?;
    checkpoint["cursors"][""].as_u64()
}

fn start(client: &Client, server: &Server, stage: &Stage, plan: Plan) -> Init {
    stage
        .command(&client.words(&client.fixture))
        .with("OJS_URL", server.url())
        .with("OJS_SHUTDOWN_GRACE_PERIOD", format!("{}ms", plan.grace))
        .with("OJS_LOG_LEVEL", "info")
        .with("CLIENT_OUT", client.out.clone())
        .with("HOME", stage.at("home"))
        .start()
}
