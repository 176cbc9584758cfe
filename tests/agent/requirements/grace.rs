//! The grace period, the orchestrator's limit, and what operators are told about both.

use std::process::Command;
use std::time::Duration;

use super::course::{course, holding};
use super::{CUT_SHORT, LISTENS, SELDOM, STUCK};
use crate::backend::Endpoint;
use crate::stage::{Stage, never, root};
use crate::support::under_test;
use crate::support::wait::{Stopwatch, now};

const GRACE: &str = "OJS_SHUTDOWN_GRACE_PERIOD";
const LIMIT: &str = "OJS_TERMINATION_GRACE_PERIOD";
const KUBERNETES: (&str, &str) = ("KUBERNETES_SERVICE_HOST", "10.0.0.1");

/// The line about the end in the log of a start with these variables; an empty one is none.
fn announced(variables: &[(&str, &str)]) -> String {
    let stage = Stage::new();
    let mut init = stage.command(&["true"]).with_all(variables).start();
    init.ends_with(0);
    let log = init.log();
    let line = log.lines().find(|line| line.contains("after a stop signal"));
    let (_time, said) = line
        .and_then(|line| line.split_once(' '))
        .unwrap_or_else(|| panic!("{log}"));
    said.to_owned()
}

/// The time that the worker is told to have when SIGTERM comes, in milliseconds.
fn told(variables: &[(&str, &str)]) -> String {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(LISTENS).with_all(variables).start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.noted("terminate")
}

