//! How the init of a trial is started.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::kinds::Behaviour;
use super::plan::{Ask, HEARTBEAT, INTERRUPTED, Plan, TIMEOUT_GRACE};
use super::{exec, gateway, worker};
use crate::support::under_test;

/// The Python client as the worker.
const PYTHON: &str = include_str!("worker.py");

/// The command, with all that it is told.
pub fn command(plan: &Plan, url: String, dir: &Path) -> Command {
    let words = words(plan);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--");
    match plan.behaviour {
        Behaviour::Python => drop(command.args(["python3", "-S", "-E", "-c", PYTHON])),
        Behaviour::Sdk(kind) => drop(command.args(kind.command())),
        Behaviour::Exec(_) => drop(command.arg(std::env::current_exe().unwrap()).arg("handler")),
        _ => drop(command.arg(std::env::current_exe().unwrap()).arg("worker")),
    }
    let millis = |duration: Duration| format!("{}ms", duration.as_millis());
    let variables = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("OJS_URL", url),
        ("OJS_RUNTIME_DIR", dir.join("run").display().to_string()),
        ("OJS_HEALTH_LISTEN", "off".to_owned()),
        ("OJS_POLL_INTERVAL", "30ms".to_owned()),
        ("OJS_HEARTBEAT_INTERVAL", millis(HEARTBEAT)),
        ("OJS_REQUEST_TIMEOUT", millis(plan.request_timeout)),
        ("OJS_VISIBILITY_TIMEOUT", millis(plan.visibility)),
        ("OJS_CONNECT_TIMEOUT", "500ms".to_owned()),
        ("OJS_CONCURRENCY", plan.concurrency.to_string()),
        ("OJS_TERMINATION_GRACE_PERIOD", millis(plan.limit)),
        ("OJS_SHUTDOWN_GRACE_PERIOD", millis(plan.grace)),
        ("OJS_STOP_MARGIN", millis(plan.margin)),
        ("OJS_CANCEL_GRACE", millis(plan.cancel_grace)),
        ("OJS_TERM_DELAY", millis(plan.term_delay)),
        (
            "OJS_LEFTOVERS",
            if plan.requeues { "requeue" } else { "fail" }.to_owned(),
        ),
        ("OJS_FINAL_STATE", plan.final_state.name().to_owned()),
        ("OJS_INTERRUPTED_EXIT", INTERRUPTED.to_string()),
        ("OJS_LOG_LEVEL", "info".to_owned()),
        ("OJS_LOG_FORMAT", "text".to_owned()),
        ("OJS_TERMINATION_LOG", dir.join("termination").display().to_string()),
        (worker::BEHAVIOUR, plan.behaviour.name().to_owned()),
        (worker::DIRECTORY, dir.display().to_string()),
        (worker::ACT_AFTER_MS, plan.act_after.as_millis().to_string()),
        ("OJS_TIMEOUT_GRACE", millis(TIMEOUT_GRACE)),
    ];
    command
        .env_clear()
        .envs(variables)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(dir.join("log")).unwrap());
    if plan.behaviour.is_sdk() {
        gateway::tell(&mut command, plan, dir);
    }
    if plan.behaviour.is_exec() {
        exec::tell(&mut command, plan, dir);
    }
    if let Some(recycles) = &plan.recycles {
        recycles.tell(&mut command);
    }
    if plan.kubernetes {
        command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    }
    if plan.behaviour == Behaviour::Hangs && !plan.restarts() {
        command.env("OJS_RESTART", "never");
    }
    command
}

/// The program of the init, and what starts it.
fn words(plan: &Plan) -> Vec<String> {
    let mut words: Vec<String> = match plan.first.first() {
        Some(Ask::Expiry(signal)) => {
            let signal = format!("--signal={signal}");
            vec![
                "timeout".to_owned(),
                "--preserve-status".to_owned(),
                signal,
                "1000".to_owned(),
            ]
        }
        Some(Ask::Signal(_) | Ask::Command(_)) | None => Vec::new(),
    };
    words.extend(gateway::prefix(plan).iter().map(|&word| word.to_owned()));
    words.push(under_test::init());
    words
}
