//! Tokens that are wrong or missing, and put right.

use std::fs;
use std::time::Duration;

use ojs_devserver::{Options, Server};

use super::*;
use crate::stage::Init;
use crate::support::wait::{Stopwatch, wait_until};

/// Every test of this file.
pub const ALL: [(&str, fn()); 2] = [
    ("a_token_that_replaces_a_refused_one_is_used_at_once", replaced),
    ("a_token_file_that_appears_is_used_at_once", appears),
];

/// Longest time from a new token to the worker's registration; the pause that it ends would be
/// longer.
const AT_ONCE: Duration = Duration::from_secs(2);

fn backend() -> Server {
    Server::start(Options {
        token: Some("right".to_owned()),
        ..Options::default()
    })
    .unwrap()
}

fn start(stage: &Stage, server: &Server) -> Init {
    with_python(stage, server, QUICK)
        .with("OJS_AUTH_TOKEN_FILE", stage.at("token"))
        .start()
}

/// Puts the right token in place, whole, and waits for the registration.
fn put_right(stage: &Stage, server: &Server, init: &Init) {
    fs::write(stage.at("token.new"), "right\n").unwrap();
    fs::rename(stage.at("token.new"), stage.at("token")).unwrap();
    let began = Stopwatch::start();
    assert!(
        server.wait(PATIENCE, |server| !server.workers().is_empty()),
        "{}",
        init.story()
    );
    assert!(began.elapsed() < AT_ONCE, "{:?}: {}", began.elapsed(), init.story());
}

fn replaced() {
    let server = backend();
    let stage = Stage::new();
    fs::write(stage.at("token"), "wrong").unwrap();
    enqueue(&server, 10, "");
    let mut init = start(&stage, &server);
    let refused = |server: &Server| server.events().iter().filter(|event| event.status == Some(403)).count();
    // The pauses have grown to at least 6.4 s by then.
    assert!(server.wait(PATIENCE, |server| refused(server) >= 7), "{}", init.story());
    put_right(&stage, &server, &init);
    let jobs = all_are_done(&server, 10);
    init.logs("the backend does not accept the credentials");
    init.stops();
    delivered_once_each(&server, &jobs);
    assert!(
        !init.log().contains("right") && !init.log().contains("wrong"),
        "{}",
        init.log()
    );
}

fn appears() {
    let server = backend();
    let stage = Stage::new();
    enqueue(&server, 10, "");
    // Each attempt is told at debug: what goes on failing alike is told once a minute above it.
    let mut init = with_python(&stage, &server, QUICK)
        .with("OJS_AUTH_TOKEN_FILE", stage.at("token"))
        .with("OJS_LOG_LEVEL", "debug")
        .start();
    init.logs("nothing is sent to the backend until it holds a token");
    // The pauses have grown to at least 3.2 s by then.
    let attempts = |init: &Init| init.log().matches("next attempt in").count();
    assert!(wait_until(PATIENCE, || attempts(&init) >= 6), "{}", init.story());
    assert_eq!(server.events().iter().filter(|event| event.status.is_some()).count(), 0);
    put_right(&stage, &server, &init);
    let jobs = all_are_done(&server, 10);
    init.stops();
    delivered_once_each(&server, &jobs);
}
