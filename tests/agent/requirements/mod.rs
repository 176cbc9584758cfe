//! The requirements of `docs/requirements.md`, row by row, from outside: the real binary as PID 1
//! of its own PID namespace, real workers on its socket, and a backend that does as it is told. The
//! name of a test begins with its row.
//!
//! Needs root (PID namespaces) and python3.

mod concurrency;
mod course;
mod crashes;
mod errors;
mod fetch;
mod grace;
mod health;
mod heartbeat;
mod ids;
mod lessons;
mod lifecycle;
mod page;
mod phases;
mod pid_1;
mod registration;
mod reservation;
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

/// Takes a job and notes each state that it is told, with the time that it is told to have, in
/// milliseconds.
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

/// An interval for tests of what was said in which order. A heartbeat that is not answered within
/// its interval is followed by one on another connection, and then a busy machine decides which of
/// the two arrives first.
const REGULAR: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "500ms");

/// Heartbeats that come in no test, but for those that something causes.
const SELDOM: (&str, &str) = ("OJS_HEARTBEAT_INTERVAL", "30s");
