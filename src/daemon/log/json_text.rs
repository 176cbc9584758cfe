//! JSON of a log record: written piece by piece at the end of a line, with a bound for each text.

use std::fmt::Write;

use ojs_values::text::CUT;
use ojs_wire::text::{escape, is_terminal_control};

/// A JSON object at the end of a record, while it gets its members.
#[derive(Debug)]
pub(super) struct Members<'l> {
    line: &'l mut String,
    /// How long the record was before it, and with its brace.
    before: usize,
    start: usize,
}

impl<'l> Members<'l> {
    pub(super) fn begin(name: &str, line: &'l mut String) -> Self {
        let before = line.len();
        line.push_str(",\"");
        line.push_str(name);
        line.push_str("\":{");
        let start = line.len();
        Self { line, before, start }
    }

    /// Bytes of its members.
    pub(super) fn length(&self) -> usize {
        self.line.len() - self.start
    }

    /// Back to so many bytes of members.
    pub(super) fn cut_to(&mut self, length: usize) {
        self.line.truncate(self.start + length);
    }

    fn name(&mut self, name: &str) {
        self.line.push_str(if self.length() == 0 { "\"" } else { ",\"" });
        self.line.push_str(name);
        self.line.push_str("\":");
    }

    pub(super) fn text(&mut self, name: &str, text: &str, most: usize) {
        self.name(name);
        quote(self.line, text, most);
    }

    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        push_number(self.line, number);
    }

    /// An empty one is left out.
    pub(super) fn end(self) {
        if self.length() == 0 {
            self.line.truncate(self.before);
        } else {
            self.line.push('}');
        }
    }
}

pub(super) fn push_number(line: &mut String, number: u64) {
    let _ = write!(line, "{number}");
}

/// Adds a JSON string of at most so many bytes, quotes included.
pub(super) fn quote(to: &mut String, text: &str, most: usize) {
    let start = to.len();
    let most = most.saturating_sub(1 + CUT.len_utf8());
    to.push('"');
    if text.len() < most && text.bytes().all(is_plain) {
        to.push_str(text);
        to.push('"');
        return;
    }
    for c in text.chars() {
        let before = to.len();
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            '\n' => to.push_str("\\n"),
            '\t' => to.push_str("\\t"),
            '\r' => to.push_str("\\r"),
            // Those above 0x7f too, because a terminal that shows the record may obey them.
            c if is_terminal_control(c) => escape(to, c),
            c => to.push(c),
        }
        if to.len() - start > most {
            to.truncate(before);
            to.push(CUT);
            break;
        }
    }
    to.push('"');
}

/// Whether this byte stands for itself in a JSON string and on a terminal. Ids and names consist of
/// such ones.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}
