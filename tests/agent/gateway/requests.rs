//! Requests and answers on the wire.

use crate::backend::{Behaviour, Endpoint, Outcome};
use crate::gateway::worker;
use crate::stage::Stage;

#[test]
fn an_envelope_arrives_as_the_backend_spelled_it_and_the_result_goes_back_as_the_worker_did() {
    let stage = Stage::new();
    let envelope = r#"{"id":"j1","type":"t" ,"queue":"default","args":[1.50,"\u00e4"],"attempt":0,"x":{"b":1,"a":2}}"#;
    stage.backend.enqueue(envelope);
    let script = r#"
link = Link()
_, headers, body = link.ask(fetch())
note("type", headers["content-type"])
note("server", headers["server"].split("/")[0])
note("body", body.decode())
data = b'{"job_id":"j1","result":{"z" : 1.50}}'
link.send(b"POST /workers/ack HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
note("ack", link.answer()[2].decode())
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(
        init.noted("type"),
        r#"application/openjobspec+json; alias="application/json""#
    );
    assert_eq!(init.noted("server"), "ojs-init");
    assert_eq!(
        init.noted("body"),
        format!(r#"{{"jobs":[{envelope}],"job":{envelope}}}"#)
    );
    let of_the_backend = r#"{"acknowledged":true,"id":"j1","state":"completed"}"#;
    assert_eq!(init.noted("ack"), of_the_backend);
    let acks = stage.backend.records_of(Endpoint::Ack);
    let sent = String::from_utf8_lossy(&acks[0].request.body).into_owned();
    assert!(sent.contains(r#""result":{"z" : 1.50}"#), "{sent}");
    init.stops();
}

#[test]
fn requests_that_come_before_their_answers_are_answered_in_their_order() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
beat = post("heartbeat", worker_id="w", active_jobs=0)
unknown = request("GET", "/ojs/v1/queues/none")
link.send(fetch() + beat + unknown + request("HEAD", "/ojs/v1/workers/x") + post("ack", job_id="j1") + b"GARBAGE\r\n\r\n")
for has_body in [True, True, True, False, True, True]:
    status, headers, body = link.answer(has_body)
    note(status, body.decode()[:16])
note("closed", link.is_closed())
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("closed"), "True");
    let notes = init.notes();
    let begins = |line: usize, text: &str| assert!(notes[line].starts_with(text), "{notes:?}");
    begins(0, r#"200 {"jobs":[{"id":"#);
    begins(1, r#"200 {"state":"runnin"#);
    begins(2, r#"404 {"error":{"code""#);
    begins(3, "404 ");
    begins(4, r#"200 {"acknowledged":"#);
    begins(5, r#"400 {"error":{"code""#);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_request_may_come_byte_by_byte_in_chunks_and_after_a_continue() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = r#"
link = Link()
head = "POST /ojs/v1/workers/fetch HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
link.send(head.encode())
note("first", link.answer()[0])
body = b'{"queues":["default"],"batch_size":1}'
for byte in b"1;x=y\r\n" + body[:1] + b"\r\n" + b"%x\r\n" % (len(body) - 1) + body[1:] + b"\r\n0\r\nTrailer: x\r\n\r\n":
    link.send(bytes([byte]))
note("second", link.answer()[0])
old = Link()
old.send(b"POST /workers/nack HTTP/1.0\r\nContent-Length: 55\r\n\r\n" + b'{"job_id":"j1","error":{"type":"T","message":"broken"}}')
status, headers, _ = old.answer()
note("third", status, headers["connection"], old.is_closed())
rest()
"#;
    let mut init = worker(&stage, script).start();
    assert_eq!(init.noted("first"), "100");
    assert_eq!(init.noted("second"), "200");
    assert_eq!(init.noted("third"), "200 close True");
    let error = stage.failure("j1");
    assert_eq!((&error["type"], &error["message"]), (&"T".into(), &"broken".into()));
    init.stops();
}

#[test]
fn the_trailer_fields_of_an_outcome_reach_nobody_and_the_outcome_counts() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    let script = r#"
def ack(job, trailer):
    data = b'{"job_id":"%s"}' % job
    head = b"POST /ojs/v1/workers/ack HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n"
    return head + b"%x\r\n" % len(data) + data + b"\r\n0\r\n" + trailer
fields = b"X-Checksum: 1\r\nContent-Encoding: gzip\r\nAuthorization: Bearer other\r\n\r\n"
link = Link()
link.job(), link.job()
note("ours", link.ask(ack(b"j1", fields))[0])
note("not ours", link.ask(ack(b"unknown", fields))[0])
note("next", link.ask(post("heartbeat", worker_id="w", active_jobs=1))[0])
link.send(ack(b"j2", b"X: y\r\n" * 2000 + b"\r\n"))
status, _, body = link.answer()
note("long", status, json.loads(body)["error"]["code"])
half = Link()
half.send(ack(b"j2", b"X-Checksum: 1\r\n"))
half.socket.shutdown(socket.SHUT_WR)
note("half", half.answer())
rest()
"#;
    let mut init = worker(&stage, script)
        .with("OJS_AUTH_TOKEN", "hunter2")
        .with("OJS_SHUTDOWN_GRACE_PERIOD", "0s")
        .start();
    assert_eq!(init.noted("ours"), "200");
    assert_eq!(init.noted("not ours"), "404");
    assert_eq!(init.noted("next"), "200");
    assert_eq!(init.noted("long"), "400 gateway_bad_request");
    assert_eq!(init.noted("half"), "None");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    let acks = stage.backend.records_of(Endpoint::Ack);
    assert_eq!(acks.len(), 2, "the trailer of j2 never came to its end");
    for ack in &acks {
        for name in ["trailer", "transfer-encoding", "x-checksum", "content-encoding"] {
            assert_eq!(ack.request.header(name), None, "{name}");
        }
        assert_eq!(ack.request.header("authorization"), Some("Bearer hunter2"));
    }
    assert_eq!(acks[1].request.body, br#"{"job_id":"unknown"}"#);
    init.stops();
}

#[test]
fn a_fetch_with_no_count_or_with_none_above_zero_asks_for_one_job() {
    let stage = Stage::new();
    let script = r#"
link = Link()
for number, count in enumerate([{}, {"count": 0}, {"count": None}, {"count": -3}, {"count": 5}]):
    link.ask(post("fetch", queues=["q%d" % number], worker_id="w", **count))
note("asked", "all")
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_CONCURRENCY", "3").start();
    init.noted("asked");
    let fetches = stage.backend.records_of(Endpoint::Fetch);
    let counts: Vec<_> = fetches.iter().map(|fetch| fetch.json()["count"].clone()).collect();
    assert_eq!(counts, [1, 1, 1, 1, 3], "worker.concurrency bounds the last one");
    init.stops();
}

#[test]
fn what_is_not_about_being_a_worker_passes_through_with_our_token_and_untouched() {
    let stage = Stage::new();
    let answer = Behaviour::Answer(
        201,
        r#"{"job":{"id":"x"} }"#.to_owned(),
        vec![("X-Own", "1".to_owned())],
    );
    stage.backend.always(Endpoint::Other, answer);
    let script = r#"
link = Link()
headers = ["Authorization: Bearer mine", "Connection: keep-alive", "X-Request-Id: r 1", "Content-Type: a/b"]
headers[0] = "Authorization: Bearer " + os.environ["OJS_AUTH_TOKEN"]
status, headers, body = link.ask(request("POST", "/ojs/v1/jobs?x=%20y", {"type": "t"}, headers))
note("answer", status, headers["x-own"], "server" in headers, body.decode())
note("url", os.environ["OJS_URL"])
rest()
"#;
    let mut init = worker(&stage, script).with("OJS_AUTH_TOKEN", "hunter2").start();
    assert_eq!(init.noted("answer"), r#"201 1 False {"job":{"id":"x"} }"#);
    assert!(init.noted("url").starts_with("http://127.0.0.1:"));
    let others = stage.backend.records_of(Endpoint::Other);
    let request = others
        .iter()
        .map(|record| &record.request)
        .find(|request| request.method == "POST");
    let request = request.unwrap();
    assert_eq!(request.path, "/ojs/v1/jobs?x=%20y");
    assert_eq!(request.header("authorization"), Some("Bearer hunter2"));
    assert_eq!(request.header("x-request-id"), Some("r 1"));
    assert_eq!(request.header("host").unwrap(), stage.backend.address().to_string());
    assert_eq!(request.body, br#"{"type": "t"}"#);
    init.stops();
}

#[test]
fn a_worker_that_registers_is_told_yes_and_the_backend_knows_one_worker() {
    let stage = Stage::new();
    let script = r#"
link = Link()
for call in [post("register", worker_id="mine"), request("DELETE", "/ojs/v1/workers/mine"), post("deregister", worker_id="mine")]:
    status, headers, body = link.ask(call)
    note("answer", status, json.loads(body)["ok"])
note("done", "yes")
link.job()
"#;
    let mut init = worker(&stage, script).start();
    init.noted("done");
    init.notes_times("answer 200 True", 3);
    let registered = stage.backend.records_of(Endpoint::Register);
    assert!(
        registered
            .iter()
            .all(|record| record.text("worker_id").as_deref() != Some("mine"))
    );
    assert_eq!(stage.count(Endpoint::Deregister), 0);
    init.stops();
}
