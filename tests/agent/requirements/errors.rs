//! The error types and the defaults that the documents fix.

use super::course::holding;
use super::{CUT_SHORT, OBEYS, WORKS};
use crate::backend::Endpoint;
use crate::stage::{Stage, job};

#[test]
fn e_01_a_job_whose_process_died_fails_with_worker_death_and_the_shutdown_type_can_be_that_of_the_protocol() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker("link = Link(); link.ready(); link.job(); die()").start();
    init.ends_with(137);
    let error = stage.failure("j1");
    assert_eq!(
        (&error["type"], &error["code"]),
        (&"worker_death".into(), &"worker_death".into())
    );

    let stage = Stage::new();
    let name = ("OJS_INIT_SHUTDOWN_ERROR_TYPE", "shutdown");
    let mut init = holding(&stage, &[CUT_SHORT[0], CUT_SHORT[1], name]);
    init.stops();
    assert_eq!(stage.failure("j1")["type"], "shutdown");
}

#[test]
fn e_01_a_job_that_nobody_takes_and_one_that_took_too_long_have_types_of_their_own() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout":1"#));
    let script = "link = Link(); link.ready(1, types=['t']); link.obey()";
    let mut init = stage.worker(script).with("OJS_TIMEOUT_GRACE", "100ms").start();
    init.notes_line("cancel timeout j1");
    assert_eq!(stage.failure("j1")["type"], "timeout");

    let stage = Stage::new();
    stage
        .backend
        .enqueue(r#"{"id":"j1","type":"other","queue":"default","args":[],"attempt":0}"#);
    let mut init = stage.worker(script).with("OJS_CONCURRENCY", "1").start();
    init.notes_line("ready");
    assert_eq!(stage.failure("j1")["type"], "handler_not_found");
}

#[test]
fn e_02_a_job_that_is_left_at_the_deadline_fails_with_shutdown_error() {
    let stage = Stage::new();
    let mut init = holding(&stage, &CUT_SHORT);
    init.stops();
    let error = stage.failure("j1");
    assert_eq!(
        (&error["type"], &error["code"]),
        (&"ShutdownError".into(), &"shutdown".into())
    );
}

#[test]
fn e_03_that_it_took_longer_than_the_grace_period_is_in_the_details() {
    let stage = Stage::new();
    let mut init = holding(&stage, &CUT_SHORT);
    init.stops();
    let details = &stage.failure("j1")["details"];
    assert_eq!(details["kind"], "ShutdownTimeout", "{details}");
    assert_eq!(details["grace_ms"], 300, "{details}");
    assert_eq!(details["trigger"], "sigterm", "{details}");
}

#[test]
fn e_04_without_a_setting_the_defaults_of_the_protocol_are_asked_for() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(WORKS).start();
    stage
        .backend
        .wait_for_count(Endpoint::Heartbeat, 1, crate::stage::PATIENCE);
    let registered = stage.backend.records_of(Endpoint::Register).remove(0).json();
    assert_eq!(registered["queues"], serde_json::json!(["default"]));
    assert_eq!(registered["concurrency"], 10);
    assert_eq!(registered["labels"], serde_json::json!([]));
    let beat = stage.backend.records_of(Endpoint::Heartbeat).remove(0).json();
    assert_eq!(beat["visibility_timeout_ms"], 120_000);
    init.stops();
    // A job's own, longer time counts: the protocol's is 30 min.
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","visibility_timeout":1800"#));
    let mut init = stage.worker(OBEYS).with("OJS_HEARTBEAT_INTERVAL", "100ms").start();
    init.notes_line("job j1");
    stage.wait_for_more(Endpoint::Heartbeat, 2);
    let beat = stage.backend.records_of(Endpoint::Heartbeat).pop().unwrap().json();
    assert_eq!(beat["visibility_timeout_ms"], 1_800_000);
}
