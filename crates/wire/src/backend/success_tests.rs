use super::*;
use crate::test_support::*;

fn reports() -> [Call; 6] {
    [
        ack(),
        fail(false),
        requeue_call(),
        progress(),
        checkpoint(),
        deregister(),
    ]
}

/// As the connection gave it: whole, or not.
fn read_part(call: &Call, body: &str, is_whole: bool) -> Answer {
    let answered = HttpAnswer {
        status: 200,
        retry_after: None,
        now: Duration::ZERO,
        body: body.as_bytes(),
        is_whole,
        was_sent_twice: false,
    };
    read_any(call, answered)
}

#[test]
fn an_accepted_report_says_nothing_or_a_json_object() {
    for call in reports() {
        for status in [200, 201, 202, 204, 299] {
            for body in [
                "",
                " \r\n",
                "{}",
                r#" {"acknowledged":true} "#,
                r#"{"acknowledged":"no"}"#,
            ] {
                assert_eq!(reply(&call, status, body), Reply::Accepted, "{body}");
            }
        }
        for begun in [r#"{"acknowledged":"#, "{"] {
            let what = "longer than we read, or broken off: its status was the backend's";
            assert_eq!(read_part(&call, begun, false).reply, Reply::Accepted, "{what}");
        }
    }
}

#[test]
fn a_success_that_is_no_json_object_is_a_proxy_s_for_every_request() {
    let bodies = [
        "<html><body>It works!</body></html>",
        "OK",
        "[]",
        "true",
        "null",
        "{} {}",
        r#""accepted""#,
        "{not json}",
        "\u{feff}{}",
    ];
    let calls = every_call().into_iter().chain([Call::Manifest]);
    for call in calls {
        for body in bodies {
            let answer = read_part(&call, body, true);
            // A request that may have been carried out is looked at before it is repeated; a FETCH
            // may have claimed jobs.
            let is_unrepeatable = call.endpoint() == Endpoint::Nack;
            let may_hold_jobs = matches!(call, Call::Fetch { .. }) && body.starts_with('{');
            let expected = if is_unrepeatable || may_hold_jobs {
                Failure::Unanswered
            } else {
                Failure::NotFromBackend
            };
            if body == "{} {}" && may_hold_jobs {
                continue;
            }
            assert_eq!(answer.reply, Reply::Failed(expected), "{body} to {call:?}");
            let says = answer.words.failure.unwrap_or_default();
            assert!(
                may_hold_jobs || says == "status 200, and the body is no JSON object",
                "{says}"
            );
        }
        for begun in ["<html", ""] {
            let answer = read_part(&call, begun, false).reply;
            assert!(
                matches!(answer, Reply::Failed(Failure::NotFromBackend | Failure::Unanswered)),
                "{begun} to {call:?}"
            );
        }
    }
}

#[test]
fn a_success_that_has_to_be_read_and_breaks_off_is_no_answer() {
    for call in [register(), beat(), look(), Call::Manifest] {
        let answer = read_part(&call, r#"{"state":"running""#, false);
        assert_eq!(answer.reply, Reply::Failed(Failure::Unanswered), "{call:?}");
    }
}

#[test]
fn a_conflict_about_an_ack_that_went_out_twice_is_about_its_own_first_half() {
    let conflict = |body: &str| {
        let answered = HttpAnswer {
            status: 409,
            retry_after: None,
            now: Duration::ZERO,
            body: body.as_bytes(),
            is_whole: true,
            was_sent_twice: true,
        };
        read(&ack(), answered).reply
    };
    let said = |state: &str| format!(r#"{{"error":{{"code":"conflict","details":{{"current_state":"{state}"}}}}}}"#);
    assert_eq!(conflict(&said("completed")), Reply::Accepted);
    assert_eq!(conflict(&said("available")), Reply::Failed(Failure::Lost));
    let unsaid = Reply::Failed(Failure::Conflict { was_sent_twice: true });
    assert_eq!(conflict(r#"{"error":{"code":"conflict"}}"#), unsaid);
}
