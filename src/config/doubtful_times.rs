//! Times that are possible, but hardly what an operator meant.

use std::time::Duration;

use super::build::HAS_AGENT;
use super::keys::{CANCEL_GRACE, PRESTOP_TIME, STOP_MARGIN, TERM_DELAY};
use super::sections::Config;
use super::settings::Setting;
use super::values::duration::{Human, parse};
use super::values::enums::Mode;
use ojs_lifecycle::api::{LEAST_LIMIT, LimitSource, ShutdownTimes};

/// The end of each warning about a limit that is a guess.
const SET_THE_LIMIT: &str = "set shutdown.termination_grace_period (OJS_TERMINATION_GRACE_PERIOD)";

/// A complete sentence about each doubtful time. `times` follow from the configuration and from the
/// environment of the process, because a default limit depends on that.
pub fn doubtful_times(config: &Config, times: &ShutdownTimes) -> Vec<String> {
    let mut doubts: Vec<_> = config.settings.iter().map(|set| milliseconds(config, set)).collect();
    let limits = &config.shutdown.limits;
    let is_unlimited = limits.termination_grace_period.is_none() && !limits.grace_period_is_explicit;
    if config.mode == Mode::None && is_unlimited {
        return doubts.into_iter().flatten().collect();
    }
    doubts.extend([no_limit_left(config, times), margin(config, times)]);
    if HAS_AGENT && config.mode != Mode::None {
        doubts.extend([cancel_grace(config, times), term_delay(config, times)]);
    }
    doubts.into_iter().flatten().collect()
}

/// A bare number above an hour of seconds that looks like milliseconds: whole thousands.
fn milliseconds(config: &Config, set: &Setting) -> Option<String> {
    let is_time = set.key.notation.placeholder.starts_with("TIME");
    let time = Some(set.value.shown()).filter(|_| is_time && set.is_bare)?;
    let seconds = parse(&time)?.as_secs();
    (seconds > 3_600 && seconds.is_multiple_of(1_000)).then(|| {
        format!(
            "{}: a bare number is seconds; if milliseconds are meant, write {seconds}ms.",
            config.settings.describe(set.key),
        )
    })
}

/// A preStop hook that lasts longer than the assumed limit of an orchestrator. If the limit is
/// configured, such a hook is an error instead.
fn no_limit_left(config: &Config, times: &ShutdownTimes) -> Option<String> {
    let used = config.shutdown.limits.prestop_time;
    let left = times
        .limit
        .filter(|left| !used.is_zero() && *left < LEAST_LIMIT && times.source != LimitSource::Configured)?;
    Some(format!(
        "{} leaves {} of a limit that is not known: {SET_THE_LIMIT}.",
        config.settings.describe(&PRESTOP_TIME),
        Human(left),
    ))
}

/// A stop margin that is too small to end in time, or more than half of a limit that was guessed.
fn margin(config: &Config, times: &ShutdownTimes) -> Option<String> {
    let set = config.shutdown.limits.stop_margin?;
    let (margin, used) = (config.settings.describe(&STOP_MARGIN), times.stop_margin);
    if used > set {
        return Some(format!(
            "{margin} is raised to {}: the stop phase is over {} before the limit, and needs as much for itself.",
            Human(used),
            Human(used / 2),
        ));
    }
    (used < set).then(|| {
        format!(
            "{margin} is cut to {}, half of a limit that is a guess: {SET_THE_LIMIT}.",
            Human(used),
        )
    })
}

/// A cancel grace that the stop margin cuts.
fn cancel_grace(config: &Config, times: &ShutdownTimes) -> Option<String> {
    let (set, used) = (
        config.shutdown.cancel_grace,
        times.cancel_grace(config.shutdown.cancel_grace),
    );
    (used < set && config.settings.is_set(&CANCEL_GRACE)).then(|| {
        format!(
            "{} is cut to {}: the stop margin of {} has more to do than to wait for handlers; raise shutdown.stop_margin \
             (OJS_STOP_MARGIN).",
            config.settings.describe(&CANCEL_GRACE),
            Human(to_milliseconds(used)),
            Human(times.stop_margin),
        )
    })
}

/// A delay that is as long as the drain: the worker gets its signal only when the delay or the
/// drain ends.
fn term_delay(config: &Config, times: &ShutdownTimes) -> Option<String> {
    let delay = config.shutdown.term_delay;
    let drain = times.drain(Duration::ZERO);
    (!delay.is_zero() && delay >= drain).then(|| {
        format!(
            "{} leaves nothing of the drain of {}: the worker hears of the end when that is over.",
            config.settings.describe(&TERM_DELAY),
            Human(drain),
        )
    })
}

