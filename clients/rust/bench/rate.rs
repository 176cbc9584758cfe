//! A worker with an empty handler, to measure what the client costs.

use std::process::ExitCode;

use ojs_worker::Worker;

fn main() -> ExitCode {
    let mut worker = Worker::new();
    worker.handle("bench.noop", |_| Ok(()));
    worker.main()
}
