//! The meaning of a process' end for its job.

use serde_json::json;

use super::{configured, enqueue, handler};
use crate::backend::Outcome;
use crate::stage::Stage;

/// Exits with the status that is the job's only argument.
const EXITS: &str = r#"exit "$(cat | tr -dc 0-9)""#;

/// Ends as its type says.
const ENDS: &str = r#"case $OJS_JOB_TYPE in
    status.*) echo "it was status ${OJS_JOB_TYPE#status.}" >&2; exit "${OJS_JOB_TYPE#status.}" ;;
    signal.*) kill -"${OJS_JOB_TYPE#signal.}" $$ ;;
esac"#;

#[test]
fn exit_status_0_is_an_ack_75_a_release_100_a_failure_for_good_and_any_other_one_that_may_be_tried_again() {
    let stage = Stage::new();
    for status in [0, 1, 75, 100, 255] {
        enqueue(
            &stage,
            &format!("j{status}"),
            &format!("status.{status}"),
            &json!([]),
            "",
        );
    }
    let mut init = handler(&stage, ENDS).start();
    stage.becomes("j0", &[Outcome::Acked(None)]);
    for (status, retryable) in [(1, true), (100, false), (255, true)] {
        let error = stage.failure(&format!("j{status}"));
        assert_eq!(error["retryable"], retryable, "{error}");
        assert_eq!(error["details"]["exit_status"], status, "{error}");
        let said = error["details"]["stderr"].as_str().unwrap();
        assert_eq!(said.trim_end(), format!("it was status {status}"));
    }
    assert!(stage.backend.handed_out("j75") >= 1);
    init.logs("j75");
    init.stops();
    let outcomes = stage.outcomes("j75");
    assert!(
        !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Requeued),
        "{outcomes:?}"
    );
}

#[test]
fn a_process_that_a_signal_ended_has_failed_and_the_signal_is_named() {
    let stage = Stage::new();
    for signal in ["KILL", "SEGV", "TERM"] {
        enqueue(&stage, signal, &format!("signal.{signal}"), &json!([]), "");
    }
    let mut init = handler(&stage, ENDS).start();
    for signal in ["KILL", "SEGV", "TERM"] {
        let error = stage.failure(signal);
        assert_eq!(error["retryable"], true, "{error}");
        assert_eq!(error["details"]["signal"], format!("SIG{signal}"), "{error}");
    }
    init.stops();
}

#[test]
fn what_a_status_or_a_signal_means_can_be_said() {
    let stage = Stage::new();
    for (id, kind) in [
        ("two", "status.2"),
        ("three", "status.3"),
        ("xcpu", "signal.XCPU"),
        ("one", "status.1"),
    ] {
        enqueue(&stage, id, kind, &json!([]), "");
    }
    let table = "[exec.exit]\n2 = \"discard\"\n3 = \"ack\"\nSIGXCPU = \"discard\"\n";
    let mut init = configured(&stage, handler(&stage, ENDS), table).start();
    assert_eq!(stage.failure("two")["retryable"], false);
    stage.becomes("three", &[Outcome::Acked(None)]);
    assert_eq!(stage.failure("xcpu")["retryable"], false);
    assert_eq!(stage.failure("one")["retryable"], true);
    init.stops();
}

#[test]
fn a_job_that_goes_back_later_is_held_and_its_place_is_free_at_once() {
    let stage = Stage::new();
    enqueue(&stage, "later", "status.69", &json!([]), "");
    let start = handler(&stage, ENDS).with("OJS_CONCURRENCY", "1");
    let mut init = configured(&stage, start, "[exec.exit]\n69 = \"later:30s\"\n").start();
    init.logs("later");
    enqueue(&stage, "next", "status.0", &json!([]), "");
    stage.becomes("next", &[Outcome::Acked(None)]);
    assert_eq!(stage.outcomes("later"), []);
    init.stops();
    // A FETCH that is on its way may bring it again, and then it goes back again.
    let outcomes = stage.outcomes("later");
    let goes_back = !outcomes.is_empty() && outcomes.iter().all(|outcome| *outcome == Outcome::Requeued);
    assert!(goes_back, "{outcomes:?}\n{}", init.story());
}

