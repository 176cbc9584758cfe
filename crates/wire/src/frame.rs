//! Splits a stream of bytes, in pieces of any size, into lines with a limit.
//!
//! ```
//! use ojs_wire::frame::{Frame, FrameReader};
//!
//! let mut reader = FrameReader::new(4096);
//! let mut read: &[u8] = b"{\"type\":\"pong\",\"id\":1}\n{\"type\":";
//! assert_eq!(reader.next_frame(&mut read), Some(Frame::Line(b"{\"type\":\"pong\",\"id\":1}")));
//! assert_eq!(reader.next_frame(&mut read), None);
//! assert_eq!(reader.unfinished(), Some(&b"{\"type\":"[..]));
//! ```

/// Bytes of the buffer that a reader keeps between lines. Memory of a longer line is freed after
/// it.
const KEPT: usize = 64 << 10;

/// A line of the stream, or its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A complete line exactly as it was sent, without its `\n`. The line may be empty, and may end
    /// with a `\r`.
    Line(&'a [u8]),
    /// A line is longer than the limit: its beginning, as long as the limit. Reported once, as soon
    /// as the reader knows it; the rest of the line is dropped.
    TooLong(&'a [u8]),
}

/// The reader of one stream. Its buffer holds at most the limit; a line that is complete in the
/// input is not copied.
#[derive(Debug)]
pub struct FrameReader {
    max_bytes: usize,
    /// The beginning of a line without an end so far, or the line that was handed out last.
    partial: Vec<u8>,
    state: ReadState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    /// `partial` is the beginning of a line.
    Gathering,
    /// `partial` was handed out.
    HandedOut,
    /// `partial` is the beginning of a line that is too long, and was handed out.
    Discarding,
}

impl FrameReader {
    /// A reader for lines of at most `max_bytes`, the `\n` not counted.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            partial: Vec::new(),
            state: ReadState::Gathering,
        }
    }

    /// The next frame of `input`, which is shortened by the bytes read. `None`: all input was read,
    /// so call again with more input. Each byte is read once.
    pub fn next_frame<'a, 'input: 'a>(&'a mut self, input: &mut &'input [u8]) -> Option<Frame<'a>> {
        match self.state {
            ReadState::Gathering => {}
            ReadState::HandedOut => self.start_line(),
            ReadState::Discarding => {
                self.partial = Vec::new();
                let end = position_of_line_feed(input);
                *input = end.and_then(|end| input.get(end + 1..)).unwrap_or_default();
                end?;
                self.start_line();
            }
        }
        let room = self.max_bytes.saturating_sub(self.partial.len());
        let (within, _) = input.split_at(input.len().min(room.saturating_add(1)));
        let Some(end) = position_of_line_feed(within) else {
            return self.take_beginning(input, room);
        };
        let (line, rest) = input.split_at(end);
        *input = rest.get(1..).unwrap_or_default();
        if self.partial.is_empty() {
            return Some(Frame::Line(line));
        }
        self.append(line);
        self.state = ReadState::HandedOut;
        Some(Frame::Line(&self.partial))
    }

    /// The unfinished line after the last `\n`, at the end of the stream. If the process may have
    /// died within the line, the line is no frame, even if it reads like one: the beginning of a
    /// number is another number.
    pub fn unfinished(&self) -> Option<&[u8]> {
        match self.state {
            ReadState::Gathering => Some(self.partial.as_slice()).filter(|partial| !partial.is_empty()),
            ReadState::HandedOut | ReadState::Discarding => None,
        }
    }

    /// Memory that it holds on to, in bytes; never more than the limit.
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }

    /// There is no `\n` in the first `room` + 1 bytes.
    fn take_beginning(&mut self, input: &mut &[u8], room: usize) -> Option<Frame<'_>> {
        if input.len() > room {
            let (within, rest) = input.split_at(room);
            self.append(within);
            *input = rest;
            self.state = ReadState::Discarding;
            return Some(Frame::TooLong(&self.partial));
        }
        self.append(input);
        *input = &[];
        None
    }

    fn start_line(&mut self) {
        self.state = ReadState::Gathering;
        self.partial.clear();
        if self.partial.capacity() > KEPT {
            self.partial = Vec::new();
        }
    }

    /// Doubles the room, so that a byte is moved a bounded number of times, but never beyond the
    /// limit.
    fn append(&mut self, bytes: &[u8]) {
        let needed = self.partial.len() + bytes.len();
        if needed > self.partial.capacity() {
            let doubled = self.partial.capacity().saturating_mul(2).min(self.max_bytes);
            self.partial.reserve_exact(needed.max(doubled) - self.partial.len());
        }
        self.partial.extend_from_slice(bytes);
    }
}

