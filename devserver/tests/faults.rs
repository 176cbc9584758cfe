//! Faults on demand.

#![allow(clippy::unwrap_used, reason = "what cannot be had fails the test")]

mod common;

use std::net::TcpStream;
use std::time::Duration;

use common::{PATIENCE, plain};
use ojs_devserver::{Fault, FaultRule, JobState, Operation};

/// Long enough to be sure that nothing comes, short enough to wait for it.
const NOTHING: Duration = Duration::from_millis(300);

const ACK: &str = r#"{"job_id":"j","worker_id":"w"}"#;

#[test]
fn nobody_can_connect_until_the_port_opens_again() {
    let bench = plain();
    bench.put_job("j", "");
    let open = TcpStream::connect(bench.server.address()).unwrap();
    assert!(bench.server.refuse_connections());
    assert!(TcpStream::connect(bench.server.address()).is_err());
    open.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = std::io::Read::read(&mut &open, &mut [0; 1]);
    assert!(matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    assert!(bench.server.accept_connections());
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "j", "what was there is there");
}

#[test]
fn an_outage_that_was_ordered_over_the_wire_ends_by_itself() {
    let bench = plain();
    let answer = bench.post("/dev/faults", r#"{"fault":"refuse","for_ms":200}"#);
    assert_eq!(answer.status, 202);
    let connects = || TcpStream::connect(bench.server.address()).is_ok();
    assert!(bench.server.wait(PATIENCE, |_| !connects()));
    assert!(bench.server.wait(PATIENCE, |_| connects()));
    let said: Vec<_> = bench.server.events().iter().map(|event| event.operation).collect();
    assert_eq!(said, ["refusing", "listening"]);
}

#[test]
fn a_request_that_hangs_is_neither_answered_nor_carried_out() {
    let mut bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    bench.server.fault(FaultRule::on(Operation::Ack, Fault::Hang)).unwrap();
    bench.patience = NOTHING;
    assert!(bench.ask("POST", "/ojs/v1/workers/ack", ACK).is_err());
    assert_eq!(bench.state("j"), "active");
    bench.server.clear_faults();
    assert_eq!(bench.worker("ack", ACK).status, 200);
}

#[test]
fn connections_that_are_there_stop_and_others_are_served() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    let stopped = TcpStream::connect(bench.server.address()).unwrap();
    let ask = |mut stream: &TcpStream, path: &str, body: &str| {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}");
        std::io::Write::write_all(&mut stream, format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    };
    let is_answered = |mut stream: &TcpStream, patience| {
        stream.set_read_timeout(Some(patience)).unwrap();
        std::io::Read::read(&mut stream, &mut [0; 4096]).is_ok_and(|read| read > 0)
    };
    ask(&stopped, "/ojs/v1/workers/heartbeat", r#"{"worker_id":"w"}"#);
    assert!(is_answered(&stopped, PATIENCE));
    bench.server.freeze_connections(Some(NOTHING * 3));
    ask(&stopped, "/ojs/v1/workers/ack", ACK);
    assert_eq!(
        bench.worker("heartbeat", r#"{"worker_id":"w"}"#).status,
        200,
        "a new one is served"
    );
    assert_eq!(bench.state("j"), "active", "it was not read");
    assert!(is_answered(&stopped, PATIENCE), "what was sent meanwhile is read then");
    assert_eq!(bench.state("j"), "completed");
    let for_good = TcpStream::connect(bench.server.address()).unwrap();
    assert_eq!(bench.worker("heartbeat", r#"{"worker_id":"w"}"#).status, 200);
    bench.server.freeze_connections(None);
    ask(&for_good, "/ojs/v1/workers/heartbeat", r#"{"worker_id":"w"}"#);
    assert!(!is_answered(&for_good, NOTHING));
}

#[test]
fn a_lost_reply_was_carried_out_all_the_same() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::LoseReply).times(1))
        .unwrap();
    assert!(bench.ask("POST", "/ojs/v1/workers/ack", ACK).is_err());
    assert_eq!(bench.state("j"), "completed");
    assert_eq!(
        bench.worker("ack", ACK).json["error"]["details"]["current_state"],
        "completed"
    );
}

#[test]
fn a_closed_connection_carried_nothing_out() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::Close).times(1))
        .unwrap();
    assert!(bench.ask("POST", "/ojs/v1/workers/ack", ACK).is_err());
    assert_eq!(bench.state("j"), "active");
}

