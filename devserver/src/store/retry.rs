//! Retries of a failed job, and its fate without a retry (retry specification 2 to 9).

use std::time::Duration;

use jiff::fmt::temporal::SpanParser;

use crate::json::Object;
use crate::refusal::Refusal;

/// The fate of a job whose attempts are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhaustion {
    /// The job is discarded.
    Discard,
    /// The job is discarded and kept among the dead letters.
    DeadLetter,
}

/// How the delay grows from retry to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackoffStrategy {
    Constant,
    Linear,
    Exponential,
    Polynomial,
}

/// The retry policy of a job; a missing field has the specification's default.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    /// The fate of the job when they are used up.
    pub on_exhaustion: Exhaustion,
    initial_interval: Duration,
    backoff_coefficient: f64,
    max_interval: Duration,
    jitter: bool,
    strategy: BackoffStrategy,
    non_retryable_errors: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            on_exhaustion: Exhaustion::Discard,
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            max_interval: Duration::from_secs(300),
            jitter: true,
            strategy: BackoffStrategy::Exponential,
            non_retryable_errors: Vec::new(),
        }
    }
}

/// The consequence of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The job gets another attempt.
    Retry,
    /// The job gets no other attempt.
    Over(Exhaustion),
}

/// The facts of a failure that decide about another attempt.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailedAttempt<'a> {
    /// The `code` of the error.
    pub code: Option<&'a str>,
    /// The `type` of the error.
    pub kind: Option<&'a str>,
    /// The `retryable` of the error.
    pub retryable: Option<bool>,
}

impl RetryPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    ///
    /// A field is wrong; the message names it.
    pub fn read(given: &Object) -> Result<Self, Refusal> {
        let mut policy = Self::default();
        if let Some(most) = given.get("max_attempts", "a whole number of attempts, 0 or more")? {
            policy.max_attempts = most;
        }
        if let Some(interval) = interval(given, "retry.", "initial_interval")? {
            policy.initial_interval = interval;
        }
        if let Some(interval) = interval(given, "retry.", "max_interval")? {
            policy.max_interval = interval;
        }
        if let Some(backoff_coefficient) = given.get("backoff_coefficient", "a number, 1.0 or more")? {
            policy.backoff_coefficient = backoff_coefficient;
        }
        if !policy.backoff_coefficient.is_finite() || policy.backoff_coefficient < 1.0 {
            return Err(Refusal::field("retry.backoff_coefficient", "a number, 1.0 or more"));
        }
        if let Some(jitter) = given.get("jitter", "true or false")? {
            policy.jitter = jitter;
        }
        if let Some(types) = given.get("non_retryable_errors", "an array of error types")? {
            policy.non_retryable_errors = types;
        }
        policy.strategy = strategy(given)?;
        policy.on_exhaustion = match given.text("on_exhaustion")?.as_deref() {
            None | Some("discard") => Exhaustion::Discard,
            Some("dead_letter") => Exhaustion::DeadLetter,
            Some(_) => return Err(Refusal::field("retry.on_exhaustion", "\"discard\" or \"dead_letter\"")),
        };
        Ok(policy)
    }

    /// The consequence of a failure, with this many attempts used up.
    pub fn verdict(&self, used: u32, failed: FailedAttempt<'_>) -> Verdict {
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
        self.non_retryable_errors
            .iter()
            .any(|entry| match entry.strip_suffix('*') {
                Some(prefix) if prefix.ends_with('.') => kind.starts_with(prefix),
                Some(_) | None => entry == kind,
            })
    }

    /// How long to wait before a retry, the first of which is number 1. `random` is between 0 and
    /// 1.
    pub fn delay(&self, retry: u32, random: f64) -> Duration {
        let number = f64::from(retry.max(1));
        let factor = match self.strategy {
            BackoffStrategy::Constant => 1.0,
            BackoffStrategy::Linear => number,
            BackoffStrategy::Exponential => self.backoff_coefficient.powf(number - 1.0),
            BackoffStrategy::Polynomial => number.powf(self.backoff_coefficient),
        };
        let longest = self.max_interval.as_secs_f64();
        let capped = (self.initial_interval.as_secs_f64() * factor).min(longest);
        let jittered = if self.jitter { capped * (0.5 + random) } else { capped };
        Duration::try_from_secs_f64(jittered.min(longest)).unwrap_or(self.max_interval)
    }
}

/// The extension field that names a strategy; without it the growth is exponential.
fn strategy(given: &Object) -> Result<BackoffStrategy, Refusal> {
    for name in ["backoff_strategy", "backoff_type"] {
        return match given.text(name)?.as_deref() {
            None => continue,
            Some("none" | "constant") => Ok(BackoffStrategy::Constant),
            Some("linear") => Ok(BackoffStrategy::Linear),
            Some("exponential") => Ok(BackoffStrategy::Exponential),
            Some("polynomial") => Ok(BackoffStrategy::Polynomial),
            Some(_) => Err(Refusal::field(
                &format!("retry.{name}"),
                "none, constant, linear, exponential or polynomial",
            )),
        };
    }
    Ok(BackoffStrategy::Exponential)
}

/// An interval as ISO 8601 text, or as milliseconds under the name that the HTTP binding's examples
/// use.
pub(super) fn interval(given: &Object, within: &str, name: &str) -> Result<Option<Duration>, Refusal> {
    if let Some(millis) = given.get(&format!("{name}_ms"), "milliseconds")? {
        return Ok(Some(Duration::from_millis(millis)));
    }
    let Some(text) = given.text(name)? else { return Ok(None) };
    let wrong = || {
        Refusal::field(
            &format!("{within}{name}"),
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
            policy(r#"{"initial_interval":"PT0.5S"}"#).initial_interval,
            Duration::from_millis(500)
        );
        assert_eq!(
            policy(r#"{"initial_interval":"PT1M30S"}"#).initial_interval,
            Duration::from_secs(90)
        );
        assert_eq!(
            policy(r#"{"initial_interval_ms":250}"#).initial_interval,
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
        assert_eq!(policy.verdict(1, FailedAttempt::default()), Verdict::Retry);
        assert_eq!(
            policy.verdict(2, FailedAttempt::default()),
            Verdict::Over(Exhaustion::Discard)
        );
    }

    #[test]
    fn a_listed_error_is_not_retried() {
        let policy = policy(r#"{"non_retryable_errors":["auth.*","Bad"],"on_exhaustion":"dead_letter"}"#);
        let of = |kind| FailedAttempt {
            kind: Some(kind),
            ..FailedAttempt::default()
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
        let of = |code| FailedAttempt {
            code: Some(code),
            ..FailedAttempt::default()
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
        let failed = FailedAttempt {
            code: Some("shutdown"),
            kind: Some("ShutdownError"),
            retryable: Some(true),
        };
        assert_eq!(policy("{}").verdict(1, failed), Verdict::Retry);
    }
}
