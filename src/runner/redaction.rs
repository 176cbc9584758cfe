//! Secrets of the jobs' environment are struck from reports about a job, because the backend stores
//! a failure and shows it to every user with access.

use std::collections::BTreeSet;
use std::ops::Range;

use ojs_values::small;

/// Values and lines of values shorter than this, in bytes, are left: `1` or `true` is no secret,
/// and would be everywhere.
const LEAST_SECRET_BYTES: usize = 6;

/// Stands for a secret.
const STRUCK: &str = "[redacted]";

/// The secrets of one environment. Their number is not bounded: the kernel bounds an environment,
/// and a search costs little more with thousands of them than with one.
#[derive(Debug, Default)]
pub struct Redaction {
    /// In order, each once.
    secrets: Vec<String>,
    /// Their first bytes.
    firsts: BTreeSet<u8>,
    /// The bytes of the longest one.
    longest: usize,
}

impl Redaction {
    /// The values of variables whose names match a pattern: a name, with a `*` at its beginning or
    /// end for any text. Letters' case does not matter.
    pub fn new<'a>(patterns: &[String], entries: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut secrets = Vec::new();
        for entry in entries {
            let entry = String::from_utf8_lossy(entry);
            let Some((name, value)) = entry.split_once('=') else {
                continue;
            };
            if !patterns.iter().any(|pattern| fits(pattern, name)) {
                continue;
            }
            // A key in several lines reaches the log line by line.
            let lines = value.lines().map(str::trim);
            let parts = lines.chain([value]).filter(|part| part.len() >= LEAST_SECRET_BYTES);
            secrets.extend(parts.map(str::to_owned));
        }
        small::sort_by(&mut secrets, |one, other| one < other);
        secrets.dedup();
        Self {
            firsts: small::gather(secrets.iter().filter_map(|secret| secret.bytes().next())),
            longest: secrets.iter().map(String::len).max().unwrap_or(0),
            secrets,
        }
    }

    /// Part of a text without secrets, and the end of that part: `part.end`, or behind a secret
    /// that goes on there. Secrets that begin before the part are struck as well. So is the
    /// beginning of one at the end of the text, if the text was broken off. A secret whose value is
    /// no UTF-8 is not found.
    pub fn strike(&self, text: &[u8], part: Range<usize>, is_broken_off: bool) -> (String, usize) {
        let places = self.places(text, is_broken_off);
        let mut struck = Vec::new();
        let mut shown = part.start;
        for place in places {
            if place.end > shown && place.start < part.end {
                struck.extend_from_slice(text.get(shown..place.start).unwrap_or_default());
                struck.extend_from_slice(STRUCK.as_bytes());
                shown = place.end;
            }
        }
        struck.extend_from_slice(text.get(shown..part.end).unwrap_or_default());
        (String::from_utf8_lossy(&struck).into_owned(), shown.max(part.end))
    }

    /// Most bytes of a secret that can stand on one side of a cut while the rest is on the other.
    pub fn most_of_a_half(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// The places of secrets, in order. Secrets that overlap are one place.
    fn places(&self, text: &[u8], is_broken_off: bool) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for (start, first) in text.iter().enumerate() {
            let rest = text.get(start..).unwrap_or_default();
            if !self.firsts.contains(first) || rest.len() < LEAST_SECRET_BYTES {
                continue;
            }
            let length = if is_broken_off && self.is_a_beginning(rest) {
                rest.len()
            } else {
                self.longest_at_the_start(rest)
            };
            let place = start..start + length;
            match places.last_mut() {
                _ if place.is_empty() => {}
                Some(last) if place.start < last.end => last.end = last.end.max(place.end),
                Some(_) | None => places.push(place),
            }
        }
        places
    }

    /// Whether a secret begins with this text.
    fn is_a_beginning(&self, text: &[u8]) -> bool {
        // Those that begin with it follow it in order.
        let next = self.secrets.partition_point(|secret| secret.as_bytes() < text);
        let next = self.secrets.get(next);
        next.is_some_and(|secret| secret.as_bytes().starts_with(text))
    }

    /// The length of the longest secret that this text begins with; 0 if there is none.
    fn longest_at_the_start(&self, text: &[u8]) -> usize {
        let mut begin = text;
        while begin.len() >= LEAST_SECRET_BYTES {
            let behind = self.secrets.partition_point(|secret| secret.as_bytes() <= begin);
            let Some(last) = behind.checked_sub(1).and_then(|index| self.secrets.get(index)) else {
                return 0;
            };
            // A secret that the text begins with stands before the text in order, and so does
            // everything else that begins with it. So this last one begins with it, too.
            let common = begin
                .iter()
                .zip(last.as_bytes())
                .take_while(|(one, other)| one == other)
                .count();
            if common == last.len() {
                return common;
            }
            begin = begin.get(..common).unwrap_or_default();
        }
        0
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_ascii_uppercase(), name.to_ascii_uppercase());
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(beginning)) => name.starts_with(beginning),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot look has failed"
)]
mod tests {
    use super::*;

    fn redaction(patterns: &[&str], entries: &[&str]) -> Redaction {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Redaction::new(&patterns, entries.iter().map(|entry| entry.as_bytes()))
    }