#[test]
fn a_truncated_answer_breaks_off_in_its_body() {
    use std::io::{Read, Write};
    let bench = plain();
    bench.put_job("j", "");
    bench
        .server
        .fault(FaultRule::on(Operation::Fetch, Fault::Truncate))
        .unwrap();
    assert!(
        bench
            .ask("POST", "/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#)
            .is_err()
    );
    assert_eq!(bench.state("j"), "active");
    let body = r#"{"queues":["default"]}"#;
    let mut stream = TcpStream::connect(bench.server.address()).unwrap();
    write!(
        stream,
        "POST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 11"), "{head}");
    assert_eq!(rest, r#"{"job"#);
}

#[test]
fn a_status_comes_with_retry_after_in_any_spelling_and_nothing_is_carried_out() {
    let bench = plain();
    bench.put_job("j", "");
    for (given, spelled) in [
        ("\"1.5\"", "1.5"),
        ("3", "3"),
        ("\"Wed, 21 Oct 2026 07:28:00 GMT\"", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("\"soon\"", "soon"),
    ] {
        let order = format!(r#"{{"fault":"status","status":429,"retry_after":{given},"operation":"fetch","times":1}}"#);
        assert_eq!(bench.post("/dev/faults", &order).status, 201);
        let answer = bench.fetch("w");
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some(spelled)));
    }
    assert_eq!(bench.state("j"), "available");
}

#[test]
fn a_delay_delays_and_every_second_means_every_second() {
    let mut bench = plain();
    bench
        .server
        .fault(FaultRule::on(Operation::Heartbeat, Fault::Delay(Duration::from_secs(60))).every(2))
        .unwrap();
    for (patience, is_answered) in [(PATIENCE, true), (NOTHING, false), (PATIENCE, true), (NOTHING, false)] {
        bench.patience = patience;
        let answer = bench.ask("POST", "/ojs/v1/workers/heartbeat", r#"{"worker_id":"w"}"#);
        assert_eq!(answer.is_ok(), is_answered, "{answer:?}");
    }
}

#[test]
fn faults_are_listed_and_switched_off_and_never_meet_who_does_it() {
    let bench = plain();
    let id = bench.post("/dev/faults", r#"{"fault":"status","status":500}"#).json["id"]
        .as_u64()
        .unwrap();
    assert_eq!(bench.get("/ojs/v1/queues").status, 500);
    assert_eq!(bench.get("/dev/faults").json["faults"][0]["hits"], 1);
    assert_eq!(bench.delete(&format!("/dev/faults/{id}")).status, 200);
    assert_eq!(bench.delete(&format!("/dev/faults/{id}")).status, 404);
    assert_eq!(bench.get("/ojs/v1/queues").status, 200);
    bench.post("/dev/faults", r#"{"fault":"close"}"#);
    assert_eq!(bench.delete("/dev/faults").status, 200);
    assert_eq!(bench.get("/ojs/v1/queues").status, 200);
    assert_eq!(bench.post("/dev/faults", r#"{"fault":"sulk"}"#).status, 400);
}

#[test]
fn an_event_tells_when_its_request_came_and_how_long_the_answer_took() {
    let bench = plain();
    bench.put_job("j", "");
    let before = bench.server.now_ms();
    bench.fetch("w");
    let delay = Duration::from_millis(200);
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::Delay(delay)))
        .unwrap();
    bench.worker("ack", ACK);
    let events = bench.server.events();
    assert_eq!(events.len(), 2, "each is told once: {events:#?}");
    let took = |number: usize| events[number].took_ms.unwrap();
    assert!(took(0) >= 0.0 && took(1) >= 200.0, "{events:#?}");
    let arrived: Vec<f64> = events.iter().map(|event| event.arrived_ms.unwrap()).collect();
    assert!(
        before <= arrived[0] && arrived[0] + took(0) <= arrived[1] + 0.001,
        "{events:#?}"
    );
    assert!((arrived[1] + took(1) - events[1].ms).abs() < 0.001, "{events:#?}");
    assert!(events[1].ms <= bench.get("/dev/events").json["now_ms"].as_f64().unwrap());
}

#[test]
fn an_answer_that_never_left_took_no_time() {
    for fault in [Fault::Hang, Fault::Close, Fault::LoseReply] {
        let mut bench = plain();
        bench.patience = NOTHING;
        bench
            .server
            .fault(FaultRule::on(Operation::Heartbeat, fault.clone()))
            .unwrap();
        let body = r#"{"worker_id":"w","state":"quiet","active_jobs":[]}"#;
        assert!(bench.ask("POST", "/ojs/v1/workers/heartbeat", body).is_err());
        assert!(bench.server.wait(PATIENCE, |server| !server.events().is_empty()));
        let event = &bench.server.events()[0];
        assert_eq!((event.took_ms, event.fault), (None, Some(fault.name())));
        let named = (event.worker.as_deref(), event.state.as_deref());
        assert_eq!(named, (Some("w"), Some("quiet")), "{fault}: it says who said what");
    }
}

#[test]
fn a_request_whose_client_leaves_before_the_delayed_answer_is_told_and_not_carried_out() {
    let mut bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::Delay(PATIENCE * 9)))
        .unwrap();
    bench.patience = NOTHING;
    assert!(bench.ask("POST", "/ojs/v1/workers/ack", ACK).is_err());
    assert!(bench.server.wait(PATIENCE, |server| server.events().len() == 2));
    let event = &bench.server.events()[1];
    assert_eq!((event.fault, event.status, event.took_ms), (Some("delay"), None, None));
    assert!(
        event.ms > event.arrived_ms.unwrap(),
        "it is told when the client left: {event:#?}"
    );
    assert_eq!(event.jobs, ["j"]);
    assert_eq!(bench.state("j"), "active");
}

#[test]
fn a_refused_request_tells_whom_and_what_it_named() {
    let bench = plain();
    bench
        .server
        .fault(
            FaultRule::on(
                Operation::Ack,
                Fault::Status {
                    status: 503,
                    retry_after: None,
                },
            )
            .times(1),
        )
        .unwrap();
    bench.worker("ack", ACK);
    bench.worker("heartbeat", r#"{"worker_id":"w","state":"quiet","active_jobs":true}"#);
    let events = bench.server.events();
    let named: Vec<_> = events
        .iter()
        .map(|event| (event.status, event.worker.as_deref(), event.jobs.len()))
        .collect();
    assert_eq!(named, [(Some(503), Some("w"), 1), (Some(400), Some("w"), 0)]);
}

#[test]
fn events_tell_who_did_what_to_which_job_and_what_came_of_it() {
    let bench = plain();
    bench.put_job("j", "");
    bench.fetch("w");
    bench.worker("heartbeat", r#"{"worker_id":"w","state":"quiet","active_jobs":["j"]}"#);
    bench
        .server
        .fault(FaultRule::on(Operation::Ack, Fault::LoseReply))
        .unwrap();
    let _ = bench.ask("POST", "/ojs/v1/workers/ack", ACK);
    let events = bench.get("/dev/events").json;
    let told: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            assert!(event["ms"].is_number() && event["time"].is_string());
            (
                event["operation"].clone(),
                event["worker"].clone(),
                event["jobs"].clone(),
                event["state"].clone(),
                event["status"].clone(),
                event["fault"].clone(),
            )
        })
        .collect();
    let null = serde_json::Value::Null;
    let expected = [
        ("fetch", null.clone(), null.clone()),
        ("heartbeat", "quiet".into(), null.clone()),
        ("ack", "completed".into(), "lose_reply".into()),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(operation, state, fault)| {
            (
                operation.into(),
                "w".into(),
                serde_json::json!(["j"]),
                state,
                200.into(),
                fault,
            )
        })
        .collect();
    assert_eq!(told, expected);
    let last = events["last"].as_u64().unwrap();
    assert_eq!(
        bench.get(&format!("/dev/events?after={last}")).json["events"],
        serde_json::json!([])
    );
    assert_eq!(
        bench.get("/dev/events?operation=ack&limit=1").json["events"][0]["operation"],
        "ack"
    );
}

#[test]
fn a_server_that_is_dropped_leaves_a_closed_port_even_when_requests_hang() {
    let mut bench = plain();
    bench.server.fault(FaultRule::on_all(Fault::Hang)).unwrap();
    bench.patience = NOTHING;
    assert!(bench.ask("GET", "/ojs/v1/queues", "").is_err());
    let address = bench.server.address();
    let was = bench.server.events().len();
    let hung = TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut &hung, b"GET /ojs/v1/queues HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(bench.server.wait(PATIENCE, |server| server.events().len() > was));
    drop(bench);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn ten_thousand_jobs_are_taken_and_done() {
    let bench = plain();
    let job = r#"{"type":"t","args":[]}"#;
    bench.server.enqueue_all(std::iter::repeat_n(job, 10_000)).unwrap();
    let fetched = bench.worker("fetch", r#"{"queues":["default"],"count":1000,"worker_id":"w"}"#);
    assert_eq!(fetched.json["jobs"].as_array().unwrap().len(), 1000);
    assert_eq!(bench.server.count(JobState::Available), 9_000);
}
