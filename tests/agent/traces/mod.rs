//! Traces: the spans that a strict collector gets of the real binary, and what a collector that
//! hangs or is away costs a job.

mod collector;

use std::time::Duration;

use serde_json::Value;

use crate::backend::{Endpoint, Outcome};
use crate::probe_client::Probes;
use crate::stage::{Stage, job, never};
use collector::{Collector, attribute, events};

/// The trace and the span in which a job was enqueued.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A free port.
const ANY_PORT: (&str, &str) = ("OJS_HEALTH_LISTEN", "127.0.0.1:0");

/// Acks whatever comes.
const WORKS: &str = "link = Link(); link.ready(10); link.work()";

/// Takes jobs and says what the test orders.
const OBEYS: &str = "link = Link(); link.ready(10); link.obey()";

/// Longest time that the last spans may cost at the exit, with room for a busy machine.
const LAST_SPANS: Duration = Duration::from_millis(3500);

/// A job that was enqueued in a trace with these flags.
fn enqueue(stage: &Stage, number: u32, flags: &str) {
    let more = format!(r#","meta":{{"traceparent":"00-{TRACE}-{SPAN}-{flags}"}}"#);
    stage.backend.enqueue(&job(number, &more));
}

/// Whether the span is linked to the producer's.
fn is_linked(span: &Value) -> bool {
    let link = &span["links"][0];
    link["traceId"] == TRACE && link["spanId"] == SPAN
}

#[test]
fn the_spans_of_a_job_form_one_tree_with_that_of_its_producer() {
    let stage = Stage::new();
    let collector = Collector::that_would("accept", &stage);
    enqueue(&stage, 1, "01");
    let mut init = collector.of(stage.worker(WORKS)).start();
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
    let [fetch, process, ack] = ["default fetch", "default process", "ojs.ack"].map(|name| collector.span(name));
    collector.has(3);
    // The root is linked to the producer, and each other span has its parent in the same trace.
    assert!(is_linked(&fetch) && is_linked(&process));
    assert_eq!(fetch.get("parentSpanId"), None);
    assert_eq!(process["parentSpanId"], fetch["spanId"]);
    assert_eq!(ack["parentSpanId"], process["spanId"]);
    assert!([&process, &ack].iter().all(|span| span["traceId"] == fetch["traceId"]));
    assert_ne!(fetch["traceId"], TRACE);
    assert_eq!(
        [&fetch, &process, &ack].map(|span| span["kind"].as_u64()),
        [Some(3), Some(5), Some(3)]
    );
    assert_eq!(events(&process), ["ojs_init.fetched", "job.started", "job.completed"]);
    assert_eq!(attribute(&process, "ojs.job.id"), "j1");
    assert_eq!(attribute(&process["resource"], "service.name"), "mailer");
    assert_eq!(process["key"], "abc def");
    let date = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(date(&fetch, "endTimeUnixNano") <= date(&process, "startTimeUnixNano"));
    assert!(date(&process, "startTimeUnixNano") <= date(&ack, "startTimeUnixNano"));
    assert!(date(&ack, "endTimeUnixNano") <= date(&process, "endTimeUnixNano"));
    assert_eq!(init.complaints(), [""; 0]);
}

#[test]
fn a_job_of_a_trace_that_is_not_sampled_has_no_span_and_one_without_a_trace_has() {
    let stage = Stage::new();
    let collector = Collector::that_would("accept", &stage);
    enqueue(&stage, 1, "00");
    stage.enqueue([2]);
    let mut init = collector.of(stage.worker(WORKS)).start();
    stage.wait_for_outcomes();
    init.stops();
    let process = collector.span("default process");
    collector.has(3);
    assert_eq!(attribute(&process, "ojs.job.id"), "j2");
    assert_eq!(process.get("links"), None);
}

#[test]
fn a_failed_job_has_its_error_and_a_cancelled_one_the_cancel() {
    let stage = Stage::new();
    let collector = Collector::that_would("accept", &stage);
    stage.enqueue([1]);
    let mut init = collector.of(stage.worker(OBEYS)).start();
    init.notes_line("job j1");
    init.order(r#"progress j1 {"progress":0.5}"#);
    stage
        .backend
        .wait_for_count(Endpoint::Progress, 1, crate::stage::PATIENCE);
    init.order(r#"fail j1 {"error":{"message":"broken","type":"ValueError"}}"#);
    stage.failure("j1");
    init.stops();
    let process = collector.span("default process");
    assert_eq!(
        events(&process),
        [
            "ojs_init.fetched",
            "job.started",
            "job.progress",
            "job.failed",
            "exception"
        ]
    );
    assert_eq!(attribute(&process, "error.type"), "ValueError");
    assert_eq!(process["status"]["code"], 2);
    collector.span("ojs.nack");
}

#[test]
fn a_program_of_mode_exec_gets_the_context_of_its_job_s_span() {
    let stage = Stage::new();
    let collector = Collector::that_would("accept", &stage);
    enqueue(&stage, 1, "01");
    let start = stage
        .command(&["sh", "-c", "echo \"$TRACEPARENT\""])
        .with("OJS_MODE", "exec");
    let mut init = collector.of(start).start();
    stage.wait_for_outcomes();
    init.stops();
    let process = collector.span("default process");
    let text = |name: &str| process[name].as_str().unwrap();
    let context = format!("00-{}-{}-01", text("traceId"), text("spanId"));
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(Some(context.into()))]);
}

#[test]
fn a_collector_that_hangs_costs_no_job_and_the_exit_little_time() {
    let stage = Stage::new();
    let collector = Collector::that_would("hang", &stage);
    stage.enqueue(1..300);
    let mut init = collector.of(stage.worker(WORKS)).start();
    stage.wait_for_outcomes();
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < LAST_SPANS, "{took:?}: {}", init.story());
    assert!(
        init.log().contains("spans did not reach http://127.0.0.1"),
        "{}",
        init.story()
    );
}

