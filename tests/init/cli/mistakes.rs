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
