//! Streams of events: what is told to whoever listens, and what is wrong with them on demand.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be had fails the test")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use common::{Bench, PATIENCE, bench, plain};
use ojs_devserver::{Dialect, Fault, FaultRule, Operation, Options, StreamFault};
use serde_json::Value;
use ureq::{Agent, BodyReader};

const OF_DEFAULT: &str = "/ojs/v1/queues/default/events";

/// Long enough to be sure that nothing comes, short enough to wait for it.
const NOTHING: Duration = Duration::from_millis(300);

/// A stream that somebody listens to.
struct Listener {
    lines: BufReader<BodyReader<'static>>,
}

/// A piece of a stream: an event, or a comment line, or the end.
#[derive(Debug, PartialEq)]
enum Came {
    Event { name: String, id: String, data: Value },
    Comment,
    End,
}

/// Opens a stream that has to be one; the whole of it may take so long.
fn listen_for(bench: &Bench, path: &str, last_event: Option<&str>, patience: Duration) -> Listener {
    let config = Agent::config_builder().timeout_global(Some(patience)).build();
    let mut request = Agent::new_with_config(config)
        .get(format!("{}{path}", bench.server.url()))
        .header("accept", "text/event-stream");
    if let Some(id) = last_event {
        request = request.header("last-event-id", id);
    }
    let answer = request.call().unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    Listener {
        lines: BufReader::new(answer.into_body().into_reader()),
    }
}

fn listen(bench: &Bench, path: &str) -> Listener {
    listen_for(bench, path, None, PATIENCE)
}

impl Listener {
    /// The next piece; fields that say nothing new are left out.
    fn next(&mut self) -> Result<Came, std::io::Error> {
        let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Ok(Came::End);
            }
            match line.trim_end().split_once(':') {
                Some(("", _)) => return Ok(Came::Comment),
                Some(("event", value)) => value.trim().clone_into(&mut name),
                Some(("id", value)) => value.trim().clone_into(&mut id),
                Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
                Some(_) => {}
                None if data.is_null() => {}
                None => return Ok(Came::Event { name, id, data }),
            }
        }
    }

    /// The next event: its name, its id and what it says.
    fn event(&mut self) -> (String, String, Value) {
        loop {
            match self.next().unwrap() {
                Came::Event { name, id, data } => return (name, id, data),
                Came::Comment => {}
                Came::End => panic!("the stream ended"),
            }
        }
    }

    /// The job of the next change and the state that it got into.
    fn change(&mut self) -> (String, String) {
        let (name, _, data) = self.event();
        assert_eq!(name, "job.state_changed");
        let text = |field: &str| data[field].as_str().unwrap().to_owned();
        (text("job_id"), text("to"))
    }
}

fn change(job: &str, to: &str) -> (String, String) {
    (job.to_owned(), to.to_owned())
}

/// A server with a job in the queue default, so that there is one.
fn with_queue() -> Bench {
    let bench = plain();
    bench.put_job("first", "");
    bench
}

fn with_fault(fault: StreamFault) -> Bench {
    let bench = with_queue();
    let rule = FaultRule::on(Operation::Events, Fault::Stream(fault));
    bench.server.fault(rule).unwrap();
    bench
}

