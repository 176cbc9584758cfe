//! The output of a job: bytes within a limit, the last bytes, and lines.

use std::collections::VecDeque;

use crate::runner::redaction::Redaction;

/// Most bytes of a line that are one piece in the log: with its escapes it fits into one record.
const PIECE_BYTES: usize = 3000;

/// Most bytes of a character.
pub const LONGEST_CHARACTER: usize = 4;

/// The beginning of a stream, up to a limit.
#[derive(Debug)]
pub struct Limited {
    bytes: Vec<u8>,
    most: usize,
    is_cut: bool,
}

impl Limited {
    /// At most so many bytes.
    pub fn new(most: u64) -> Self {
        Self {
            bytes: Vec::new(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            is_cut: false,
        }
    }

    /// Adds received bytes. Those beyond the limit are dropped.
    pub fn add(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.bytes.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.bytes.extend_from_slice(kept);
        if kept.len() < bytes.len() && !self.is_cut {
            self.is_cut = true;
            // Half of it is of no use.
            self.bytes = Vec::new();
            self.most = 0;
        }
    }

    /// The received bytes; none if there were too many.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if the received bytes exceeded the limit.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// The end of a stream.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    /// Adds received bytes, and keeps the last `most`.
    pub fn add(&mut self, bytes: &[u8], most: usize) {
        let kept = bytes.get(bytes.len().saturating_sub(most)..).unwrap_or_default();
        let surplus = (self.bytes.len() + kept.len()).saturating_sub(most);
        self.is_cut |= kept.len() < bytes.len() || surplus > 0;
        self.bytes.drain(..surplus.min(self.bytes.len()));
        self.bytes.extend(kept);
    }

    /// The last bytes, in one piece.
    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }

    /// True if there were bytes before them.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

/// The lines of a stream. A long one is split into pieces, so none of it is lost and none waits for
/// its end. No piece ends within a character or a secret.
#[derive(Debug, Default)]
pub struct Lines {
    /// The end of the last piece, in which a secret may begin, and the bytes behind it.
    begun: Vec<u8>,
    /// Length of the former.
    said: usize,
}

impl Lines {
    /// Adds received bytes. Calls `say` for each complete line, and each piece of a long one. Empty
    /// lines are left out.
    pub fn add(&mut self, bytes: &[u8], redaction: &Redaction, say: &mut dyn FnMut(&str)) {
        // A secret that begins in a piece is complete then.
        let most = PIECE_BYTES + redaction.most_of_a_half();
        for (number, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                self.end_line(redaction, false, say);
            }
            for part in part.chunks(PIECE_BYTES) {
                self.begun.extend_from_slice(part);
                self.say_pieces(most, redaction, false, say);
            }
        }
    }

    /// The stream has ended, perhaps within a secret.
    pub fn end(&mut self, redaction: &Redaction, say: &mut dyn FnMut(&str)) {
        self.end_line(redaction, true, say);
    }

    fn end_line(&mut self, redaction: &Redaction, is_broken_off: bool, say: &mut dyn FnMut(&str)) {
        if self.begun.len() > self.said && self.begun.ends_with(b"\r") {
            self.begun.pop();
        }
        self.say_pieces(PIECE_BYTES, redaction, is_broken_off, say);
        let (last, _) = redaction.strike(&self.begun, self.said..self.begun.len(), is_broken_off);
        if !last.is_empty() {
            say(&last);
        }
        self.begun.clear();
        self.said = 0;
    }

    /// Logs pieces of the begun line until at most `most` bytes are left.
    fn say_pieces(&mut self, most: usize, redaction: &Redaction, is_broken_off: bool, say: &mut dyn FnMut(&str)) {
        while self.begun.len() > self.said + most {
            let cut = character_end(&self.begun, self.said + PIECE_BYTES);
            let (piece, end) = redaction.strike(&self.begun, self.said..cut, is_broken_off);
            say(&piece);
            self.said = end.min(redaction.most_of_a_half());
            self.begun.drain(..end - self.said);
        }
    }
}

