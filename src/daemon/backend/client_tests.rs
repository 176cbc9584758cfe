//! The cost of a bug of ojs-init: one answer and its connection.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::net::TcpListener;

use mio::{Events, Poll};

use super::*;
use crate::config::{Environment, Flags};
use crate::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::StreamTopic;
use ojs_wire::backend::request::Identity;

fn settings(url: &str) -> BackendSettings {
    let variables = [format!("OJS_URL={url}")];
    let environment = Environment::from_entries(variables.iter().map(String::as_bytes));
    BackendSettings {
        backend: crate::config::load(&Flags::default(), &environment).unwrap().backend,
        url_setting: String::new(),
        identity: Identity {
            hostname: String::new(),
            pid: 1,
            queues: vec!["default".to_owned()],
            concurrency: 4,
            labels: Vec::new(),
            started_at: String::new(),
        },
        max_frame: 1 << 20,
    }
}

fn now() -> Moment {
    Moment::new(clock::monotonic())
}

#[test]
fn a_panic_costs_one_answer_and_its_connection_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), TokenOwner::Threads.token()).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut backend = Backend::start(settings(&url), Arc::new(waker)).unwrap();
    for id in [1, 2] {
        backend.send(CallId(id), Call::Manifest, now().after(Duration::from_secs(20)), false);
    }
    let mut events = Events::with_capacity(16);
    let is_under_way = |backend: &Backend| {
        let exchanging = |pending: &Pending| matches!(pending.stage, RequestStage::Exchanging(_));
        backend.pending.values().filter(|pending| exchanging(pending)).count() == 2
    };
    while !is_under_way(&backend) {
        backend.turn(poll.registry(), now(), now(), |_, says| panic!("{says:?}"));
        poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
        for event in &events {
            if let TokenOwner::Backend(slot) = TokenOwner::of(event.token()) {
                backend.is_ready(slot, event);
            }
        }
    }
    assert_eq!(backend.reach.slots.iter().count(), 2);
    backend.guarded(Some(CallId(1)), None, |_| panic!("a bug"));
    let left: Vec<Option<CallId>> = backend
        .reach
        .slots
        .iter()
        .map(|(_, connection)| connection.owner)
        .collect();
    assert_eq!(left, [Some(CallId(2))]);
    let mut answers = Vec::new();
    for _ in 0..2 {
        backend.turn(poll.registry(), now(), now(), |id, says| {
            if let BackendSays::Answer(reply, _) = says {
                answers.push((id, reply));
            }
        });
    }
    assert_eq!(answers, [(CallId(1), Reply::Failed(Failure::Unanswered))]);
    assert!(!backend.has_more());
}

#[test]
fn a_stream_that_is_silent_for_longer_than_comments_may_be_apart_is_closed_and_no_sooner() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut poll = Poll::new().unwrap();
    let waker = Waker::new(poll.registry(), TokenOwner::Threads.token()).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut backend = Backend::start(settings(&url), Arc::new(waker)).unwrap();
    let topic = StreamTopic::Queue("default".into());
    let began = now();
    backend.send(
        CallId(1),
        Call::Listen { topic },
        began.after(Duration::from_secs(10)),
        false,
    );
    backend.turn(poll.registry(), began, began, |_, says| panic!("{says:?}"));
    let (mut server, _) = listener.accept().unwrap();
    server
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        .unwrap();
    let mut events = Events::with_capacity(16);
    let mut is_open = false;
    while !is_open {
        poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
        for event in &events {
            if let TokenOwner::Backend(slot) = TokenOwner::of(event.token()) {
                backend.is_ready(slot, event);
            }
        }
        backend.turn(poll.registry(), began, began, |_, says| {
            is_open |= matches!(says, BackendSays::News(StreamNews::Opened));
        });
    }
    let mut said = Vec::new();
    for seconds in [11, 44, 46] {
        let later = began.after(Duration::from_secs(seconds));
        backend.turn(poll.registry(), later, later, |_, says| said.push((seconds, says)));
    }
    assert!(
        matches!(
            said.as_slice(),
            [(46, BackendSays::Answer(Reply::Failed(Failure::Unanswered), _))]
        ),
        "{said:?}"
    );
    assert_eq!(backend.reach.slots.iter().count(), 0);
}
