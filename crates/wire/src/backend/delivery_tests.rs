use super::*;
use crate::backend::request::HttpAnswer;
use crate::test_support::{beat, fetch, read_any, reply};
use ojs_lifecycle::api::{Failure, Reply};

fn fetched(body: &str) -> Vec<Delivery> {
    let answer = reply(&fetch(9), 200, body);
    let Reply::Fetched(deliveries) = answer else {
        panic!("{body}: {answer:?}")
    };
    deliveries
}

fn only(envelope: &str) -> Delivery {
    let mut deliveries = fetched(&format!(r#"{{"jobs":[{envelope}]}}"#));
    assert_eq!(deliveries.len(), 1, "{envelope}");
    deliveries.remove(0)
}

fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| &*delivery.subject.id.0).collect()
}

#[test]
fn a_job_is_delivered_byte_for_byte_but_on_one_line() {
    let envelope = "{\"id\": \"j\",\r\n\t\"type\":\"mail\", \"args\":[1.50, 12345678901234567890123, \"\\n\\u00e9\"],\n\"x_unknown\":{}}";
    let delivery = only(envelope);
    assert_eq!(&*delivery.envelope, envelope.replace(['\r', '\n'], " "));
    assert_eq!((&*delivery.subject.id.0, &*delivery.subject.kind), ("j", "mail"));
}