/// The last place up to `most` at which no character is cut in two. Bytes that are no UTF-8 are cut
/// anywhere.
fn character_end(bytes: &[u8], most: usize) -> usize {
    let is_begin = |place: &usize| bytes.get(*place).is_none_or(|byte| byte & 0xc0 != 0x80);
    let places = most.saturating_sub(LONGEST_CHARACTER - 1)..=most;
    places.rev().find(is_begin).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        struck_lines(&Redaction::default(), pieces)
    }

    fn struck_lines(redaction: &Redaction, pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut say = |line: &str| found.push(line.to_owned());
        for piece in pieces {
            lines.add(piece, redaction, &mut say);
            let most = PIECE_BYTES + 2 * redaction.most_of_a_half();
            assert!(lines.begun.len() <= most, "{} bytes wait", lines.begun.len());
        }
        lines.end(redaction, &mut say);
        found
    }

    #[test]
    fn lines_come_whole_however_they_were_cut_up() {
        for cut in 0..=11 {
            let (first, second) = b"one\r\n\ntwo\n3".split_at(cut);
            assert_eq!(lines(&[first, second]), ["one", "two", "3"], "cut at {cut}");
        }
    }

    #[test]
    fn a_long_line_comes_in_pieces_and_nothing_of_it_is_lost() {
        let long = "x".repeat(2 * PIECE_BYTES + 1) + "\nshort\n";
        for step in [1, 7, 4096, long.len()] {
            let pieces: Vec<&[u8]> = long.as_bytes().chunks(step).collect();
            let lengths: Vec<usize> = lines(&pieces).iter().map(String::len).collect();
            assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1, 5], "in steps of {step}");
        }
    }

    #[test]
    fn a_secret_in_a_long_line_is_struck_wherever_the_pieces_meet() {
        for length in [6, 40, PIECE_BYTES, 2 * PIECE_BYTES + 7] {
            let secret = format!("<{}>", "s".repeat(length - 2));
            let entry = format!("A_TOKEN={secret}");
            let redaction = Redaction::new(&["*_TOKEN".to_owned()], [entry.as_bytes()].into_iter());
            for before in [
                0,
                1,
                PIECE_BYTES - length.min(PIECE_BYTES),
                PIECE_BYTES - 3,
                PIECE_BYTES,
            ] {
                let line = "x".repeat(before) + &secret + &"y".repeat(PIECE_BYTES) + &secret + "\n";
                for step in [1000, PIECE_BYTES, line.len()] {
                    let pieces: Vec<&[u8]> = line.as_bytes().chunks(step).collect();
                    let said = struck_lines(&redaction, &pieces).concat();
                    let expected = line.trim().replace(&secret, "[redacted]");
                    assert!(said == expected, "{length} bytes behind {before}, in steps of {step}");
                }
            }
        }
    }

    /// Each piece may be a secret from its beginning to its end.
    #[test]
    fn a_secret_that_overlaps_itself_fills_no_more_records_than_other_bytes() {
        for (secret, text, rest) in [
            ("000000", "0".repeat(20 * PIECE_BYTES), ""),
            ("/secret/", "/secret".repeat(3 * PIECE_BYTES) + "/", ""),
            ("/secret/", "/secret".repeat(3 * PIECE_BYTES) + "/se", "se"),
        ] {
            let entry = format!("A_TOKEN={secret}");
            let redaction = Redaction::new(&["*_TOKEN".to_owned()], [entry.as_bytes()].into_iter());
            for step in [1, 1000, text.len()] {
                let pieces: Vec<&[u8]> = text.as_bytes().chunks(step).collect();
                let said = struck_lines(&redaction, &pieces);
                assert!(said.len() <= text.len() / PIECE_BYTES + 2, "{} records", said.len());
                let left = said.concat().replace("[redacted]", "");
                assert_eq!(left, rest, "{secret} in steps of {step}");
            }
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for character in ["\u{e4}", "\u{20ac}", "\u{1f980}"] {
            for before in 0..=4 {
                let line = "x".repeat(before) + &character.repeat(PIECE_BYTES);
                for step in [1, 999, line.len()] {
                    let pieces: Vec<&[u8]> = line.as_bytes().chunks(step).collect();
                    assert!(
                        lines(&pieces).concat() == line,
                        "{character} behind {before}, in steps of {step}"
                    );
                }
            }
        }
        let lengths: Vec<usize> = lines(&[&[0x80; PIECE_BYTES + 1]])
            .iter()
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(lengths, [PIECE_BYTES, 1], "what is no text is cut anywhere");
    }

    #[test]
    fn a_result_within_the_limit_is_kept_and_one_beyond_it_is_not() {
        let mut output = Limited::new(4);
        output.add(b"12");
        output.add(b"34");
        assert_eq!((output.bytes(), output.is_cut()), (&b"1234"[..], false));
        output.add(b"");
        assert!(!output.is_cut());
        output.add(b"5");
        output.add(b"6");
        assert_eq!((output.bytes(), output.is_cut()), (&b""[..], true));
    }

    #[test]
    fn of_what_is_long_the_end_is_kept() {
        let mut tail = Tail::default();
        tail.add(b"12", 4);
        assert_eq!(tail.bytes(), b"12");
        tail.add(b"34", 4);
        assert!(!tail.is_cut());
        tail.add(b"5", 4);
        assert_eq!(tail.bytes(), b"2345");
        assert!(tail.is_cut());
        tail.add(b"abcdefgh", 4);
        assert_eq!(tail.bytes(), b"efgh");
    }
}
