use proptest::prelude::*;

use super::*;
use crate::test_support::*;

#[test]
fn of_state_and_directive_the_severest_counts() {
    let cases = [
        (r#"{"state":"active","directive":"quiet"}"#, Some(Directive::Quiet)),
        (
            r#"{"state":"terminate","directive":"continue"}"#,
            Some(Directive::Terminate),
        ),
        (
            r#"{"state":"quiet","directive":"terminate"}"#,
            Some(Directive::Terminate),
        ),
        (r#"{"state":"quiet","directive":""}"#, Some(Directive::Quiet)),
        (r#"{"state":"running","directive":""}"#, Some(Directive::Run)),
        (r#"{"state":"active","directive":"continue"}"#, Some(Directive::Run)),
        (r#"{"state":"RUNNING"}"#, Some(Directive::Run)),
        (r#"{"state":"terminated","directive":"dance"}"#, None),
        (r#"{"state":1,"directive":["quiet"]}"#, None),
        ("{}", None),
        ("", None),
    ];
    for (body, expected) in cases {
        let Reply::HeartbeatOk { directive, .. } = reply(&beat(), 200, body) else {
            panic!("{body}")
        };
        assert_eq!(directive, expected, "{body}");
    }
}

#[test]
fn extended_jobs_are_believed_only_as_an_array_of_ids() {
    let extended = |value: &str| {
        let answer = reply(&beat(), 200, &format!(r#"{{"jobs_extended":{value}}}"#));
        let Reply::HeartbeatOk { extended, .. } = answer else {
            panic!("{answer:?}")
        };
        extended
    };
    assert_eq!(extended(r#"["a","b"]"#), Some(vec![job("a"), job("b")]));
    assert_eq!(extended("[]"), Some(Vec::new()));
    for odd in ["2", "null", r#"["a",1]"#, r#"{"a":1}"#, r#""a""#] {
        assert_eq!(extended(odd), None, "{odd}");
    }
}

#[test]
fn a_registration_brings_a_recommended_interval_and_a_third_of_the_timeout_as_the_longest() {
    let intervals = |body: &str| {
        let answer = reply(&register(), 201, body);
        let Reply::Registered {
            heartbeat_interval,
            longest_interval,
        } = answer
        else {
            panic!("{answer:?}")
        };
        [heartbeat_interval, longest_interval].map(|interval| interval.map(|interval| interval.as_millis()))
    };
    let cases = [
        (
            r#"{"ok":true,"heartbeat_interval":1,"heartbeat_timeout":30}"#,
            [Some(1000), Some(10_000)],
        ),
        (r#"{"heartbeat_timeout":3}"#, [None, Some(1000)]),
        (r#"{"heartbeat_interval":0.25}"#, [Some(250), None]),
        (
            r#"{"heartbeat_interval":0.000001,"heartbeat_timeout":0.01}"#,
            [Some(100), Some(100)],
        ),
        (r#"{"heartbeat_interval":0}"#, [None, None]),
        (r#"{"heartbeat_interval":-1,"heartbeat_timeout":"x"}"#, [None, None]),
        ("", [None, None]),
    ];
    for (body, expected) in cases {
        assert_eq!(intervals(body), expected, "{body}");
    }
}

#[test]
fn a_registration_answered_with_not_ok_is_no_registration() {
    let declined = Reply::Failed(Failure::RetryLater { retry_after: None });
    assert_eq!(reply(&register(), 200, r#"{"ok":false}"#), declined);
}

#[test]
fn a_look_shows_the_job_alone_or_wrapped() {
    let job = r#"{"id":"j","state":"active","worker_id":"w-2","attempt":1,"started_at":"x"}"#;
    let expected = Reply::JobSeen(JobView {
        state: JobState::Active,
        worker: Some(WorkerId("w-2".into())),
        reservation: Reservation {
            attempt: Some(1),
            started_at: Some("x".into()),
        },
    });
    assert_eq!(reply(&look(), 200, job), expected);
    assert_eq!(reply(&look(), 200, &format!(r#"{{"job":{job}}}"#)), expected);
    for (state, expected) in [
        ("cancelled", JobState::Cancelled),
        ("completed", JobState::Completed),
        ("available", JobState::Elsewhere),
        ("dancing", JobState::Elsewhere),
    ] {
        let Reply::JobSeen(view) = reply(&look(), 200, &format!(r#"{{"state":"{state}","worker_id":""}}"#)) else {
            panic!("{state}")
        };
        assert_eq!((view.state, view.worker), (expected, None));
    }
    for unreadable in ["", "{}", r#"{"state":1}"#] {
        assert_eq!(reply(&look(), 200, unreadable), Reply::Failed(Failure::Unanswered));
    }
}

#[test]
fn a_look_that_is_refused_shows_little() {
    let state = |status| {
        let Reply::JobSeen(view) = reply(&look(), status, "") else {
            return None;
        };
        Some(view.state)
    };
    assert_eq!(state(403), Some(JobState::Hidden));
    assert_eq!(state(404), None, "somebody in between");
    assert_eq!(state(401), None);
    assert_eq!(state(500), None);
}

#[test]
fn each_refusal_has_its_meaning() {
    let declined = Failure::RetryLater { retry_after: None };
    let cases = [
        (ack(), 429, declined),
        (fetch(1), 503, Failure::Unanswered),
        (ack(), 503, Failure::Unanswered),
        (ack(), 308, Failure::Redirected),
        (fetch(1), 301, Failure::Redirected),
        (fail(false), 307, Failure::Redirected),
        (ack(), 408, declined),
        (fetch(1), 409, declined),
        (ack(), 401, Failure::Unauthorized),
        (beat(), 403, Failure::Unauthorized),
        (ack(), 404, Failure::NotFromBackend),
        (fail(true), 410, Failure::NotFromBackend),
        (ack(), 400, Failure::NotFromBackend),
        (fail(false), 422, Failure::NotFromBackend),
        (ack(), 421, Failure::NotFromBackend),
        (fetch(1), 431, Failure::NotFromBackend),
        (ack(), 409, Failure::Conflict { was_sent_twice: false }),
        (requeue_call(), 404, Failure::NotFromBackend),
        (look(), 404, Failure::NotFromBackend),
        (requeue_call(), 409, Failure::Lost),
        (progress(), 409, Failure::Lost),
        (checkpoint(), 409, Failure::Lost),
        (register(), 404, Failure::Unsupported),
        (register(), 405, Failure::Unsupported),
        (deregister(), 501, Failure::Unsupported),
        (progress(), 404, Failure::Unsupported),
        (checkpoint(), 405, Failure::Unsupported),
        (beat(), 404, Failure::Unsupported),
        (fetch(1), 404, Failure::Unsupported),
        (beat(), 400, Failure::Refused),
        (ack(), 413, Failure::Refused),
        (register(), 422, Failure::Refused),
        (ack(), 418, Failure::NotFromBackend),
        (ack(), 500, Failure::ServerError),
        (fetch(1), 502, Failure::ServerError),
        (fail(false), 504, Failure::ServerError),
        (beat(), 599, Failure::ServerError),
        (ack(), 600, Failure::Unanswered),
        (ack(), 999, Failure::Unanswered),
        (ack(), 0, Failure::Unanswered),
    ];
    for (call, status, expected) in cases {
        assert_eq!(
            reply(&call, status, ""),
            Reply::Failed(expected),
            "{status} to {call:?}"
        );
    }
}

#[test]
fn an_ack_of_a_completed_job_has_what_it_wanted_and_a_fail_has_not() {
    let nested = r#"{"error":{"code":"conflict","details":{"job_id":"j","current_state":"completed"}}}"#;
    let flat = r#"{"code":"CONFLICT","details":{"current_state":"completed"}}"#;
    for body in [nested, flat] {
        assert_eq!(reply(&ack(), 409, body), Reply::Failed(Failure::AlreadyCompleted));
        assert_eq!(reply(&fail(false), 409, body), Reply::Failed(Failure::Lost));
        assert_eq!(
            reply(&ack(), 404, body),
            Reply::Failed(Failure::NotFound),
            "only a conflict says that it is done"
        );
    }
    let active = nested.replace("completed", "available");
    assert_eq!(reply(&ack(), 409, &active), Reply::Failed(Failure::Lost));
}

#[test]
fn a_heartbeat_that_finds_no_worker_is_told_from_one_that_finds_no_path() {
    let unknown = [
        r#"{"error":{"code":"worker_not_found"}}"#,
        r#"{"error":{"code":"not_found","message":"Unknown worker w-1"}}"#,
        r#"{"error":{"code":"not_found","details":{"worker_id":"w-1"}}}"#,
        r#"{"code":"WORKER_NOT_REGISTERED"}"#,
    ];
    for body in unknown {
        assert_eq!(
            reply(&beat(), 404, body),
            Reply::Failed(Failure::Unregistered),
            "{body}"
        );
        assert_eq!(reply(&register(), 404, body), Reply::Failed(Failure::Unsupported));
        let why = "an earlier attempt got through, and its answer did not";
        assert_eq!(
            reply(&deregister(), 404, body),
            Reply::Failed(Failure::Unregistered),
            "{why}"
        );
    }
    let no_path = [
        "404 page not found",
        r#"{"error":{"code":"not_found","message":"no route /ojs/v1/workers/heartbeat"}}"#,
        "",
    ];
    for body in no_path {
        assert_eq!(reply(&beat(), 404, body), Reply::Failed(Failure::Unsupported), "{body}");
    }
}

#[test]
fn a_job_is_not_found_when_the_backend_says_so_and_not_when_a_proxy_does() {
    let of_the_backend = [
        r#"{"error":{"code":"not_found","message":"no such job"}}"#,
        r#"{"code":"NOT_FOUND"}"#,
        r#" {"error":{"details":null,"code":"x"},"code":7} "#,
    ];
    let of_a_proxy = [
        "",
        "<html><h1>404 Not Found</h1></html>",
        "404 page not found",
        "{}",
        "[]",
        "null",
        r#"{"error":"Not Found","status":404}"#,
        r#"{"message":"no Route matched with those values"}"#,
        r#"{"code":404}"#,
        r#"{"error":{"code":5}}"#,
        r#"{"code":""}"#,
        r#"{"error":{"code":"not_found""#,
    ];
    for status in [404, 410] {
        for call in [ack(), fail(false), fail(true), requeue_call()] {
            for body in of_the_backend {
                assert_eq!(reply(&call, status, body), Reply::Failed(Failure::NotFound), "{body}");
            }
            for body in of_a_proxy {
                assert_eq!(
                    reply(&call, status, body),
                    Reply::Failed(Failure::NotFromBackend),
                    "{body}"
                );
            }
        }
        for body in of_the_backend {
            let Reply::JobSeen(view) = reply(&look(), status, body) else {
                panic!("{body}")
            };
            assert_eq!(view.state, JobState::Missing);
        }
        for body in of_a_proxy {
            assert_eq!(
                reply(&look(), status, body),
                Reply::Failed(Failure::NotFromBackend),
                "{body}"
            );
        }
    }
}

#[test]
fn a_worker_that_is_registered_already_is_registered() {
    let body = r#"{"error":{"code":"conflict"}}"#;
    assert_eq!(reply(&register(), 409, body), Reply::Failed(Failure::AlreadyCompleted));
}

#[test]
fn progress_of_a_job_that_is_gone_says_nothing_about_the_operation() {
    let about_the_job = [
        r#"{"error":{"code":"not_found","message":"Job 'j' not found"}}"#,
        r#"{"error":{"code":"not_found","details":{"resource_type":"job"}}}"#,
        r#"{"error":{"code":"not_found","details":{"job_id":"j"}}}"#,
        r#"{"code":"JOB_NOT_FOUND"}"#,
    ];
    let about_the_path = [
        "",
        "404 page not found",
        r#"{"error":{"code":"not_found","message":"no route for POST /ojs/v1/jobs/j/checkpoint"}}"#,
        r#"{"error":{"code":"not_found","message":"nothing is there"}}"#,
    ];
    for call in [progress(), checkpoint()] {
        for body in about_the_job {
            assert_eq!(reply(&call, 404, body), Reply::Failed(Failure::Lost), "{body}");
        }
        for body in about_the_path {
            assert_eq!(reply(&call, 404, body), Reply::Failed(Failure::Unsupported), "{body}");
        }
    }
}

#[test]
fn the_interval_is_at_most_a_third_of_either_timeout_that_registration_tells() {
    let longest = |body| {
        let Reply::Registered { longest_interval, .. } = reply(&register(), 200, body) else {
            panic!("{body}")
        };
        longest_interval
    };
    let third = |seconds| Some(Duration::from_secs(seconds) / 3);
    assert_eq!(longest(r#"{"heartbeat_timeout":30}"#), third(30));
    assert_eq!(
        longest(r#"{"heartbeat_timeout":30,"visibility_timeout_default":9}"#),
        third(9)
    );
    assert_eq!(
        longest(r#"{"heartbeat_timeout":6,"visibility_timeout_default":1800}"#),
        third(6)
    );
    assert_eq!(longest(r#"{"visibility_timeout_default":1800}"#), third(1800));
    assert_eq!(longest("{}"), None);
}

#[test]
fn a_manifest_tells_what_a_kind_of_backend_does_differently() {
    let habits = |body| {
        let Reply::Manifest(habits) = reply(&Call::Manifest, 200, body) else {
            panic!("{body}")
        };
        (habits.discards_requeues, habits.extends_from_start)
    };
    assert_eq!(habits(r#"{"backend":"redis"}"#), (false, false));
    assert_eq!(habits(r#"{"backend":"lite"}"#), (true, true));
    assert_eq!(habits(r#"{"backend":"Memory"}"#), (true, true));
    assert_eq!(habits(r#"{"backend":"amqp"}"#), (true, false));
    for odd in ["", "{}", r#"{"backend":{"type":"lite"}}"#, r#"{"backend":7}"#] {
        assert_eq!(habits(odd), (false, false), "{odd}");
    }
}

#[test]
fn a_fail_that_a_proxy_declines_may_have_been_carried_out_and_one_that_the_backend_declines_was_not() {
    let declined = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        Reply::Failed(Failure::RetryLater { retry_after })
    };
    let unanswered = Reply::Failed(Failure::Unanswered);
    let of_ojs = r#"{"error":{"code":"unavailable","message":"later"}}"#;
    for status in [408, 425, 503] {
        for call in [fail(false), requeue_call()] {
            assert_eq!(reply(&call, status, of_ojs), declined(None), "{status}");
            for page in ["", "upstream connect error or disconnect/reset before headers", "{}"] {
                assert_eq!(reply(&call, status, page), unanswered, "{status} {page}");
                assert_eq!(read_with(&call, status, Some("7"), page), unanswered, "{status} {page}");
            }
        }
    }
    for call in [ack(), fetch(1), beat()] {
        assert_eq!(reply(&call, 503, of_ojs), declined(None));
        assert_eq!(read_with(&call, 503, Some("7"), ""), declined(Some(7)));
        assert_eq!(reply(&call, 503, "no healthy upstream"), unanswered);
    }
}

#[test]
fn retry_after_may_be_a_date_and_one_that_is_past_is_now() {
    let cases = [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7)),
        ("Sun Nov  6 08:49:37 1994", Some(7)),
        ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Mon, 07 Nov 1994 08:49:30 GMT", Some(24 * 60 * 60)),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("06 Nov 1994", None),
        ("tomorrow", None),
    ];
    for (value, expected) in cases {
        let answered = HttpAnswer {
            status: 503,
            retry_after: Some(value),
            now: Duration::from_secs(784_111_770),
            body: b"",
            is_whole: true,
            was_sent_twice: false,
        };
        let declined = Failure::RetryLater {
            retry_after: expected.map(Duration::from_secs),
        };
        assert_eq!(read(&ack(), answered).reply, Reply::Failed(declined), "{value:?}");
    }
}

#[test]
fn retry_after_is_read_in_whole_and_in_decimal_seconds() {
    let cases = [
        ("7", Some(7000)),
        (" 0.25 ", Some(250)),
        ("0", Some(0)),
        ("-1", None),
        ("1e3", None),
        ("inf", None),
        ("", None),
        (".", None),
        ("99999999999999999999999", None),
    ];
    for (value, expected) in cases {
        let declined = Failure::RetryLater {
            retry_after: expected.map(Duration::from_millis),
        };
        assert_eq!(
            read_with(&ack(), 429, Some(value), ""),
            Reply::Failed(declined),
            "{value:?}"
        );
    }
}

/// Bytes that look like an answer, for the way past the first check.
fn nearly_an_answer() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"jobs\"",
        "\"job\"",
        "\"id\"",
        "\"a\"",
        "\"meta\"",
        "\"checkpoint\"",
        "\"state\"",
        "\"error\"",
        "\"details\"",
        "\"timeout_ms\"",
        "null",
        "true",
        "-1",
        "1e999",
        "\n",
        "\"",
        "\\",
        "\u{fc}",
    ]);
    let text = prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat().into_bytes());
    prop_oneof![text, prop::collection::vec(any::<u8>(), 0..60)]
}

/// Numbers and dates, some out of every range.
fn nearly_a_retry_after() -> impl Strategy<Value = String> {
    let date =
        "(Sun|Mon|Sunday|X), [0-9]{1,2}( |-)(Jan|Feb|Nov|Y)( |-)([0-9]{2}|[0-9]{4}) ([0-9]{2}:){2}[0-9]{2} (GMT|UTC|)";
    let c_date = "(Sun|Mon|X) (Feb|Nov) [ 0-9][0-9] ([0-9]{2}:){2}[0-9]{2} [0-9]{4}";
    prop_oneof![".{0,40}", "[0-9.]{0,30}", date, c_date]
}

proptest! {
    #[test]
    fn no_answer_makes_reading_panic(
        body in nearly_an_answer(), status in any::<u16>(), retry_after in prop::option::of(nearly_a_retry_after()),
        now in any::<u64>().prop_map(Duration::from_secs)
    ) {
        for call in every_call() {
            for (is_whole, was_sent_twice) in [(true, false), (false, true)] {
                let retry_after = retry_after.as_deref();
                let answered = HttpAnswer { status, retry_after, now, body: &body, is_whole, was_sent_twice };
                let answer = read_any(&call, answered);
                let is_empty = answer.oddity.is_some_and(|oddity| oddity.is_empty());
                prop_assert!(!is_empty);
                prop_assert!(answer.words.failure.is_none_or(|text| text.len() < 400));
            }
        }
        let inside = [b"{\"jobs\":[".as_slice(), &body].concat();
        for status in [200, 409, 404] {
            for call in every_call() {
                let (is_whole, was_sent_twice) = (false, false);
                let _ = read_any(&call, HttpAnswer { status, retry_after: None, now, body: &inside, is_whole, was_sent_twice });
            }
        }
    }
}
