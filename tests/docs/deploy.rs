//! The examples of examples/deploy: their variables and times agree with ojs-init and with each
//! other, and systemd accepts the unit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ojs_init::config::keys::KEYS;

use crate::support::under_test;

const UNIT: &str = include_str!("../../examples/deploy/ojs-worker.service");
const NOMAD: &str = include_str!("../../examples/deploy/ojs-worker.nomad.hcl");
const ECS: &str = include_str!("../../examples/deploy/ecs-task-definition.json");

/// Least distance of the limit from the grace period, in seconds: the stop margin and some spare
/// time.
const ABOVE_GRACE: u64 = 10;

/// The greatest exposure that `systemd-analyze security` may find, times ten: 2.0 of 10.
const MAX_EXPOSURE: &str = "20";

/// The variables of an example, with the orchestrator's limit in seconds.
fn examples() -> [(&'static str, BTreeMap<String, String>, u64); 3] {
    let of_unit = UNIT.lines().filter_map(|line| line.strip_prefix("Environment="));
    let of_unit = of_unit.filter_map(|pair| pair.split_once('='));
    let of_nomad = NOMAD.lines().map(str::trim).filter(|line| line.starts_with("OJS_"));
    let of_nomad = of_nomad.filter_map(|line| line.split_once('='));
    let of_ecs = ECS.split("{\"name\": \"").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("\", \"value\": \"")?;
        Some((name, rest.split_once('"')?.0))
    });
    let collect = |pairs: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
        pairs
            .map(|(name, value)| (name.trim().to_owned(), value.trim().trim_matches('"').to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let number = |text: &str, before: &str| -> u64 {
        let rest = text.split_once(before).unwrap().1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    };
    [
        ("systemd", collect(&mut { of_unit }), number(UNIT, "\nTimeoutStopSec=")),
        (
            "Nomad",
            collect(&mut { of_nomad }),
            number(NOMAD, "\n      kill_timeout = \""),
        ),
        ("ECS", collect(&mut { of_ecs }), number(ECS, "\"stopTimeout\": ")),
    ]
}

fn seconds(value: &str) -> u64 {
    value.strip_suffix('s').unwrap().parse().unwrap()
}

#[test]
fn each_variable_is_one_of_ojs_init_and_the_limit_is_that_of_the_orchestrator() {
    for (name, variables, limit) in examples() {
        assert!(variables.len() >= 3, "{name}: {variables:?}");
        for variable in variables.keys() {
            let is_known = KEYS.into_iter().any(|key| key.env.contains(&variable.as_str()));
            assert!(is_known, "{name}: {variable} is no variable of ojs-init");
        }
        assert_eq!(seconds(&variables["OJS_TERMINATION_GRACE_PERIOD"]), limit, "{name}");
        let grace = seconds(&variables["OJS_SHUTDOWN_GRACE_PERIOD"]);
        assert!(grace + ABOVE_GRACE <= limit, "{name}: {grace} s of {limit} s");
    }
}

#[test]
fn ojs_init_accepts_the_variables_of_each_example_without_a_warning() {
    let place = place("deploy-variables");
    fs::write(place.join("token"), "secret").unwrap();
    for (name, variables, _limit) in examples() {
        let mut check = Command::new(under_test::init());
        check.args(["config", "check"]).env_clear().envs(&variables);
        // `config check` listens for a moment, and the port of the example may be in use here.
        check.env("OJS_HEALTH_LISTEN", "127.0.0.1:0");
        for (variable, here) in [("OJS_AUTH_TOKEN_FILE", "token"), ("OJS_RUNTIME_DIR", "")] {
            if variables.contains_key(variable) {
                check.env(variable, place.join(here));
            }
        }
        let output = check.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "configuration is valid\n", "{name}");
    }
}

/// The unit with programs that are here: `verify` looks for them.
#[test]
fn systemd_accepts_the_unit_and_finds_it_confined() {
    let place = place("deploy-unit");
    let file = place.join("ojs-worker.service");
    let init = fs::canonicalize(under_test::init()).unwrap();
    let unit = UNIT.replace("/usr/local/bin/ojs-init", &init.to_string_lossy());
    assert!(unit != UNIT);
    fs::write(&file, unit).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut analyze = Command::new("systemd-analyze");
        let run = analyze
            .args(arguments)
            .arg(&file)
            .env("SYSTEMD_LOG_LEVEL", "info")
            .output();
        let output = run.expect("systemd-analyze: run scripts/setup.sh test");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), said.into_owned())
    };
    let (is_good, said) = analyze(&["verify"]);
    assert!(is_good && !said.contains("ojs-worker.service:"), "{said}");
    let (is_good, said) = analyze(&["security", "--offline=true", "--threshold", MAX_EXPOSURE]);
    assert!(is_good, "{said}");
}

fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    place
}