fn position_of_line_feed(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(reader: &mut FrameReader, mut input: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut found = Vec::new();
        while let Some(frame) = reader.next_frame(&mut input) {
            found.push(match frame {
                Frame::Line(line) => Some(line.to_vec()),
                Frame::TooLong(_) => None,
            });
        }
        assert!(input.is_empty());
        found
    }

    fn line(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_out_without_their_line_feed_and_otherwise_as_sent() {
        let mut reader = FrameReader::new(8);
        assert_eq!(
            all(&mut reader, b"a\n\n b \r\n\0\n"),
            [line("a"), line(""), line(" b \r"), line("\0")]
        );
        assert_eq!(reader.unfinished(), None);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        for cut in 0..=5 {
            let mut reader = FrameReader::new(4);
            let (first, second) = b"1234\n".split_at(cut);
            let mut found = all(&mut reader, first);
            found.extend(all(&mut reader, second));
            assert_eq!(found, [line("1234")], "cut at {cut}");
        }
        for cut in 0..=6 {
            let mut reader = FrameReader::new(4);
            let (first, second) = b"12345\n".split_at(cut);
            let mut found = all(&mut reader, first);
            found.extend(all(&mut reader, second));
            found.extend(all(&mut reader, b"next\n"));
            assert_eq!(found, [None, line("next")], "cut at {cut}");
        }
    }

    #[test]
    fn the_beginning_of_a_line_that_is_too_long_is_kept() {
        for cut in 0..=6 {
            let mut reader = FrameReader::new(4);
            let (mut first, mut second) = b"123456\n".split_at(cut);
            let found = reader
                .next_frame(&mut first)
                .or(None)
                .map(|frame| frame == Frame::TooLong(b"1234"));
            let found = found.or_else(|| {
                reader
                    .next_frame(&mut second)
                    .map(|frame| frame == Frame::TooLong(b"1234"))
            });
            assert_eq!(found, Some(true), "cut at {cut}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_before_it_ends_and_once() {
        let mut reader = FrameReader::new(4);
        assert_eq!(all(&mut reader, b"12345"), [None]);
        assert_eq!(all(&mut reader, &[b'x'; 100_000]), []);
        assert_eq!(reader.held(), 0);
        assert_eq!(reader.unfinished(), None);
        assert_eq!(all(&mut reader, b"\n1"), []);
        assert_eq!(reader.unfinished(), Some(&b"1"[..]));
    }

    #[test]
    fn a_line_that_was_handed_out_is_not_unfinished() {
        let mut reader = FrameReader::new(100);
        assert_eq!(all(&mut reader, b"abc"), []);
        let mut input = &b"d\n"[..];
        assert_eq!(reader.next_frame(&mut input), Some(Frame::Line(b"abcd")));
        assert_eq!(reader.unfinished(), None);
    }

    #[test]
    fn the_room_of_a_long_line_is_given_back() {
        let mut reader = FrameReader::new(1 << 20);
        assert_eq!(all(&mut reader, &vec![b'x'; 1 << 20]), []);
        assert_eq!(reader.held(), 1 << 20);
        assert_eq!(all(&mut reader, b"\n").len(), 1);
        assert_eq!(reader.held(), 0);
    }

    #[test]
    fn a_limit_of_nothing_leaves_empty_lines_only() {
        let mut reader = FrameReader::new(0);
        assert_eq!(all(&mut reader, b"\na\n\n"), [line(""), None, line("")]);
    }
}
