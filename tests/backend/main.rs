//! The real connections against a backend that does everything wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot get at its answer has failed"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/backend/mod.rs"]
mod backend;
#[path = "../support/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod connections;
mod hostile;
mod over_tls;
mod proxies;
mod raw_server;
mod rig;
mod streams;
mod tls;
mod tokens;
mod transport;
mod trust;
mod tunnel_rig;
mod tunnels;

use std::path::PathBuf;
use std::time::Duration;

use crate::support::{temp, wait};
use backend::{Behaviour, Endpoint, Outcome};
use ojs_lifecycle::api::{Directive, Failure, JobState, Reply};
use rig::*;

#[test]
fn a_job_goes_through_every_call_of_its_life() {
    let backend = backend::Backend::start();
    let envelopes = [
        r#"{"id":"a","type":"t","args":[1.50],"attempt":0}"#,
        r#"{"id":"b", "type":"t"}"#,
        r#"{"id":"c","type":"t"}"#,
    ];
    envelopes.iter().for_each(|envelope| backend.enqueue(envelope));
    backend.direct("active", "quiet");
    let mut rig = Rig::of(&backend);

    let registered = Reply::Registered {
        heartbeat_interval: None,
        longest_interval: None,
    };
    assert_eq!(rig.ask(register()), registered);
    let Reply::Fetched(deliveries) = rig.ask(fetch(3)) else {
        panic!("no jobs")
    };
    let brought: Vec<&str> = deliveries.iter().map(|delivery| &*delivery.envelope).collect();
    assert_eq!(brought, envelopes);
    let beaten = Reply::HeartbeatOk {
        directive: Some(Directive::Quiet),
        extended: Some(vec![job("a")]),
    };
    assert_eq!(rig.ask(beat()), beaten);
    let Reply::JobSeen(view) = rig.ask(look("a")) else {
        panic!("no view")
    };
    assert_eq!((view.state, view.worker), (JobState::Active, Some(worker())));
    for call in [
        progress("a"),
        checkpoint("a"),
        ack("a"),
        fail("b"),
        requeue("c"),
        deregister(),
    ] {
        assert_eq!(rig.ask(call), Reply::Accepted);
    }
    assert_eq!(rig.ask(ack("a")), failed(Failure::AlreadyCompleted));
    assert_eq!(rig.ask(ack("c")), failed(Failure::Lost));
    assert_eq!(rig.ask(ack("z")), failed(Failure::NotFound));
    assert_eq!(rig.ask(fetch(1)), Reply::Fetched(vec![deliveries[2].clone()]));
    assert_eq!(rig.ask(ack("c")), Reply::Accepted);
    backend.assert_one_outcome_each();
    assert_eq!(backend.most_active(), 3);
    let result = serde_json::json!({"secret": "result"});
    assert_eq!(
        backend.outcomes()["c"],
        [Outcome::Requeued, Outcome::Acked(Some(result))]
    );
}