/// The duration without parts below a millisecond, because parts of a margin are no round numbers.
fn to_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::TERMINATION_GRACE_PERIOD;
    use crate::config::test_support::{Given, assert_says};
    use ojs_lifecycle::api::Surroundings;

    fn doubts(given: &Given, surroundings: Surroundings) -> Vec<String> {
        let config = given.config();
        let times = ShutdownTimes::of_agent(&config.shutdown.limits, surroundings);
        doubtful_times(&config, &times)
    }

    fn within(given: Given, limit: &str) -> Given {
        given.flag(&TERMINATION_GRACE_PERIOD, limit)
    }

    #[test]
    fn a_margin_that_is_raised_is_a_warning_with_both_numbers() {
        for (limit, set, used, slack) in [
            ("30s", "0s", "1s", "500ms"),
            ("8s", "200ms", "1s", "500ms"),
            ("3s", "50ms", "600ms", "300ms"),
            ("1s", "0s", "500ms", "250ms"),
        ] {
            for given in [Given::agent(), Given::no_agent()] {
                let given = within(given, limit).flag(&STOP_MARGIN, set);
                let doubts = doubts(&given, Surroundings::None);
                assert_eq!(doubts.len(), 1, "{doubts:?}");
                assert_says(
                    &doubts[0],
                    &[
                        &format!("stop_margin = {set}"),
                        &format!("raised to {used}"),
                        &format!("{slack} before the limit"),
                    ],
                );
            }
        }
    }

    #[test]
    fn a_margin_of_more_than_half_of_a_guess_is_cut_and_that_is_a_warning() {
        let given = Given::agent().flag(&STOP_MARGIN, "8s");
        assert_says(
            &doubts(&given, Surroundings::Container)[0],
            &[
                "stop_margin = 8s",
                "cut to 5s",
                "a guess",
                "OJS_TERMINATION_GRACE_PERIOD",
            ],
        );
        assert_eq!(doubts(&given, Surroundings::Kubernetes), [""; 0]);
    }

    #[test]
    fn a_cancel_grace_that_the_margin_cuts_is_a_warning_with_both_numbers_when_somebody_set_it() {
        let given = |grace| within(Given::agent(), "30s").flag(&CANCEL_GRACE, grace);
        assert_says(
            &doubts(&given("4s"), Surroundings::None)[0],
            &["cancel_grace = 4s", "cut to 2s250ms", "margin of 5s", "OJS_STOP_MARGIN"],
        );
        assert_eq!(doubts(&given("2s"), Surroundings::None), [""; 0]);
        assert_eq!(doubts(&given("1s"), Surroundings::None), [""; 0]);
        assert_eq!(doubts(&within(Given::agent(), "3s"), Surroundings::None), [""; 0]);
        let small = within(Given::agent(), "3s").flag(&CANCEL_GRACE, "1s");
        assert_says(
            &doubts(&small, Surroundings::None)[0],
            &["cancel_grace = 1s", "cut to 266ms", "margin of 1s500ms"],
        );
    }

    #[test]
    fn a_delay_that_leaves_nothing_of_the_drain_is_a_warning() {
        let given = |delay| within(Given::agent(), "30s").flag(&TERM_DELAY, delay);
        assert_says(
            &doubts(&given("28s"), Surroundings::None)[0],
            &["term_delay = 28s", "the drain of 25s"],
        );
        assert_eq!(doubts(&given("25s"), Surroundings::None).len(), 1);
        assert_eq!(doubts(&given("24s"), Surroundings::None), [""; 0]);
        let guessed = Given::agent().flag(&TERM_DELAY, "5s");
        assert_eq!(doubts(&guessed, Surroundings::Container).len(), 1);
        assert_eq!(doubts(&guessed, Surroundings::Kubernetes), [""; 0]);
    }

    #[test]
    fn a_hook_that_takes_longer_than_the_guess_is_a_warning() {
        let given = Given::agent().flag(&PRESTOP_TIME, "15s");
        assert_says(
            &doubts(&given, Surroundings::Container)[0],
            &["prestop_time = 15s", "leaves 0s", "OJS_TERMINATION_GRACE_PERIOD"],
        );
        assert_eq!(doubts(&given, Surroundings::Kubernetes), [""; 0]);
    }

    #[test]
    fn a_bare_number_that_looks_like_milliseconds_is_a_warning() {
        for (name, value, shown) in [
            (
                "OJS_TERMINATION_GRACE_PERIOD",
                "30000",
                "termination_grace_period = 8h20m",
            ),
            ("OJS_EXIT_WHEN_IDLE", "5000", "exit_when_idle = 1h23m20s"),
        ] {
            let doubts_of = |text: &str| {
                doubts(
                    &Given::agent().variable(&format!("{name}={text}")),
                    Surroundings::Kubernetes,
                )
            };
            let said = doubts_of(value).join("\n");
            assert_says(
                &said,
                &[shown, "a bare number is seconds", &format!("write {value}ms.")],
            );
            for meant in ["7200", "1000", "30000s", "30000ms"] {
                assert_eq!(doubts_of(meant), [""; 0], "{name} {meant}");
            }
        }
    }

    #[test]
    fn nothing_is_doubted_where_nothing_is_set() {
        for surroundings in [Surroundings::None, Surroundings::Container, Surroundings::Kubernetes] {
            assert_eq!(doubts(&Given::agent(), surroundings), [""; 0]);
            let unlimited = Given::no_agent().flag(&STOP_MARGIN, "0s");
            assert_eq!(doubts(&unlimited, surroundings), [""; 0]);
        }
    }
}
