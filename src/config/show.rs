//! `config show` and `config check`.

use std::borrow::Cow;
use std::fmt::Write;

use super::build::HAS_AGENT;
use super::key::Row;
use super::keys::{CONCURRENCY, EXEC_OUTPUT_LIMIT, GRACE_PERIOD, HEARTBEAT_INTERVAL, KEYS, QUEUES};
use super::sections::Config;
use super::values::Value;
use super::values::duration::{Bytes, Human};
use super::values::enums::Mode;
use super::values::exec::{ExecRoute, ExecRoutes};
use super::values::masked::masked;

/// Width of the value column, in characters; a longer value moves its source to the right.
const VALUE_WIDTH: usize = 24;

/// The name of the row for types that no route has.
const ANY_OTHER: &str = "(any other)";

/// A table of every key with its effective value and source. Holds no secret.
pub fn show(config: &Config) -> String {
    let mut table = String::new();
    let (effective, idle): (Vec<_>, Vec<_>) = KEYS
        .into_iter()
        .filter(|key| key.is_built_in())
        .partition(|key| key.scope.includes(config.mode));
    let (always, agent): (Vec<_>, Vec<_>) = effective.into_iter().partition(|key| key.scope.includes(Mode::None));
    rows(config, &always, &mut table);
    if !agent.is_empty() {
        table.push('\n');
        rows(config, &agent, &mut table);
    }
    if HAS_AGENT && config.mode == Mode::Exec {
        routes(&config.exec.routes, &mut table);
    }
    if !idle.is_empty() {
        // Writing into a String cannot fail.
        let _ = writeln!(table, "\nWithout effect in mode {}:", config.mode.show());
        rows(config, &idle, &mut table);
    }
    table
}

/// Adds the commands by the types of their jobs, in the order in which they are looked through.
fn routes(routes: &ExecRoutes, table: &mut String) {
    table.push_str("\nWhat is run for a job:\n");
    let width = routes.0.iter().map(|route| route.pattern.chars().count()).max();
    let width = width.unwrap_or_default().max(ANY_OTHER.len());
    for ExecRoute { pattern, command } in &routes.0 {
        let command: Vec<Cow<'_, str>> = command.iter().map(|word| masked(word)).collect();
        let _ = writeln!(table, "{pattern:width$}  {command:?}");
    }
    if !routes.0.iter().any(|route| route.pattern == "*") {
        let _ = writeln!(table, "{ANY_OTHER:width$}  COMMAND, if one is given");
    }
}

fn rows(config: &Config, keys: &[&Row], table: &mut String) {
    let key_width = KEYS.iter().map(|key| key.label().len()).max().unwrap_or_default();
    for key in keys {
        let (name, value, source) = (key.label(), effective(config, key), config.settings.source(key));
        let _ = writeln!(table, "{name:key_width$}  {value:VALUE_WIDTH$}  {source}");
    }
}

/// The value as text; without a set value, the one that follows from other keys.
fn effective(config: &Config, key: &Row) -> String {
    let (limits, worker) = (&config.shutdown.limits, &config.worker);
    let has_limit = limits.grace_period_is_explicit || limits.termination_grace_period.is_some();
    if *key == *GRACE_PERIOD && config.mode == Mode::None && !has_limit {
        return "none: waits for ever".to_owned();
    }
    if !HAS_AGENT {
        return config.settings.text(key);
    }
    let is_left_to_sdk =
        (*key == *QUEUES && !worker.queues_are_explicit) || (*key == *CONCURRENCY && !worker.concurrency_is_explicit);
    if config.mode == Mode::Gateway && is_left_to_sdk {
        return "unset: as the SDK asks".to_owned();
    }
    if *key == *HEARTBEAT_INTERVAL && !worker.heartbeat_interval_is_explicit {
        return format!("{}, or as registered", Human(worker.heartbeat_interval));
    }
    if *key == *EXEC_OUTPUT_LIMIT {
        return Bytes(config.exec.output_limit).to_string();
    }
    config.settings.text(key)
}

/// The report of `config check` about a valid configuration, each warning on a separate line.
pub fn check_report(config: &Config) -> String {
    format!("configuration is valid\n{}", warning_lines(config))
}

/// Each warning on a separate line.
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
    fn the_programs_of_mode_exec_are_shown_in_the_order_in_which_they_are_looked_through() {
        let file = "[exec.routes]\n\"a.*\" = [\"./a b\", \"-x\"]\na = [\"c\"]";
        let exec = |file: &str| show(&Given::agent().variable("OJS_MODE=exec").file(file).config());
        assert_says(
            &exec(file),
            &["a            [\"c\"]\na.*          [\"./a b\", \"-x\"]\n(any other)  COMMAND, if one is given"],
        );
        let all = exec("[exec.routes]\n\"*\" = [\"c\"]");
        assert!(!all.contains(ANY_OTHER), "{all}");
        let other_mode = show(&Given::agent().file(file).config());
        assert!(!other_mode.contains(ANY_OTHER), "{other_mode}");
    }

    #[test]
    fn what_belongs_to_another_mode_is_shown_as_without_effect() {
        for (mode, works, idle) in [
            ("socket", "worker.socket_users", "exec.input"),
            ("gateway", "gateway.listen", "exec.input"),
            ("exec", "exec.input", "gateway.listen"),
        ] {
            let shown = show(&Given::agent().variable(&format!("OJS_MODE={mode}")).config());
            let heading = format!("\nWithout effect in mode {mode}:\n");
            let (effective, without) = shown.split_once(&heading).unwrap();
            assert_says(effective, &[works, "worker.queues"]);
            assert_says(without, &[idle]);
        }
    }

    #[test]
    fn queues_and_concurrency_that_are_not_set_are_the_sdks_in_mode_gateway_alone() {
        let row = |given: Given, name: &str| -> String {
            let shown = show(&given.config());
            let row = shown.lines().find(|line| line.starts_with(&format!("{name} ")));
            row.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let gateway = || Given::agent().variable("OJS_MODE=gateway");
        for (name, default, variable, set) in [
            ("worker.queues", "default", "OJS_QUEUES=mail", "mail"),
            ("worker.concurrency", "10", "OJS_CONCURRENCY=7", "7"),
        ] {
            assert_eq!(row(gateway(), name), format!("{name} unset: as the SDK asks default"));
            assert_says(&row(gateway().variable(variable), name), &[&format!("{name} {set} ")]);
            assert_eq!(row(Given::agent(), name), format!("{name} {default} default"));
        }
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
