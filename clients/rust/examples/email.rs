//! Sends mail, or pretends to: ojs-init -- ./email

use std::process::ExitCode;
use std::time::Duration;

use ojs_worker::{Job, Result, Worker};
use serde_json::{json, Value};

fn send(job: &Job, _mail: (String, String)) -> Result<Value> {
    let millis = job.meta().get("sleep_ms").and_then(Value::as_u64).unwrap_or(0);
    job.sleep(Duration::from_millis(millis))?; // pretends to send; cancelled, the job goes back to its queue
    Ok(json!({"sent": true}))
}

fn main() -> ExitCode {
    // One log for all: in the shape of ojs-init's own.
    if let Err(error) = ojs_worker::install_log() {
        eprintln!("{error}");
    }
    let mut worker = Worker::new();
    worker.handle_typed("email.send", send);
    worker.main()
}
