//! Similar names, other names, and the warning about each.

use proptest::prelude::*;

use super::*;
use crate::config::keys::URL;
use crate::config::load;
use crate::config::test_support::{Given, assert_says};
use crate::config::{Environment, Flags};

/// The warnings about one variable with this name, beside a configuration that is good.
fn said(name: &str) -> Vec<String> {
    Given::agent().variable(&format!("{name}=hunter2")).config().warnings
}

#[test]
fn a_misspelt_variable_is_a_warning_with_the_right_name_and_without_its_value() {
    let cases = [
        ("OJS_CONCURENCY", "OJS_CONCURRENCY"),
        ("OJS_SHUTDOWN_GRACE_PERIODE", "OJS_SHUTDOWN_GRACE_PERIOD"),
        ("OJS_TERMINATION_GRACE", "OJS_TERMINATION_GRACE_PERIOD"),
        ("OJS_SHUTDOWN_GRACE", "OJS_SHUTDOWN_GRACE_PERIOD"),
        ("OJS_GRACE", "OJS_GRACE_PERIOD"),
        ("OJS_URI", "OJS_URL"),
        ("OJS_QUEUSE", "OJS_QUEUES"),
        ("OJS_LOGLEVEL", "OJS_LOG_LEVEL"),
        ("OJS_POLL_INTERVAL_MS", "OJS_POLL_INTERVAL"),
        ("OJS_CA_FILE", "OJS_TLS_CA_FILE"),
        ("OJS_BACKEND_CA_FILE", "OJS_TLS_CA_FILE"),
        ("OJS_WORKER_QUEUES", "OJS_QUEUES"),
        ("OJS_HEADERS", "OJS_INIT_HEADERS"),
        ("OJS_INIT_REWRTE", "OJS_INIT_REWRITE"),
        ("OJS_INIT_QUEUES", "OJS_QUEUES"),
        ("OJS_INIT_TELL_WORKER", "OJS_GATEWAY_TELL_WORKER"),
    ];
    for (wrong, right) in cases {
        let expected = format!("{wrong:?} is not a variable of ojs-init; did you mean {right}?");
        assert_eq!(said(wrong), [expected]);
    }
}

#[test]
fn the_name_of_a_table_as_a_variable_is_a_warning_that_names_the_file() {
    for wrong in ["OJS_EXEC_ROUTES", "OJS_EXEC_EXIT", "OJS_INIT_EXEC_RLIMITS"] {
        let said = said(wrong);
        assert_says(&said[0], &[wrong, "is a table", "only the configuration file"]);
    }
}

#[test]
fn behind_our_own_prefix_every_unknown_name_is_a_warning() {
    assert_says(&said("OJS_INIT_XYZ")[0], &["OJS_INIT_XYZ", "run --help"]);
}

#[test]
fn names_of_the_ecosystem_of_later_versions_and_of_services_are_left_alone() {
    let expected = EXPECTED.map(|(name, _)| name);
    for name in OF_OTHERS.into_iter().filter(|name| !expected.contains(name)) {
        assert_eq!(said(name), [""; 0], "{name}");
    }
    for service in ["OJS", "OJS_SERVER", "OJS_BACKEND", "OJS_INIT", "OJS_QUEUE", "OJS_REDIS"] {
        for end in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_8080_TCP",
            "PORT_8080_TCP_PROTO",
            "PORT_8080_TCP_PORT",
            "PORT_8080_TCP_ADDR",
        ] {
            let name = format!("{service}_{end}");
            assert_eq!(said(&name), [""; 0], "{name}");
        }
    }
    assert_eq!(said("OJS_MY_OWN_THING"), [""; 0]);
}

