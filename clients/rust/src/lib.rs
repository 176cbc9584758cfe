//! Worker library for ojs-init, which fetches jobs of an Open Job Spec backend and hands them
//! over a Unix socket.
//!
//! ```no_run
//! use ojs_worker::{Discard, Worker};
//!
//! fn main() -> std::process::ExitCode {
//!     let mut worker = Worker::new();
//!     worker.handle_typed("email.send", |job, (to, body): (String, String)| {
//!         if !to.contains('@') {
//!             return Err(Discard::new("no address").into()); // fails for good
//!         }
//!         job.check()?; // the job may be cancelled
//!         std::fs::write("/tmp/mail", body)?; // any other error: fails, retryable
//!         Ok(())
//!     });
//!     worker.main()
//! }
//! ```
//!
//! Each job runs in a thread; with the feature `async` a handler may be a future on the program's
//! tokio runtime (`Worker::handle_async`). The library logs by `tracing`, and a handler runs in
//! the span [`Job::span`], whose fields are `job_id`, `job_type`, `queue` and `attempt`; of the
//! job's metadata also `trace_id`, `parent_span_id` and `log_level`, where they are there.

mod answer;
mod args;
#[cfg(feature = "async")]
mod asynchronous;
mod error;
mod frame;
mod job;
mod link;
mod log;
mod registry;
mod resume;
mod session;
mod steps;
pub mod testing;
mod worker;

pub use error::{Cancelled, Discard, Error, Release, Result, Retry, Verdict};
pub use job::Job;
pub use registry::{Next, Output};
pub use steps::Rows;
pub use worker::{Options, WithState, Worker};
