//! Log records, one a line, on standard error, without ever blocking PID 1.
//!
//! Before there is a child, records are written directly if there is room for them right now. A
//! child that shares standard error could fill the pipe between the check and the write, and
//! O_NONBLOCK would change the child's descriptor too. From then on records enter a bounded queue
//! that a separate thread writes out. The first record starts that thread, so an init without
//! records stays a single thread. `record` defines the layout of a record.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};
use std::time::Duration;

use env_filter::Filter;
use log::{Level, LevelFilter, Metadata};
use nix::errno::Errno;

use crate::config::{LOG_PARTS, LogFormat, LogLevels};
use crate::daemon::log::job_line;
use crate::daemon::log::record::LogRecord;
use ojs_os::{clock, stdio, threads};
use ojs_wire::text::several;

/// Most records that wait for the writer. Further ones are dropped and counted.
const QUEUE_RECORDS: usize = 1024;

/// Most bytes waiting for the writer.
const QUEUE_BYTES: usize = 256 * 1024;

/// One part in this many of the queue is for warnings and errors alone, because a flood of
/// successful jobs must not displace them.
const RESERVED_PART: usize = 4;

/// Records within this time after a batch are written with the next one. The first record after a
/// pause is written at once. So a thousand jobs a second do not wake the thread a thousand times.
const LINGER: Duration = Duration::from_millis(5);

/// If one part in this many of the queue is full, the writer does not wait for more.
const HURRY_PART: usize = 4;

/// The least time between two records about records that were dropped; each has the sum since the
/// one before.
const LOSS_PAUSE: Duration = Duration::from_secs(1);

/// Most bytes in one write: as many as a pipe accepts in one piece, so the worker's lines and those
/// of ojs-init stay whole.
const WRITE_BYTES: usize = 4096;

/// Longest that the exit waits for standard error to accept the last records.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// Longest that the exit waits for the kernel to run the writer, which says nothing about standard
/// error. A container that has used up its CPU time stands still for a tenth of a second at a time.
const WRITER_LATE_LIMIT: Duration = Duration::from_millis(500);

/// Longest time for writing a record before there is a child, or if no writer thread can start.
const DIRECT_LIMIT: Duration = Duration::ZERO;

/// Stack of the writer thread in bytes.
const WRITER_STACK_BYTES: usize = 32 * 1024;

/// The log of this process, once there is one.
static LOG: OnceLock<Sink> = OnceLock::new();

