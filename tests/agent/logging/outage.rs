//! An outage as an operator reads it: a few lines, the first of them at once and with the cause.

use super::last_line::said;
use crate::backend::{Behaviour, Endpoint};
use crate::stage::{Init, PATIENCE, Stage};
use crate::support::wait::wait_until;

/// The records at level warn.
fn complaints(init: &Init) -> Vec<String> {
    let is_complaint = |line: &String| line.starts_with("warn: ") || line.starts_with("error: ");
    said(init).into_iter().filter(is_complaint).collect()
}

/// Such a request has failed a few times; at level debug each of them is in the log.
fn fails_often(init: &Init, request: &str) {
    let failed = format!("debug: {request} failed: ");
    let often = wait_until(PATIENCE, || init.log().matches(&failed).count() >= 5);
    assert!(often, "{}", init.log());
}

#[test]
fn a_backend_that_was_never_there_is_one_line_with_its_cause_and_the_return_another() {
    let stage = Stage::new();
    stage.backend.refuse_connections();
    let mut init = stage
        .worker("link = Link(); link.ready(1); link.work()")
        .with("OJS_HEARTBEAT_INTERVAL", "100ms")
        .start();
    let cause = format!(
        "warn: backend {}: connection refused: nothing listens there",
        stage.backend.url()
    );
    init.logs(&cause);
    fails_often(&init, "registration");
    stage.backend.accept_connections();
    init.logs("the backend answers again, after ");
    init.logs("Worker registered");
    assert_eq!(complaints(&init), [cause], "{}", init.log());
    init.stops();
}

#[test]
fn an_outage_with_outcomes_that_wait_does_not_tell_of_each_attempt() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker("link = Link(); link.ready(1); link.obey()")
        .with("OJS_HEARTBEAT_INTERVAL", "100ms")
        .start();
    init.notes_line("job j1");
    stage.backend.refuse_connections();
    init.order("ack j1");
    init.logs("connection refused");
    fails_often(&init, "ACK");
    stage.backend.accept_connections();
    init.logs("Job completed successfully");
    assert_eq!(complaints(&init).len(), 1, "{}", init.log());
    init.stops();
}

#[test]
fn a_backend_that_refuses_the_token_is_an_error_once_a_minute() {
    let stage = Stage::new();
    for endpoint in [Endpoint::Register, Endpoint::Heartbeat, Endpoint::Fetch] {
        stage.backend.always(endpoint, Behaviour::status(401));
    }
    let mut init = stage
        .worker("link = Link(); link.ready(1); link.work()")
        .with("OJS_HEARTBEAT_INTERVAL", "100ms")
        .start();
    init.logs("error: registration failed: the backend does not accept the credentials");
    assert!(wait_until(PATIENCE, || stage.count(Endpoint::Register) >= 5));
    assert_eq!(complaints(&init).len(), 1, "{}", init.log());
    init.stops();
}
