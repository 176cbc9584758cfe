//! Secrets of the jobs' environment are struck from reports about a job, because the backend stores
//! a failure and shows it to every user with access.

use std::ops::Range;

use memchr::memmem::Finder;
use ojs_values::small;

/// Values and lines of values shorter than this, in bytes, are left: `1` or `true` is no secret,
/// and would be everywhere.
const LEAST_SECRET_BYTES: usize = 6;

/// Most values that are looked for.
const MOST_SECRETS: usize = 256;

/// Stands for a secret.
const STRUCK: &str = "[redacted]";

/// The secrets of one environment.
#[derive(Debug, Default)]
pub struct Redaction {
    /// The longest first, so that none is hidden by a part of it.
    secrets: Vec<Finder<'static>>,
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
        small::sort_by(&mut secrets, |one, other| (other.len(), one) < (one.len(), other));
        secrets.dedup();
        secrets.truncate(MOST_SECRETS);
        let finder = |secret: &String| Finder::new(secret.as_bytes()).into_owned();
        Self {
            secrets: secrets.iter().map(finder).collect(),
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
        let longest = self.secrets.first().map_or(0, |secret| secret.needle().len());
        longest.saturating_sub(1)
    }

    /// The longest beginning of a secret that is the end of the text.
    fn begun_at_the_end(&self, text: &[u8]) -> Range<usize> {
        let begun = |secret: &Finder<'_>| {
            let mut lengths = (LEAST_SECRET_BYTES..secret.needle().len()).rev();
            lengths.find(|length| {
                secret
                    .needle()
                    .get(..*length)
                    .is_some_and(|begun| text.ends_with(begun))
            })
        };
        let length = self.secrets.iter().filter_map(begun).max();
        text.len() - length.unwrap_or_default()..text.len()
    }

    /// The places of secrets, in order. Secrets that overlap are one place.
    fn places(&self, text: &[u8], is_broken_off: bool) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        found.extend(Some(self.begun_at_the_end(text)).filter(|_| is_broken_off));
        for secret in &self.secrets {
            let mut own: Vec<Range<usize>> = Vec::new();
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| secret.find(rest)) {
                let start = from + at;
                add(&mut own, start..start + secret.needle().len());
                // A secret may overlap itself.
                from = start + 1;
            }
            found.extend(own);
        }
        small::sort_by(&mut found, |one, other| one.start < other.start);
        let mut places = Vec::new();
        for next in found {
            add(&mut places, next);
        }
        places
    }
}

/// Adds a place, unless it is empty.
fn add(places: &mut Vec<Range<usize>>, next: Range<usize>) {
    match places.last_mut() {
        Some(last) if next.start < last.end => last.end = last.end.max(next.end),
        Some(_) | None if next.is_empty() => {}
        Some(_) | None => places.push(next),
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
    fn each_line_of_a_secret_is_one_and_short_values_are_none() {
        let redaction = redaction(&["*_KEY"], &["A_KEY=-----BEGIN\nMIIEabc\nxyz", "B_KEY=true"]);
        assert_eq!(struck(&redaction, "MIIEabc"), "[redacted]");
        assert_eq!(struck(&redaction, "true xyz"), "true xyz");
    }
}