#[test]
fn of_a_name_that_only_sdks_read_the_warning_says_what_to_use_unless_that_is_set() {
    let [said] = said("OJS_WORKER_CONCURRENCY").try_into().unwrap();
    assert_says(
        &said,
        &[
            "OJS_WORKER_CONCURRENCY",
            "worker.concurrency = 10 (default)",
            "set OJS_CONCURRENCY",
        ],
    );
    let both = Given::agent()
        .variable("OJS_WORKER_CONCURRENCY=3")
        .variable("OJS_CONCURRENCY=3");
    assert_eq!(both.config().warnings, [""; 0]);
    let plain = Given::no_agent().variable("OJS_WORKER_CONCURRENCY=3");
    assert_eq!(plain.config().warnings, [""; 0]);
}

#[test]
fn without_the_agent_only_what_a_plain_init_reads_can_be_misspelt() {
    let said = |name: &str| Given::no_agent().variable(&format!("{name}=1")).config().warnings;
    assert_eq!(said("OJS_CONCURENCY"), [""; 0]);
    assert_says(&said("OJS_TERMINATION_GRACE")[0], &["OJS_TERMINATION_GRACE_PERIOD"]);
}

#[test]
fn an_error_about_what_is_missing_names_the_variable_that_may_have_been_meant() {
    let error = Given::default().variable("OJS_BACKEDN_URL=http://hunter2").error();
    assert_says(
        &error,
        &[
            "backend.url is not set",
            "OJS_BACKEDN_URL",
            "did you mean OJS_BACKEND_URL?",
        ],
    );
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn a_thousand_misspelt_variables_are_a_bounded_number_of_lines_and_the_same_one_twice_is_one() {
    let mut given = Given::agent();
    for number in 0..1000 {
        given = given.variable(&format!("OJS_INIT_X{number}=1"));
    }
    let warnings = given.config().warnings;
    assert_eq!(warnings.len(), MOST_NAMED + 1);
    assert_says(warnings.last().unwrap(), &["more variables"]);
    let twice = Given::agent().variable("OJS_QUEUSE=a").variable("OJS_QUEUSE=b");
    assert_eq!(twice.config().warnings.len(), 1);
    let long = format!("OJS_INIT_{}=1", "x".repeat(100_000));
    assert_eq!(Given::agent().variable(&long).config().warnings, [""; 0]);
}

/// The names with the prefix of ojs-init: those of OpenTelemetry are for other programs as well.
fn our_names() -> Vec<&'static str> {
    let names = KEYS.iter().flat_map(|key| key.env).copied();
    names.filter(|name| name.starts_with(ECOSYSTEM)).collect()
}

proptest! {
    #[test]
    fn one_slip_in_a_name_of_ours_finds_a_name_of_ours(
        key in prop::sample::select(our_names()),
        place in any::<prop::sample::Index>(),
        letter in "[A-Z]",
        slip in 0..3,
    ) {
        let bare = bare_name(key);
        let (before, rest) = bare.split_at(place.index(bare.len()));
        let slipped = match slip {
            0 => format!("{before}{letter}{rest}"),
            1 => format!("{before}{}", &rest[1..]),
            _ => format!("{before}{letter}{}", &rest[1..]),
        };
        let slipped = format!("{}{slipped}", key.strip_suffix(bare).unwrap());
        let is_a_name = KEYS.iter().flat_map(|key| key.env).any(|known| *known == slipped);
        prop_assume!(!is_a_name && !OF_OTHERS.contains(&slipped.as_str()));
        let found = meant(&slipped, KEYS.into_iter());
        prop_assert!(found.is_some(), "{slipped}");
    }

    #[test]
    fn no_environment_makes_reading_it_panic_or_shows_a_value(
        entries in prop::collection::vec(("(OJS_|OJS_INIT_)[A-Z_]{0,24}|[ -~]{0,12}", "hunter[0-9]{1,3}"), 0..12),
    ) {
        let entries: Vec<Vec<u8>> = entries.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
        let environment = Environment::from_entries(entries.iter().map(Vec::as_slice));
        let mut flags = Flags::default();
        flags.push(&URL, vec!["http://backend".into()]);
        if let Ok(config) = load(&flags, &environment) {
            prop_assert!(config.warnings.iter().all(|warning| !warning.contains("hunter")));
        }
    }
}
