//! The body of a message as it arrives: where it ends (RFC 9112, 6.3), and which bytes are payload.
//!
//! `httparse` reads the size of a chunk, and reads a size without a digit as the last chunk. That
//! would end a body that another reader on the way continues. So a size that begins with a blank,
//! or has no digit, is refused here. `httparse` also skips a bare line feed in an extension, where
//! other servers end the line: a request with one is refused.

use crate::http::answer_head::AnswerBody;
use crate::http::message::BodyLength;

/// Longest line with the size of a chunk, its extensions included, in bytes.
const MOST_SIZE_LINE_BYTES: usize = 1 << 10;

/// Most bytes of the trailer fields behind the last chunk. The reader drops them, and refuses a
/// body with more of them.
const MOST_TRAILER_BYTES: usize = 8 << 10;

/// The reader of a body, at its present place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyReader {
    part: BodyPart,
    /// Whether it is the body of a request.
    is_of_request: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyPart {
    /// Missing bytes of a body whose length is known.
    Counted(u64),
    /// The line with the size of the next chunk is next.
    SizeLine,
    /// Missing bytes of a chunk.
    Chunk(u64),
    /// The line break behind a chunk is next.
    ChunkEnd,
    /// The lines behind the last chunk, with the number of their bytes so far.
    Trailer(usize),
    /// All bytes until the connection is closed.
    ToTheEnd,
    Over,
}

/// The next step in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyStep<'a> {
    /// Payload; never empty. The payload stays in place until [`BodyReader::took`] reports how much
    /// was used.
    Payload(&'a [u8]),
    /// More bytes are needed.
    Unfinished,
    /// The body is complete; the remaining bytes belong to the next message.
    Over,
}

/// The chunks of a body make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadChunk;

impl BodyReader {
    /// A body before its first byte.
    pub fn new(length: BodyLength) -> Self {
        let part = match length {
            BodyLength::Bytes(count) => BodyPart::Counted(count),
            BodyLength::Chunked => BodyPart::SizeLine,
        };
        let is_of_request = true;
        Self { part, is_of_request }
    }

    /// The body of an answer before its first byte.
    pub fn of_answer(body: AnswerBody) -> Self {
        let part = match body {
            AnswerBody::None => BodyPart::Over,
            AnswerBody::Bytes(count) => BodyPart::Counted(count),
            AnswerBody::Chunked => BodyPart::SizeLine,
            AnswerBody::ToTheEnd => BodyPart::ToTheEnd,
        };
        let is_of_request = false;
        Self { part, is_of_request }
    }

    /// Whether the body is complete if the connection is closed now. `is_clean`: the peer has
    /// closed it in order, so no byte at its end is missing.
    pub fn is_whole_if_closed(&self, is_clean: bool) -> bool {
        match self.part {
            BodyPart::ToTheEnd => is_clean,
            // Only trailer fields can be missing. An answer does without them. A request that is
            // cut off there does not count.
            BodyPart::Trailer(_) | BodyPart::Over | BodyPart::Counted(0) => true,
            BodyPart::Counted(_) | BodyPart::SizeLine | BodyPart::Chunk(_) | BodyPart::ChunkEnd => false,
        }
    }

    /// Whether all of it was read.
    pub fn is_over(&self) -> bool {
        matches!(self.part, BodyPart::Over | BodyPart::Counted(0))
    }

    /// Reads the next step from these bytes, and removes bytes that are no payload from them.
    ///
    /// # Errors
    ///
    /// The body is in chunks, and a chunk is invalid.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<BodyStep<'a>, BadChunk> {
        loop {
            match self.part {
                BodyPart::Counted(0) => self.part = BodyPart::Over,
                BodyPart::ToTheEnd if input.is_empty() => return Ok(BodyStep::Unfinished),
                BodyPart::ToTheEnd => return Ok(BodyStep::Payload(input)),
                BodyPart::Counted(left) | BodyPart::Chunk(left) if left > 0 => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    return Ok(match input.get(..most) {
                        Some(payload) if !payload.is_empty() => BodyStep::Payload(payload),
                        Some(_) | None => BodyStep::Unfinished,
                    });
                }
                BodyPart::Counted(_) | BodyPart::Chunk(_) => self.part = BodyPart::ChunkEnd,
                // httparse reads a line without any digit as the last chunk.
                BodyPart::SizeLine if input.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => {
                    return Err(BadChunk);
                }
                BodyPart::SizeLine => match httparse::parse_chunk_size(input) {
                    Ok(httparse::Status::Complete((length, size)))
                        if length <= MOST_SIZE_LINE_BYTES && (!self.is_of_request || is_one_line(input, length)) =>
                    {
                        *input = input.get(length..).unwrap_or_default();
                        self.part = match size {
                            0 => BodyPart::Trailer(0),
                            size if size < 1 << 63 => BodyPart::Chunk(size),
                            _ => return Err(BadChunk),
                        };
                    }
                    Ok(httparse::Status::Partial) if input.len() < MOST_SIZE_LINE_BYTES => {
                        return Ok(BodyStep::Unfinished);
                    }
                    Ok(_) | Err(_) => return Err(BadChunk),
                },
                BodyPart::ChunkEnd => match input {
                    [b'\r', b'\n', rest @ ..] => {
                        *input = rest;
                        self.part = BodyPart::SizeLine;
                    }
                    [] | [b'\r'] => return Ok(BodyStep::Unfinished),
                    _ => return Err(BadChunk),
                },
                BodyPart::Trailer(before) => {
                    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
                        return if before + input.len() > MOST_TRAILER_BYTES {
                            Err(BadChunk)
                        } else {
                            Ok(BodyStep::Unfinished)
                        };
                    };
                    let line = input.get(..end).unwrap_or_default();
                    // Other servers do not take a bare line feed for the end of a line, so for them
                    // the body of the request goes on.
                    if self.is_of_request && !line.ends_with(b"\r") {
                        return Err(BadChunk);
                    }
                    let is_last = matches!(line, [] | [b'\r']);
                    *input = input.get(end + 1..).unwrap_or_default();
                    self.part = match before + end + 1 {
                        _ if is_last => BodyPart::Over,
                        total if total <= MOST_TRAILER_BYTES => BodyPart::Trailer(total),
                        _ => return Err(BadChunk),
                    };
                }
                BodyPart::Over => return Ok(BodyStep::Over),
            }
        }
    }

    /// Marks this many bytes of the payload as used; the next step begins behind them.
    pub fn took(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        match &mut self.part {
            BodyPart::Counted(left) | BodyPart::Chunk(left) => *left = left.saturating_sub(count),
            BodyPart::SizeLine | BodyPart::ChunkEnd | BodyPart::Trailer(_) | BodyPart::ToTheEnd | BodyPart::Over => {}
        }
    }
}

/// Whether the first `length` bytes have one line feed, which is their last byte.
fn is_one_line(bytes: &[u8], length: usize) -> bool {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1) == Some(length)
}