#[test]
fn each_request_says_who_asks_and_in_which_language() {
    let backend = backend::Backend::start();
    let mut rig = Rig::of(&backend);
    rig.ask(beat());
    rig.ask(look("a"));
    let records = backend.records();
    for record in &records {
        let header = |name| record.request.header(name).unwrap_or_default();
        assert_eq!(header("authorization"), format!("Bearer {TOKEN}"));
        assert_eq!(header("accept"), "application/openjobspec+json");
        assert_eq!(header("ojs-version"), "1.0.0-rc.1");
        assert_eq!(header("x-ojs-tenant"), "acme");
        assert!(header("user-agent").starts_with("ojs-init/"));
        assert_eq!(header("x-request-id").len(), 36);
        let of_body = record.request.header("content-type");
        let expected = (record.endpoint == Endpoint::Heartbeat).then_some("application/openjobspec+json");
        assert_eq!(of_body, expected);
    }
    let ids = [0, 1].map(|index| records[index].request.header("x-request-id"));
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_fetch_that_hangs_delays_no_heartbeat_and_no_report() {
    let backend = backend::Backend::start();
    backend.enqueue(r#"{"id":"a"}"#);
    let mut rig = Rig::of(&backend);
    rig.ask(fetch(1));
    backend.always(Endpoint::Fetch, Behaviour::Hang);
    let hanging = rig.send(fetch(1), PATIENCE);
    backend.wait_for_count(Endpoint::Fetch, 2, PATIENCE);
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    drop(backend);
    assert_eq!(rig.next(), (hanging, failed(Failure::Unanswered)));
}

#[test]
fn a_heartbeat_a_register_and_a_deregister_that_hang_are_overtaken_by_the_next_heartbeat() {
    let backend = backend::Backend::start();
    backend.once(Endpoint::Heartbeat, Behaviour::Hang);
    backend.always(Endpoint::Register, Behaviour::Hang);
    backend.always(Endpoint::Deregister, Behaviour::Hang);
    let mut rig = Rig::of(&backend);
    for call in [beat(), register(), deregister()] {
        rig.send(call, PATIENCE);
    }
    for endpoint in [Endpoint::Heartbeat, Endpoint::Register, Endpoint::Deregister] {
        backend.wait_for_count(endpoint, 1, PATIENCE);
    }
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
}

#[test]
fn an_answer_that_never_comes_is_given_up_in_time() {
    let backend = backend::Backend::start();
    for (endpoint, call) in one_of_each() {
        backend.always(endpoint, Behaviour::Hang);
        let mut rig = Rig::of(&backend);
        let latest = wait::now() + SHORT + SLACK;
        rig.send(call.clone(), SHORT);
        let (_, reply, at) = rig.answers.recv_timeout(PATIENCE).unwrap();
        assert_eq!(reply, failed(Failure::Unanswered), "{call:?}");
        assert!(at < latest, "{call:?}: too late");
    }
}

#[test]
fn a_call_whose_time_is_over_is_not_sent() {
    let backend = backend::Backend::start();
    let mut rig = Rig::of(&backend);
    for call in [ack("a"), look("a")] {
        rig.send(call, Duration::ZERO);
        assert_eq!(rig.next().1, failed(Failure::NotSent));
    }
    assert!(backend.records().is_empty());
}

#[test]
fn where_nobody_listens_nothing_was_sent_until_somebody_does() {
    let backend = backend::Backend::start();
    backend.refuse_connections();
    let mut rig = Rig::of(&backend);
    for (_, call) in one_of_each() {
        assert_eq!(rig.ask(call.clone()), failed(Failure::NotSent), "{call:?}");
    }
    backend.accept_connections();
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
}

#[test]
fn a_host_that_nobody_knows_was_not_sent_anything() {
    let mut rig = Rig::new(settings("http://no-such-host.invalid:1"));
    for call in [ack("a"), look("a")] {
        assert_eq!(rig.ask(call), failed(Failure::NotSent));
    }
}

#[test]
fn a_backend_is_found_by_its_name_and_below_its_prefix() {
    let backend = backend::Backend::start();
    let mut rig = Rig::new(settings(&format!(
        "http://localhost:{}/below",
        backend.address().port()
    )));
    assert_eq!(rig.ask(fetch(1)), failed(Failure::Unsupported));
    assert_eq!(backend.records()[0].request.path, "/below/ojs/v1/workers/fetch");
}

#[test]
fn a_connection_is_kept_and_one_that_died_while_idle_is_replaced_unnoticed() {
    let backend = backend::Backend::start();
    let mut rig = Rig::of(&backend);
    for _ in 0..2 {
        assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    }
    backend.drop_connections();
    assert!(matches!(rig.ask(beat()), Reply::HeartbeatOk { .. }));
    let connections: Vec<u64> = backend.records().iter().map(|record| record.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[test]
fn a_request_whose_answer_was_lost_may_have_been_carried_out() {
    let backend = backend::Backend::start();
    backend.enqueue(r#"{"id":"a"}"#);
    Rig::of(&backend).ask(fetch(1));
    // On connections that served no other request: else the loss of the connection would be put
    // down to that.
    let mut rig = Rig::of(&backend);
    backend.once(Endpoint::Ack, Behaviour::Close);
    backend.once(Endpoint::Ack, Behaviour::LoseReply);
    for _ in 0..2 {
        assert_eq!(rig.ask(ack("a")), failed(Failure::Unanswered));
    }
    assert_eq!(rig.ask(ack("a")), failed(Failure::AlreadyCompleted));
    assert_eq!(
        backend.records_of(Endpoint::Ack).len(),
        3,
        "nothing is repeated behind our back"
    );
}

#[test]
fn an_answer_that_breaks_off_counts_as_far_as_it_goes() {
    let backend = backend::Backend::start();
    for (id, length) in [("a", 20_000), ("b", 60_000), ("c", 60_000)] {
        backend.enqueue(&format!(r#"{{"id":"{id}","args":["{}"]}}"#, "x".repeat(length)));
    }
    let mut rig = Rig::of(&backend);
    backend.once(Endpoint::Fetch, Behaviour::Truncate);
    let Reply::Fetched(deliveries) = rig.ask(fetch(2)) else {
        panic!("the first job was whole")
    };
    assert_eq!(deliveries.len(), 1);
    backend.once(Endpoint::Ack, Behaviour::Truncate);
    assert_eq!(rig.ask(ack("a")), Reply::Accepted);
    backend.once(Endpoint::Fetch, Behaviour::Truncate);
    assert_eq!(rig.ask(fetch(1)), failed(Failure::Unanswered));
}

#[test]
fn an_endless_answer_is_read_to_its_bound_only() {
    let backend = backend::Backend::start();
    let envelope = |id: &str| format!(r#"{{"id":"{id}","args":["{}"]}}"#, "x".repeat(3 << 20));
    backend.once(
        Endpoint::Fetch,
        Behaviour::body(format!(r#"{{"jobs":[{},{}]}}"#, envelope("a"), envelope("b"))),
    );
    let mut rig = Rig::of(&backend);
    let Reply::Fetched(deliveries) = rig.ask(fetch(1)) else {
        panic!("the first job is within the bound")
    };
    assert_eq!(deliveries.len(), 1);
}

#[test]
fn a_redirect_takes_neither_the_request_nor_the_token_elsewhere() {
    let backend = backend::Backend::start();
    let elsewhere = backend::Backend::start();
    let location = ("Location", format!("{}/ojs/v1/workers/ack", elsewhere.url()));
    for status in [301, 302, 303, 307, 308] {
        let redirect = Behaviour::Answer(status, String::new(), vec![location.clone()]);
        backend.always(Endpoint::Ack, redirect);
        assert_eq!(Rig::of(&backend).ask(ack("a")), failed(Failure::Redirected));
    }
    assert!(elsewhere.records().is_empty());
}

#[test]
fn a_backend_that_declines_says_when_to_come_back() {
    let backend = backend::Backend::start();
    let header = ("Retry-After", "1.5".to_owned());
    backend.always(Endpoint::Ack, Behaviour::Answer(429, String::new(), vec![header]));
    let retry_after = Some(Duration::from_millis(1500));
    assert_eq!(
        Rig::of(&backend).ask(ack("a")),
        failed(Failure::RetryLater { retry_after })
    );
}

#[test]
fn every_job_can_be_reported_at_the_same_time_even_when_as_many_reports_hang() {
    let backend = backend::Backend::start();
    backend.always(Endpoint::Ack, Behaviour::Hang);
    backend.always(Endpoint::Nack, Behaviour::Hang);
    let mut rig = Rig::of(&backend);
    for id in ["a", "b", "c", "d"] {
        rig.send(ack(id), PATIENCE);
    }
    backend.wait_for_count(Endpoint::Ack, 4, PATIENCE);
    for id in ["a", "b", "c", "d"] {
        rig.send(fail(id), PATIENCE);
    }
    backend.wait_for_count(Endpoint::Nack, 4, PATIENCE);
    assert!(rig.answers.try_recv().is_err());
}

#[test]
fn more_reports_than_there_is_room_for_are_refused_at_once_and_each_is_answered_once() {
    let backend = backend::Backend::start();
    backend.always(Endpoint::Ack, Behaviour::Hang);
    let mut few = settings(&backend.url());
    few.identity.concurrency = 1;
    let mut rig = Rig::new(few);
    rig.send_many(100, &ack("a"), SHORT);
    // Two under way, 64 that wait.
    let refused: Vec<u64> = (0..34).map(|_| rig.next().0).collect();
    assert_eq!(refused, (67..=100).collect::<Vec<u64>>());
    let rest = rig.rest(66);
    let unanswered = rest.values().filter(|reply| **reply == failed(Failure::Unanswered));
    assert!(unanswered.count() >= 2);
    assert!(
        backend.records().len() <= 4,
        "what waited for too long must not be sent"
    );
}

#[test]
fn a_certificate_that_cannot_be_used_is_an_error_that_names_it() {
    let given = |url: &str, path: &str, as_key: bool| {
        let mut settings = settings(url);
        if as_key {
            settings.backend.cert_file = Some(PathBuf::from(path));
            settings.backend.key_file = Some(PathBuf::from(path));
        } else {
            settings.backend.ca_file = Some(PathBuf::from(path));
        }
        settings
    };
    let error = |path: &str, as_key: bool| start_error(given("https://127.0.0.1:1", path, as_key)).unwrap();
    // The warning says that http uses neither, so neither is read.
    for as_key in [false, true] {
        assert_eq!(
            start_error(given("http://127.0.0.1:1", "/nonexistent/ca.pem", as_key)),
            None
        );
    }
    let missing = error("/nonexistent/ca.pem", false);
    assert!(
        missing.starts_with("backend.ca_file = /nonexistent/ca.pem: cannot be read:"),
        "{missing}"
    );
    let empty = error("/dev/null", false);
    assert_eq!(empty, "backend.ca_file = /dev/null: holds no certificate in PEM form");
    let no_chain = error("/dev/null", true);
    assert_eq!(
        no_chain,
        "backend.cert_file = /dev/null: holds no certificate in PEM form"
    );
}

#[test]
fn the_only_threads_are_those_for_names_and_the_token_and_they_take_no_signal() {
    let backend = backend::Backend::start();
    let directory =
        temp::TempDir::new(std::env::temp_dir().join(format!("ojs-threads-{}", std::process::id()))).unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "token").unwrap();
    let mut settings = settings(&format!("http://localhost:{}", backend.address().port()));
    settings.backend.auth_token_file = Some(file);
    let mut rig = Rig::new(settings);
    for (_, call) in one_of_each() {
        rig.ask(call);
    }
    // To take none is the first thing that it does, and those of other tests may just have started.
    let take_none = |name: &str| {
        let masks = signal_masks(name);
        !masks.is_empty() && masks.iter().all(|mask| mask == NO_SIGNAL)
    };
    for name in ["resolve4", "resolve6", "token"] {
        assert!(
            wait::wait_until(PATIENCE, || take_none(name)),
            "{name}: {:?}",
            signal_masks(name)
        );
    }
}

/// The mask of a thread that takes none but KILL and STOP, which nobody can block.
const NO_SIGNAL: &str = "fffffffffffbfeff";

/// Signals that the threads of this name block, in this process: also those of other tests.
fn signal_masks(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    // A thread of another test may end meanwhile.
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let of_name = statuses.filter(|status| field(status, "Name:") == name);
    of_name.map(|status| field(&status, "SigBlk:")).collect()
}

#[test]
fn neither_the_token_nor_anything_of_a_job_reaches_any_log() {
    let backend = backend::Backend::start();
    let mut rig = Rig::of(&backend);
    backend.enqueue(r#"{"id":"a","args":["hunter2-argument"]}"#);
    rig.ask(fetch(1));
    let odd = r#"{"jobs":[{"args":["hunter2-argument"]},{"id":"x","args":["hunter2-argument"]}"#;
    backend.once(Endpoint::Fetch, Behaviour::body(odd));
    rig.ask(fetch(1));
    for behaviour in [
        Behaviour::Close,
        Behaviour::status(401),
        Behaviour::body("hunter2-body"),
    ] {
        for (endpoint, call) in one_of_each() {
            backend.once(endpoint, behaviour.clone());
            rig.ask(call);
        }
    }
    backend.refuse_connections();
    rig.ask(ack("a"));
    let log = LOG.lock().unwrap().clone();
    assert!(log.contains("odd answer to a FETCH") && log.contains("401") && log.contains("refused"));
    let leaks: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("hunter2") || line.contains("secret"))
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
