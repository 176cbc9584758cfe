//! `config check`: what it says is what a start says.

use super::*;

#[test]
fn config_check_says_valid_and_every_warning() {
    let scene = Scene::new().variable("OJS_INIT_REWRTE", "TERM:QUIT");
    let options = [
        "--no-agent",
        "--grace-period=30",
        "--termination-grace-period=30",
        "--concurrency=3",
    ];
    let printed = scene.run(&[&["config", "check"], &options[..]].concat()).printed();
    assert_eq!(printed.lines().next(), Some("configuration is valid"));
    let warnings = ["OJS_INIT_REWRITE", "is cut to 25s", "worker.concurrency"];
    assert_eq!(
        printed.lines().filter(|line| line.starts_with("warning: ")).count(),
        warnings.len(),
        "{printed}"
    );
    assert_says(&printed, &warnings);
    assert_eq!(scene.run(&[&["config"], &options[..]].concat()).printed(), printed);
}

#[test]
fn a_misspelt_variable_is_a_warning_at_the_start_and_in_config_check() {
    let scene = Scene::new().variable("OJS_TERMINATION_GRACE", "hunter2");
    let words = [
        "\"OJS_TERMINATION_GRACE\"",
        "did you mean OJS_TERMINATION_GRACE_PERIOD?",
    ];
    let checked = scene.run(&["config", "check", "--no-agent"]).printed();
    let started = scene.run(&["--no-agent", "--format=text", "--", "true"]);
    assert_eq!(started.status, Some(0));
    for text in [checked, started.stderr] {
        assert_says(&text, &words);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn config_check_takes_the_agents_modes_and_refuses_what_is_wrong() {
    let scene = Scene::new().variable("OJS_URL", "https://backend/prefix");
    assert_eq!(scene.run(&["config", "check"]).printed(), "configuration is valid\n");
    let outcome = scene.run(&["config", "check", "--concurrency=0"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""));
    assert_says(&outcome.stderr, &["worker.concurrency"]);
}
