//! The handlers of `docker/examples` and of docs/exec.md, as they are, without containers.

use serde_json::{Value, json};

use super::{enqueue, handler, program};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage, root};
use crate::support::wait::wait_until;

/// A file of an example.
fn example(name: &str) -> String {
    root().join("docker/examples").join(name).display().to_string()
}

fn result(stage: &Stage, job: &str) -> Value {
    stage.wait_for_outcomes();
    match stage.outcomes(job).as_slice() {
        [Outcome::Acked(Some(result))] => result.clone(),
        other => panic!("{job}: {other:?}"),
    }
}

#[test]
fn the_shell_script_sends_its_mail_and_knows_what_is_no_address() {
    let stage = Stage::new();
    enqueue(&stage, "good", "email.send", &json!(["a@b.c"]), "");
    enqueue(&stage, "bad", "email.send", &json!(["nobody"]), "");
    let mut init = program(&stage, &[&example("shell/handler.sh")])
        .with("OJS_EXEC_INPUT", "args")
        .start();
    assert_eq!(result(&stage, "good"), json!({"sent_to": "a@b.c"}));
    let error = stage.failure("bad");
    assert_eq!(error["retryable"], false, "{error}");
    assert!(
        error["details"]["stderr"]
            .as_str()
            .unwrap()
            .contains("nobody is no address")
    );
    init.stops();
}

#[test]
fn python_without_a_library_builds_its_report() {
    let stage = Stage::new();
    enqueue(&stage, "good", "report.build", &json!(["sales", 3]), "");
    enqueue(&stage, "bad", "report.build", &json!(["sales", "many"]), "");
    let mut init = program(&stage, &["python3", &example("python-exec/handler.py")]).start();
    assert_eq!(result(&stage, "good"), json!({"report": "sales", "rows": 3}));
    assert_eq!(stage.failure("bad")["retryable"], false);
    init.stops();
}

#[test]
fn the_long_job_says_how_far_it_is_and_goes_on_where_it_was_stopped() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "video.convert", &json!(["cat.mp4", 400]), "");
    let mut toml = std::fs::read_to_string(example("media/ojs-init.toml")).unwrap();
    toml = toml.replace("/app/convert.sh", &example("media/convert.sh"));
    let path = stage.at("ojs-init.toml");
    std::fs::write(&path, toml).unwrap();
    let first = || {
        program(&stage, &[])
            .with("OJS_INIT_CONFIG", &path)
            .with("OJS_MODE", "")
            .with("OJS_GRACE_PERIOD", "0s")
            .with("OJS_CANCEL_GRACE", "2s")
    };
    let mut init = first().start();
    let has_begun = || stage.count(Endpoint::Checkpoint) >= 2;
    assert!(wait_until(PATIENCE, has_begun), "{}", init.story());
    init.signal(libc::SIGTERM);
    init.ends_with(0);
    assert_eq!(stage.outcomes("j1"), [Outcome::Requeued], "{}", init.log());
    let saved = stage.backend.records_of(Endpoint::Checkpoint).pop().unwrap().json();
    let done = saved["state"]["done"].as_u64().unwrap();
    assert!((2..400).contains(&done), "{saved}");
    let mut init = first().named("second").start();
    let goes_on = || {
        let saved = stage.backend.records_of(Endpoint::Checkpoint);
        let last = saved.last().map(|last| last.json()["state"]["done"].as_u64());
        last.flatten().is_some_and(|last| last > done)
    };
    assert!(wait_until(PATIENCE, goes_on), "{}", init.story());
    let saved = stage.backend.records_of(Endpoint::Checkpoint);
    let steps: Vec<_> = saved
        .iter()
        .filter_map(|record| record.json()["state"]["done"].as_u64())
        .collect();
    assert!(steps.is_sorted(), "it began again: {steps:?}");
    init.signal(libc::SIGTERM);
    init.ends_with(0);
}

/// The text of a page between a line with this mark and the end of the block.
fn block<'a>(page: &'a str, begins: &str) -> &'a str {
    let from = page.find(begins).unwrap();
    let rest = &page[from..];
    &rest[..rest.find("```").unwrap()]
}

#[test]
fn the_first_script_of_the_page_is_a_worker() {
    let page = std::fs::read_to_string(root().join("docs/exec.md")).unwrap();
    let script = block(&page, "#!/bin/sh\n");
    assert!(script.lines().count() <= 5, "{script}");
    let stage = Stage::new();
    std::fs::create_dir(stage.at("bin")).unwrap();
    let sendmail = stage.at("bin/sendmail");
    std::fs::write(
        &sendmail,
        "#!/bin/sh\necho \"to $1\" >> \"$NOTES\"\ncat >> \"$NOTES\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&sendmail, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", stage.at("bin").display());
    enqueue(&stage, "j1", "email.send", &json!(["a@b.c"]), "");
    let mut init = handler(&stage, script).with("PATH", path).start();
    assert_eq!(result(&stage, "j1"), json!({"sent_to": "a@b.c"}));
    init.notes_line("to a@b.c");
    init.stops();
}