#[test]
fn the_stream_of_a_queue_tells_what_its_jobs_go_through_and_nothing_of_others() {
    let bench = with_queue();
    let mut stream = listen(&bench, OF_DEFAULT);
    assert_eq!(stream.next().unwrap(), Came::Comment);
    bench
        .server
        .enqueue(r#"{"id":"other","type":"t","args":[],"queue":"another"}"#)
        .unwrap();
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "first");
    bench.worker("ack", r#"{"job_id":"first","worker_id":"w"}"#);
    bench.put_job("second", "");
    let told = [(); 3].map(|()| stream.change());
    let expected = [
        change("first", "active"),
        change("first", "completed"),
        change("second", "available"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_event_says_all_that_the_extension_asks_for() {
    let bench = with_queue();
    let mut stream = listen(&bench, OF_DEFAULT);
    bench.fetch("w");
    let (_, id, data) = stream.event();
    assert!(id.parse::<u64>().is_ok(), "{id}");
    for (field, value) in [
        ("job_id", "first"),
        ("queue", "default"),
        ("type", "t"),
        ("from", "available"),
        ("to", "active"),
    ] {
        assert_eq!(data[field], value);
    }
    assert!(data["timestamp"].as_str().unwrap().ends_with('Z'), "{data}");
}

#[test]
fn there_is_no_stream_of_what_is_not_there() {
    let bench = plain();
    assert_eq!(bench.get(OF_DEFAULT).status, 404);
    assert_eq!(bench.get("/ojs/v1/jobs/nobody/events").status, 404);
}

#[test]
fn the_stream_of_a_job_ends_with_the_life_of_the_job() {
    let bench = with_queue();
    bench.put_job("second", "");
    let mut stream = listen(&bench, "/ojs/v1/jobs/second/events");
    bench.server.cancel("first").unwrap();
    bench.server.cancel("second").unwrap();
    assert_eq!(stream.change(), change("second", "cancelled"));
    assert_eq!(stream.next().unwrap(), Came::End);
    let mut late = listen(&bench, "/ojs/v1/jobs/second/events");
    assert_eq!(late.change(), change("second", "cancelled"));
    assert_eq!(late.next().unwrap(), Came::End);
}

#[test]
fn a_silent_queue_has_comment_lines() {
    let bench = bench(Options {
        stream_heartbeat: Duration::from_millis(20),
        ..Options::default()
    });
    bench.put_job("first", "");
    let mut stream = listen(&bench, OF_DEFAULT);
    assert_eq!(
        [(); 3].map(|()| stream.next().unwrap()),
        [(); 3].map(|()| Came::Comment)
    );
}

#[test]
fn who_comes_again_hears_what_happened_meanwhile() {
    let bench = with_queue();
    let mut stream = listen(&bench, OF_DEFAULT);
    bench.fetch("w");
    let (_, id, _) = stream.event();
    drop(stream);
    bench.put_job("second", "");
    let mut again = listen_for(&bench, OF_DEFAULT, Some(&id), PATIENCE);
    assert_eq!(again.change(), change("second", "available"));
    let mut without_sense = listen_for(&bench, OF_DEFAULT, Some("abc"), PATIENCE);
    bench.put_job("third", "");
    assert_eq!(without_sense.change(), change("third", "available"));
}

#[test]
fn who_missed_more_than_is_remembered_is_told_so() {
    let bench = plain();
    for number in 0..1_005 {
        bench.put_job(&format!("j{number}"), "");
    }
    let mut stream = listen_for(&bench, OF_DEFAULT, Some("0"), PATIENCE);
    let (name, _, data) = stream.event();
    assert_eq!(
        (name.as_str(), &data["count"]),
        ("system.events_dropped", &Value::from(5))
    );
    assert_eq!(stream.change(), change("j5", "available"));
}

#[test]
fn in_the_dialect_go_one_stream_says_of_several_queues_that_there_is_something() {
    let bench = bench(Options {
        dialect: Dialect::Go,
        ..Options::default()
    });
    let mut stream = listen(&bench, "/ojs/v1/events?queues=default,another");
    bench
        .server
        .enqueue(r#"{"type":"t","args":[],"queue":"third"}"#)
        .unwrap();
    bench
        .server
        .enqueue(r#"{"type":"t","args":[],"queue":"another"}"#)
        .unwrap();
    let (name, id, data) = stream.event();
    assert_eq!((name.as_str(), id.as_str()), ("job_available", ""));
    assert_eq!(data, serde_json::json!({"queue": "another"}));
    assert_eq!(bench.get("/ojs/v1/events").status, 400);
    // Without a word on streams that path has a list in the dialect `spec`.
    let mut other = with_queue();
    other.headers.push(("accept", "text/event-stream"));
    assert_eq!(other.get("/ojs/v1/events?queues=default").status, 404);
}

#[test]
fn the_dialects_to_the_letter_have_no_streams() {
    for dialect in [Dialect::Integer, Dialect::Strict, Dialect::Protocol] {
        let bench = bench(Options {
            dialect,
            ..Options::default()
        });
        bench.put_job("first", "");
        assert_eq!(bench.get(OF_DEFAULT).status, 404, "{dialect}");
    }
}

#[test]
fn a_stream_ends_when_the_port_is_closed() {
    let bench = with_queue();
    let mut stream = listen(&bench, OF_DEFAULT);
    assert!(bench.server.refuse_connections());
    let mut rest = Vec::new();
    // An end, or a connection that breaks: both within PATIENCE, or the client's own error says
    // timeout.
    if let Err(error) = stream.lines.read_to_end(&mut rest) {
        assert!(!error.to_string().contains("timeout"), "{error}");
    }
}

#[test]
fn a_silent_stream_tells_of_nothing_that_happens() {
    let bench = with_fault(StreamFault::Silent);
    let mut stream = listen_for(&bench, OF_DEFAULT, None, NOTHING);
    assert_eq!(stream.next().unwrap(), Came::Comment);
    bench.put_job("second", "");
    assert!(stream.next().is_err());
}

#[test]
fn a_stream_that_hangs_has_a_head_and_no_body() {
    let bench = with_fault(StreamFault::Hangs);
    let mut stream = listen_for(&bench, OF_DEFAULT, None, NOTHING);
    bench.put_job("second", "");
    assert!(stream.next().is_err());
}

#[test]
fn a_stream_that_ends_does_so_at_once() {
    let bench = with_fault(StreamFault::Ends);
    assert_eq!(listen(&bench, OF_DEFAULT).next().unwrap(), Came::End);
}

#[test]
fn a_stream_that_lies_tells_of_jobs_that_are_not_there() {
    let bench = with_fault(StreamFault::Lies);
    let (job, to) = listen(&bench, OF_DEFAULT).change();
    assert_eq!(to, "available");
    assert!(bench.server.job(&job).is_none());
}

#[test]
fn a_flood_does_not_keep_others_from_being_served() {
    let bench = with_fault(StreamFault::Floods);
    let mut stream = listen(&bench, OF_DEFAULT);
    for _ in 0..5_000 {
        assert_eq!(stream.change().1, "available");
    }
    // Nobody reads any more, and the connection is full.
    bench.put_job("second", "");
    assert_eq!(bench.fetch("w").json["jobs"][0]["id"], "first");
}

#[test]
fn a_stream_without_comments_tells_what_happens() {
    let bench = with_fault(StreamFault::WithoutComments);
    let mut stream = listen(&bench, OF_DEFAULT);
    bench.put_job("second", "");
    let (name, _, _) = match stream.next().unwrap() {
        Came::Event { name, id, data } => (name, id, data),
        other @ (Came::Comment | Came::End) => panic!("{other:?}"),
    };
    assert_eq!(name, "job.state_changed");
}

#[test]
fn a_stream_is_an_event_of_the_server_as_any_request() {
    let bench = with_queue();
    let _stream = listen(&bench, OF_DEFAULT);
    let events = bench.server.events();
    let opened = events.iter().find(|event| event.operation == "events").unwrap();
    assert_eq!(
        (opened.request.as_str(), opened.status),
        ("GET /ojs/v1/queues/default/events", Some(200))
    );
}