#[test]
fn the_fields_of_a_job_that_matter_are_read() {
    let delivery = only(
        r#"{"id":"j","type":"t","timeout_ms":1500,"timeout":9,"attempt":0,"max_attempts":3,"started_at":"2026-01-01T00:00:00Z"}"#,
    );
    assert_eq!(delivery.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(delivery.subject.max_attempts, Some(3));
    assert_eq!(delivery.checkpoint, None);
    let reservation = Reservation {
        attempt: Some(0),
        started_at: Some("2026-01-01T00:00:00Z".into()),
    };
    assert_eq!(delivery.reservation, reservation);
}

#[test]
fn a_field_of_the_wrong_type_is_an_absent_field() {
    let odd = [
        r#"{"id":"j","type":3,"timeout_ms":"5","timeout":[],"attempt":1.5,"max_attempts":-1,"started_at":0,"checkpoint":null,"meta":7}"#,
        r#"{"id":"j","timeout_ms":0,"timeout":-2,"attempt":"1","max_attempts":99999999999999999999}"#,
        r#"{"id":"j","timeout_ms":1e300,"timeout":1e300,"attempt":null}"#,
        r#"{"id":"j"}"#,
    ];
    for envelope in odd {
        let delivery = only(envelope);
        let read = (
            delivery.timeout,
            delivery.subject.max_attempts,
            delivery.checkpoint,
            delivery.reservation,
        );
        assert_eq!(read, (None, None, None, Reservation::default()), "{envelope}");
        assert_eq!(&*delivery.subject.kind, "");
    }
}

#[test]
fn a_timeout_in_seconds_counts_where_there_is_none_in_milliseconds() {
    assert_eq!(
        only(r#"{"id":"j","timeout":30}"#).timeout,
        Some(Duration::from_secs(30))
    );
    assert_eq!(
        only(r#"{"id":"j","timeout":0.5}"#).timeout,
        Some(Duration::from_millis(500))
    );
    assert_eq!(
        only(r#"{"id":"j","timeout":2,"timeout_ms":0}"#).timeout,
        Some(Duration::from_secs(2))
    );
}

#[test]
fn a_checkpoint_is_found_in_each_of_its_places_and_freed_from_its_wrapper() {
    let cases = [
        (r#""checkpoint":{"state":{"page":\n3},"sequence":4}"#, r#"{"page": 3}"#),
        (r#""checkpoint":{"state":[1]}"#, "[1]"),
        (r#""checkpoint":{"state":1,"step":2}"#, r#"{"state":1,"step":2}"#),
        (r#""checkpoint":"x","last_checkpoint":"y""#, r#""x""#),
        (
            r#""checkpoint":null,"last_checkpoint":{"state":1},"meta":{"checkpoint":2}"#,
            r#"{"state":1}"#,
        ),
        (r#""meta":{"checkpoint":[2]}"#, "[2]"),
    ];
    for (fields, expected) in cases {
        let envelope = format!(r#"{{"id":"j",{}}}"#, fields.replace("\\n", "\n"));
        assert_eq!(only(&envelope).checkpoint.as_deref(), Some(expected), "{fields}");
    }
}

#[test]
fn an_element_without_a_usable_id_is_counted_and_the_others_are_delivered() {
    let body = r#"{"jobs":[3,null,{"id":""},{"id":5},{"type":"t"},[],{"id":"\ud800"},{"id":"j"}]}"#;
    let answered = HttpAnswer {
        status: 200,
        retry_after: None,
        now: Duration::ZERO,
        body: body.as_bytes(),
        is_whole: true,
        was_sent_twice: false,
    };
    let answer = read_any(&fetch(9), answered);
    let Reply::Fetched(deliveries) = &answer.reply else {
        panic!("{answer:?}")
    };
    assert_eq!(ids(deliveries), ["j"]);
    assert!(answer.oddity.unwrap().contains("no jobs with an id: 7"));
}

#[test]
fn more_jobs_than_asked_for_are_all_delivered_with_a_remark() {
    let body = br#"{"jobs":[{"id":"a"},{"id":"b"}]}"#;
    let answered = HttpAnswer {
        status: 200,
        retry_after: None,
        now: Duration::ZERO,
        body,
        is_whole: true,
        was_sent_twice: false,
    };
    let answer = read_any(&fetch(1), answered);
    assert!(matches!(&answer.reply, Reply::Fetched(deliveries) if deliveries.len() == 2));
    assert!(answer.oddity.unwrap().contains("2 jobs instead of at most 1"));
}

#[test]
fn an_answer_that_breaks_off_keeps_the_jobs_before_that_point() {
    let whole = r#"{"jobs":[{"id":"a","args":["x"]},{"id":"b","args":["y"]}]}"#;
    let (first, second) = (whole.find(",{").unwrap(), whole.find("]}]}").unwrap() + 2);
    for end in 0..whole.len() {
        let answer = reply(&fetch(9), 200, &whole[..end]);
        let read = if let Reply::Fetched(deliveries) = answer {
            deliveries.len()
        } else {
            assert_eq!(answer, Reply::Failed(Failure::Unanswered));
            0
        };
        let complete = usize::from(end >= first) + usize::from(end >= second);
        assert_eq!(read, complete, "{}", &whole[..end]);
    }
    assert_eq!(ids(&fetched("{\"jobs\":[{\"id\":\"a\"},{\"id\":\"b\" oops")), ["a"]);
    let mut broken = br#"{"jobs":[{"id":"a"},{"id":"b"#.to_vec();
    broken.extend([0xff, b'"', b'}', b']', b'}']);
    let answered = HttpAnswer {
        status: 200,
        retry_after: None,
        now: Duration::ZERO,
        body: &broken,
        is_whole: false,
        was_sent_twice: false,
    };
    assert!(matches!(read_any(&fetch(9), answered).reply, Reply::Fetched(jobs) if ids(&jobs) == ["a"]));
}

#[test]
fn no_jobs_are_told_in_several_ways_and_a_single_one_in_two() {
    for body in [r#"{"jobs":[]}"#, r#"{"jobs":null}"#, r#"{"jobs":[],"job":null}"#, "{}"] {
        assert_eq!(fetched(body), [], "{body}");
    }
    assert_eq!(reply(&fetch(1), 204, ""), Reply::Fetched(Vec::new()));
    assert_eq!(ids(&fetched(r#"{"job":{"id":"a"}}"#)), ["a"]);
    assert_eq!(ids(&fetched(r#"{"job":{"id":"a"},"jobs":[{"id":"a"}]}"#)), ["a"]);
}

#[test]
fn an_unreadable_answer_to_a_fetch_may_have_been_jobs() {
    for body in [r#"{"jobs":3}"#, r#"{"jobs":{"id":"a"}}"#, r#"{"jobs""#] {
        assert_eq!(
            reply(&fetch(1), 200, body),
            Reply::Failed(Failure::Unanswered),
            "{body}"
        );
    }
}

#[test]
fn an_answer_to_a_fetch_that_is_no_json_object_brought_none_and_an_empty_one_is_one_without_jobs() {
    for body in ["<html>", "[]", "3"] {
        assert_eq!(
            reply(&fetch(1), 200, body),
            Reply::Failed(Failure::NotFromBackend),
            "{body}"
        );
    }
    assert_eq!(reply(&fetch(1), 200, " "), Reply::Fetched(Vec::new()));
}

#[test]
fn nesting_deeper_than_any_stack_is_read_like_anything_else() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let delivery = only(&format!(r#"{{"id":"j","args":{deep},"meta":{{"checkpoint":{deep}}}}}"#));
    assert_eq!(delivery.checkpoint.as_deref(), Some(deep.as_str()));
    let deep_object = format!(r#"{{"more":{deep}}}"#);
    assert_eq!(reply(&beat(), 200, &deep_object), reply(&beat(), 200, "{}"));
}

#[test]
fn a_job_has_crashed_where_its_last_error_is_our_own_about_a_process_and_not_the_backends_about_a_worker() {
    let has_crashed = |error: &str| only(&format!(r#"{{"id":"1","attempt":2{error}}}"#)).has_crashed;
    for ours in [
        r#","error":{"code":"worker_death","message":"m","details":{"signal":"SIGSEGV","held":6,"oom_kills":0}}"#,
        r#","error":{"type":"worker_death","details":{"held":1}}"#,
    ] {
        assert!(has_crashed(ours), "{ours}");
    }
    for other in [
        "",
        r#","error":null"#,
        r#","error":"worker_death""#,
        r#","error":{"code":"worker_death","message":"no heartbeat for 10 s"}"#,
        r#","error":{"code":"handler_error","details":{"held":6}}"#,
        r#","error":{"code":"worker_death","details":"held"}"#,
    ] {
        assert!(!has_crashed(other), "{other}");
    }
}

#[test]
fn an_answer_of_small_elements_is_no_more_jobs_than_a_bound() {
    let jobs = vec![r#"{"id":"a"}"#; 2000].join(",");
    for body in [format!(r#"{{"jobs":[{jobs}]}}"#), format!(r#"{{"jobs":[{jobs}"#)] {
        let most = |count| {
            let answered = HttpAnswer {
                status: 200,
                retry_after: None,
                now: Duration::ZERO,
                body: body.as_bytes(),
                is_whole: true,
                was_sent_twice: false,
            };
            let answer = read_any(&fetch(count), answered);
            let Reply::Fetched(deliveries) = answer.reply else {
                panic!("{:?}", answer.reply)
            };
            (deliveries.len(), answer.oddity.unwrap())
        };
        let (brought, oddity) = most(1);
        assert_eq!(brought, 1024);
        assert!(oddity.contains("left to their visibility timeout: 976"), "{oddity}");
        assert_eq!(most(300).0, 1200);
        assert_eq!(most(501).0, 2000);
    }
}
