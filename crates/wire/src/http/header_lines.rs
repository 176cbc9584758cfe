//! The header lines of a head that is passed on, in one block of memory. Otherwise each of them
//! would need two allocations.

use std::fmt;

/// Header lines in their order, as HTTP writes them, one after the other.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HeaderLines(Vec<u8>);

/// Between a name and its value.
const SEPARATOR: &[u8] = b": ";

/// Behind a value.
const LINE_END: &[u8] = b"\r\n";

impl HeaderLines {
    /// These lines. Names and values are from a parsed head, so none has a line break.
    pub fn of<'l>(lines: impl Iterator<Item = (&'l str, &'l [u8])>) -> Self {
        let mut block = Vec::new();
        for (name, value) in lines {
            push_line(&mut block, name.as_bytes(), value);
        }
        block.shrink_to_fit();
        Self(block)
    }

    /// Name and value of each line.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.0.split_inclusive(|byte| *byte == b'\n').filter_map(|line| {
            let line = line.strip_suffix(LINE_END)?;
            let name_end = line.iter().position(|byte| *byte == b':')?;
            Some((line.get(..name_end)?, line.get(name_end + SEPARATOR.len()..)?))
        })
    }

    /// The value of the first line of this name, in upper or lower case.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.iter();
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| value)
    }

    /// All lines in HTTP's spelling.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for HeaderLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeaderLines")
            .field(&String::from_utf8_lossy(&self.0))
            .finish()
    }
}

/// Adds a header line to a head.
pub fn push_line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, SEPARATOR, value, LINE_END] {
        head.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: [(&str, &[u8]); 4] = [
        ("X-A", b"1: 2"),
        ("x-empty", b""),
        ("x-a", b"second"),
        ("X-Bytes", b"\xff\t,"),
    ];

    #[test]
    fn lines_are_given_back_as_they_were_and_written_as_http_does() {
        let lines = HeaderLines::of(SENT.into_iter());
        assert!(lines.iter().eq(SENT.map(|(name, value)| (name.as_bytes(), value))));
        assert_eq!(
            lines.as_bytes(),
            b"X-A: 1: 2\r\nx-empty: \r\nx-a: second\r\nX-Bytes: \xff\t,\r\n"
        );
        assert_eq!(HeaderLines::of(std::iter::empty()).as_bytes(), b"");
    }

    #[test]
    fn a_name_is_found_in_whatever_case_and_the_first_line_of_it_counts() {
        let lines = HeaderLines::of(SENT.into_iter());
        assert_eq!(lines.value("x-A"), Some(b"1: 2".as_slice()));
        assert_eq!(lines.value("X-EMPTY"), Some(b"".as_slice()));
        assert_eq!(lines.value("x-b"), None);
    }
}
