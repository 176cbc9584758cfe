use super::*;

fn body(text: &str) -> Object {
    Object::read(text.as_bytes()).unwrap()
}

fn beat(dialect: Dialect, rest: &str) -> Result<Vec<String>, String> {
    let body = body(&format!(r#"{{"worker_id":"w"{rest}}}"#));
    dialect
        .heartbeat(&body)
        .map(|beat| beat.jobs)
        .map_err(|refusal| refusal.message)
}

#[test]
fn each_dialect_takes_its_own_active_jobs() {
    let array = r#","active_jobs":["a"]"#;
    let number = r#","active_jobs":1,"active_job_ids":["a"]"#;
    for (dialect, takes_array, takes_number) in [
        (Dialect::Spec, true, true),
        (Dialect::Go, true, false),
        (Dialect::Integer, false, true),
        (Dialect::Strict, true, false),
        (Dialect::Protocol, false, true),
    ] {
        assert_eq!(beat(dialect, array).is_ok(), takes_array, "{dialect}: array");
        assert_eq!(beat(dialect, number).is_ok(), takes_number, "{dialect}: number");
    }
    assert_eq!(beat(Dialect::Spec, number).unwrap(), ["a"]);
    assert_eq!(beat(Dialect::Integer, number).unwrap(), ["a"]);
}

#[test]
fn strict_has_the_fields_of_the_schemas_and_no_others() {
    let is_taken = |text: &str| Dialect::Strict.heartbeat(&body(text)).is_ok();
    assert!(is_taken(
        r#"{"worker_id":"w","active_jobs":[],"visibility_timeout_ms":1000}"#
    ));
    assert!(!is_taken(r#"{"worker_id":"w","state":"running"}"#));
    assert!(!is_taken(r#"{"worker_id":"w","visibility_timeout_ms":999}"#));
    assert!(!is_taken(r#"{"active_jobs":[]}"#));
    let leaves = |text: &str| Dialect::Strict.deregister(&body(text)).is_ok();
    assert!(leaves(r#"{"worker_id":"w"}"#) && !leaves(r#"{"worker_id":"w","state":"terminated"}"#));
    let id = "019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6";
    let ack = |rest: &str| {
        Dialect::Strict
            .ack(&body(&format!(r#"{{"job_id":"{id}"{rest}}}"#)))
            .is_ok()
    };
    assert!(ack(r#","result":1"#));
    assert!(!ack(r#","worker_id":"w""#));
    assert!(Dialect::Strict.ack(&body(r#"{"job_id":"j"}"#)).is_err());
    let nack = |rest: &str| {
        Dialect::Strict
            .nack(&body(&format!(r#"{{"job_id":"{id}"{rest}}}"#)))
            .is_ok()
    };
    assert!(nack(
        r#","error":{"code":"handler_error","message":"m","retryable":true,"details":{}}"#
    ));
    assert!(!nack(r#","error":{"code":"shutdown","message":"m"}"#));
    assert!(!nack(r#","error":{"code":"timeout","message":"m","type":"t"}"#));
    assert!(!nack(r#","error":{"code":"timeout","message":"m"},"requeue":true"#));
    assert!(
        Dialect::Strict
            .fetch(&body(r#"{"queues":["a"],"capabilities":[]}"#))
            .is_err()
    );
}

#[test]
fn protocol_has_the_fields_of_the_worker_protocol_and_no_others() {
    let whole = r#","state":"quiet","active_jobs":0,"active_job_ids":[],"queues":["a"],"concurrency":1,"labels":[]"#;
    assert!(beat(Dialect::Protocol, whole).is_ok());
    let extended = format!(r#"{whole},"visibility_timeout_ms":1000"#);
    assert!(beat(Dialect::Integer, &extended).is_ok());
    assert!(
        beat(Dialect::Protocol, &extended)
            .unwrap_err()
            .contains("'visibility_timeout_ms'")
    );
    let fetch = |rest: &str| Dialect::Protocol.fetch(&body(&format!(r#"{{"queues":["a"],"worker_id":"w"{rest}}}"#)));
    assert!(fetch(r#","count":3"#).is_ok());
    assert!(fetch(r#","visibility_timeout_ms":1000"#).is_err());
}

#[test]
fn go_answers_in_its_own_words_b_01() {
    let answer = |directive, extended| {
        Dialect::Go
            .heartbeat_answer(&HeartbeatAnswer { directive, extended }, "t")
            .get()
            .to_owned()
    };
    assert_eq!(
        answer(Directive::Run, vec![]),
        r#"{"directive":"continue","server_time":"t","state":"active"}"#
    );
    assert!(answer(Directive::Quiet, vec!["j".into()]).contains(r#""directive":"quiet","jobs_extended":["j"]"#));
}

#[test]
fn go_reserves_for_30_s_when_it_is_not_told() {
    let of = |dialect: Dialect, text: &str| dialect.heartbeat(&body(text)).unwrap().extension;
    assert_eq!(of(Dialect::Go, r#"{"worker_id":"w"}"#), Some(GO_VISIBILITY));
    assert_eq!(of(Dialect::Spec, r#"{"worker_id":"w"}"#), None);
    let told = r#"{"worker_id":"w","visibility_timeout_ms":5}"#;
    assert_eq!(of(Dialect::Go, told), Some(Duration::from_millis(5)));
}

#[test]
fn a_count_below_one_is_one() {
    let count = |text: &str| Dialect::Go.fetch(&body(text)).unwrap().count;
    assert_eq!(count(r#"{"queues":["a"]}"#), 1);
    assert_eq!(count(r#"{"queues":["a"],"count":-3}"#), 1);
    assert_eq!(count(r#"{"queues":["a"],"count":7}"#), 7);
}
