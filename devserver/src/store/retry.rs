//! When a failed job is tried again, and what becomes of it when it is not (retry specification 2 to 9).

use std::time::Duration;

use jiff::fmt::temporal::SpanParser;

use crate::json::Object;
use crate::refusal::Refusal;

/// What is done with a job whose attempts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhaustion {
    /// It is discarded.
    Discard,
    /// It is discarded and kept among the dead letters.
    DeadLetter,
}

/// How the delay grows from retry to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Constant,
    Linear,
    Exponential,
    Polynomial,
}

/// The retry policy of a job; what it does not say is the specification's default.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    /// What is done when they are used up.
    pub on_exhaustion: Exhaustion,
    initial: Duration,
    coefficient: f64,
    longest: Duration,
    jitter: bool,
    growth: Growth,
    never_for: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            on_exhaustion: Exhaustion::Discard,
            initial: Duration::from_secs(1),
            coefficient: 2.0,
            longest: Duration::from_secs(300),
            jitter: true,
            growth: Growth::Exponential,
            never_for: Vec::new(),
        }
    }
}

/// What is to be done with a job that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt.
    Retry,
    /// None.
    Over(Exhaustion),
}

/// A failure, as far as it decides about another attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failed<'a> {
    /// `error.code`.
    pub code: Option<&'a str>,
    /// `error.type`.
    pub kind: Option<&'a str>,
    /// `error.retryable`.
    pub retryable: Option<bool>,
}

impl RetryPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    ///
    /// Something in it is not what it should be; the message names it.
    pub fn read(given: &Object) -> Result<Self, Refusal> {
        let mut policy = Self::default();
        if let Some(most) = given.get("max_attempts", "a whole number of attempts, 0 or more")? {
            policy.max_attempts = most;
        }
        if let Some(interval) = interval(given, "initial_interval")? {
            policy.initial = interval;
        }
        if let Some(interval) = interval(given, "max_interval")? {
            policy.longest = interval;
        }
        if let Some(coefficient) = given.get("backoff_coefficient", "a number, 1.0 or more")? {
            policy.coefficient = coefficient;
        }
        if !policy.coefficient.is_finite() || policy.coefficient < 1.0 {
            return Err(Refusal::field("retry.backoff_coefficient", "a number, 1.0 or more"));
        }
        if let Some(jitter) = given.get("jitter", "true or false")? {
            policy.jitter = jitter;
        }
        if let Some(types) = given.get("non_retryable_errors", "an array of error types")? {
            policy.never_for = types;
        }
        policy.growth = growth(given)?;
        policy.on_exhaustion = match given.text("on_exhaustion")?.as_deref() {
            None | Some("discard") => Exhaustion::Discard,
            Some("dead_letter") => Exhaustion::DeadLetter,
            Some(_) => return Err(Refusal::field("retry.on_exhaustion", "\"discard\" or \"dead_letter\"")),
        };
        Ok(policy)
    }

    /// What is to be done after a failure, with this many attempts used up.
    pub fn verdict(&self, used: u32, failed: Failed<'_>) -> Verdict {
        match failed.code {
            Some("DISCARD" | "FAIL") => return Verdict::Over(Exhaustion::Discard),
            Some("DEAD_LETTER") => return Verdict::Over(Exhaustion::DeadLetter),
            Some(_) | None => {}
        }
        let is_final =
            failed.retryable == Some(false) || failed.kind.or(failed.code).is_some_and(|it| self.excludes(it));
        if is_final || used >= self.max_attempts {
            Verdict::Over(self.on_exhaustion)
        } else {
            Verdict::Retry
        }
    }

    fn excludes(&self, kind: &str) -> bool {
        self.never_for.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('.') => kind.starts_with(prefix),
            Some(_) | None => entry == kind,
        })
    }

    /// How long to wait before a retry, the first of which is number 1. `random` is between 0 and 1.
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let number = f64::from(retry.max(1));
        let factor = match self.growth {
            Growth::Constant => 1.0,
            Growth::Linear => number,
            Growth::Exponential => self.coefficient.powf(number - 1.0),
            Growth::Polynomial => number.powf(self.coefficient),
        };
        let longest = self.longest.as_secs_f64();
        let capped = (self.initial.as_secs_f64() * factor).min(longest);
        let jittered = if self.jitter { capped * (0.5 + random) } else { capped };
        Duration::try_from_secs_f64(jittered.min(longest)).unwrap_or(self.longest)
    }
}

/// The extension field that names a strategy; without it the growth is exponential.
fn growth(given: &Object) -> Result<Growth, Refusal> {
    for name in ["backoff_strategy", "backoff_type"] {
        return match given.text(name)?.as_deref() {
            None => continue,
            Some("none" | "constant") => Ok(Growth::Constant),
            Some("linear") => Ok(Growth::Linear),
            Some("exponential") => Ok(Growth::Exponential),
            Some("polynomial") => Ok(Growth::Polynomial),
            Some(_) => Err(Refusal::field(
                &format!("retry.{name}"),
                "none, constant, linear, exponential or polynomial",
            )),
        };
    }
    Ok(Growth::Exponential)
}

