//! Timestamps of the backend (RFC 3339). Only their differences are used: the clocks of two
//! machines need not agree.

use std::time::Duration;

/// Length of `2026-01-31T23:59:59`, in bytes.
const SECONDS_LENGTH: usize = 19;

/// Most digits of a fraction of a second that count: nanoseconds.
const MOST_DIGITS: usize = 9;

/// The time since the start of 1970; `None`: it is no timestamp, or one before that.
pub(crate) fn since_1970(text: &str) -> Option<Duration> {
    let (whole, rest) = text.split_at_checked(SECONDS_LENGTH)?;
    let number = |range: std::ops::Range<usize>| whole.get(range)?.parse::<u64>().ok();
    let has_form = whole.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        10 => matches!(byte, b'T' | b't' | b' '),
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    let (month, day) = (number(5..7)?, number(8..10)?);
    if !has_form || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_since_1970(number(0..4)?, month, day)?;
    let seconds = days * 86_400 + number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?;
    let (nanos, zone) = fraction(rest);
    let east = offset(zone)?;
    let seconds = i64::try_from(seconds).ok()?.checked_sub(east)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// Days from the start of 1970 to this day, in the calendar that counts everywhere.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    /// Days before each month of a year that begins in March: leap days are its last ones.
    const BEFORE: [u64; 12] = [306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275];
    /// Days from the 1st of March of the year 0 to the start of 1970.
    const TO_1970: u64 = 719_468;
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let before = BEFORE.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + before + day - 1;
    days.checked_sub(TO_1970)
}

/// Nanoseconds of `.123456`, if the text begins like that, and the rest of the text.
fn fraction(text: &str) -> (u32, &str) {
    let Some(digits) = text.strip_prefix('.') else {
        return (0, text);
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = digits.split_at(length);
    let kept = digits.get(..length.min(MOST_DIGITS)).unwrap_or_default();
    (format!("{kept:0<9}").parse().unwrap_or_default(), rest)
}

/// Seconds that local time is ahead of UTC: `Z`, `+02:00`, `-0330`.
fn offset(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_at_checked(2)?;
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    Some(sign * (two_digits(hours)? * 3_600 + two_digits(minutes)? * 60))
}

fn two_digits(text: &str) -> Option<i64> {
    let has_form = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    has_form.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_every_usual_spelling_are_read() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2000-03-01T00:00:00Z", 951_868_800, 0),
            ("2024-02-29T12:30:15.5Z", 1_709_209_815, 500_000_000),
            ("2026-11-25T17:44:12.123456789Z", 1_795_628_652, 123_456_789),
            ("2026-11-25T19:44:12.1234567891+02:00", 1_795_628_652, 123_456_789),
            ("2026-11-25 14:14:12-0330", 1_795_628_652, 0),
        ] {
            assert_eq!(since_1970(text), Some(Duration::new(seconds, nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_timestamp_is_none() {
        for text in [
            "",
            "2026-11-25",
            "2026-11-25T17:44:12",
            "2026-13-25T17:44:12Z",
            "2026-11-00T17:44:12Z",
            "2026-11-25T17:44:12+2",
            "2026-11-25T17:44:12+02:5",
            "2026-11-25T17:44:12+99:65535",
            "2026-11-25T17:44:12++2:00",
            "1969-12-31T23:59:59Z",
            "+026-11-25T17:44:12Z",
            "2026-11-25T17:44:1\u{e9}Z",
        ] {
            assert_eq!(since_1970(text), None, "{text}");
        }
    }
}
