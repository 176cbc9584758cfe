use std::time::Duration;

use super::*;

use crate::config::Value as _;
use crate::config::values::exec::Verdicts;
use crate::runner::output::Tail;
use ojs_values::signal::Signal;

fn settings(exits: &[&str], leftovers: Leftovers) -> RunnerSettings {
    let mut settings = RunnerSettings::decode("{}").unwrap();
    settings.exec.exit = Verdicts::read(exits, &()).unwrap();
    settings.exec.output_limit = 100;
    settings.leftovers = leftovers;
    settings
}

fn usual(leftovers: Leftovers) -> RunnerSettings {
    settings(&["76=later:5s", "SIGXCPU=discard"], leftovers)
}

const XCPU: i32 = 24;

fn signalled(number: i32) -> Ended {
    Ended::Signalled(Signal::from_number(number).unwrap())
}

fn ending(ended: Ended, cause: Option<EndedFor>) -> JobEnding<'static> {
    JobEnding {
        ended,
        cause,
        usage: Usage {
            cpu: Duration::from_millis(7),
            max_rss_bytes: 4096,
        },
        stdout: b"{\"a\":1}\n",
        stdout_is_cut: false,
        stderr: b"first\nlast words\n\n",
        stderr_is_cut: false,
    }
}

fn judged(ended: Ended, cause: Option<EndedFor>) -> JobOutcome {
    judge(&usual(Leftovers::Requeue), &ending(ended, cause), &Redaction::default())
}

fn failed(outcome: JobOutcome) -> (String, bool, String) {
    let JobOutcome::Fail(error) = outcome else {
        panic!("not failed: {outcome:?}");
    };
    let code = error.code.unwrap().to_string();
    (code, error.retryable, error.message.to_string())
}

fn acked() -> JobOutcome {
    let result = Some("{\"a\":1}".to_owned());
    JobOutcome::Ack { result }
}

#[test]
fn the_exit_status_decides() {
    assert_eq!(judged(Ended::Exited(0), None), acked());
    let released = judged(Ended::Exited(75), None);
    assert!(matches!(released, JobOutcome::Release { .. }));
    let message = "exit status 100: last words".to_owned();
    assert_eq!(
        failed(judged(Ended::Exited(100), None)),
        ("exit_status".into(), false, message)
    );
    let message = "exit status 3: last words".to_owned();
    assert_eq!(
        failed(judged(Ended::Exited(3), None)),
        ("exit_status".into(), true, message)
    );
}

#[test]
fn a_signal_has_a_meaning_of_its_own_and_is_no_status() {
    assert!(!failed(judged(signalled(XCPU), None)).1);
    let (code, retryable, message) = failed(judged(signalled(11), None));
    assert_eq!((code.as_str(), retryable), ("signal", true));
    assert!(message.contains("SIGSEGV"), "{message}");
    let settings = settings(&["9=ack"], Leftovers::Fail);
    let judged = judge(&settings, &ending(signalled(9), None), &Redaction::default());
    assert_eq!(failed(judged).0, "signal");
}

#[test]
fn who_was_asked_to_end_may_have_finished_or_give_the_job_back() {
    for reason in [CancelReason::Shutdown, CancelReason::Lost] {
        let cause = Some(EndedFor::Cancel(reason));
        assert_eq!(judged(Ended::Exited(0), cause), acked());
        assert!(matches!(
            judged(Ended::Exited(75), cause),
            JobOutcome::Release { after_ms: 0, .. }
        ));
        assert!(matches!(
            judged(Ended::Exited(76), cause),
            JobOutcome::Release { after_ms: 5_000, .. }
        ));
    }
}

#[test]
fn a_job_that_gives_itself_back_after_its_timeout_has_failed_and_one_that_finished_has_not() {
    let cause = Some(EndedFor::Cancel(CancelReason::Timeout));
    for status in [75, 76] {
        let (code, retryable, _) = failed(judged(Ended::Exited(status), cause));
        assert_eq!((code.as_str(), retryable), ("timeout", true));
    }
    assert_eq!(judged(Ended::Exited(0), cause), acked());
}

#[test]
fn a_job_that_an_operator_cancels_fails_unless_cancelled_jobs_go_back() {
    let cause = Some(EndedFor::Cancel(CancelReason::Cancelled));
    let settings = usual(Leftovers::Fail);
    let judged = |ended| judge(&settings, &ending(ended, cause), &Redaction::default());
    let JobOutcome::Fail(error) = judged(signalled(15)) else {
        panic!("not failed");
    };
    assert_eq!(error.kind.as_deref(), Some("cancelled_by_operator"));
    assert!(error.details.is_some_and(|details| details.contains("SIGTERM")));
    assert!(failed(judged(Ended::Exited(1))).1);
    assert_eq!(
        failed(not_started(Leftovers::Fail, CancelReason::Cancelled)).0,
        "cancelled_by_operator"
    );
    // The job's own word counts.
    assert_eq!(judged(Ended::Exited(0)), acked());
    assert!(matches!(judged(Ended::Exited(75)), JobOutcome::Release { .. }));
    assert!(matches!(
        not_started(Leftovers::Requeue, CancelReason::Cancelled),
        JobOutcome::Release { .. }
    ));
}

