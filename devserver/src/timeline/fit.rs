//! Text that fits: nothing in it moves a cursor, breaks XML or is wider than it may be.

use unicode_width::UnicodeWidthChar;

/// Longest text from outside, in characters; the middle of a longer one is left out.
const MAX_CHARS: usize = 200;

/// The columns of a character.
fn columns(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// The columns of a clean text.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The text with a replacement character for every character that has no width (control characters,
/// marks that turn the direction of writing) or that XML cannot hold.
pub(super) fn clean(text: &str) -> String {
    let replaced = |c: char| {
        if columns(c) == 0 || matches!(c, '\u{fffe}' | '\u{ffff}') {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let count = text.chars().count();
    if count <= MAX_CHARS {
        return text.chars().map(replaced).collect();
    }
    let half = MAX_CHARS / 2;
    let head = text.chars().take(half - 1);
    let tail = text.chars().skip(count - half);
    head.chain(std::iter::once('…')).chain(tail).map(replaced).collect()
}

/// The beginning of a clean text, at most `most` columns wide; `…` marks the cut.
pub(super) fn head(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += columns(c);
        if used > most {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// The end of a clean text, at most this many columns wide: ids that were made one after another
/// differ at the end.
pub(super) fn tail(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut used = 1;
    for c in text.chars().rev() {
        used += columns(c);
        if used > most {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept.into_iter().rev().collect()
}

/// The text with spaces behind it, this many columns wide.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A number with its noun: 1 job, 2 jobs.
pub(super) fn count(number: usize, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {one}{plural}")
}

/// Words in lines of at most this many columns, with two spaces between them.
pub(super) fn wrap(words: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = head(word, columns);
        match lines.last_mut() {
            Some(line) if width(line) + 2 + width(&word) <= columns => {
                line.push_str("  ");
                line.push_str(&word);
            }
            Some(_) | None => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_breaks_xml_is_replaced() {
        assert_eq!(
            clean("a\u{1b}[2J\n\u{202e}b\u{0}\u{ffff}"),
            "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn a_text_is_cut_where_it_is_told_and_wide_letters_count_twice() {
        assert_eq!((head("abcdef", 4), tail("abcdef", 4)), ("abc…".into(), "…def".into()));
        assert_eq!((head("日本語", 4), tail("日本語", 4)), ("日…".into(), "…語".into()));
        assert_eq!((head("abcd", 4), tail("abcd", 4)), ("abcd".into(), "abcd".into()));
        assert_eq!(clean(&"x".repeat(1_000)).chars().count(), MAX_CHARS);
    }

    #[test]
    fn words_fill_the_lines() {
        let words = ["one", "two", "three", "a long one"].map(str::to_owned);
        assert_eq!(wrap(&words, 8), ["one  two", "three", "a long …"]);
    }
}
