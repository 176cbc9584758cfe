//! Jobs that are a process each, in mode exec: which programs are drawn, and how the init is told
//! to run them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ojs_devserver::{Delivery, End, Server};

use super::course::is_ours;
use super::gateway::{combination_of, millis};
use super::journal::Journal;
use super::kinds::{Behaviour, Program};
use super::plan::{JobPlan, Plan};
use crate::support::wait::pause;

/// The first user of the first trial whose jobs have users of their own.
const FIRST_USER: u64 = 100_000;

/// How many each trial has: more than jobs run at once.
const USERS: u64 = 100;

/// The plan of the trial of that number.
pub fn draw(seed: u64, number: u64) -> Plan {
    // Their number has no common factor with those of the weathers, occasions and dialects.
    let program = Program::ALL[usize::try_from(number).unwrap() % Program::ALL.len()];
    Plan::with(seed, number, combination_of(Behaviour::Exec(program), number))
}

/// Type and arguments of the job, as the programs know them. Nobody tells them of the deadline:
/// near it is near enough.
pub fn told(plan: &Plan, job: &JobPlan) -> (&'static str, String) {
    let (ms, end, large) = (millis(plan, job), job.ending.name(), job.is_large);
    ("t", format!(r#"[{{"ms":{ms},"end":"{end}","large":{large}}}]"#))
}

/// Whether each job has a user of its own.
pub fn has_users(plan: &Plan) -> bool {
    plan.variant.is_multiple_of(3)
}

/// Tells the init to run one process for each job.
pub fn tell(command: &mut Command, plan: &Plan, dir: &Path) {
    command.env("OJS_MODE", "exec").env("TMPDIR", dir);
    if has_users(plan) {
        // An init that is not PID 1 sees the processes of all PID namespaces below: no two trials
        // may share a user.
        let first = FIRST_USER + plan.number % 10_000 * USERS;
        command.env("OJS_EXEC_USERS", format!("{first}-{}", first + USERS - 1));
    }
}

/// Notes each job whose ACK the backend has while somebody still runs it. Such a job does not come
/// again.
pub fn find_what_is_left(plan: &Plan, server: &Server, journal: &Journal, is_over: &AtomicBool) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut outlived = Vec::new();
    let is_done = |last: &Delivery| is_ours(last.worker.as_deref()) && matches!(last.end, Some((_, End::Acked)));
    while plan.behaviour.is_exec() && !is_over.load(Ordering::Relaxed) {
        for job in server.jobs() {
            if job.deliveries.last().is_some_and(is_done)
                && seen.insert(job.id.clone())
                && journal.run(&job.id).is_none()
            {
                outlived.push(job.id.clone());
            }
        }
        pause(Duration::from_millis(5));
    }
    outlived
}
