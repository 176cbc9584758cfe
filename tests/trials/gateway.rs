//! Workers made with an SDK: which are drawn, what their jobs are, and how an init is told to be
//! their gateway.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::kinds::{Behaviour, Ending, Occasion, Weather};
use super::plan::{JobPlan, LARGE_BYTES, Plan};
use crate::sdk::{Kind, Proof};

/// The SDKs whose workers are drawn. The number of them has no common factor with those of the
/// weathers and occasions.
const SDKS: [Kind; 7] = Kind::ALL;

/// How often they look for jobs and beat, in milliseconds.
const POLL_MS: u32 = 30;
const HEARTBEAT_MS: u32 = 150;

/// No trial lasts longer, in seconds: what the init forgot ends by itself.
const LIFE_S: u32 = 60;

/// How long a job takes that does not end by itself, in milliseconds.
const NEVER_MS: u64 = 50_000;

/// How often a handler sends a heartbeat that names its own job alone, in milliseconds.
const OWN_BEAT_MS: u32 = 40;

/// The proof of the trial of that number: each SDK meets each.
pub fn proof_of(number: u64) -> Proof {
    Proof::ALL[usize::try_from(number).unwrap() / SDKS.len() % Proof::ALL.len()]
}

/// The words before the init on the command line.
pub fn prefix(plan: &Plan) -> &'static [&'static str] {
    if plan.behaviour.is_sdk() {
        plan.proof.prefix()
    } else {
        &[]
    }
}

/// The plan of the trial of that number.
pub fn draw(seed: u64, number: u64) -> Plan {
    let sdk = SDKS[usize::try_from(number).unwrap() % SDKS.len()];
    Plan::with(seed, number, combination_of(Behaviour::Sdk(sdk), number))
}

/// The arguments that play it again.
pub fn again(plan: &Plan) -> String {
    let flag = match plan.behaviour {
        Behaviour::Sdk(_) => format!(" --gateway --proof {}", plan.proof.name()),
        Behaviour::Exec(_) => " --exec".to_owned(),
        _ => String::new(),
    };
    format!("--seed {} --only {}{flag}", plan.seed, plan.number)
}

/// Such a worker, at every occasion; half of the backends are fine, the others as all that there
/// are.
pub fn combination_of(behaviour: Behaviour, number: u64) -> (Behaviour, Weather, Occasion) {
    let pick = |count: usize, number: u64| usize::try_from(number).unwrap() % count;
    let weather = if number.is_multiple_of(2) {
        Weather::Fine
    } else {
        Weather::ALL[pick(Weather::ALL.len(), number / 2)]
    };
    (behaviour, weather, Occasion::ALL[pick(Occasion::ALL.len(), number)])
}

/// How long the handler has the job, in milliseconds. Nobody tells it of the deadline: near it is
/// near enough.
pub fn millis(plan: &Plan, job: &JobPlan) -> u64 {
    if job.ending == Ending::Never {
        return NEVER_MS;
    }
    let deadline = (plan.pause + plan.grace.min(plan.limit.saturating_sub(plan.margin))).as_millis();
    let from = if job.at_deadline {
        i64::try_from(deadline).unwrap()
    } else {
        0
    };
    u64::try_from(from + job.ms).unwrap_or(0)
}

/// Type and arguments of the job, as the workers know them.
pub fn told(plan: &Plan, job: &JobPlan) -> (&'static str, String) {
    let ms = millis(plan, job);
    match job.ending {
        Ending::Fail => ("fail", format!("[{ms}]")),
        _ if job.is_large => ("large", format!("[{ms},{LARGE_BYTES}]")),
        _ => ("sleep", format!("[{ms}]")),
    }
}

/// The result of the job.
pub fn result(plan: &Plan, job: &JobPlan) -> Value {
    if job.is_large {
        let text: Value = "x".repeat(LARGE_BYTES).into();
        // In Go a result has fields.
        let is_of_fields = plan.behaviour == Behaviour::Sdk(Kind::Go);
        if is_of_fields { json!({"text": text}) } else { text }
    } else {
        json!({"slept": millis(plan, job)})
    }
}

/// Makes the init the gateway of its worker, and tells that what to do.
pub fn tell(command: &mut Command, plan: &Plan, dir: &Path) {
    command
        .env("OJS_MODE", "gateway")
        .env("SDK_DIRECTORY", dir)
        .env("SDK_POLL_MS", POLL_MS.to_string())
        .env("SDK_HEARTBEAT_MS", HEARTBEAT_MS.to_string())
        .env("SDK_CONCURRENCY", plan.concurrency.to_string())
        .env("SDK_OWN_BEAT_MS", OWN_BEAT_MS.to_string())
        .env("SDK_LIFE_S", LIFE_S.to_string());
    plan.proof.tell(command);
}
