//! Durations on the command line.

use std::time::Duration;

use jiff::SignedDuration;

/// Reads a duration: `250ms`, `25s`, `1m30s`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let parsed = || {
        text.parse::<SignedDuration>()
            .ok()
            .and_then(|parsed| Duration::try_from(parsed).ok())
    };
    let given = seconds
        .or_else(parsed)
        .filter(|given| *given >= Duration::from_millis(1));
    given.ok_or_else(|| "a duration is a number with a unit, such as 250ms, 25s or 1m30s, and at least 1ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        for (text, millis) in [
            ("250ms", 250),
            ("25s", 25_000),
            ("1m30s", 90_000),
            ("2", 2_000),
            ("0.5", 500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "0", "-1s", "soon", "1 fortnight", "NaN"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