/// An interval as ISO 8601 text, or as milliseconds under the name that the HTTP binding's examples use.
fn interval(given: &Object, name: &str) -> Result<Option<Duration>, Refusal> {
    if let Some(millis) = given.get(&format!("{name}_ms"), "milliseconds")? {
        return Ok(Some(Duration::from_millis(millis)));
    }
    let Some(text) = given.text(name)? else { return Ok(None) };
    let wrong = || {
        Refusal::field(
            &format!("retry.{name}"),
            "an ISO 8601 duration of hours, minutes and seconds, such as PT1S",
        )
    };
    let parsed = SpanParser::new().parse_duration(&text).map_err(|_| wrong())?;
    Duration::try_from(parsed).map(Some).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> RetryPolicy {
        RetryPolicy::read(&Object::read(text.as_bytes()).unwrap()).unwrap()
    }

    fn refused(text: &str) -> String {
        RetryPolicy::read(&Object::read(text.as_bytes()).unwrap())
            .unwrap_err()
            .message
    }

    fn delays(text: &str) -> Vec<f64> {
        let policy = policy(text);
        (1..=4).map(|retry| policy.delay(retry, 0.5).as_secs_f64()).collect()
    }

    #[test]
    fn each_strategy_grows_as_the_specification_says() {
        let with = |rest: &str| delays(&format!(r#"{{"initial_interval":"PT2S","jitter":false{rest}}}"#));
        assert_eq!(with(""), [2.0, 4.0, 8.0, 16.0]);
        assert_eq!(with(r#","backoff_strategy":"linear""#), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(with(r#","backoff_strategy":"constant""#), [2.0; 4]);
        assert_eq!(with(r#","backoff_strategy":"none""#), [2.0; 4]);
        assert_eq!(
            with(r#","backoff_strategy":"polynomial","backoff_coefficient":2"#),
            [2.0, 8.0, 18.0, 32.0]
        );
        assert_eq!(with(r#","max_interval":"PT5S""#), [2.0, 4.0, 5.0, 5.0]);
    }

    #[test]
    fn jitter_stays_between_half_and_one_and_a_half_and_below_the_cap() {
        let policy = policy(r#"{"initial_interval":"PT10S","max_interval":"PT12S"}"#);
        assert_eq!(policy.delay(1, 0.0).as_secs_f64(), 5.0);
        assert_eq!(policy.delay(1, 0.999_999).as_secs_f64(), 12.0);
    }

    #[test]
    fn intervals_are_iso_8601_or_milliseconds() {
        assert_eq!(
            policy(r#"{"initial_interval":"PT0.5S"}"#).initial,
            Duration::from_millis(500)
        );
        assert_eq!(
            policy(r#"{"initial_interval":"PT1M30S"}"#).initial,
            Duration::from_secs(90)
        );
        assert_eq!(
            policy(r#"{"initial_interval_ms":250}"#).initial,
            Duration::from_millis(250)
        );
        for wrong in ["1s", "5 minutes", "P1M", "-PT1S", ""] {
            let message = refused(&format!(r#"{{"initial_interval":"{wrong}"}}"#));
            assert!(
                message.contains("retry.initial_interval") && message.contains("PT1S"),
                "{wrong}: {message}"
            );
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_by_name() {
        assert!(refused(r#"{"backoff_coefficient":0.5}"#).contains("retry.backoff_coefficient"));
        assert!(refused(r#"{"on_exhaustion":"explode"}"#).contains("dead_letter"));
        assert!(refused(r#"{"max_attempts":-1}"#).contains("max_attempts"));
        assert!(refused(r#"{"backoff_strategy":"fibonacci"}"#).contains("linear"));
    }

    #[test]
    fn the_last_attempt_is_the_last() {
        let policy = policy(r#"{"max_attempts":2}"#);
        assert_eq!(policy.verdict(1, Failed::default()), Verdict::Retry);
        assert_eq!(policy.verdict(2, Failed::default()), Verdict::Over(Exhaustion::Discard));
    }

    #[test]
    fn a_listed_error_is_not_retried() {
        let policy = policy(r#"{"non_retryable_errors":["auth.*","Bad"],"on_exhaustion":"dead_letter"}"#);
        let of = |kind| Failed {
            kind: Some(kind),
            ..Failed::default()
        };
        for kind in ["auth.expired", "Bad"] {
            assert_eq!(
                policy.verdict(1, of(kind)),
                Verdict::Over(Exhaustion::DeadLetter),
                "{kind}"
            );
        }
        for kind in ["auth", "external.auth.x", "Badly"] {
            assert_eq!(policy.verdict(1, of(kind)), Verdict::Retry, "{kind}");
        }
    }

    #[test]
    fn the_handler_s_code_overrules_the_policy() {
        let policy = policy(r#"{"max_attempts":9}"#);
        let of = |code| Failed {
            code: Some(code),
            ..Failed::default()
        };
        assert_eq!(
            policy.verdict(1, of("DEAD_LETTER")),
            Verdict::Over(Exhaustion::DeadLetter)
        );
        assert_eq!(policy.verdict(1, of("DISCARD")), Verdict::Over(Exhaustion::Discard));
        assert_eq!(policy.verdict(1, of("RETRY")), Verdict::Retry);
    }

    #[test]
    fn a_shutdown_error_is_retried_b_09() {
        let failed = Failed {
            code: Some("shutdown"),
            kind: Some("ShutdownError"),
            retryable: Some(true),
        };
        assert_eq!(policy("{}").verdict(1, failed), Verdict::Retry);
    }
}
