#![allow(clippy::unwrap_used, reason = "a test without its body has failed")]

use proptest::prelude::*;

use super::*;

fn fetch(body: &str) -> FetchBody {
    read_fetch(body.as_bytes(), false).unwrap()
}

fn ids(names: &[&str]) -> Option<Vec<JobId>> {
    Some(names.iter().map(|name| JobId((*name).into())).collect())
}

fn beat(body: &str) -> Option<Vec<JobId>> {
    read_beat(body.as_bytes()).unwrap().jobs
}

#[test]
fn each_sdk_says_in_its_own_way_how_many_jobs_it_wants() {
    assert_eq!(fetch(r#"{"queues":["a"],"count":7,"worker_id":"w"}"#).count, 7);
    assert_eq!(fetch(r#"{"queues":["a"],"batch_size":5}"#).count, 5);
    for body in [
        "{}",
        r#"{"count":0}"#,
        r#"{"count":-3}"#,
        r#"{"count":"9"}"#,
        r#"{"count":2.5}"#,
    ] {
        assert_eq!(fetch(body).count, 1, "{body}");
    }
    assert_eq!(fetch(r#"{"count":99999999999}"#).count, u32::MAX);
}

#[test]
fn queues_and_the_name_of_a_worker_are_taken_where_they_are_there() {
    let read = fetch(r#"{"queues":["a","b"],"worker_id":"w 1","visibility_timeout_ms":30000}"#);
    assert_eq!(read.queues, Some(vec!["a".into(), "b".into()]));
    assert_eq!(read.worker.as_deref(), Some("w 1"));
    let read = fetch(r#"{"queues":[],"worker_id":""}"#);
    assert_eq!((read.queues, read.worker), (None, None));
    assert_eq!(fetch(r#"{"queues":"a"}"#).queues, None);
    let many = serde_json::json!({ "queues": vec!["q"; 257] }).to_string();
    let empty = r#"{"queues":[""]}"#.to_owned();
    for body in [many, empty, "[]".to_owned(), "{".to_owned(), String::new()] {
        assert!(read_fetch(body.as_bytes(), false).is_err(), "{body}");
    }
}

#[test]
fn a_fetch_that_names_no_queue_is_refused_where_no_queues_are_configured() {
    for body in [
        "{}",
        r#"{"queue":"a"}"#,
        r#"{"queues":null}"#,
        r#"{"queues":"a"}"#,
        r#"{"queues":[]}"#,
        r#"{"queues":[1]}"#,
        r#"{"queues":["a",1]}"#,
        r#"{"queues":{"a":1}}"#,
    ] {
        let refused = read_fetch(body.as_bytes(), true);
        assert_eq!(
            refused,
            Err(BadBody("queues must be an array of at least one queue name")),
            "{body}"
        );
        assert_eq!(fetch(body).queues, None, "{body}");
    }
    assert!(read_fetch(br#"{"queues":["a"]}"#, true).is_ok());
}

#[test]
fn the_jobs_of_a_heartbeat_are_found_in_every_form() {
    assert_eq!(beat(r#"{"worker_id":"w","active_jobs":["a","b"]}"#), ids(&["a", "b"]));
    assert_eq!(
        beat(r#"{"active_jobs":2,"active_job_ids":["a","b"]}"#),
        ids(&["a", "b"])
    );
    assert_eq!(beat(r#"{"job_id":"a"}"#), ids(&["a"]));
    assert_eq!(beat(r#"{"active_jobs":0}"#), ids(&[]));
    assert_eq!(beat(r#"{"active_jobs":[]}"#), ids(&[]));
    for body in [
        "{}",
        r#"{"active_jobs":2}"#,
        r#"{"active_jobs":null}"#,
        r#"{"active_jobs":[1]}"#,
    ] {
        assert_eq!(beat(body), None, "{body}");
    }
}

#[test]
fn a_result_stays_as_it_is_spelled() {
    let said = |body: &str| read_outcome(body.as_bytes(), false).unwrap().said;
    let job = || JobId("j".into());
    for (body, result) in [
        (
            r#"{"job_id":"j","result":{"a" : 1.50, "a":2}}"#,
            Some(r#"{"a" : 1.50, "a":2}"#),
        ),
        (r#"{"job_id":"j","result":null}"#, Some("null")),
        (r#"{"job_id":"j"}"#, None),
    ] {
        let expected = FromWorker::Ack {
            job: job(),
            result: result.map(Text::from),
        };
        assert_eq!(said(body), expected);
    }
    for body in ["{}", r#"{"job_id":1}"#, r#"{"job_id":""}"#, "", "null", "\u{ff}"] {
        assert!(read_outcome(body.as_bytes(), false).is_err(), "{body}");
    }
}

fn error(body: &str) -> JobError {
    let FromWorker::Fail { error, .. } = read_outcome(body.as_bytes(), true).unwrap().said else {
        panic!("{body}: no failure")
    };
    error
}

#[test]
fn a_failure_is_a_failure_however_it_is_told() {
    let js = error(
        r#"{"job_id":"j","error":{"code":"handler_error","message":"m","retryable":false,"details":{"stack":"s"}}}"#,
    );
    assert_eq!(
        (&*js.message, js.retryable, js.details.as_deref()),
        ("m", false, Some(r#"{"stack":"s"}"#))
    );
    let php = error(r#"{"job_id":"j","error":{"type":"RuntimeException","message":"m","backtrace":"a string"}}"#);
    assert_eq!(
        (&*php.message, php.kind.as_deref(), php.retryable),
        ("m", Some("RuntimeException"), true)
    );
    for body in [
        r#"{"job_id":"j"}"#,
        r#"{"job_id":"j","error":null}"#,
        r#"{"job_id":"j","error":[]}"#,
        r#"{"job_id":"j","error":{"message":3}}"#,
        r#"{"job_id":"j","error":{"message":""}}"#,
    ] {
        assert!(!error(body).message.is_empty() && error(body).retryable, "{body}");
    }
    assert_eq!(
        &*error(r#"{"job_id":"j","error":{"type":"T","details":"x"}}"#).message,
        "T"
    );
}

proptest! {
    #[test]
    fn any_body_is_read_without_harm(body in prop::collection::vec(any::<u8>(), 0..300), json in ".{0,200}") {
        for body in [body.as_slice(), json.as_bytes(), format!("{{\"job_id\":\"j\",\"error\":{json}}}").as_bytes()] {
            let _ = (read_fetch(body, true), read_beat(body), read_outcome(body, false), read_outcome(body, true), read_worker(body));
        }
    }
}

#[test]
fn no_depth_of_nesting_does_harm() {
    let nested = "[".repeat(100_000);
    let closed = format!("{nested}{}", "]".repeat(100_000));
    for value in [nested, closed] {
        let body = format!(
            r#"{{"job_id":"j","result":{value},"queues":{value},"active_jobs":{value},"error":{{"details":{value}}}}}"#
        );
        let body = body.as_bytes();
        let _ = (
            read_fetch(body, true),
            read_beat(body),
            read_outcome(body, false),
            read_outcome(body, true),
        );
    }
}

#[test]
fn our_worker_id_takes_the_place_of_each_other_one_and_nothing_else_changes() {
    for (body, expected) in [
        (
            r#"{"job_id":"j","worker_id" : "w" ,"n":1.50}"#,
            r#"{"job_id":"j","worker_id" : "ours" ,"n":1.50}"#,
        ),
        (
            r#"{"worker_id":{"a":[1]},"worker\u005fid":null}"#,
            r#"{"worker_id":"ours","worker\u005fid":"ours"}"#,
        ),
        (r#"{"result":{"worker_id":"w"}}"#, r#"{"result":{"worker_id":"w"}}"#),
        ("[1", "[1"),
    ] {
        assert_eq!(
            with_worker(body.as_bytes().to_vec(), "ours"),
            expected.as_bytes(),
            "{body}"
        );
    }
}

#[test]
fn an_outcome_of_two_jobs_is_none() {
    let twice = br#"{"job_id":"a","job\u005fid":"a"}"#;
    assert_eq!(
        read_outcome(twice, false).unwrap_err(),
        BadBody("job_id must be there once")
    );
    assert!(read_outcome(br#"{"job_id":"a","result":1,"result":2}"#, false).is_ok());
}
