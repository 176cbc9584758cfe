//! Programs as they are: a job's arguments in the words of a command, and one by one in a script.

use serde_json::{Value, json};

use super::{configured, enqueue, handler, program};
use crate::backend::Outcome;
use crate::stage::{Init, Stage};

/// Prints each of its arguments as an element of a list.
const PRINTS: &str = "import json, sys; print(json.dumps(sys.argv[1:]))";

fn result(stage: &Stage, init: &Init, job: &str) -> Value {
    stage.wait_for_outcomes();
    match stage.outcomes(job).as_slice() {
        [Outcome::Acked(Some(result))] => result.clone(),
        other => panic!("{job}: {other:?}: {}", init.story()),
    }
}

#[test]
fn each_placeholder_is_one_word_whatever_its_value_is() {
    let stage = Stage::new();
    let routes = format!(
        r#"[exec.routes]
"video.*" = ["python3", "-c", '''{PRINTS}''', "-i", "{{args.0}}", "{{args.1.path}}", "--n={{args.1.n}}", "{{id}}-{{type}}", "{{{{id}}", "${{id}}"]
"#
    );
    let first = "in put;\n$(id) 'x' *";
    let args = json!([first, {"path": "", "n": 1.5}]);
    enqueue(&stage, "j1", "video.cut", &args, "");
    let mut init = configured(&stage, program(&stage, &[]), &routes).start();
    let expected = json!(["-i", first, "", "--n=1.5", "j1-video.cut", "{id}", "${id}"]);
    assert_eq!(result(&stage, &init, "j1"), expected, "{}", init.story());
    init.stops();
}

#[test]
fn a_value_that_a_job_does_not_have_keeps_it_from_being_started_and_is_named() {
    let stage = Stage::new();
    let routes = "[exec.routes]\n\"video.*\" = [\"true\", \"{args.1.path}\"]\n";
    enqueue(&stage, "j1", "video.cut", &json!(["x", {"file": 1}]), "");
    enqueue(&stage, "j2", "mail", &json!(["a\u{0}b"]), "");
    let mut init = configured(&stage, program(&stage, &["true", "{args.0}"]), routes).start();
    for (job, parts) in [
        ("j1", ["{args.1.path}", "exec.routes \"video.*\"", "job j1"]),
        ("j2", ["{args.0} holds a NUL byte", "COMMAND", "job j2"]),
    ] {
        let error = stage.failure(job);
        assert_eq!(error["code"], "not_started", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    init.stops();
}

#[test]
fn what_looks_like_a_placeholder_and_is_none_ends_the_start() {
    let stage = Stage::new();
    let mut init = program(&stage, &["echo", "{arg.0}"]).start();
    init.ends_with(2);
    init.logs("COMMAND: {arg.0} is no placeholder");
}

#[test]
fn all_arguments_may_be_words_of_the_command() {
    let stage = Stage::new();
    enqueue(&stage, "j1", "t", &json!(["a b", 2, null, ["x"], ""]), "");
    let words = ["python3", "-c", PRINTS, "first"];
    let mut init = program(&stage, &words).with("OJS_EXEC_INPUT", "argv").start();
    let expected = json!(["first", "a b", "2", "null", "[\"x\"]", ""]);
    assert_eq!(result(&stage, &init, "j1"), expected, "{}", init.story());
    init.stops();
}

#[test]
fn a_script_asks_for_one_argument_after_the_other() {
    let stage = Stage::new();
    let long = "y".repeat(200 << 10);
    enqueue(&stage, "j1", "t", &json!(["a  \"b\"", {"path": ["/x", 7]}]), "");
    // Too long for a variable: they are on standard input, also when that was read.
    enqueue(&stage, "j2", "t", &json!(["z", {"path": [long]}]), "");
    let script = r#"[ "$OJS_JOB_ID" = j1 ] || cat > /dev/null
first=$("$OJS_INIT" job arg 0) || exit 9
path=$("$OJS_INIT" job arg 1.path.0) || exit 9
"$OJS_INIT" job arg 2; missing=$?
"$OJS_INIT" job arg first; wrong=$?
printf '%s|%s|%s|%s|%s' "$first" "${#path}" "$("$OJS_INIT" job arg 1 | head -c 9)" $missing $wrong"#;
    let mut init = handler(&stage, script).start();
    stage.wait_for_outcomes();
    assert_eq!(
        stage.outcomes("j1"),
        [Outcome::Acked(Some(json!("a  \"b\"|2|{\"path\":[|1|2")))],
        "{}",
        init.story()
    );
    assert_eq!(
        stage.outcomes("j2"),
        [Outcome::Acked(Some(json!("z|204800|{\"path\":[|1|2")))],
        "{}",
        init.story()
    );
    init.logs("the job has no argument 2");
    init.stops();
}
