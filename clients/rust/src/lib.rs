//! Worker library for ojs-init, which fetches jobs of an Open Job Spec backend and hands them over
//! a Unix socket.
//!
//! ```no_run
//! use ojs_worker::{Discard, Worker};
//!
//! fn main() -> std::process::ExitCode {
//!     let mut worker = Worker::new(); // as many jobs at once as OJS_CONCURRENCY says
//!     worker.handle_typed("email.send", |job, (to, body): (String, String)| {
//!         if !to.contains('@') {
//!             return Err(Discard::new("no address").into()); // fails for good
//!         }
//!         job.check()?; // the job may have been cancelled
//!         std::fs::write("/tmp/mail", body)?; // any other error: fails, retryable
//!         Ok(())
//!     });
//!     worker.main()
//! }
//! ```
//!
//! A handler runs in a thread of its own; no async runtime is needed, and a handler may bring one.
//! Everything towards the backend is done by ojs-init: this library speaks its worker socket,
//! version 1.

mod answers;
mod args;
mod backtrace;
mod bell;
mod current;
mod error;
mod incoming;
mod job;
mod json;
mod lines;
mod logging;
mod not_a_number;
mod outbox;
mod outgoing;
mod output;
mod panics;
mod perform;
mod pool;
mod registry;
mod resume;
mod rows;
mod session;
pub mod testing;
mod text;
mod worker;

pub use current::Guard;
pub use error::{Cancelled, Discard, Error, Release, Result, Retry, RunError, SayError, Verdict};
pub use job::Job;
pub use logging::install_log;
pub use output::Output;
pub use registry::Next;
pub use rows::Rows;
pub use worker::{Options, Stopper, Worker};