    fn struck(redaction: &Redaction, text: &str) -> String {
        redaction.strike(text.as_bytes(), 0..text.len(), false).0
    }

    #[test]
    fn values_of_named_variables_are_struck_and_others_are_not() {
        let entries = ["API_TOKEN=abcdef", "api_token=ghijkl", "TOKENS=mnopqr", "TOKEN"];
        let redaction = redaction(&["*_TOKEN"], &entries);
        assert_eq!(struck(&redaction, "a abcdef ghijkl"), "a [redacted] [redacted]");
        assert_eq!(struck(&redaction, "mnopqr"), "mnopqr");
    }

    #[test]
    fn a_star_stands_at_either_end() {
        for (pattern, fitting) in [
            ("*_KEY", "A_KEY"),
            ("AWS_*", "AWS_ID"),
            ("*SECRET*", "MY_SECRET_1"),
            ("PW", "PW"),
        ] {
            assert!(fits(pattern, fitting), "{pattern}");
            assert!(!fits(pattern, "OTHER"), "{pattern}");
        }
    }

    #[test]
    fn of_a_secret_within_another_nothing_is_left() {
        let redaction = redaction(&["*"], &["A=secret", "B=secret-and-more"]);
        assert_eq!(struck(&redaction, "secret-and-more, secret"), "[redacted], [redacted]");
    }

    #[test]
    fn of_secrets_that_overlap_nothing_is_left() {
        let two = redaction(&["*"], &["A=abcdefgh", "B=efghijkl"]);
        assert_eq!(struck(&two, "abcdefghijkl, efghijkl"), "[redacted], [redacted]");
        let itself = redaction(&["*"], &["A=/secret/"]);
        assert_eq!(
            struck(&itself, "/secret/secret/ and /secret/"),
            "[redacted] and [redacted]"
        );
    }

    #[test]
    fn a_secret_that_goes_beyond_the_shown_part_is_struck_too() {
        let redaction = redaction(&["*"], &["A=secret"]);
        let text = b"secret and secret";
        for (part, shown) in [
            (3..17, "[redacted] and [redacted]"),
            (6..17, " and [redacted]"),
            (12..17, "[redacted]"),
            (17..17, ""),
            (6..12, " and [redacted]"),
            (3..5, "[redacted]"),
        ] {
            assert_eq!(redaction.strike(text, part.clone(), false).0, shown, "{part:?}");
        }
    }

    #[test]
    fn a_piece_that_would_end_within_a_secret_ends_behind_it() {
        let redaction = redaction(&["*"], &["A=abcdef", "B=123456"]);
        let text = b"abcdef, 123456abcdef";
        for (cut, expected) in [(3, 6), (6, 6), (7, 7), (8, 8), (9, 14), (14, 14), (19, 20), (20, 20)] {
            let (shown, end) = redaction.strike(text, 0..cut, false);
            assert_eq!(end, expected, "at {cut}");
            assert_eq!(shown, struck(&redaction, std::str::from_utf8(&text[..end]).unwrap()));
        }
    }

    #[test]
    fn the_beginning_of_a_secret_at_the_end_of_a_text_is_struck_too() {
        let redaction = redaction(&["*"], &["A=secret-and-more", "B=ret-and-still"]);
        for (text, shown) in [
            ("a secret-an", "a [redacted]"),
            ("a secre", "a secre"),
            ("a secret-and-s", "a sec[redacted]"),
            ("a secret-an\n", "a secret-an\n"),
            ("secret-and-more, secret-and-mor", "[redacted], [redacted]"),
        ] {
            assert_eq!(
                redaction.strike(text.as_bytes(), 0..text.len(), true).0,
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn a_password_is_found_beside_a_key_of_a_thousand_lines() {
        let lines: Vec<String> = (0..1000).map(|number| format!("line {number:0>60}")).collect();
        let key = format!("A_KEY={}", lines.join("\n"));
        let redaction = redaction(&["*"], &[&key, "DB_PASSWORD=hunter2"]);
        assert_eq!(struck(&redaction, "with hunter2"), "with [redacted]");
        assert_eq!(
            struck(&redaction, &format!("{} {}", lines[0], lines[999])),
            "[redacted] [redacted]"
        );
    }

    #[test]
    fn a_shorter_secret_is_found_where_a_longer_one_with_its_beginning_is_not() {
        let redaction = redaction(&["*"], &["A=secret", "B=secret-abc", "C=secret-abc-def", "D=secret-b"]);
        for (text, shown) in [
            ("secret-abd", "[redacted]-abd"),
            ("secret-abc-dee", "[redacted]-dee"),
            ("secret-b", "[redacted]"),
            ("secreu", "secreu"),
            ("secret-zzz", "[redacted]-zzz"),
        ] {
            assert_eq!(struck(&redaction, text), shown, "{text}");
        }
    }

    #[test]
    fn each_line_of_a_secret_is_one_and_short_values_are_none() {
        let redaction = redaction(&["*_KEY"], &["A_KEY=-----BEGIN\nMIIEabc\nxyz", "B_KEY=true"]);
        assert_eq!(struck(&redaction, "MIIEabc"), "[redacted]");
        assert_eq!(struck(&redaction, "true xyz"), "true xyz");
    }
}
