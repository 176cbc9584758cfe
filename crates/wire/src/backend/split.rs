//! Moves large jobs out of an answer to a FETCH while it arrives. Each job then has its own memory,
//! and no answer has to be in memory as a whole.
//!
//! This code looks only at strings, brackets and their depth. The reader (`delivery.rs`) checks
//! whether the answer is JSON. [`JobsBody::join`] always restores the answer.

use memchr::memchr2;

use crate::backend::spare::Spare;

/// Size in bytes from which a job has its own memory.
pub const LARGE_JOB: usize = 64 << 10;

/// Most bytes that are reserved for a job whose length is not known yet.
const MOST_RESERVED: usize = 4 << 20;

/// An object with one field, in place of a job that was moved out.
const PLACEHOLDER: &[u8] = b"{\"\":0}";

/// The body of an answer to a FETCH.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JobsBody {
    /// The answer, with placeholders for large jobs.
    pub(crate) rest: Vec<u8>,
    /// The large jobs, in their order.
    pub(crate) large: Vec<LargeJob>,
}

/// A job that was moved out of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargeJob {
    /// The place of its placeholder.
    pub(crate) at: usize,
    /// An object, judged by its first and last bracket.
    pub(crate) text: String,
}

impl From<Vec<u8>> for JobsBody {
    fn from(rest: Vec<u8>) -> Self {
        let large = Vec::new();
        Self { rest, large }
    }
}

impl JobsBody {
    /// Whether an answer like this is one with jobs, and no page of a proxy.
    pub(crate) fn begins_an_object(&self) -> bool {
        self.rest.trim_ascii_start().starts_with(b"{")
    }

    /// Bytes of the body as it was received.
    pub fn bytes(&self) -> usize {
        let outside = self.large.iter().map(|job| job.text.len() - PLACEHOLDER.len());
        self.rest.len() + outside.sum::<usize>()
    }

    /// The body as it was received. Each byte is copied once, no matter how many jobs were moved
    /// out.
    pub fn join(self) -> Vec<u8> {
        if self.large.is_empty() {
            return self.rest;
        }
        let mut whole = Vec::with_capacity(self.bytes());
        let Self { rest, large } = self;
        let mut from = 0;
        for LargeJob { at, text } in large {
            whole.extend_from_slice(rest.get(from..at).unwrap_or_default());
            whole.extend_from_slice(text.as_bytes());
            from = at + PLACEHOLDER.len();
        }
        whole.extend_from_slice(rest.get(from..).unwrap_or_default());
        whole
    }
}

/// An end of a job in the bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// The job's first byte was the last one.
    Start,
    /// The job's last byte was the last one.
    End,
}

/// Reads the bytes of one answer in their order.
#[derive(Debug, Default)]
pub struct JobsReader {
    body: JobsBody,
    /// The beginning of the present job in the rest of the body.
    start: Option<usize>,
    /// Bytes of that job, once it is large.
    current: Option<Vec<u8>>,
    /// Bytes that were moved out, less those of their placeholders.
    outside: usize,
    depth: usize,
    /// True within an array of the outermost object.
    is_in_array: bool,
    is_in_string: bool,
    is_escaped: bool,
}

impl JobsReader {
    /// Bytes that were read so far.
    pub fn len(&self) -> usize {
        self.body.rest.len() + self.outside + self.current.as_ref().map_or(0, Vec::len)
    }

    /// Whether nothing was read so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads these bytes. `to_come`: bytes of the answer behind them, as far as known.
    pub fn push(&mut self, mut bytes: &[u8], to_come: usize, spare: &mut Spare) {
        while !bytes.is_empty() {
            let (count, edge) = self.scan(bytes);
            let (run, rest) = bytes.split_at(count.min(bytes.len()));
            self.append(run, rest.len().saturating_add(to_come), spare);
            match edge {
                Some(Edge::Start) => self.start = Some(self.body.rest.len().saturating_sub(1)),
                Some(Edge::End) => self.take_out(),
                None => {}
            }
            bytes = rest;
        }
    }

    /// The body. A job that did not end is in the rest.
    pub fn into_body(self) -> JobsBody {
        let mut body = self.body;
        body.rest.extend(self.current.unwrap_or_default());
        body
    }

    fn append(&mut self, bytes: &[u8], to_come: usize, spare: &mut Spare) {
        if let Some(current) = &mut self.current {
            return current.extend_from_slice(bytes);
        }
        let rest = &mut self.body.rest;
        rest.extend_from_slice(bytes);
        if let Some(start) = self.start
            && let Some(job) = rest.get(start..).filter(|job| job.len() >= LARGE_JOB)
        {
            let mut current = spare.take(job.len().saturating_add(to_come).min(MOST_RESERVED));
            current.extend_from_slice(job);
            rest.truncate(start);
            self.current = Some(current);
        }
    }

    fn take_out(&mut self) {
        let (Some(at), Some(mut job)) = (self.start.take(), self.current.take()) else {
            return;
        };
        // Memory of an earlier job keeps its size, for a later one.
        if job.capacity() / 2 > job.len() {
            job.shrink_to_fit();
        }
        match String::from_utf8(job) {
            Ok(text) => {
                self.outside += text.len() - PLACEHOLDER.len();
                self.body.rest.extend_from_slice(PLACEHOLDER);
                self.body.large.push(LargeJob { at, text });
            }
            Err(error) => self.body.rest.extend(error.into_bytes()),
        }
    }

    /// Bytes to the next end of a job, or all.
    fn scan(&mut self, bytes: &[u8]) -> (usize, Option<Edge>) {
        let mut rest = bytes;
        loop {
            if self.is_escaped
                && let Some((_, behind)) = rest.split_first()
            {
                self.is_escaped = false;
                rest = behind;
            }
            let found = if self.is_in_string {
                memchr2(b'"', b'\\', rest)
            } else {
                rest.iter()
                    .position(|byte| matches!(byte, b'"' | b'[' | b'{' | b']' | b'}'))
            };
            let Some((byte, behind)) = found.and_then(|at| rest.get(at..)?.split_first()) else {
                break;
            };
            rest = behind;
            if let Some(edge) = self.meets(*byte) {
                return (bytes.len() - rest.len(), Some(edge));
            }
        }
        (bytes.len(), None)
    }

    /// A quote, a backslash in a string, or a bracket outside of strings.
    fn meets(&mut self, byte: u8) -> Option<Edge> {
        match byte {
            b'"' => self.is_in_string = !self.is_in_string,
            b'\\' => self.is_escaped = true,
            b'[' | b'{' => {
                if self.depth == 1 {
                    self.is_in_array = byte == b'[';
                }
                self.depth += 1;
                let is_job = self.depth == 3 && self.is_in_array && byte == b'{';
                return is_job.then_some(Edge::Start);
            }
            _ => {
                self.depth = self.depth.saturating_sub(1);
                return (self.depth == 2 && self.start.is_some()).then_some(Edge::End);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "split_tests.rs"]
mod tests;
