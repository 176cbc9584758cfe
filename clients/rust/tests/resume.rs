//! Steps and loops that go on in another attempt.
#![allow(missing_docs, clippy::panic, clippy::pedantic, clippy::unwrap_used, reason = "tests")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ojs_worker::testing::{Delivery, Outcome};
use ojs_worker::{Job, Result, Worker};
use serde_json::{Value, json};

fn attempt<T: serde::Serialize>(
    checkpoint: Option<Value>,
    handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static,
) -> Outcome {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker.perform_delivery(&Delivery { checkpoint, ..Delivery::new("t", ()).unwrap() }).unwrap()
}

/// A checkpoint of the form that all clients share.
fn form(steps: &Value, cursors: &Value) -> Option<Value> {
    Some(json!({"ojs_resume": 1, "steps": steps, "cursors": cursors, "state": "mine"}))
}

fn rows(job: &Job) -> Result<Vec<u32>> {
    job.iterate(0..4)?.collect()
}

fn keys(job: &Job) -> Result<Vec<u32>> {
    job.iterate_keyed([10, 20, 30], |row| *row)?.collect()
}

#[test]
fn a_finished_step_is_saved_and_not_run_again() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let runs = Arc::clone(&ran);
    let handler = move |job: &Job| {
        let one = job.step("one", || {
            runs.lock().unwrap().push("one");
            Ok(1)
        })?;
        job.step("two", || {
            runs.lock().unwrap().push("two");
            if job.last_checkpoint::<Value>()?.is_none() { Err(io::Error::other("breaks"))? } else { Ok(one + 1) }
        })
    };
    let handler = Arc::new(handler);
    let (first, second) = (Arc::clone(&handler), handler);
    let failed = attempt(None, move |job| first(job));
    assert_eq!(failed.error["message"], "breaks");
    let mut saved = failed.checkpoints.last().unwrap().clone();
    assert_eq!(saved["steps"], json!([["one", 1]]));
    saved["state"] = json!("mine");
    assert_eq!(attempt(Some(saved), move |job| second(job)).result, 2);
    assert_eq!(*ran.lock().unwrap(), ["one", "two", "two"]);
}

#[test]
fn a_step_that_failed_may_be_called_again() {
    let outcome = attempt(None, |job| {
        let step = |fails: bool| {
            job.step("pay", || {
                let rows = rows(job)?.len();
                if fails { Err(io::Error::other("busy"))? } else { Ok(rows) }
            })
        };
        step(true).or_else(|_| step(false))
    });
    assert_eq!((outcome.outcome.as_str(), outcome.result), ("ack", json!(0)), "its rows were finished before");
}

