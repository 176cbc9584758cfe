//! Streams of events (server-sent events): turns bytes in pieces of any size into news.
//!
//! An event that is too long, no text, no JSON or unknown is skipped, to the next empty line. The
//! kept bytes have a bound. No event needs an answer, so nothing here is an error.

use crate::json::object::Object;
use ojs_lifecycle::api::{JobId, StreamNews};

/// Longest line that is read, in bytes. An event about a job usually has some 200.
pub const MOST_LINE_BYTES: usize = 8 << 10;

/// The type of an event about a job's change of state (real-time extension 3).
const STATE_CHANGED: &str = "job.state_changed";

/// The type of an event about a queue that has a job to be fetched, as one backend has it.
const AVAILABLE: &str = "job_available";

/// The type of an event by which the backend announces its end (real-time extension 2.2).
const SHUTDOWN: &str = "server.shutdown";

/// The states of a job that waits for its time.
const COMES_LATER: [&str; 2] = ["scheduled", "retryable"];

/// The mark that some writers put at the beginning.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads one stream.
#[derive(Debug, Default)]
pub struct EventStreamReader {
    /// The line so far.
    line: Vec<u8>,
    /// The line is too long: the rest of it is not kept.
    is_cut: bool,
    /// The last byte was a carriage return, so that a line feed that follows ends no other line.
    is_after_return: bool,
    /// A line has ended already.
    has_begun: bool,
    /// The event so far.
    event: EventSoFar,
}

/// The lines of an event that count.
#[derive(Debug, Default)]
struct EventSoFar {
    is_state_change: bool,
    is_availability: bool,
    is_shutdown: bool,
    /// Its data. Known events have one line of it.
    data: Option<String>,
    /// One of its lines was too long, or there was more than one with data.
    is_odd: bool,
}

impl EventStreamReader {
    /// Reads these bytes, and passes each piece of news to `tell`.
    pub fn push(&mut self, bytes: &[u8], mut tell: impl FnMut(StreamNews)) {
        let mut rest = bytes;
        if rest.is_empty() {
            return;
        }
        if std::mem::take(&mut self.is_after_return) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, after) = rest.split_at(end);
            self.keep(line);
            self.end_line(&mut tell);
            let is_return = after.first() == Some(&b'\r');
            rest = after.get(1..).unwrap_or_default();
            if is_return {
                self.is_after_return = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.keep(rest);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MOST_LINE_BYTES.saturating_sub(self.line.len());
        self.is_cut |= bytes.len() > room;
        self.line
            .extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    fn end_line(&mut self, tell: &mut impl FnMut(StreamNews)) {
        let is_cut = std::mem::take(&mut self.is_cut);
        let mut line = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let text = if is_first {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line)
        } else {
            &line
        };
        if is_cut {
            self.event.is_odd = true;
        } else if text.is_empty() {
            if let Some(news) = std::mem::take(&mut self.event).news() {
                tell(news);
            }
        } else {
            self.event.take_line(text);
        }
        // The buffer is used again.
        line.clear();
        self.line = line;
    }
}

impl EventSoFar {
    fn take_line(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"event" => {
                self.is_state_change = value == STATE_CHANGED.as_bytes();
                self.is_availability = value == AVAILABLE.as_bytes();
                self.is_shutdown = value == SHUTDOWN.as_bytes();
            }
            b"data" => {
                self.is_odd |= self.data.is_some();
                self.data = std::str::from_utf8(value).ok().map(str::to_owned);
            }
            // A comment, an id, a retry time, or an unknown field.
            _ => {}
        }
    }

    /// The news in the event, if any.
    fn news(self) -> Option<StreamNews> {
        let data = self.data.filter(|_| !self.is_odd)?;
        if self.is_availability {
            return Some(StreamNews::JobAvailable {
                job: None,
                came_due: false,
            });
        }
        if self.is_shutdown {
            return Some(StreamNews::BackendLeaves);
        }
        if !self.is_state_change {
            return None;
        }
        let fields = Object::read_some(&data, &["from", "to", "job_id"]).ok()?;
        let job = || Some(JobId(fields.text("job_id")?.into()));
        match &*fields.text("to")? {
            "available" => Some(StreamNews::JobAvailable {
                job: job(),
                came_due: fields.text("from").is_some_and(|from| COMES_LATER.contains(&&*from)),
            }),
            "active" => Some(StreamNews::JobTaken(job()?)),
            "cancelled" => Some(StreamNews::JobCancelled(job()?)),
            to if COMES_LATER.contains(&to) => Some(StreamNews::JobComesLater),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
