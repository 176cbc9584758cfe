//! Secrets of the jobs' environment are struck from reports about a job, because the backend stores
//! a failure and shows it to every user with access.

use std::borrow::Cow;
use std::ops::Range;

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
    secrets: Vec<String>,
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
        Self { secrets }
    }

    /// The text without secrets.
    pub fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.strike_from(text, 0)
    }

    /// The text from `start` on, without secrets. One that begins before `start` is struck too.
    pub fn strike_from<'a>(&self, text: &'a str, start: usize) -> Cow<'a, str> {
        let places = self.places(text);
        let mut struck = String::new();
        let mut shown = start;
        for place in places.into_iter().filter(|place| place.end > start) {
            struck.push_str(text.get(shown..place.start).unwrap_or_default());
            struck.push_str(STRUCK);
            shown = place.end;
        }
        let rest = text.get(shown..).unwrap_or_default();
        if struck.is_empty() {
            return Cow::Borrowed(rest);
        }
        struck.push_str(rest);
        Cow::Owned(struck)
    }

    /// The places of secrets, in order. Secrets that overlap are one place.
    fn places(&self, text: &str) -> Vec<Range<usize>> {
        let of = |secret: &'_ String| -> Vec<Range<usize>> {
            let found = text.match_indices(secret.as_str());
            found.map(|(start, found)| start..start + found.len()).collect()
        };
        let mut found: Vec<Range<usize>> = self.secrets.iter().flat_map(of).collect();
        small::sort_by(&mut found, |one, other| one.start < other.start);
        let mut places: Vec<Range<usize>> = Vec::new();
        for next in found {
            match places.last_mut() {
                Some(last) if next.start < last.end => last.end = last.end.max(next.end),
                Some(_) | None => places.push(next),
            }
        }
        places
    }

    /// Most bytes of a secret that can stand on one side of a cut while the rest is on the other.
    pub fn most_of_a_half(&self) -> usize {
        let longest = self.secrets.first().map_or(0, String::len);
        longest.saturating_sub(1)
    }

    /// The place nearest to `cut` at which no secret is cut in two: `cut` itself, the beginning of
    /// a secret, or the end of one that stands at the very beginning. A secret whose value is no
    /// UTF-8 is not found.
    pub fn whole_at(&self, bytes: &[u8], mut cut: usize) -> usize {
        let half = |cut: usize| {
            self.secrets.iter().find_map(|secret| {
                let is_here = |start: &usize| bytes.get(*start..start + secret.len()) == Some(secret.as_bytes());
                let start = (cut.saturating_sub(secret.len() - 1)..cut).find(is_here)?;
                Some(start..start + secret.len())
            })
        };
        while let Some(secret) = half(cut) {
            if secret.start == 0 {
                return secret.end;
            }
            cut = secret.start;
        }
        cut
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
mod tests {
    use super::*;

    fn redaction(patterns: &[&str], entries: &[&str]) -> Redaction {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Redaction::new(&patterns, entries.iter().map(|entry| entry.as_bytes()))
    }

    #[test]
    fn values_of_named_variables_are_struck_and_others_are_not() {
        let entries = ["API_TOKEN=abcdef", "api_token=ghijkl", "TOKENS=mnopqr", "TOKEN"];
        let redaction = redaction(&["*_TOKEN"], &entries);
        assert_eq!(redaction.strike("a abcdef ghijkl"), "a [redacted] [redacted]");
        assert!(matches!(redaction.strike("mnopqr"), Cow::Borrowed("mnopqr")));
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
        assert_eq!(redaction.strike("secret-and-more, secret"), "[redacted], [redacted]");
    }

    #[test]
    fn of_secrets_that_overlap_nothing_is_left() {
        let redaction = redaction(&["*"], &["A=abcdefgh", "B=efghijkl"]);
        assert_eq!(redaction.strike("abcdefghijkl, efghijkl"), "[redacted], [redacted]");
    }

    #[test]
    fn a_secret_that_begins_before_the_shown_part_is_struck_too() {
        let redaction = redaction(&["*"], &["A=secret"]);
        let text = "secret and secret";
        for (start, shown) in [
            (3, "[redacted] and [redacted]"),
            (6, " and [redacted]"),
            (12, "[redacted]"),
            (17, ""),
        ] {
            assert_eq!(redaction.strike_from(text, start), shown, "from {start}");
        }
    }

    #[test]
    fn a_cut_goes_around_secrets() {
        let redaction = redaction(&["*"], &["A=abcdef", "B=123456"]);
        let text = b"abcdef, 123456abcdef";
        for (cut, expected) in [(3, 6), (6, 6), (7, 7), (8, 8), (9, 8), (14, 14), (19, 14), (20, 20)] {
            assert_eq!(redaction.whole_at(text, cut), expected, "at {cut}");
        }
    }

    #[test]
    fn each_line_of_a_secret_is_one_and_short_values_are_none() {
        let redaction = redaction(&["*_KEY"], &["A_KEY=-----BEGIN\nMIIEabc\nxyz", "B_KEY=true"]);
        assert_eq!(redaction.strike("MIIEabc"), "[redacted]");
        assert_eq!(redaction.strike("true xyz"), "true xyz");
    }
}
