//! The surroundings of a job's process: its environment, its directory, its descriptors.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{enqueue, handler, python};
use crate::backend::Outcome;
use crate::stage::{Init, Stage};

/// Its environment as its result.
const ENVIRONMENT: &str = "import json, os; print(json.dumps(dict(os.environb and os.environ)))";

/// The result of a job that is an object.
fn result(stage: &Stage, job: &str, init: &Init) -> BTreeMap<String, Value> {
    stage.wait_for_outcomes();
    let outcomes = stage.outcomes(job);
    let [Outcome::Acked(Some(Value::Object(fields)))] = outcomes.as_slice() else {
        panic!("{outcomes:?}: {}", init.story())
    };
    fields.clone().into_iter().collect()
}

#[test]
fn a_job_finds_what_it_is_in_its_environment() {
    let stage = Stage::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let more = format!(r#","timeout_ms":60000,"meta":{{"traceparent":"{parent}"}}"#);
    enqueue(&stage, "j1", "video.cut", &json!(["a b", 2]), &more);
    let mut init = python(&stage, ENVIRONMENT).start();
    let found = result(&stage, "j1", &init);
    for (name, value) in [
        ("OJS_JOB_ID", "j1"),
        ("OJS_JOB_TYPE", "video.cut"),
        ("OJS_JOB_QUEUE", "default"),
        ("OJS_JOB_ATTEMPT", "0"),
        ("OJS_JOB_MAX_ATTEMPTS", "5"),
        ("OJS_JOB_FD", "3"),
    ] {
        assert_eq!(found.get(name), Some(&json!(value)), "{name}");
    }
    let args: Value = serde_json::from_str(found["OJS_JOB_ARGS"].as_str().unwrap()).unwrap();
    assert_eq!(args, json!(["a b", 2]));
    let deadline = found["OJS_JOB_DEADLINE"].as_str().unwrap();
    assert!(
        deadline.starts_with("20") && deadline.contains('T') && deadline.ends_with('Z'),
        "{deadline}"
    );
    assert!(found["OJS_INIT"].as_str().unwrap().starts_with('/'));
    // Variables of the runner alone are no business of a job's, and neither is the worker socket.
    for name in ["OJS_INIT_RUNNER", "OJS_SOCKET", "OJS_JOB_CHECKPOINT", "OJS_AUTH_TOKEN"] {
        assert_eq!(found.get(name), None, "{name}");
    }
    init.stops();
}

#[test]
fn arguments_of_more_than_100_kib_are_on_standard_input_alone() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!(["x".repeat(200 << 10)]), "");
    let script =
        "import json, os, sys; print(json.dumps({'read': len(sys.stdin.read()), 'has': 'OJS_JOB_ARGS' in os.environ}))";
    let mut init = python(&stage, script).start();
    let found = result(&stage, "j1", &init);
    assert_eq!(found["has"], json!(false));
    assert!(found["read"].as_u64().unwrap() > 200 << 10);
    init.stops();
}

#[test]
fn a_checkpoint_comes_back_with_the_next_attempt() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"case ${OJS_JOB_CHECKPOINT-none} in
        none) echo 'checkpoint {"step":1}' >&3; exit 1 ;;
        *) printf '%s' "$OJS_JOB_CHECKPOINT" ;;
    esac"#;
    let mut init = handler(&stage, script).start();
    stage.failure("j1");
    stage.backend.retry("j1");
    let again = crate::support::wait::wait_until(crate::stage::PATIENCE, || stage.outcomes("j1").len() == 2);
    assert!(again, "{}", init.story());
    let Outcome::Acked(Some(found)) = &stage.outcomes("j1")[1] else {
        panic!("{:?}", stage.outcomes("j1"))
    };
    assert!(found.to_string().contains(r#""step":1"#), "{found}");
    init.stops();
}

#[test]
fn a_job_has_a_directory_of_its_own_that_is_gone_afterwards() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"ls -A "$TMPDIR" >> "$NOTES"
        mkdir -p "$TMPDIR/deep/deeper"; echo x > "$TMPDIR/deep/deeper/file"; chmod 0 "$TMPDIR/deep"
        echo "dir $TMPDIR" >> "$NOTES""#;
    let mut init = handler(&stage, script).with("OJS_CONCURRENCY", "1").start();
    stage.wait_for_outcomes();
    let notes = init.notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    for line in &notes {
        let path = line.strip_prefix("dir ").unwrap();
        let is_gone = || !std::path::Path::new(path).exists();
        assert!(
            crate::support::wait::wait_until(crate::stage::PATIENCE, is_gone),
            "{path}"
        );
    }
    init.stops();
}

#[test]
fn a_job_starts_in_the_directory_that_is_set() {
    let stage = Stage::new();
    stage.enqueue([1]);
    std::fs::create_dir(stage.at("place")).unwrap();
    let mut init = handler(&stage, "pwd -P >> \"$NOTES\"")
        .with("OJS_EXEC_DIRECTORY", stage.at("place"))
        .start();
    init.notes_line(&stage.at("place").canonicalize().unwrap().display().to_string());
    init.stops();
}

#[test]
fn a_job_has_four_descriptors_and_no_blocked_or_ignored_signal() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "import json, os, re
fds = sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))
status = open('/proc/self/status').read()
masks = {name: int(re.search(name + r':\\s+(\\w+)', status)[1], 16) for name in ('SigBlk', 'SigIgn')}
print(json.dumps({'fds': fds, 'leader': os.getpgid(0) == os.getpid(), **masks}))";
    let mut init = python(&stage, script).start();
    let found = result(&stage, "j1", &init);
    assert_eq!(found["fds"], json!([0, 1, 2, 3]), "{found:?}");
    assert_eq!(found["leader"], json!(true));
    assert_eq!(found["SigBlk"], json!(0));
    // Python itself ignores SIGPIPE and SIGXFSZ. Signals 32 to 34 are the C library's own, and what
    // it has made of them in this test's process, before everything began, is none of our business.
    let others = (1_u64 << (libc::SIGPIPE - 1)) | (1 << (libc::SIGXFSZ - 1)) | 0b111 << 31;
    assert_eq!(found["SigIgn"].as_u64().unwrap() & !others, 0, "{found:?}");
    init.stops();
}
