//! The requirements of `docs/requirements.md`, row by row, from outside: the real binary as PID 1 of its own PID namespace,
//! real workers on its socket, and a backend that does as it is told. The name of a test begins with its row.
//!
//! Needs root (PID namespaces) and python3.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test whose processes do not do as they are told has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/backend.rs"]
mod backend;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "probes/client.rs"]
mod client;
#[path = "probes/network.rs"]
mod network;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "worker_socket/stage.rs"]
mod stage;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "support/mod.rs"]
mod support;
#[path = "support/under_test.rs"]
mod under_test;
use support::wait;

#[path = "requirements/concurrency.rs"]
mod concurrency;
#[path = "requirements/course.rs"]
mod course;
#[path = "requirements/crashes.rs"]
mod crashes;
#[path = "requirements/errors.rs"]
mod errors;
#[path = "requirements/fetch.rs"]
mod fetch;
#[path = "requirements/grace.rs"]
mod grace;
#[path = "requirements/health.rs"]
mod health;
#[path = "requirements/heartbeat.rs"]
mod heartbeat;
#[path = "requirements/ids.rs"]
mod ids;
#[path = "requirements/lessons.rs"]
mod lessons;
#[path = "requirements/lifecycle.rs"]
mod lifecycle;
#[path = "requirements/page.rs"]
mod page;
#[path = "requirements/phases.rs"]
mod phases;
#[path = "requirements/pid_1.rs"]
mod pid_1;
#[path = "requirements/registration.rs"]
mod registration;
#[path = "requirements/reservation.rs"]
mod reservation;
#[path = "requirements/signals.rs"]
mod signals;

/// Takes up to ten jobs, notes what it is told and says what the test orders.
const OBEYS: &str = "link = Link(); link.ready(10); link.obey()";

/// Acks whatever comes.
const WORKS: &str = "link = Link(); link.ready(10); link.work()";

/// Takes a job, answers nothing, and neither SIGTERM nor anything that it is told ends it.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready(2)
link.job()
link.note_all()
rest()";

/// Takes a job and notes each state that it is told, with the time that it is told to have, in milliseconds.
const LISTENS: &str = "
link = Link()
link.ready()
link.job()
while True:
    frame = link.until('lifecycle')
    note(frame['state'], frame.get('remaining_ms'))";

/// A drain that a test can wait for, and little time for handlers after it.
const CUT_SHORT: [(&str, &str); 2] = [("OJS_GRACE_PERIOD", "300ms"), ("OJS_CANCEL_GRACE", "100ms")];

/// Heartbeats that a test can wait for.
const OFTEN: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "100ms");

/// Heartbeats that come in no test, but for those that something causes.
const SELDOM: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "30s");