/// The output of `config check` or `config show` with these variables.
#[expect(clippy::disallowed_methods, reason = "the test is the outside world")]
fn config(what: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(under_test::init());
    command.args(["config", what]).env_clear().env("OJS_URL", "http://b");
    command.env("OJS_HEALTH_LISTEN", "off");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The row of a key in `config show`, its blanks folded.
fn shown(key: &str, variables: &[(&str, &str)]) -> String {
    let text = config("show", variables);
    let row = text.lines().find(|line| line.split_whitespace().next() == Some(key));
    row.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A page of the documentation, its line breaks folded.
fn page(name: &str) -> String {
    let text = std::fs::read_to_string(root().join(name)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn g_01_a_stuck_job_fails_when_the_configured_grace_period_is_over() {
    let stage = Stage::new();
    let mut init = holding(&stage, &[(GRACE, "700ms"), CUT_SHORT[1]]);
    let began = now();
    init.stops();
    let after = stage.settled_at("j1") - began;
    assert!(
        after >= Duration::from_millis(700) && after < Duration::from_secs(3),
        "{after:?}"
    );
    assert_eq!(stage.failure("j1")["details"]["grace_ms"], 700);
}

#[test]
fn g_02_without_a_setting_and_with_room_for_it_jobs_have_30_s() {
    assert_eq!(told(&[(LIMIT, "40s")]), "30000");
    let row = shown("shutdown.grace_period", &[]);
    assert_eq!(row, "shutdown.grace_period 30s default");
}

#[test]
fn g_03_without_a_setting_jobs_have_25_s_of_the_30_s_of_kubernetes() {
    assert_eq!(told(&[(LIMIT, ""), KUBERNETES]), "25000");
}

#[test]
fn g_04_30_s_and_25_s_are_one_default_and_what_a_limit_leaves_of_it() {
    for (limit, drain) in [("30s", "25 s"), ("34s", "29 s"), ("35s", "30 s"), ("90s", "30 s")] {
        let line = announced(&[(LIMIT, limit)]);
        assert!(line.contains(&format!("jobs get {drain}")), "{limit}: {line}");
        assert!(line.starts_with("ojs-init: info: "), "{line}");
    }
    // The settings of the website's example fit without being cut.
    let line = announced(&[("OJS_GRACE_PERIOD", "25s"), (LIMIT, "30s")]);
    assert_eq!(line, "ojs-init: info: after a stop signal jobs get 25 s");
}

#[test]
fn g_05_the_specifications_variable_is_read_with_every_spelling_of_a_duration() {
    for (spelled, grace) in [
        ("80s", "80"),
        ("80", "80"),
        ("1m20s", "80"),
        ("1.5s", "1.5"),
        ("90000ms", "90"),
    ] {
        let line = announced(&[(GRACE, spelled), (LIMIT, "200s")]);
        assert_eq!(
            line,
            format!("ojs-init: info: after a stop signal jobs get {grace} s"),
            "{spelled}"
        );
    }
}

#[test]
fn g_06_the_websites_variable_is_another_name_and_the_specifications_goes_before_it() {
    let row = |variables: &[(&str, &str)]| shown("shutdown.grace_period", variables);
    let website = ("OJS_GRACE_PERIOD", "25s");
    assert_eq!(
        row(&[website]),
        "shutdown.grace_period 25s environment OJS_GRACE_PERIOD"
    );
    let both = [website, (GRACE, "80s"), ("OJS_SHUTDOWN_TIMEOUT", "7")];
    assert_eq!(row(&both), format!("shutdown.grace_period 1m20s environment {GRACE}"));
    let report = config("check", &both);
    assert!(
        report.contains(&format!("warning: {GRACE} and OJS_GRACE_PERIOD differ")),
        "{report}"
    );
}

#[test]
fn g_07_how_long_a_grace_period_should_be_is_documented_and_one_below_any_such_is_a_warning() {
    let page = page("docs/grace-period.md");
    assert!(
        page.contains("grace period = the longest job + a heartbeat interval (5 s) + some reserve"),
        "{page}"
    );
    let warns = |variables: &[(&str, &str)]| {
        let report = config("check", variables);
        assert!(report.starts_with("configuration is valid\n"), "{report}");
        report.contains("the longest job, one heartbeat interval and some margin")
    };
    assert!(warns(&[(GRACE, "4s")]));
    assert!(!warns(&[(GRACE, "6s")]));
    assert!(!warns(&[(GRACE, "4s"), ("OJS_HEARTBEAT_INTERVAL", "1s")]));
    // No drain at all is a decision of its own.
    assert!(!warns(&[(GRACE, "0s")]));
    assert!(!warns(&[(GRACE, "4s"), ("OJS_MODE", "none")]));
}

#[test]
fn g_08_a_worker_that_neither_answers_nor_ends_is_gone_before_the_limit() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(STUCK)
        .with_all(&[
            (LIMIT, "3s"),
            ("OJS_STOP_MARGIN", "1500ms"),
            ("OJS_INTERRUPTED_EXIT", "9"),
        ])
        .start();
    init.notes_line("job j1");
    let began = Stopwatch::start();
    init.signal(libc::SIGTERM);
    init.ends_with(9);
    let (real, took) = (began.real(), began.elapsed());
    assert!(real > Duration::from_millis(1500), "the drain was too short: {real:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
    assert_eq!(stage.backend.records().pop().unwrap().endpoint, Endpoint::Deregister);
}

#[test]
fn g_09_ten_seconds_more_than_the_grace_period_are_recommended_and_assumed_where_nobody_says() {
    assert!(page("docs/grace-period.md").contains("limit = grace period + time of the preStop hook + 10 s"));
    let line = announced(&[(GRACE, "25s"), (LIMIT, "")]);
    assert!(
        line.contains("jobs get 25 s; assuming that the orchestrator allows 35 s"),
        "{line}"
    );
}

#[test]
fn g_10_the_10_s_of_docker_leave_5_s_and_a_start_says_what_to_set() {
    assert_eq!(told(&[(LIMIT, "")]), "5000");
    let line = announced(&[(LIMIT, "")]);
    assert!(
        line.starts_with("ojs-init: warn: ") && line.contains("allows 10 s") && line.contains(LIMIT),
        "{line}"
    );
    assert!(page("docs/grace-period.md").contains("`stop_grace_period: 60s`"));
}

#[test]
fn g_11_what_a_prestop_hook_used_after_its_sigtstp_is_gone_from_the_drain() {
    for (surroundings, least, most) in [(KUBERNETES, 1000, 4700), (("LANG", "C"), 5000, 5000)] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage
            .worker(LISTENS)
            .with_all(&[surroundings, SELDOM, (LIMIT, "10s")])
            .start();
        init.notes_line("job j1");
        let began = now();
        init.signal(libc::SIGTSTP);
        stage.states_become(&["running", "quiet"]);
        never("an end in quiet", || !init.is_running());
        init.signal(libc::SIGTERM);
        let left: u32 = init.noted("terminate").parse().unwrap();
        assert!((least..=most).contains(&left), "{surroundings:?}: {left} ms");
        assert_eq!(course(&stage, began)[0], "beat quiet [j1]");
    }
}

#[test]
fn g_12_what_a_prestop_hook_uses_without_a_word_is_set_and_gone_from_the_drain() {
    assert_eq!(told(&[(LIMIT, "30s"), ("OJS_PRESTOP_TIME", "5s")]), "20000");
    assert!(page("docs/grace-period.md").contains("`OJS_PRESTOP_TIME=5s`"));
}

#[test]
fn g_13_every_dockerfile_that_is_shown_uses_the_exec_form_and_a_shell_that_execs_is_gone() {
    let mut shown = 0;
    for name in [
        "README.md",
        "docs/pid-1.md",
        "clients/python/README.md",
        "clients/node/README.md",
    ] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("ENTRYPOINT ").or(line.strip_prefix("CMD ")) {
                assert!(command.starts_with(r#"[""#), "{name}: {line}");
                shown += 1;
            }
        }
    }
    assert!(shown >= 2);
    assert!(page("docs/pid-1.md").contains("exec form"));
    // A script in front of the worker that ends with exec.
    let stage = Stage::new();
    let raw = root().join("tests/support/raw_worker.py").display().to_string();
    let script = "note_signals(signal.SIGHUP); Link().ready(); rest()";
    let mut init = stage
        .command(&["sh", "-c", r#"exec python3 -S -E "$@""#, "sh", &raw, script])
        .start();
    init.notes_line("ready");
    init.signal(libc::SIGHUP);
    init.notes_line("signal 1");
    init.stops();
}