#[test]
fn a_job_that_had_to_end_is_what_made_it_end() {
    let judged_for = |reason| judged(signalled(15), Some(EndedFor::Cancel(reason)));
    assert_eq!(failed(judged_for(CancelReason::Timeout)).0, "timeout");
    assert!(matches!(judged_for(CancelReason::Shutdown), JobOutcome::CutOff));
    for reason in [CancelReason::Cancelled, CancelReason::Lost] {
        assert!(matches!(judged_for(reason), JobOutcome::Release { .. }));
    }
    let cause = |reason| Some(EndedFor::Cancel(reason));
    let released = || judged_for(CancelReason::Cancelled);
    assert_eq!(released().name(cause(CancelReason::Cancelled)), "cancelled");
    assert_eq!(released().name(cause(CancelReason::Lost)), "lost");
    assert_eq!(released().name(None), "released");
    // Its own status proves nothing then, because a job that is asked to end may end with any.
    let cause = Some(EndedFor::Cancel(CancelReason::Timeout));
    assert_eq!(failed(judged(Ended::Exited(100), cause)).0, "timeout");
}

#[test]
fn memory_is_named_unless_the_job_has_ended_by_itself() {
    for cause in [EndedFor::Memory(1000), EndedFor::Kernel] {
        let JobOutcome::Fail(error) = judged(signalled(9), Some(cause)) else {
            panic!("out of memory is a failure");
        };
        assert_eq!(error.kind.as_deref(), Some("out_of_memory"));
        assert!(error.retryable);
        assert_eq!(judged(Ended::Exited(0), Some(cause)), acked());
        assert_eq!(failed(judged(Ended::Exited(3), Some(cause))).0, "exit_status");
    }
}

#[test]
fn details_tell_how_it_ended_and_what_it_took() {
    let JobOutcome::Fail(error) = judged(Ended::Exited(3), None) else {
        panic!("status 3 is a failure");
    };
    let expected = r#"{"exit_status":3,"cpu_ms":7,"max_rss_bytes":4096,"stderr":"first\nlast words\n\n"}"#;
    let details: Value = serde_json::from_str(&error.details.unwrap()).unwrap();
    assert_eq!(details, serde_json::from_str::<Value>(expected).unwrap());
}

#[test]
fn a_result_that_is_too_long_is_no_result_unless_there_is_none() {
    let mut ending = ending(Ended::Exited(0), None);
    ending.stdout_is_cut = true;
    let mut settings = usual(Leftovers::Fail);
    let (code, retryable, _) = failed(judge(&settings, &ending, &Redaction::default()));
    assert_eq!((code.as_str(), retryable), ("result_too_large", false));
    settings.exec.output = ExecOutput::Log;
    let judged = judge(&settings, &ending, &Redaction::default());
    assert_eq!(judged, JobOutcome::Ack { result: None });
}

/// The part of this standard error that is shown. Its last bytes are kept.
fn shown(text: &str, token: &str) -> String {
    let entry = format!("A_TOKEN={token}");
    let redaction = Redaction::new(&["*_TOKEN".to_owned()], [entry.as_bytes()].into_iter());
    let mut tail = Tail::default();
    tail.add(text.as_bytes(), stderr_to_keep(&redaction));
    let stderr_is_cut = tail.is_cut();
    let ending = JobEnding {
        stderr: tail.bytes(),
        stderr_is_cut,
        ..ending(Ended::Exited(1), None)
    };
    stderr(&ending, &redaction)
}

#[test]
fn secrets_are_struck_before_standard_error_is_cut() {
    let text = "0123456789".to_owned() + &"x".repeat(STDERR_BYTES - 3);
    let shown = shown(&text, "0123456789");
    assert!(!shown.contains("789") && shown.len() <= STDERR_BYTES, "{shown}");
}

#[test]
fn no_half_of_a_secret_stands_where_the_kept_part_of_standard_error_begins() {
    for length in [20, 300, 3 * STDERR_BYTES] {
        let token = format!("<{}>", "s".repeat(length - 2));
        let line = token.clone() + "\n";
        for after in [0, 1, 1000] {
            let text = line.repeat(10_000_usize.div_ceil(length) + 3) + &"x".repeat(after);
            let shown = shown(&text, &token);
            assert!(!shown.contains('s'), "{length} bytes, {after} more: {shown}");
            assert!(
                shown.ends_with(&"x".repeat(after)),
                "{length} bytes, {after} more: {shown}"
            );
        }
    }
    // Half of a secret may hold other ones, and be longer with those struck.
    let redaction = Redaction::new(&["*".to_owned()], [&b"A=abcabcabcabc.z"[..], b"B=abcabc"].into_iter());
    let ending = JobEnding {
        stderr: b"abcabcabc.z and more to see",
        stderr_is_cut: true,
        ..ending(Ended::Exited(1), None)
    };
    assert_eq!(stderr(&ending, &redaction), "nd more to see");
}

#[test]
fn a_character_that_is_cut_in_two_is_not_shown() {
    let text = "\u{20ac}".repeat(STDERR_BYTES);
    assert!(shown(&text, "0123456789").chars().all(|shown| shown == '\u{20ac}'));
}