#[test]
fn steps_that_changed_fail_the_job_for_good() {
    let a_then_b = |job: &Job| {
        job.step("a", || Ok(1))?;
        job.step("b", || Ok(2))
    };
    for checkpoint in [form(&json!([["b", 1]]), &json!({})), form(&json!([]), &json!({"b": 3}))] {
        let error = attempt(checkpoint, a_then_b).error;
        assert_eq!((&error["type"], &error["retryable"]), (&json!("StepsChanged"), &json!(false)));
        assert!(error["message"].as_str().unwrap().contains(r#"had ["b"], this one has ["a"]"#), "{error}");
    }
    let other_type = attempt(form(&json!([["a", "text"]]), &json!({})), a_then_b).error;
    assert!(other_type["message"].as_str().unwrap().contains("invalid type: string, expected i32"), "{other_type}");
}

#[test]
fn rows_go_on_behind_the_last_finished_one() {
    let checkpoint = |last: Value| form(&json!([]), &json!({"": last}));
    assert_eq!(attempt(None, rows).result, json!([0, 1, 2, 3]));
    assert_eq!(attempt(checkpoint(json!(1.0)), rows).result, json!([2, 3]));
    assert_eq!(attempt(checkpoint(json!(9)), rows).result, json!([]));
    assert_eq!(attempt(checkpoint(json!("k")), rows).error["type"], "StepsChanged");
    assert_eq!(attempt(checkpoint(json!(2e1)), keys).result, json!([30]));
    assert_eq!(attempt(checkpoint(json!(15)), keys).error["type"], "StepsChanged");
    let opened = |job: &Job| -> Result<Vec<u32>> {
        job.iterate_from(|last: Option<u32>| Ok(last.map_or(10, |last| last + 1)..13), |row| *row)?.collect()
    };
    assert_eq!(attempt(None, opened).result, json!([10, 11, 12]));
    assert_eq!(attempt(checkpoint(json!(11)), opened).result, json!([12]));
}

#[test]
fn a_failure_saves_the_finished_rows() {
    let outcome = attempt(None, |job| {
        for row in job.iterate(0..4)? {
            if row? == 2 {
                Err(io::Error::other("breaks"))?;
            }
        }
        Ok(())
    });
    assert_eq!((outcome.outcome.as_str(), &outcome.checkpoints[0]["cursors"]), ("fail", &json!({"": 1})));
}

#[test]
fn the_state_of_the_handler_is_kept_beside_steps() {
    let handler = |job: &Job| {
        let before: Option<String> = job.last_checkpoint()?;
        job.step("a", || Ok(()))?;
        job.checkpoint(&"new")?;
        Ok(before)
    };
    let outcome = attempt(form(&json!([]), &json!({})), handler);
    assert_eq!(outcome.result, "mine");
    let saved = outcome.checkpoints.last().unwrap();
    assert_eq!((&saved["state"], &saved["steps"]), (&json!("new"), &json!([["a", null]])));
    assert_eq!(attempt(Some(json!("own")), |job| Ok(job.last_checkpoint::<String>()?)).result, "own");
}

#[test]
fn what_is_kept_has_a_limit() {
    let error = attempt(None, |job| job.step("a", || Ok("x".repeat(70_000)))).error;
    assert_eq!((&error["type"], &error["retryable"]), (&json!("CheckpointTooLarge"), &json!(false)));
    assert!(error["message"].as_str().unwrap().contains("65536"), "{error}");
}

#[test]
fn a_use_that_can_never_work_is_an_error_for_good() {
    let nested = attempt(None, |job| job.step("a", || job.step("b", || Ok(()))));
    let twice = attempt(None, |job| job.step("a", || Ok(())).and_then(|()| job.step("a", || Ok(()))));
    let two_loops = attempt(None, |job| rows(job).and_then(|_| rows(job)));
    let null = attempt(None, |job| job.iterate_keyed([1], |_| ())?.collect::<Result<Vec<_>>>());
    for outcome in [nested, twice, two_loops, null] {
        assert_eq!((&outcome.error["type"], &outcome.error["retryable"]), (&json!("WrongUse"), &json!(false)));
    }
}

#[test]
fn a_cancel_ends_a_loop_before_its_next_row() {
    let mut worker = Worker::new();
    worker.handle("t", |job| {
        for row in job.iterate(0..)? {
            let _row: u32 = row?;
            let _cancelled = job.sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    for (reason, outcome) in [("shutdown", "resumes at its checkpoint"), ("lost", "lost")] {
        let cancel = Some((reason, Duration::from_millis(50)));
        let delivery = Delivery { cancel, ..Delivery::new("t", ()).unwrap() };
        let outcome_of = worker.perform_delivery(&delivery).unwrap();
        assert_eq!(outcome_of.reason, outcome);
        assert!(outcome_of.checkpoints.last().unwrap()["cursors"][""].is_u64());
    }
}

#[test]
fn nothing_begins_when_a_shutdown_leaves_too_little_time() {
    let mut worker = Worker::new();
    worker.handle("t", |job| {
        let _is_stopping = job.wait_stopping(Duration::from_secs(20));
        job.step("a", || Ok(()))
    });
    let mut delivery = Delivery { stop_in: Some(Duration::from_millis(200)), ..Delivery::new("t", ()).unwrap() };
    assert_eq!(worker.perform_delivery(&delivery).unwrap().reason, "resumes at its checkpoint");
    delivery.stop_in = Some(Duration::from_secs(20));
    assert_eq!(worker.perform_delivery(&delivery).unwrap().outcome, "ack");
}