/// The running log. Dropping it changes nothing; [`LogHandle::flush`] is for the end.
#[derive(Debug, Clone, Copy)]
pub struct LogHandle(&'static Sink);

/// Sends the records of these levels to standard error from here on, as text on a terminal and as
/// JSON elsewhere unless `format` decides. Only the first call has an effect.
pub fn install(format: Option<LogFormat>, levels: &LogLevels) -> LogHandle {
    let sink = LOG.get_or_init(|| Sink::new(self::format(format), levels));
    // An error here means that a logger is installed already: then that one stays.
    if log::set_logger(&Macros).is_ok() {
        log::set_max_level(sink.filter.filter());
    }
    LogHandle(sink)
}

fn filter(levels: &LogLevels) -> Filter {
    let mut filter = env_filter::Builder::new();
    filter.filter_level(levels.level.to_level_filter());
    for (part, level) in &levels.parts {
        if let Some((_, module)) = LOG_PARTS.iter().find(|(name, _)| name == part) {
            let module = format!("{}::{module}", env!("CARGO_CRATE_NAME"));
            filter.filter_module(&module, level.to_level_filter());
        }
    }
    filter.build()
}

/// This format, or the one that fits standard error.
pub fn format(configured: Option<LogFormat>) -> LogFormat {
    configured.unwrap_or_else(|| {
        if io::stderr().is_terminal() {
            LogFormat::Text
        } else {
            LogFormat::Json
        }
    })
}

/// Writes a record that was put together elsewhere, if its level is wanted.
pub fn say(note: &LogRecord) {
    if let Some(sink) = LOG.get().filter(|sink| note.level <= sink.level) {
        sink.add(sink.line(note), note.level);
    }
}

/// Writes a line that a job wrote on its `stream`. A full queue drops and counts it, before any
/// work is done for it.
pub fn say_of_job(job: &str, stream: &str, text: &str) {
    let Some(sink) = LOG.get().filter(|sink| sink.level >= Level::Info) else {
        return;
    };
    if sink.has_room_for(text.len()) {
        sink.add(
            job_line::line(sink.format, clock::wall(), job, stream, text),
            Level::Info,
        );
    }
}

/// From here on each record names this incarnation of the worker.
pub fn set_worker(worker: &str) {
    if let Some(sink) = LOG.get() {
        *sink.worker.write().unwrap_or_else(PoisonError::into_inner) = Some(worker.into());
    }
}

/// A fatal error as a line of the log. None before there is a log.
pub fn fatal(message: &str) -> Option<String> {
    LOG.get()
        .map(|sink| sink.line(&LogRecord::new(Level::Error, message).fatal()))
}

impl LogHandle {
    /// From here on another process may fill the pipe, so a direct write could block.
    pub fn stderr_is_shared(&self) {
        self.0.lock().is_shared = true;
    }

    /// Records that were lost since the start, because there was no room for them or standard error
    /// did not accept them.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Waits until the queue is written, at most 100 ms from when the writer begins. The writer has
    /// [`late_limit`] to do so. `time_left`: to the orchestrator's limit, if there is one.
    pub fn flush(&self, time_left: Option<Duration>) {
        let Sink { added, written, .. } = self.0;
        let mut queue = self.0.lock();
        if !queue.writer_started {
            return;
        }
        queue.hurry = true;
        queue.is_ending = true;
        added.notify_one();
        let is_late = |queue: &mut Queue| !queue.writing && queue.has_something_to_say();
        let Ok((queue, _)) = written.wait_timeout_while(queue, late_limit(time_left), is_late) else {
            return;
        };
        let is_busy = |queue: &mut Queue| queue.writing || queue.has_something_to_say();
        drop(written.wait_timeout_while(queue, FLUSH_LIMIT, is_busy));
    }
}

#[derive(Debug)]
struct Sink {
    format: LogFormat,
    /// The level of records that belong to no single part.
    level: LevelFilter,
    /// Of each part.
    filter: Filter,
    /// The present incarnation's name, if there was one yet.
    worker: RwLock<Option<Arc<str>>>,
    queue: Mutex<Queue>,
    /// Notified when a record was added.
    added: Condvar,
    /// Notified when the queue was written out, and at the end also when a batch begins.
    written: Condvar,
}

/// Dropped records that no record reports yet.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Unsaid {
    records: u64,
    /// The errno of the last write that failed; none: there was no room in the queue.
    error: Option<i32>,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<String>,
    bytes: usize,
    /// Records that were dropped since the start.
    dropped: u64,
    /// The dropped records that are not reported yet.
    unsaid: Unsaid,
    /// When a loss was last reported, by the monotonic clock.
    last_loss: Option<Duration>,
    is_shared: bool,
    writer_started: bool,
    writing: bool,
    /// The writer sleeps until it is notified.
    is_idle: bool,
    /// The writer does not wait for further records.
    hurry: bool,
    /// ojs-init is ending, so no record may wait.
    is_ending: bool,
}

impl Queue {
    fn drop_one(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
        self.unsaid.records = self.unsaid.records.saturating_add(1);
    }

    /// Standard error did not accept so many records.
    fn not_written(&mut self, records: usize, error: &io::Error) {
        (0..records).for_each(|_| self.drop_one());
        self.unsaid.error = error.raw_os_error();
    }

    fn has_something_to_say(&self) -> bool {
        !self.records.is_empty() || self.is_loss_writable()
    }

