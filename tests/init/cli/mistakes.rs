//! How a mistake is reported.

use super::Scene;

#[test]
fn a_mistake_is_reported_in_the_format_of_the_log_wherever_that_is_set() {
    let wrong = ["--concurrency", "many"];
    for (scene, options) in [
        (Scene::new().variable("OJS_LOG_FORMAT", "text"), &[][..]),
        (Scene::new(), &["--format", "text"]),
        (Scene::new(), &["--nonsense", "--format=text"]),
    ] {
        let (outcome, has_run) = scene.supervise(&[&wrong, options].concat());
        assert_eq!((outcome.status, has_run), (Some(2), false), "{options:?}");
        assert!(
            outcome.stderr.starts_with("ojs-init: "),
            "{options:?}: {}",
            outcome.stderr
        );
    }
    let scene = Scene::new();
    let file = scene.file("log.format = \"text\"\nlog.level = \"loud\"\n");
    let (outcome, _) = scene.supervise(&["--config", &file]);
    assert!(outcome.stderr.starts_with("ojs-init: "), "{}", outcome.stderr);
    let unknown = Scene::new().assert_refused(&["--format", "xml"], &["log.format", "xml", "json"]);
    assert!(!unknown.contains('\n'), "{unknown}");
    // A subcommand has a person before it.
    let asked = Scene::new().run(&["config", "check", "--concurrency", "many"]);
    assert!(asked.stderr.starts_with("ojs-init: "), "{}", asked.stderr);
}

#[test]
fn every_mistake_is_a_line_of_its_own_in_a_start_and_in_config_check() {
    let scene = Scene::new().variable("OJS_URL", "http://127.0.0.1:9");
    let file = scene.file("[worker]\ntimout = 1\nconcurrency = \"many\"\n[exec]\noutput = \"bla\"\n");
    let (started, has_run) = scene.supervise(&["--format=text", "--config", &file]);
    let checked = scene.run(&["config", "check", "--config", &file]);
    assert!(!has_run);
    assert_eq!((started.status, checked.status), (Some(2), Some(2)));
    for said in [&started.stderr, &checked.stderr] {
        for word in ["timout", "many", "bla"] {
            let is_its_line = |line: &str| line.starts_with("ojs-init: ") && line.contains(word);
            assert_eq!(
                said.lines().filter(|line| is_its_line(line)).count(),
                1,
                "{word}: {said}"
            );
        }
    }
    let json = scene.run(&["--config", &file, "--", "true"]).stderr;
    let records = json.lines().filter(|line| line.starts_with('{') && line.ends_with('}'));
    assert_eq!(records.count(), 3, "{json}");
}
