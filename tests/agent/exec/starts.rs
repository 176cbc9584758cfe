//! Commands that cannot be started, and which command is whose.

use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{configured, enqueue, handler, program};
use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_until;

/// A program of this test, and where it is.
fn script(stage: &Stage, text: &str) -> String {
    let path = stage.at("handler");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// The one job fails since its process could not be started, and may be tried again.
fn was_not_started(stage: &Stage, init: &Init, why: &str) {
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("not_started"), &json!(true)),
        "{}",
        init.story()
    );
    assert!(error["message"].as_str().unwrap().contains(why), "{error}");
}

#[test]
fn a_command_that_is_not_there_any_more_fails_its_job_and_not_the_init() {
    let stage = Stage::new();
    let path = script(&stage, "#!/bin/sh\nexit 0\n");
    let mut init = program(&stage, &[&path]).start();
    stage.wait_for_more(Endpoint::Fetch, 1);
    std::fs::remove_file(&path).unwrap();
    stage.enqueue([1]);
    was_not_started(&stage, &init, "No such file");
    script(&stage, "#!/bin/sh\nexit 0\n");
    stage.enqueue([2]);
    stage.becomes("j2", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn tables_and_lists_of_the_file_that_hold_nothing_start_jobs_as_without_them() {
    let stage = Stage::new();
    let toml = "[exec]\nroutes = {}\nrlimits = {}\nexit = {}\nredact = []\n";
    let mut init = configured(&stage, program(&stage, &["true"]), toml).start();
    stage.enqueue([1]);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_command_that_is_not_executable_any_more_fails_its_job_and_not_the_init() {
    let stage = Stage::new();
    let path = script(&stage, "#!/bin/sh\nexit 0\n");
    let mut init = program(&stage, &[&path]).start();
    stage.wait_for_more(Endpoint::Fetch, 1);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    stage.enqueue([1]);
    was_not_started(&stage, &init, "denied");
    init.stops();
}

#[test]
fn an_environment_that_is_too_large_for_the_kernel_fails_its_job_and_not_the_init() {
    let stage = Stage::new();
    // 128 KiB for arguments and environment together: ours fits, and with the job's arguments it
    // does not.
    let mut init = handler(&stage, "true")
        .through(&["sh", "-c", "ulimit -s 512 && exec \"$@\"", "sh"])
        .with("FILLER", "x".repeat(80 << 10))
        .start();
    enqueue(&stage, "j1", "t", &json!(["x".repeat(90 << 10)]), "");
    was_not_started(&stage, &init, "too long");
    stage.enqueue([2]);
    stage.becomes("j2", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_job_for_whose_start_too_few_descriptors_are_left_waits_and_does_not_fail() {
    let stage = Stage::new();
    // Each job that runs keeps four descriptors of the runner, and a start needs up to eleven.
    for number in 1..=20 {
        enqueue(&stage, &format!("j{number}"), "t", &json!([]), "");
    }
    let mut init = handler(&stage, "until [ -e \"$NOTES.go\" ]; do sleep 0.05; done")
        .with("OJS_CONCURRENCY", "20")
        .through(&["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"])
        .start();
    init.logs("waits, since it cannot be started now");
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.wait_for_outcomes();
    for number in 1..=20 {
        let outcomes = stage.outcomes(&format!("j{number}"));
        assert_eq!(outcomes, [Outcome::Acked(None)], "{}", init.story());
    }
    init.stops();
}

#[test]
fn the_deadline_of_a_job_that_waited_for_a_process_counts_from_its_delivery() {
    let stage = Stage::new();
    for number in 1..=20 {
        enqueue(
            &stage,
            &format!("j{number}"),
            "t",
            &json!([]),
            r#","timeout_ms":600000"#,
        );
    }
    let script = "echo $OJS_JOB_ID >> \"$NOTES\"; until [ -e \"$NOTES.go\" ]; do sleep 0.05; done; date -d \"$OJS_JOB_DEADLINE\" +%s%3N";
    let mut init = handler(&stage, script)
        .with("OJS_CONCURRENCY", "20")
        .through(&["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"])
        .start();
    init.logs("waits, since it cannot be started now");
    let is_delivered = |number: u32| {
        let id = format!("j{number}");
        init.notes().contains(&id) || init.log().contains(&format!("job {id} waits, since"))
    };
    let are_delivered = wait_until(PATIENCE, || (1..=20).all(is_delivered));
    assert!(are_delivered, "{}", init.story());
    #[expect(
        clippy::disallowed_methods,
        reason = "the test compares a date with that of ojs-init"
    )]
    let latest = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() + 600_000;
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.wait_for_outcomes();
    for number in 1..=20 {
        let outcomes = stage.outcomes(&format!("j{number}"));
        let [Outcome::Acked(Some(deadline))] = outcomes.as_slice() else {
            panic!("{outcomes:?}: {}", init.story())
        };
        let deadline = deadline.as_u64().unwrap();
        assert!(u128::from(deadline) <= latest, "{deadline} is after {latest}");
    }
    init.stops();
}

#[test]
fn the_runner_has_descriptors_up_to_the_hard_limit_and_its_jobs_keep_the_soft_one() {
    for (rlimits, expected) in [("", 64), ("rlimits = { nofile = \"32:48\" }\n", 32)] {
        let stage = Stage::new();
        stage.enqueue(1..=20);
        let waits = "until [ -e \"$NOTES.go\" ]; do sleep 0.05; done; ulimit -Sn";
        let start = handler(&stage, &format!("echo \"$OJS_JOB_ID\" >>\"$NOTES\"; {waits}"));
        let mut init = configured(&stage, start, &format!("[exec]\n{rlimits}"))
            .with("OJS_CONCURRENCY", "20")
            .through(&["sh", "-c", "ulimit -Sn 64; exec \"$@\"", "sh"])
            .start();
        for number in 1..=20 {
            init.notes_line(&format!("j{number}"));
        }
        std::fs::write(stage.at("init.notes.go"), "").unwrap();
        for number in 1..=20 {
            stage.becomes(&format!("j{number}"), &[Outcome::Acked(Some(expected.into()))]);
        }
        init.stops();
    }
}

#[test]
fn a_command_that_is_not_there_at_the_start_ends_the_init_as_a_worker_would() {
    for (command, status) in [("/nowhere/at/all", 127), ("/etc/passwd", 126)] {
        let stage = Stage::new();
        let mut init = program(&stage, &[command]).start();
        init.ends_with(status);
    }
}

#[test]
fn a_type_has_the_command_of_the_longest_route_that_fits_it_and_the_rest_have_the_usual_one() {
    let stage = Stage::new();
    let routes = "[exec.routes]
\"video.*\" = [\"sh\", \"-c\", \"echo '\\\"video\\\"'\"]
\"video.cut\" = [\"sh\", \"-c\", \"echo '\\\"cut\\\"'\"]
\"video.cut.*\" = [\"sh\", \"-c\", \"echo '\\\"below\\\"'\"]
";
    let mut init = configured(&stage, handler(&stage, "echo '\"rest\"'"), routes).start();
    for (id, kind) in [
        ("a", "video.cut"),
        ("b", "video.scale"),
        ("c", "video.cut.fast"),
        ("d", "video"),
        ("e", "mail"),
    ] {
        enqueue(&stage, id, kind, &json!([]), "");
    }
    for (id, result) in [
        ("a", "cut"),
        ("b", "video"),
        ("c", "below"),
        ("d", "rest"),
        ("e", "rest"),
    ] {
        stage.becomes(id, &[Outcome::Acked(Some(json!(result)))]);
    }
    init.stops();
}

#[test]
fn a_type_that_nothing_serves_fails_at_once_and_may_be_tried_again() {
    let stage = Stage::new();
    let routes = "[exec.routes]\n\"video.*\" = [\"true\"]\n";
    let mut init = configured(&stage, program(&stage, &[]), routes)
        .with("OJS_TYPE_WAIT", "60s")
        .start();
    enqueue(&stage, "j1", "mail", &json!([]), "");
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("handler_not_found"), &json!(true))
    );
    enqueue(&stage, "j2", "video.cut", &json!([]), "");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_relative_name_of_a_program_and_of_a_directory_in_path_is_seen_from_the_directory_of_jobs() {
    let stage = Stage::new();
    std::fs::create_dir(stage.at("place")).unwrap();
    std::fs::rename(script(&stage, "#!/bin/sh\nexit 0\n"), stage.at("place/relative")).unwrap();
    for (number, name, path) in [(1, "./relative", "/usr/bin:/bin"), (2, "relative", "/usr/bin:/bin:.")] {
        stage.enqueue([number]);
        let mut init = program(&stage, &[name])
            .with("OJS_EXEC_DIRECTORY", stage.at("place"))
            .with("PATH", path)
            .start();
        stage.becomes(&format!("j{number}"), &[Outcome::Acked(None)]);
        init.stops();
    }
}

#[test]
fn a_program_that_cannot_run_here_is_refused_with_the_reason() {
    let stage = Stage::new();
    let path = script(&stage, "#!/bin/sh\nexit 0\n");
    let mut init = program(&stage, &[&path]).start();
    stage.wait_for_more(Endpoint::Fetch, 1);
    script(&stage, "#!/bin/sh\r\nexit 0\r\n");
    stage.enqueue([1]);
    was_not_started(
        &stage,
        &init,
        "\"/bin/sh\\r\", which does not exist; its lines end as on Windows",
    );
    std::fs::write(&path, b"MZ\x90\0\0").unwrap();
    stage.enqueue([2]);
    let message = stage.failure("j2")["message"].to_string();
    assert!(message.contains("it is a program for Windows"), "{message}");
    // A script without a first line of its kind is for the shell.
    script(&stage, "echo by the shell\n");
    stage.enqueue([3]);
    stage.becomes("j3", &[Outcome::Acked(Some(json!("by the shell")))]);
    init.stops();
    let routes = format!("[exec.routes]\n\"video.*\" = [\"{path}\"]\n");
    script(&stage, "#!/no/such/interpreter\n");
    let mut init = configured(&stage, program(&stage, &["true"]), &routes).start();
    init.ends_with(127);
    init.logs("exec.routes \"video.*\": cannot execute");
}
