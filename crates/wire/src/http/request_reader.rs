//! The requests on one connection, from bytes in pieces of any size. Its buffer holds no more than
//! the largest head.

use crate::http::body::{BadChunk, BodyReader, BodyStep};
use crate::http::message::{BadMessage, MOST_HEAD_BYTES, MessageHead, read_head};

/// Reads one request after the other. The caller has to read each body before the next head.
#[derive(Debug, Default)]
pub struct RequestReader {
    bytes: Vec<u8>,
    /// How many of `bytes` were used.
    start: usize,
    /// The number of bytes behind `start` that hold no complete head.
    looked_at: usize,
    body: Option<BodyReader>,
}

impl RequestReader {
    /// How many bytes may be added now.
    pub fn room(&self) -> usize {
        MOST_HEAD_BYTES.saturating_sub(self.unread().len())
    }

    /// Adds received bytes, as many as there is room for.
    pub fn add(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        self.start += count;
        self.looked_at = 0;
        if self.start >= self.bytes.len() {
            // An idle connection costs nothing.
            self.bytes = Vec::new();
            self.start = 0;
        }
    }

    /// The head of the next request, if it is complete and the body of the last one was read.
    pub fn next_head(&mut self) -> Option<Result<MessageHead, BadMessage>> {
        if self.body.is_some() {
            return None;
        }
        let empty_lines = length_of_empty_lines(self.unread());
        if empty_lines > 0 {
            self.advance(empty_lines);
        }
        let unread = self.unread();
        let news = unread.get(self.looked_at..).filter(|news| !news.is_empty())?;
        // Only the end of a line can end a head, and only the first bytes may show that there is no
        // head.
        if self.looked_at > 0 && !news.contains(&b'\n') && unread.len() < MOST_HEAD_BYTES {
            self.looked_at = unread.len();
            return None;
        }
        match read_head(unread, MOST_HEAD_BYTES) {
            None => {
                self.looked_at = unread.len();
                None
            }
            Some(Err(bad)) => Some(Err(bad)),
            Some(Ok((head, length))) => {
                self.body = Some(BodyReader::new(head.body));
                self.advance(length);
                Some(Ok(head))
            }
        }
    }

    /// Reads the next step in the body of the last request.
    ///
    /// # Errors
    ///
    /// A chunk is invalid.
    pub fn payload(&mut self) -> Result<BodyStep<'_>, BadChunk> {
        let Some(body) = &mut self.body else {
            return Ok(BodyStep::Over);
        };
        let mut input = self.bytes.get(self.start..).unwrap_or_default();
        let before = input.len();
        let length = match body.step(&mut input)? {
            BodyStep::Payload(payload) => Some(payload.len()),
            BodyStep::Unfinished => None,
            BodyStep::Over => {
                self.body = None;
                self.advance(before - input.len());
                return Ok(BodyStep::Over);
            }
        };
        let skipped = before - input.len();
        self.advance(skipped);
        let Some(length) = length else {
            return Ok(BodyStep::Unfinished);
        };
        Ok(self
            .unread()
            .get(..length)
            .map_or(BodyStep::Unfinished, BodyStep::Payload))
    }

    /// Marks this many bytes of that payload as used.
    pub fn took(&mut self, count: usize) {
        if let Some(body) = &mut self.body {
            body.took(count);
            self.advance(count);
        }
    }
}

/// Bytes of the empty lines before a request (RFC 9112 2.2). A bare `\r` is none.
fn length_of_empty_lines(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(behind) = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
        rest = behind;
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
#[path = "request_reader_tests.rs"]
mod tests;
