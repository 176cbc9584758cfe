//! The lines of a stream.

use std::io::{ErrorKind, Read};

const READ_SIZE: usize = 64 * 1024;

/// What [`read`] meets.
pub(crate) enum Line<'a> {
    /// A line without its line break.
    Whole(&'a [u8]),
    /// One that is longer than the limit, with its length; it is thrown away.
    TooLong(usize),
}

/// Calls `found` with each line until the stream ends; what stands after the last line break is
/// none.
pub(crate) fn read(mut from: impl Read, limit: impl Fn() -> usize, mut found: impl FnMut(Line<'_>)) {
    let mut buffer = vec![0; READ_SIZE];
    let (mut filled, mut thrown) = (0, 0);
    loop {
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        let size = match from.read(&mut buffer[filled..]) {
            Ok(0) => return,
            Ok(size) => size,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let (mut start, mut searched) = (0, filled);
        filled += size;
        while let Some(at) = buffer[searched..filled].iter().position(|byte| *byte == b'\n') {
            let end = searched + at;
            let length = thrown + end - start;
            let is_too_long = thrown > 0 || length > limit();
            found(if is_too_long { Line::TooLong(length) } else { Line::Whole(&buffer[start..end]) });
            (thrown, start, searched) = (0, end + 1, end + 1);
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
        if filled > limit() {
            thrown += filled;
            filled = 0;
        }
        if filled == 0 && buffer.len() > 4 * READ_SIZE {
            buffer = vec![0; READ_SIZE];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pieces(Vec<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            into[..piece.len()].copy_from_slice(&piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn lines_are_the_same_however_the_stream_is_cut() {
        let stream = format!("one\n{}\ntwo\n\nrest", "x".repeat(50));
        for size in 1..stream.len() {
            let pieces = stream.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let mut seen = Vec::new();
            read(
                Pieces(pieces),
                || 20,
                |line| {
                    seen.push(match line {
                        Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                        Line::TooLong(length) => length.to_string(),
                    });
                },
            );
            assert_eq!(seen, ["one", "50", "two", ""], "pieces of {size}");
        }
    }
}
