//! `config show` and `config check`.

use std::fmt::Write;

use super::key::{Row, Scope};
use super::keys::{GRACE_PERIOD, HEARTBEAT_INTERVAL, KEYS};
use super::sections::Config;
use super::values::duration::Human;
use super::values::enums::Mode;

/// Width of the value column, in characters; a longer value moves its source to the right.
const VALUE_WIDTH: usize = 24;

/// A table of every key with its effective value and where that came from. Holds no secret.
#[must_use]
pub fn show(config: &Config) -> String {
    let mut table = String::new();
    let (always, agent): (Vec<_>, Vec<_>) = KEYS.into_iter().partition(|key| key.scope == Scope::Always);
    rows(config, &always, &mut table);
    table.push_str(match config.mode {
        Mode::None => "\nWithout effect in mode none:\n",
        Mode::Socket | Mode::Gateway | Mode::Exec => "\n",
    });
    rows(config, &agent, &mut table);
    table
}

fn rows(config: &Config, keys: &[&Row], table: &mut String) {
    let key_width = KEYS.iter().map(|key| key.label().len()).max().unwrap_or_default();
    for key in keys {
        let (name, value, source) = (key.label(), effective(config, key), config.settings.source(key));
        // Writing into a String cannot fail.
        let _ = writeln!(table, "{name:key_width$}  {value:VALUE_WIDTH$}  {source}");
    }
}

/// The value as text; where nobody set one, what follows from the other keys.
fn effective(config: &Config, key: &Row) -> String {
    let (limits, worker) = (&config.shutdown.limits, &config.worker);
    let has_limit = limits.grace_period_is_explicit || limits.termination_grace_period.is_some();
    if *key == *GRACE_PERIOD && config.mode == Mode::None && !has_limit {
        return "none: waits for ever".to_owned();
    }
    if *key == *HEARTBEAT_INTERVAL && !worker.heartbeat_interval_is_explicit {
        return format!("{}, or as registered", Human(worker.heartbeat_interval));
    }
    config.settings.text(key)
}

/// What `config check` says about a configuration that holds, each warning on a line of its own.
#[must_use]
pub fn check_report(config: &Config) -> String {
    format!("configuration is valid\n{}", warning_lines(config))
}

/// Each warning on a line of its own.
#[must_use]
pub fn warning_lines(config: &Config) -> String {
    let lines = config.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::HEADERS;
    use crate::config::test_support::{Given, assert_says};

    #[test]
    fn no_secret_is_in_anything_that_can_be_printed() {
        let given = Given::agent()
            .variable("OJS_AUTH_TOKEN=hunter2")
            .variable("OJS_INIT_HEADERS=X-Api-Key: hunter2\nX-Tenant: hunter2");
        let config = given.config();
        let shown = show(&config);
        assert_says(
            &shown,
            &["(set, not shown)", "X-Api-Key: (not shown); X-Tenant: (not shown)"],
        );
        for text in [shown, check_report(&config), format!("{config:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        let wrong = [
            "OJS_AUTH_TOKEN=hunter2 x",
            "OJS_INIT_HEADERS=hunter2",
            "OJS_URL=http://hunter2@b",
        ];
        for variable in wrong {
            assert!(!Given::default().variable(variable).error().contains("hunter2"));
        }
        assert!(!format!("{:?}", Given::agent().flag(&HEADERS, "Authorization: hunter2").flags).contains("hunter2"));
    }

    #[test]
    fn show_has_a_row_for_every_key_and_says_what_means_nothing_without_the_agent() {
        let shown = show(&Given::no_agent().config());
        for key in KEYS {
            assert_eq!(
                shown
                    .lines()
                    .filter(|line| line.split(' ').next() == Some(key.label()))
                    .count(),
                1,
                "{}",
                key.label()
            );
        }
        let (always, agent) = shown.split_once("Without effect in mode none").unwrap();
        assert_says(always, &["none: waits for ever"]);
        assert_says(agent, &["worker.queues"]);
        assert!(shown.lines().all(|line| line.chars().count() <= 90), "{shown}");
    }
}