#[test]
fn standard_output_is_the_result_json_if_it_is_and_otherwise_a_text() {
    for (printed, result) in [
        (r#"{"a":[1,2.5,null]}"#, json!({"a": [1, 2.5, null]})),
        ("  7\n", json!(7)),
        ("hello\n", json!("hello")),
        (r#"{"a":"#, json!(r#"{"a":"#)),
        ("two\nlines\n", json!("two\nlines")),
    ] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = handler(&stage, r#"printf '%s' "$PRINTED""#)
            .with("PRINTED", printed)
            .start();
        stage.wait_for_outcomes();
        let outcomes = stage.outcomes("j1");
        let [Outcome::Acked(Some(acked))] = outcomes.as_slice() else {
            panic!("{outcomes:?}: {}", init.story())
        };
        let trimmed = acked
            .as_str()
            .map_or_else(|| acked.clone(), |text| text.trim_end().into());
        assert_eq!(trimmed, result);
        init.stops();
    }
}

#[test]
fn output_that_is_no_utf_8_is_a_result_all_the_same() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, r"printf 'a\377b'").start();
    stage.becomes("j1", &[Outcome::Acked(Some(json!("a\u{fffd}b")))]);
    init.stops();
}

#[test]
fn output_that_is_for_the_log_is_no_result_and_has_the_jobs_id() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = handler(&stage, "echo one; echo two >&2")
        .with("OJS_EXEC_OUTPUT", "log")
        .start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.logs("[job j1] one");
    init.logs("[job j1] two");
    init.stops();
}

#[test]
fn standard_input_is_the_envelope_or_its_arguments_or_nothing() {
    for (input, read) in [("args", json!(["a", {"b": 1}])), ("none", json!(""))] {
        let stage = Stage::new();
        enqueue(&stage, "j1", "t", &json!(["a", {"b": 1}]), "");
        let mut init = handler(&stage, r#"printf '"%s"' "$(cat | base64 -w0)""#)
            .with("OJS_EXEC_INPUT", input)
            .start();
        stage.wait_for_outcomes();
        let outcomes = stage.outcomes("j1");
        let [Outcome::Acked(Some(encoded))] = outcomes.as_slice() else {
            panic!("{outcomes:?}: {}", init.story())
        };
        let is_empty = encoded == "";
        assert_eq!(is_empty, read == "", "{encoded}");
        init.stops();
    }
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([1]), r#","more": {"kept":   "as it came"}"#);
    let mut init = handler(&stage, r#"cat > "$NOTES.input""#).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let envelope = std::fs::read_to_string(stage.at("init.notes.input")).unwrap();
    assert!(envelope.contains(r#""more": {"kept":   "as it came"}"#), "{envelope}");
    init.stops();
}

#[test]
fn a_status_that_comes_from_standard_input_shows_that_it_was_read() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!([42]), "");
    let mut init = handler(&stage, EXITS).with("OJS_EXEC_INPUT", "args").start();
    assert_eq!(stage.failure("j1")["details"]["exit_status"], 42);
    init.stops();
}

#[test]
fn a_failure_tells_the_last_4_kib_of_standard_error_and_what_the_job_cost() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "i=0; while [ $i -lt 1000 ]; do echo \"line $i of many\" >&2; i=$((i+1)); done; exit 1";
    let mut init = handler(&stage, script).start();
    let error = stage.failure("j1");
    let said = error["details"]["stderr"].as_str().unwrap();
    assert!(said.len() <= 4096 && said.len() > 3000, "{}", said.len());
    assert!(said.trim_end().ends_with("line 999 of many"), "{said}");
    assert!(error["details"]["cpu_ms"].is_u64(), "{error}");
    assert!(error["details"]["max_rss_bytes"].as_u64().unwrap() > 100_000, "{error}");
    init.stops();
}

#[test]
fn the_values_of_secrets_are_struck_from_what_is_told_of_a_failure() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"echo "using $DB_PASSWORD and $API_TOKEN and $HARMLESS" >&2; exit 1"#;
    let mut init = handler(&stage, script)
        .with_all(&[
            ("DB_PASSWORD", "hunter2-hunter2"),
            ("API_TOKEN", "tok-4711-4711"),
            ("HARMLESS", "weather"),
        ])
        .start();
    let error = stage.failure("j1");
    let said = error.to_string();
    assert!(
        !said.contains("hunter2-hunter2") && !said.contains("tok-4711-4711"),
        "{said}"
    );
    assert!(said.contains("weather"), "{said}");
    init.stops();
}