    /// True if a separate record may report dropped records. After a failed write the next records
    /// carry that report: standard error may stay broken, and the writer must not wake up for it.
    fn is_loss_writable(&self) -> bool {
        self.unsaid.records > 0 && self.unsaid.error.is_none()
    }

    /// The time until dropped records may be reported.
    fn loss_pause(&self, now: Duration) -> Duration {
        let due = self
            .last_loss
            .map_or(Duration::ZERO, |last| last.saturating_add(LOSS_PAUSE));
        if self.is_ending {
            Duration::ZERO
        } else {
            due.saturating_sub(now)
        }
    }

    /// The time until lost records are logged, for a writer that has no records. None: it waits for
    /// some.
    fn until_loss(&self, now: Duration) -> Option<Duration> {
        self.is_loss_writable().then(|| self.loss_pause(now))
    }

    /// Takes the dropped records that are to be reported now.
    fn take_loss(&mut self, now: Duration) -> Unsaid {
        if self.unsaid.records == 0 || self.loss_pause(now) != Duration::ZERO {
            return Unsaid::default();
        }
        self.last_loss = Some(now);
        std::mem::take(&mut self.unsaid)
    }

    /// True if the writer should not wait for more.
    fn is_filling(&self) -> bool {
        self.records.len() >= QUEUE_RECORDS / HURRY_PART || self.bytes >= QUEUE_BYTES / HURRY_PART
    }

    /// Whether a record of this length and level has room.
    fn has_room_for(&self, length: usize, level: Level) -> bool {
        let of = |most: usize| match level {
            Level::Error | Level::Warn => most,
            Level::Info | Level::Debug | Level::Trace => most - most / RESERVED_PART,
        };
        self.records.len() < of(QUEUE_RECORDS) && self.bytes.saturating_add(length) <= of(QUEUE_BYTES)
    }
}

/// The logger behind the log crate's macros.
struct Macros;

impl log::Log for Macros {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        LOG.get().is_some_and(|sink| sink.wants(metadata))
    }

    fn log(&self, record: &log::Record<'_>) {
        if let Some(sink) = LOG.get().filter(|sink| sink.wants(record.metadata())) {
            sink.add(
                sink.line(&LogRecord::new(record.level(), record.args())),
                record.level(),
            );
        }
    }

    fn flush(&self) {}
}

