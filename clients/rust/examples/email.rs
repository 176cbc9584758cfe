//! Sends mail, or pretends to: `ojs-init -- ./email`

use std::process::ExitCode;
use std::time::Duration;

use ojs_worker::{Job, Result, Worker};
use serde_json::{Value, json};

fn send(job: &Job, _mail: (String, String)) -> Result<Value> {
    let millis = job.meta().get("sleep_ms").and_then(Value::as_u64).unwrap_or(0);
    job.sleep(Duration::from_millis(millis))?; // a cancelled job goes back to its queue here
    Ok(json!({"sent": true}))
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let mut worker = Worker::new();
    worker.handle_typed("email.send", send);
    worker.main()
}
