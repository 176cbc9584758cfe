//! Answers whose line cannot be read as a whole: no job is lost over how its outcome was spelled.

use crate::backend::Outcome;
use crate::stage::Stage;

/// A worker that answers each job with the line that `answer` makes of its id.
fn answers_with(stage: &Stage, answer: &str) -> String {
    stage.enqueue([1, 2]);
    format!(
        "
link = Link()
link.ready()
held = link.job()
link.raw({answer} + b'\\n')
note(link.until('error')['code'])
link.work()"
    )
}

#[test]
fn a_result_that_is_too_large_or_no_json_is_dropped_and_its_job_is_done() {
    let answers = [
        (
            r#"b'{"type":"ack","job_id":"j1","result":"' + b'x' * 5000000 + b'"}'"#,
            "frame_too_long",
        ),
        (r#"b'{"type":"ack","job_id":"j1","result":NaN}'"#, "not_json"),
        (
            r#"b'{"type":"ack","job_id":"j1","result":' + b'[' * 200 + b']' * 200 + b'}'"#,
            "invalid_frame",
        ),
    ];
    for (answer, code) in answers {
        let stage = Stage::new();
        let script = answers_with(&stage, answer);
        let mut init = stage.worker(&script).start();
        stage.wait_for_outcomes();
        assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)], "{answer}");
        assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)], "{answer}");
        init.notes_line(code);
        init.logs("Job's answer cannot be read, it counts without the broken part");
        init.stops();
    }
}

#[test]
fn a_failure_that_is_too_large_or_broken_is_reported_with_what_could_be_read() {
    let answers = [
        r#"b'{"type":"fail","job_id":"j1","error":{"type":"E","retryable":false,"message":"' + b'm' * 5000000 + b'"}}'"#,
        r#"b'{"type":"fail","job_id":"j1","error":{"type":"E","retryable":false,"message":"mmm","details":{"n":NaN}}}'"#,
        r#"b'{"type":"fail","job_id":"j1","error":{"type":"E","retryable":false,"message":"mmm","details":[],"backtrace":7}}'"#,
    ];
    for answer in answers {
        let stage = Stage::new();
        let script = answers_with(&stage, answer);
        let mut init = stage.worker(&script).start();
        stage.wait_for_outcomes();
        let error = stage.failure("j1");
        assert_eq!(
            (&error["type"], &error["retryable"]),
            (&"E".into(), &false.into()),
            "{error}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.starts_with("mmm")),
            "{error}"
        );
        init.logs("Job's answer cannot be read, it counts without the broken part");
        init.stops();
    }
}

#[test]
fn a_release_with_a_field_of_a_wrong_type_gives_the_job_back() {
    let stage = Stage::new();
    let answer = r#"b'{"type":"release","job_id":"j1","reason":"not mine","after_ms":"soon"}'"#;
    let script = answers_with(&stage, answer);
    let mut init = stage.worker(&script).start();
    stage.becomes("j1", &[Outcome::Requeued, Outcome::Acked(None)]);
    init.logs("Job's answer cannot be read, it counts without the broken part");
    init.stops();
}
