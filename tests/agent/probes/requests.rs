//! Requests for what there is not, and what a worker gets of all this: nothing.

use std::io::{Read, Write};
use std::path::PathBuf;

use super::{ANY_PORT, WORKS};
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage, WATCH};
use crate::support::proc;
use crate::support::wait::{self, wait_until};

fn started(stage: &Stage) -> (Init, Probes) {
    let mut init = stage.worker(WORKS).with(ANY_PORT.0, ANY_PORT.1).start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    (init, probes)
}

#[test]
fn what_is_not_there_is_refused_with_a_body_that_says_what_there_is() {
    let stage = Stage::new();
    let (_init, probes) = started(&stage);
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("GET /status/ HTTP/1.1\r\n\r\n", 404),
        ("POST /livez HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}", 400),
        ("livez\n\n", 400),
    ];
    for (request, status) in cases {
        let answer = probes.ask(request);
        assert_eq!(answer.status, status, "{request:?}");
        assert_eq!(
            answer.head.contains("\r\nAllow: GET, HEAD"),
            status == 405,
            "{answer:?}"
        );
        assert_eq!(answer.json()["paths"][1], "/readyz", "{answer:?}");
    }
    assert_eq!(probes.statuses(), [200, 200, 200]);
}

#[test]
fn head_gets_what_get_gets_without_the_body() {
    let stage = Stage::new();
    let (_init, probes) = started(&stage);
    let get = probes.get("/livez");
    let head = probes.ask("HEAD /livez HTTP/1.1\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.head, get.head);
    assert!(head.head.contains(&format!("Content-Length: {}\r\n", get.body.len())));
}

#[test]
fn an_answer_is_json_and_the_connection_ends_behind_it() {
    let stage = Stage::new();
    let (_init, probes) = started(&stage);
    let request = "GET /livez HTTP/1.1\r\nConnection: keep-alive\r\n\r\n";
    // The second one is not answered, and takes nothing from the first.
    let answer = probes.ask(&format!("{request}{request}"));
    assert_eq!(answer.body, "{\"status\":\"ok\",\"state\":\"running\"}\n");
    for line in ["\r\nConnection: close", "\r\nContent-Type: application/json\r\n"] {
        assert!(answer.head.contains(line), "{answer:?}");
    }
}

#[test]
fn a_head_that_is_too_large_is_told_so_although_more_of_it_comes() {
    let stage = Stage::new();
    let (_init, probes) = started(&stage);
    let request = format!("GET /livez HTTP/1.1\r\nCookie: {}\r\n\r\n", "a".repeat(100 << 10));
    let answer = probes.ask(&request);
    assert_eq!(answer.status, 431);
    assert!(answer.body.contains("4096 bytes"), "{answer:?}");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let stage = Stage::new();
    let (_init, probes) = started(&stage);
    let mut stream = probes.connect().unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /livez HTTP/1.1\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
        wait::pause(std::time::Duration::from_millis(2));
    }
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// The TCP and Unix sockets among the descriptors of a process.
fn sockets(pid: i32) -> Vec<PathBuf> {
    let all = proc::descriptors(pid).into_values();
    all.filter(|path| path.to_string_lossy().starts_with("socket:"))
        .collect()
}

#[test]
fn a_worker_inherits_neither_the_listener_nor_a_probe_s_connection() {
    let stage = Stage::new();
    let mut init = stage
        .worker("link = Link(); link.ready(); link.obey()")
        .with_all(&[ANY_PORT, ("OJS_RESTART", "always")])
        .start();
    let probes = Probes::of(&mut init);
    let _silent = probes.connect().unwrap();
    for times in 1..=2 {
        init.notes_times("ready", times);
        let worker = proc::children(init.pid)[0];
        let (ours, theirs) = (sockets(init.pid), sockets(worker));
        assert!(theirs.len() == 1 && ours.len() > 2, "{ours:?} {theirs:?}");
        assert!(!ours.contains(&theirs[0]));
        crate::support::sys::send(worker, libc::SIGKILL).unwrap();
    }
}

#[test]
fn who_does_not_probe_any_more_costs_no_wakeup() {
    let stage = Stage::new();
    let quiet = [
        ANY_PORT,
        ("OJS_POLL_INTERVAL", "60s"),
        ("OJS_HEARTBEAT_INTERVAL", "30s"),
        ("OJS_LOG_LEVEL", "info"),
    ];
    let mut init = stage.worker(WORKS).with_all(&quiet).start();
    let probes = Probes::of(&mut init);
    probes.become_([200, 200, 200]);
    let wakeups = || proc::status_field(init.pid, "voluntary_ctxt_switches").unwrap();
    // Once nothing is left to be done.
    let is_still = wait_until(PATIENCE, || {
        let before = wakeups();
        wait::pause(WATCH * 4);
        wakeups() == before
    });
    assert!(is_still, "{}", wakeups());
    init.stops();
}