impl Sink {
    fn new(format: LogFormat, levels: &LogLevels) -> Self {
        Self {
            format,
            level: levels.level.to_level_filter(),
            filter: filter(levels),
            worker: RwLock::default(),
            queue: Mutex::default(),
            added: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// Records of dependencies are excluded, because at the finest level they show every byte of a
    /// request, token included.
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let crate_name = metadata.target().split("::").next();
        self.filter.enabled(metadata) && crate_name == Some(env!("CARGO_CRATE_NAME"))
    }

    /// A panic elsewhere does not end logging: the queue is valid after each statement.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there is room for a record of so many bytes. Otherwise it is counted as dropped.
    fn has_room_for(&self, length: usize) -> bool {
        let mut queue = self.lock();
        let has_room = queue.has_room_for(length, Level::Info);
        if !has_room {
            queue.drop_one();
        }
        has_room
    }

    fn line(&self, record: &LogRecord) -> String {
        // The lock is not waited for, because this record may report a panic of the thread that
        // holds it.
        let worker = match self.worker.try_read() {
            Ok(worker) => worker.clone(),
            Err(TryLockError::Poisoned(worker)) => worker.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        };
        record.line(self.format, clock::wall(), worker.as_deref())
    }

    fn add(&'static self, line: String, level: Level) {
        let mut queue = self.lock();
        if !queue.writer_started {
            // Without a thread, as at a process limit, write directly.
            if !queue.is_shared || !self.start_writer() {
                if stdio::write_error(line.as_bytes(), DIRECT_LIMIT).is_err() {
                    queue.drop_one();
                }
                return;
            }
            queue.writer_started = true;
        }
        if !queue.has_room_for(line.len(), level) {
            queue.drop_one();
            return;
        }
        queue.bytes += line.len();
        queue.records.push_back(line);
        if queue.is_idle || queue.is_filling() {
            queue.is_idle = false;
            queue.hurry |= queue.is_filling();
            self.added.notify_one();
        }
    }

    /// Waits for the next batch of the writer. Returns it, and the dropped records to report behind
    /// it.
    fn take(&self) -> (VecDeque<String>, Unsaid) {
        let mut queue = self.lock();
        queue.writing = false;
        if !queue.has_something_to_say() {
            self.written.notify_all();
        }
        let linger = |queue: &mut Queue| !queue.hurry;
        queue = match self.added.wait_timeout_while(queue, LINGER, linger) {
            Ok((queue, _)) => queue,
            Err(poisoned) => poisoned.into_inner().0,
        };
        while queue.records.is_empty() {
            let wait = queue.until_loss(clock::monotonic());
            if wait == Some(Duration::ZERO) {
                break;
            }
            queue.is_idle = true;
            queue = match wait {
                Some(wait) => match self.added.wait_timeout(queue, wait) {
                    Ok((queue, _)) => queue,
                    Err(poisoned) => poisoned.into_inner().0,
                },
                None => self.added.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        queue.is_idle = false;
        queue.hurry = false;
        queue.writing = true;
        if queue.is_ending {
            self.written.notify_all();
        }
        queue.bytes = 0;
        let dropped = queue.take_loss(clock::monotonic());
        (std::mem::take(&mut queue.records), dropped)
    }

    fn start_writer(&'static self) -> bool {
        let write = move || {
            loop {
                let (records, dropped) = self.take();
                self.write(records, dropped, &mut stdio::BlockingStderr);
            }
        };
        threads::spawn("log", WRITER_STACK_BYTES, write).is_ok()
    }

    /// Writes records, and one about those that were dropped before. Failed writes are counted, and
    /// PID 1 continues.
    fn write(&self, records: VecDeque<String>, dropped: Unsaid, to: &mut impl Write) {
        for (batch, count) in batches(records) {
            if let Err(error) = to.write_all(batch.as_bytes()) {
                self.lock().not_written(count, &error);
            }
        }
        if dropped.records > 0
            && let Err(error) = to.write_all(self.loss(dropped).as_bytes())
        {
            let mut queue = self.lock();
            queue.unsaid.records = queue.unsaid.records.saturating_add(dropped.records);
            queue.unsaid.error = error.raw_os_error();
        }
    }

    /// The record about those that are not there.
    fn loss(&self, dropped: Unsaid) -> String {
        let records = several(dropped.records, "log record");
        let message = match dropped.error {
            None => format!("{records} dropped: standard error is too slow"),
            Some(errno) => {
                let error = Errno::from_raw(errno).desc().to_lowercase();
                format!("{records} dropped: standard error cannot be written: {error}")
            }
        };
        let record = LogRecord::new(Level::Warn, message).with("dropped", dropped.records);
        self.line(&record)
    }
}

/// Longest that the exit waits for the writer to begin: at most half of the time to the
/// orchestrator's SIGKILL, because something may come late behind it too.
fn late_limit(time_left: Option<Duration>) -> Duration {
    time_left.map_or(WRITER_LATE_LIMIT, |left| WRITER_LATE_LIMIT.min(left / 2))
}

/// Batches of records, each at most as large as a pipe accepts at once, with their numbers.
fn batches(records: VecDeque<String>) -> Vec<(String, usize)> {
    let mut batches: Vec<(String, usize)> = Vec::new();
    for record in records {
        match batches.last_mut() {
            Some((batch, count)) if batch.len() + record.len() <= WRITE_BYTES => {
                batch.push_str(&record);
                *count += 1;
            }
            Some(_) | None => batches.push((record, 1)),
        }
    }
    batches
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