#[test]
fn an_exit_at_once_does_not_wait_for_the_collector() {
    let stage = Stage::new();
    let collector = Collector::that_would("hang", &stage);
    stage.enqueue([1]);
    let mut init = collector.of(stage.worker(WORKS)).with("OJS_SIGINT", "exit").start();
    init.logs("Job completed");
    init.signal(libc::SIGINT);
    init.ends_with(130);
    // A second attempt would say it again.
    let said = init.log().matches("spans did not reach http://127.0.0.1").count();
    assert_eq!(said, 1, "{}", init.story());
}

#[test]
fn spans_for_a_collector_that_is_away_are_dropped_counted_and_warned_of_once() {
    let stage = Stage::new();
    let collector = Collector::that_would("accept", &stage);
    let mut init = {
        let start = collector.of(stage.worker(WORKS)).with_all(&[ANY_PORT]);
        // Nothing listens at its port any more.
        drop(collector);
        start.start()
    };
    let probes = Probes::of(&mut init);
    for batch in 0..4 {
        stage.enqueue(batch * 200..(batch + 1) * 200);
        stage.wait_for_outcomes();
    }
    probes.shows("ojs_init_spans_dropped_total", |dropped| dropped > 0.0);
    probes.counts("ojs_init_spans_sent_total", 0.0);
    init.stops();
    let complaints = init.complaints();
    let [warning] = complaints.as_slice() else {
        panic!("{complaints:?}")
    };
    assert!(
        warning.contains("cannot send spans") && warning.contains("nothing listens there"),
        "{warning}"
    );
}

#[test]
fn a_batch_that_the_collector_refuses_is_not_sent_again() {
    let stage = Stage::new();
    let collector = Collector::that_would("refuse", &stage);
    stage.enqueue(0..100);
    let mut init = collector.of(stage.worker(WORKS)).with_all(&[ANY_PORT]).start();
    let probes = Probes::of(&mut init);
    stage.wait_for_outcomes();
    probes.shows("ojs_init_spans_dropped_total", |dropped| dropped >= 250.0);
    init.logs("it answers with status 400");
    init.stops();
}

#[test]
fn without_a_collector_nothing_is_recorded() {
    let stage = Stage::new();
    enqueue(&stage, 1, "01");
    let mut init = stage.worker(OBEYS).with("OTEL_SDK_DISABLED", "true");
    init = init.with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let mut init = init.start();
    init.notes_line("job j1");
    init.order("ack j1");
    stage.wait_for_outcomes();
    never("a word of traces", || init.log().contains("traces:"));
    init.stops();
}
