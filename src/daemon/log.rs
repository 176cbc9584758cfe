//! Log records, one a line, on standard error; without ever making PID 1 wait.
//!
//! Before there is a child, records are written directly, if there is room for them right now. Once the child shares
//! standard error it could fill the pipe between our look and our write, and O_NONBLOCK would change the child's
//! descriptor too; so from then on records go into a bounded queue that a thread of its own writes out. The first of
//! them starts that thread: an init with nothing to say stays a single thread.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use log::{Level, LevelFilter, Record};

use crate::os::signals::{self, SignalSet};
use crate::os::stdio;

/// Most records waiting for the writer. What comes on top is dropped and counted.
const QUEUE_RECORDS: usize = 1024;

/// Most bytes waiting for the writer.
const QUEUE_BYTES: usize = 256 * 1024;

/// Longest that we wait at exit for the writer to finish.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Longest that a record may take before there is a child, and when no writer thread can be had.
const DIRECT_LIMIT: Duration = Duration::ZERO;

/// Stack of the writer thread in bytes; it formats nothing.
const WRITER_STACK_BYTES: usize = 32 * 1024;

/// How records look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a person at a terminal.
    Text,
    /// One JSON object a line, in the shape of the OJS logging extension.
    Json,
}

/// The running log; dropping it changes nothing, [`LogHandle::flush`] is for the end.
#[derive(Debug, Clone)]
pub struct LogHandle(Arc<Sink>);

/// Sends every record of `level` and above to standard error from here on, as text on a terminal and as JSON elsewhere
/// unless `format` says so. Only the first call has an effect.
#[must_use]
pub fn install(format: Option<Format>, level: LevelFilter) -> LogHandle {
    let sink = Arc::new(Sink::default());
    let mut builder = only_ours(level);
    builder.target(env_logger::Target::Pipe(Box::new(SinkWriter(Arc::clone(&sink)))));
    let preferred = move || {
        format.unwrap_or(if io::stderr().is_terminal() {
            Format::Text
        } else {
            Format::Json
        })
    };
    builder.format(move |out, record| match preferred() {
        Format::Text => writeln!(
            out,
            "ojs-init: {}: {}",
            name(record.level()).to_lowercase(),
            printable(&record.args().to_string())
        ),
        Format::Json => writeln!(out, "{}", json(record)),
    });
    // An error here means that a logger is installed already: then that one stays.
    let _ = builder.try_init();
    LogHandle(sink)
}

/// A line stays a line, and a terminal stays as it is, whatever a job's id or a client's name consists of.
fn printable(text: &str) -> String {
    let escape = |c: char| -> String {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

/// A log without the records of dependencies: at the finest level they show every byte of a request, token included.
fn only_ours(level: LevelFilter) -> env_logger::Builder {
    let mut builder = env_logger::Builder::new();
    builder
        .filter_level(LevelFilter::Off)
        .filter_module(env!("CARGO_CRATE_NAME"), level);
    builder
}

impl LogHandle {
    /// From here on somebody else may fill the pipe: a write of ours could block.
    pub fn stderr_is_shared(&self) {
        self.0.lock().is_shared = true;
    }

    /// Records that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped_in_all
    }

    /// Waits until everything was written, at most 100 ms.
    pub fn flush(&self) {
        let queue = self.0.lock();
        let result = self
            .0
            .written
            .wait_timeout_while(queue, FLUSH_LIMIT, |queue| queue.writing || !queue.records.is_empty());
        drop(result);
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warn => "WARN",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
        Level::Trace => "TRACE",
    }
}

/// OJS logging 5: the severity numbers are OpenTelemetry's.
fn severity_number(level: Level) -> u8 {
    match level {
        Level::Error => 17,
        Level::Warn => 13,
        Level::Info => 9,
        Level::Debug => 5,
        Level::Trace => 1,
    }
}

/// One line of JSON. By hand, because the fields come in the order of the document; the only text that needs escaping
/// is the message.
fn json(record: &Record<'_>) -> String {
    let (severity, number) = (name(record.level()), severity_number(record.level()));
    let timestamp = crate::os::clock::wall();
    let message = serde_json::Value::from(record.args().to_string());
    format!(
        r#"{{"timestamp":"{timestamp:.3}","severity":"{severity}","severity_number":{number},"message":{message},"component":"worker","category":"lifecycle"}}"#
    )
}

#[derive(Debug, Default)]
struct Sink {
    queue: Mutex<Queue>,
    /// Told when a record was added.
    added: Condvar,
    /// Told when the queue was written out.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Dropped since the writer last said so.
    dropped: u64,
    dropped_in_all: u64,
    is_shared: bool,
    writer_started: bool,
    writing: bool,
}

impl Sink {
    /// A panic elsewhere does not end logging: the queue is valid after each statement.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, record: &[u8]) {
        let mut queue = self.lock();
        if !queue.writer_started {
            // No thread to be had, as at a process limit: better said directly than not at all.
            if !queue.is_shared || !start_writer(Arc::clone(self)) {
                let is_dropped = stdio::write_error(record, DIRECT_LIMIT).is_err();
                queue.dropped_in_all = queue.dropped_in_all.saturating_add(u64::from(is_dropped));
                return;
            }
            queue.writer_started = true;
        }
        if queue.records.len() >= QUEUE_RECORDS || queue.bytes.saturating_add(record.len()) > QUEUE_BYTES {
            queue.dropped = queue.dropped.saturating_add(1);
            queue.dropped_in_all = queue.dropped_in_all.saturating_add(1);
            return;
        }
        queue.bytes += record.len();
        queue.records.push_back(record.to_vec());
        self.added.notify_one();
    }

    /// The next batch for the writer, waiting for one.
    fn take(&self) -> (VecDeque<Vec<u8>>, u64) {
        let mut queue = self.lock();
        queue.writing = false;
        while queue.records.is_empty() {
            self.written.notify_all();
            queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.writing = true;
        queue.bytes = 0;
        (std::mem::take(&mut queue.records), std::mem::take(&mut queue.dropped))
    }
}

fn start_writer(sink: Arc<Sink>) -> bool {
    let write = move || {
        SignalSet::ALL.set_as_mask();
        loop {
            let (records, dropped) = sink.take();
            let mut stderr = io::stderr();
            for record in records {
                // A closed or broken standard error is nobody's problem but the reader's.
                let _ = stderr.write_all(&record);
            }
            if dropped > 0 {
                let _ = writeln!(
                    stderr,
                    "ojs-init: warn: {dropped} log records dropped: standard error is too slow"
                );
            }
        }
    };
    let writer = thread::Builder::new()
        .name("log".to_owned())
        .stack_size(WRITER_STACK_BYTES);
    signals::around_thread_start(|| writer.spawn(write).is_ok())
}

/// What env_logger writes each finished record to.
struct SinkWriter(Arc<Sink>);

impl Write for SinkWriter {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.add(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use log::{Log, Metadata};

    use super::*;

    #[test]
    fn no_level_lets_the_records_of_dependencies_through() {
        let logger = only_ours(LevelFilter::Trace).build();
        let is_written = |target, level| logger.enabled(&Metadata::builder().target(target).level(level).build());
        for target in ["ureq_proto::util", "ureq", "rustls::conn", "mio", ""] {
            assert!(
                !is_written(target, Level::Trace) && !is_written(target, Level::Error),
                "{target}"
            );
        }
        assert!(is_written("ojs_init::daemon::backend_http", Level::Trace) && is_written("ojs_init", Level::Trace));
    }
}
