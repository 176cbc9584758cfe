//! Durations and sizes as people write them.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Form, Notation, Problem, Value, only, within};

/// Units of a duration in milliseconds, longest first: the order in which they may follow each
/// other.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of a size in bytes.
const BYTES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `250ms`, `25s`, `1m30s`, `1.5s`; a bare number is seconds. `None` if it has another form,
/// is finer than a millisecond, or does not fit.
pub fn parse(text: &str) -> Option<Duration> {
    let last_is_number = text.ends_with(|last: char| last.is_ascii_digit());
    if last_is_number {
        return decimal(text, 1_000).map(Duration::from_millis);
    }
    let mut total: u64 = 0;
    let mut rest = text;
    let mut allowed = &UNITS[..];
    while !rest.is_empty() {
        let number = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (digits, tail) = rest.split_at(number);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let position = allowed.iter().position(|(name, _)| *name == unit)?;
        total = total.checked_add(decimal(digits, allowed[position].1)?)?;
        allowed = &allowed[position + 1..];
        rest = tail;
    }
    (!text.is_empty()).then(|| Duration::from_millis(total))
}

/// Reads bytes: `4MiB`, `64KiB`, `512B`, `4096`.
pub fn parse_size(text: &str) -> Option<u64> {
    let unit = BYTES
        .iter()
        .find_map(|(name, bytes)| text.strip_suffix(name).map(|number| (number, *bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    whole(number)?.checked_mul(bytes)
}

/// A whole number in plain digits: no sign, no blank.
pub fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// `number` times `scale`, if the result is whole.
fn decimal(number: &str, scale: u64) -> Option<u64> {
    let (before, after) = number.split_once('.').unwrap_or((number, "0"));
    if after.is_empty() || after.len() > 9 {
        return None;
    }
    let parts = 10_u64.pow(u32::try_from(after.len()).ok()?);
    let fraction = whole(after)?.checked_mul(scale)?;
    let exact = fraction.is_multiple_of(parts);
    exact.then_some(whole(before)?.checked_mul(scale)?.checked_add(fraction / parts)?)
}

/// A duration as [`parse`] reads it.
pub struct Human(pub Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, scale) in UNITS {
            if rest >= scale {
                write!(f, "{}{name}", rest / scale)?;
                rest %= scale;
            }
        }
        Ok(())
    }
}

impl Value for Duration {
    type Limits = RangeInclusive<Self>;
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "TIME",
        "30s",
        "250ms, 25s, 1m30s, 1h, a bare number is seconds",
    );

    fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
        within(parse(only(texts)).ok_or("is not a duration")?, range)
    }

    fn show(&self) -> String {
        Human(*self).to_string()
    }

    fn limited(range: &Self::Limits) -> String {
        format!("; from {} to {}", Human(*range.start()), Human(*range.end()))
    }
}

/// A time limit; `None` means never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOrOff(pub Option<Duration>);

impl Value for TimeOrOff {
    type Limits = RangeInclusive<Duration>;
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "TIME|off",
        "30s",
        "off, or a time: 250ms, 25s, 1m30s, 1h, a bare number is seconds",
    );

    fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
        let text = only(texts);
        if text == "off" {
            return Ok(Self(None));
        }
        let time = parse(text).ok_or("is neither off nor a duration")?;
        within(time, range).map(|time| Self(Some(time)))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "off".to_owned(), |time| time.show())
    }

    fn limited(range: &Self::Limits) -> String {
        Duration::limited(range)
    }
}

/// A size. It shows itself as [`parse_size`] reads it, in the largest unit that divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub struct Bytes(pub u64);

impl Value for Bytes {
    type Limits = RangeInclusive<Self>;
    const NOTATION: Notation = Notation::new(
        Form::StringOrInteger,
        "SIZE",
        "8KiB",
        "4MiB, 64KiB, a bare number is bytes",
    );

    fn read(texts: &[&str], range: &Self::Limits) -> Result<Self, Problem> {
        within(Self(parse_size(only(texts)).ok_or("is not a size")?), range)
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn limited(range: &Self::Limits) -> String {
        format!("; from {} to {}", range.start(), range.end())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BYTES
            .iter()
            .find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        let (name, bytes) = unit.unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_with_every_unit_compound_and_with_a_fraction() {
        let cases = [
            ("250ms", 250),
            ("25s", 25_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("30", 30_000),
            ("0", 0),
            ("1m30s", 90_000),
            ("1h2m3s4ms", 3_723_004),
            ("1.5s", 1_500),
            ("1.5", 1_500),
            ("0.25h", 900_000),
            ("007s", 7_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        let cases = [
            "",
            "s",
            "-5s",
            "+5s",
            "5 s",
            " 5s",
            "5s ",
            "5S",
            "5sec",
            "5d",
            "30s1m",
            "1s1s",
            "1m30",
            ".5s",
            "5.s",
            "1.2.3s",
            "1e3",
            "0.0001s",
            "99999999999999999999s",
            "5124095576030431h",
            "٣s",
            "1µs",
        ];
        for text in cases {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_that_may_be_off_is_off_or_within_its_limits() {
        let range = Duration::from_millis(10)..=Duration::from_secs(60);
        for (text, shown) in [("off", "off"), ("10ms", "10ms"), ("30", "30s"), ("1m", "1m")] {
            assert_eq!(TimeOrOff::read(&[text], &range).unwrap().show(), shown);
        }
        for text in ["", "OFF", "false", "0", "9ms", "61s", "-1s"] {
            assert!(TimeOrOff::read(&[text], &range).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_read_with_binary_units() {
        assert_eq!(parse_size("4MiB"), Some(4 << 20));
        assert_eq!(parse_size("64KiB"), Some(64 << 10));
        assert_eq!(parse_size("4096"), Some(4096));
        for text in ["", "MiB", "4MB", "4 MiB", "-1", "4.5MiB", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_is_read_back_as_it_was_shown(millis in 0_u64..700_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&Human(duration).to_string()), Some(duration));
        }

        #[test]
        fn a_size_is_read_back_as_it_was_shown(bytes in 0_u64..(1 << 40)) {
            prop_assert_eq!(parse_size(&Bytes(bytes).to_string()), Some(bytes));
        }

        #[test]
        fn no_text_makes_the_readers_panic(text in ".*") {
            let _ = (parse(&text), parse_size(&text));
        }
    }
}
