//! The way of an outcome to the backend, as text that a person reads: every stage with its possible
//! events, and every failure with its meaning. Also the promises of both tables as a whole.

use std::fmt::Write as _;
use std::time::Duration;

use ojs_lifecycle::api::{CallId, Failure, Moment};
use ojs_lifecycle::jobs::stages::{AfterFailure, ReportEvent, ReportStage, ReportStep, ReportVerdict};
use ojs_lifecycle::jobs::stages::{after_failure, stage_verdict};

/// The request that is on its way.
const CALL: CallId = CallId(1);

fn stages() -> [ReportStage; 6] {
    let then = Moment::new(Duration::ZERO);
    [
        ReportStage::Due,
        ReportStage::Sent(CALL, then),
        ReportStage::Pausing,
        ReportStage::Doubtful,
        ReportStage::Looking(CALL, then),
        ReportStage::ResultRefused,
    ]
}

const FAILURES: [Failure; 16] = [
    Failure::NotSent,
    Failure::Overloaded,
    Failure::NoCredentials,
    Failure::Unanswered,
    Failure::ServerError,
    Failure::RetryLater { retry_after: None },
    Failure::Redirected,
    Failure::Unauthorized,
    Failure::Unsupported,
    Failure::NotFromBackend,
    Failure::Unregistered,
    Failure::NotFound,
    Failure::Lost,
    Failure::Conflict { was_sent_twice: false },
    Failure::AlreadyCompleted,
    Failure::Refused,
];

/// A failure in a few words. A new one belongs into the list above, too.
fn words(failure: Failure) -> &'static str {
    match failure {
        Failure::NotSent => "no connection",
        Failure::Overloaded => "no room for it here",
        Failure::NoCredentials => "no token for it here",
        Failure::Unanswered => "no clear answer",
        Failure::ServerError => "500, 502 and the like",
        Failure::RetryLater { .. } => "429, 503 in the backend's words",
        Failure::Redirected => "a redirect",
        Failure::Unauthorized => "401, 403",
        Failure::Unsupported => "405, 501",
        Failure::NotFromBackend => "an answer of somebody else",
        Failure::Unregistered => "the backend does not know us",
        Failure::NotFound => "404, 410 in the backend's words",
        Failure::Lost => "409: not active, or not ours",
        Failure::Conflict { .. } => "409 without the job's state",
        Failure::AlreadyCompleted => "409: completed",
        Failure::Refused => "400, 413, 415, 422",
    }
}

fn name(value: &str) -> &str {
    value.split(['(', ' ']).next().unwrap_or(value)
}

fn events() -> [ReportEvent; 6] {
    ReportEvent::all(CALL, Failure::Unanswered)
}

/// One row for each stage, one column for each event; then one row for each failure.
pub fn as_markdown() -> String {
    let mut text = String::from("| stage |");
    for event in events() {
        write!(text, " {} |", name(&format!("{event:?}"))).unwrap();
    }
    text.push('\n');
    text.push_str(&"|---".repeat(events().len() + 1));
    text.push_str("|\n");
    for stage in stages() {
        write!(text, "| **{}** |", name(&format!("{stage:?}"))).unwrap();
        for event in events() {
            match stage_verdict(stage, event) {
                ReportVerdict::Do(step) => write!(text, " {step} |").unwrap(),
                ReportVerdict::Stay(why) => write!(text, " {why} |").unwrap(),
            }
        }
        text.push('\n');
    }
    text.push_str("\n| its request failed | an ACK | a FAIL, a requeue |\n|---|---|---|\n");
    for failure in FAILURES {
        let [ack, fail] = [true, false].map(|is_ack| after_failure(is_ack, failure));
        writeln!(text, "| {} | {ack} | {fail} |", words(failure)).unwrap();
    }
    text
}

#[test]
fn good_news_ends_every_stage_and_every_other_cell_has_an_act_or_a_reason() {
    for stage in stages() {
        assert_eq!(
            stage_verdict(stage, ReportEvent::Taken),
            ReportVerdict::Do(ReportStep::Settle),
            "{stage:?}"
        );
        for event in events() {
            if let ReportVerdict::Stay(why) = stage_verdict(stage, event) {
                assert!(why.len() > 5, "{stage:?} x {event:?} gives no reason");
            }
        }
    }
}

#[test]
fn no_stage_is_a_dead_end_and_when_time_is_short_nothing_rests() {
    for stage in stages() {
        let moves = |event| matches!(stage_verdict(stage, event), ReportVerdict::Do(_));
        let is_looking = matches!(stage, ReportStage::Looking(..));
        let leads_on = [ReportEvent::Room, ReportEvent::TimerDue, ReportEvent::NoOtherAnswer];
        // The look itself is answered, or counts as unanswered: see `doubts`.
        assert!(is_looking || leads_on.into_iter().any(moves), "{stage:?}");
        let is_under_way = is_looking || stage == ReportStage::Due;
        assert!(is_under_way || moves(ReportEvent::TimeIsShort), "{stage:?}");
    }
}

#[test]
fn only_the_failure_of_the_request_that_is_on_its_way_counts() {
    for stage in stages() {
        let call = CallId(2);
        let failure = Failure::Refused;
        assert!(
            matches!(
                stage_verdict(stage, ReportEvent::Failed { call, failure }),
                ReportVerdict::Stay(_)
            ),
            "{stage:?}"
        );
    }
}

#[test]
fn a_fail_or_a_requeue_that_may_have_been_carried_out_is_never_repeated_without_a_look() {
    for failure in [Failure::Unanswered, Failure::ServerError] {
        assert_eq!(after_failure(false, failure), AfterFailure::Look, "{failure:?}");
    }
}

#[test]
fn no_outcome_is_given_up_for_a_failure_that_may_pass() {
    for is_ack in [true, false] {
        for failure in FAILURES.into_iter().filter(|failure| failure.may_pass()) {
            assert_ne!(
                after_failure(is_ack, failure),
                AfterFailure::Gone,
                "{is_ack} {failure:?}"
            );
        }
    }
}
