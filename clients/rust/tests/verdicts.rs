//! What ended a loop or a step ends the job, whatever the handler makes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ojs_worker::testing::{Delivery, Outcome};
use ojs_worker::{Discard, Error, Job, Output, Release, Result, Retry, Worker};
use serde_json::{json, Value};

/// Enough to begin a step and a row in a shutdown, and not for many rows.
const SHORT_TIME: Duration = Duration::from_millis(800);
const ROW_TIME: Duration = Duration::from_millis(100);

fn worker<T: serde::Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Worker {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker
}

fn stopped(worker: &Worker) -> Outcome {
    worker.perform_delivery(&Delivery::new("t", ()).unwrap().stop_in(SHORT_TIME)).unwrap()
}

fn resumed(worker: &Worker, steps: Value, cursors: Value) -> Outcome {
    let saved = json!({"ojs_resume": 1, "steps": steps, "cursors": cursors, "state": null});
    worker.perform_delivery(&Delivery::new("t", ()).unwrap().checkpoint(Some(&saved))).unwrap()
}

fn failed(outcome: &Outcome) -> (&str, bool) {
    let error = outcome.error.as_ref().unwrap_or_else(|| panic!("it has not failed: {outcome:?}"));
    (&error.kind, error.retryable)
}

fn is_given_back(outcome: &Outcome) -> bool {
    (outcome.outcome.as_str(), outcome.reason.as_str()) == ("release", "resumes at its checkpoint")
}

/// A step that swallows the end of its loop.
fn swallow(job: &Job) {
    let _swallowed = job.step("load", || {
        job.iterate(0..1000u64)?.flatten().for_each(|_| std::thread::sleep(ROW_TIME));
        Ok(())
    });
}

#[test]
fn a_step_that_swallows_the_end_of_its_loop_is_not_finished_and_no_other_one_begins() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let outcome = stopped(&worker(move |job| {
        swallow(job);
        let _not_run = job.step("other", || Ok(counted.fetch_add(1, Ordering::SeqCst)));
        Ok("done")
    }));
    assert!(is_given_back(&outcome), "{outcome:?}");
    let saved = outcome.last_checkpoint().unwrap();
    assert_eq!(saved["steps"], json!([]));
    assert!(saved["cursors"]["load"].is_u64(), "{saved}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn of_what_a_handler_returns_after_its_end_only_a_verdict_of_its_own_counts() {
    for (what, expected) in
        [("error", "release"), ("panic", "release"), ("retry", "fail"), ("discard", "fail"), ("release", "release")]
    {
        let outcome = stopped(&worker(move |job| -> Result<()> {
            swallow(job);
            match what {
                "error" => Err(Error::from_boxed("a bug")),
                "retry" => Err(Retry::new("mine").into()),
                "discard" => Err(Discard::new("mine").into()),
                "release" => Err(Release::new("mine").into()),
                other => panic!("{other}"),
            }
        }));
        assert_eq!(outcome.outcome, expected, "{what}");
        let is_own = outcome.reason == "mine" || outcome.error.as_ref().is_some_and(|error| error.message == "mine");
        assert_eq!(is_own, ["retry", "discard", "release"].contains(&what), "{what}: {outcome:?}");
    }
}

#[test]
fn any_error_of_a_loop_ends_the_job_also_where_flatten_swallows_it() {
    let keyed = worker(|job| Ok(job.iterate_keyed(0..5, |row| *row)?.flatten().collect::<Vec<i32>>()));
    assert_eq!(failed(&resumed(&keyed, json!([]), json!({"": 77}))), ("StepsChanged", false));
    let no_key = worker(|job| Ok(job.iterate_keyed(0..5, |_| f64::NAN)?.flatten().count()));
    assert_eq!(failed(&no_key.perform("t", ()).unwrap()), ("WrongUse", false));
    let other = worker(|job| Ok(job.iterate(0..5).map_or(0, Iterator::count)));
    assert_eq!(failed(&resumed(&other, json!([]), json!({"": "k7"}))), ("StepsChanged", false));
}

#[test]
fn steps_that_changed_end_the_job_also_where_the_handler_swallows_that() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let worker = worker(move |job| {
        for name in ["other", "pay"] {
            let _swallowed = job.step(name, || Ok(counted.fetch_add(1, Ordering::SeqCst)));
        }
        Ok("done")
    });
    assert_eq!(failed(&resumed(&worker, json!([["thumbnail", null]]), json!({}))), ("StepsChanged", false));
    assert_eq!(failed(&resumed(&worker, json!([["other", "no number"]]), json!({}))), ("StepsChanged", false));
    assert_eq!(failed(&resumed(&worker, json!([]), json!({"load": 5}))), ("StepsChanged", false));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn after_a_step_that_failed_only_the_same_one_may_be_called_once_more() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&ran);
    let step = move |job: &Job, name: &'static str, failures: usize| {
        job.step(name, || {
            let mut ran = notes.lock().unwrap();
            ran.push(name);
            if ran.len() > failures {
                Ok(name.to_owned())
            } else {
                Err(Error::from_boxed(format!("no {name}")))
            }
        })
    };
    let shared = step.clone();
    let other = worker(move |job| {
        let _optional = shared(job, "thumbnail", 9);
        shared(job, "pay", 0)
    });
    let outcome = other.perform("t", ()).unwrap();
    assert_eq!(failed(&outcome), ("error", true));
    assert_eq!(outcome.error.unwrap().message, "no thumbnail");
    assert_eq!(std::mem::take(&mut *ran.lock().unwrap()), ["thumbnail"]);
    for (failures, expected) in [(1, "ack"), (9, "fail")] {
        let step = step.clone();
        let again = worker(move |job| {
            let first = (0..3).find_map(|_| step(job, "a", failures).ok());
            Ok((first, step(job, "b", 0)?))
        });
        assert_eq!(again.perform("t", ()).unwrap().outcome, expected);
        let ran = std::mem::take(&mut *ran.lock().unwrap());
        assert_eq!(ran, if failures == 1 { ["a", "a", "b"].as_slice() } else { &["a", "a"] });
    }
}

#[test]
fn a_step_that_panicked_is_the_last_one_too() {
    let outcome = worker(|job| {
        let _caught = catch_unwind(AssertUnwindSafe(|| job.step("a", || -> Result<()> { panic!("kaputt") })));
        job.step("b", || Ok(()))
    });
    let error = outcome.perform("t", ()).unwrap().error.unwrap();
    assert!(error.retryable && error.message.contains("step a"), "{error:?}");
}

#[test]
fn a_step_that_is_called_again_goes_on_in_its_loop_where_it_failed() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&done);
    let worker = worker(move |job| {
        let load = |fails: bool| {
            job.step("load", || {
                for row in job.iterate(0..4)? {
                    let row = row?;
                    if row == 2 && fails {
                        return Err(Error::from_boxed("no"));
                    }
                    notes.lock().unwrap().push(row);
                }
                Ok(())
            })
        };
        load(true).or_else(|_| load(false))
    });
    assert_eq!(worker.perform("t", ()).unwrap().outcome, "ack");
    assert_eq!(*done.lock().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_middleware_that_calls_the_handler_again_does_no_finished_step_or_row_again() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&ran);
    let mut worker = worker(move |job| {
        let note = |what: &str| notes.lock().unwrap().push(what.to_owned());
        let packed: String = job.step("pack", || {
            note("pack");
            Ok("PACK".to_owned())
        })?;
        for row in job.iterate(["r0", "r1"])? {
            let row = row?;
            note(row);
            if row == "r1" && notes.lock().unwrap().len() == 3 {
                return Err(Error::from_boxed("flaky"));
            }
        }
        let sent: String = job.step("send", || Ok("SEND".to_owned()))?;
        Ok([packed, sent])
    });
    worker.wrap(|job, next| -> Result<Output> {
        job.step("around", || Ok(()))?;
        next.run(job).or_else(|_| next.run(job))
    });
    let outcome = worker.perform("t", ()).unwrap();
    assert_eq!(outcome.result::<Value>().unwrap(), json!(["PACK", "SEND"]));
    assert_eq!(*ran.lock().unwrap(), ["pack", "r0", "r1", "r1"]);
}

#[test]
fn what_can_never_be_saved_spoils_nothing_that_is_saved_later() {
    for size in [70_000, 5_000_000] {
        let outcome = worker(move |job| {
            job.step("a", || Ok(()))?;
            assert!(job.checkpoint(&"x".repeat(size)).is_err());
            job.step("b", || Ok(()))
        });
        let outcome = outcome.perform("t", ()).unwrap();
        assert_eq!((outcome.outcome.as_str(), outcome.checkpoints.len()), ("ack", 2), "{outcome:?}");
    }
    // Alone a state may be as long as a frame, and this one is longer.
    let alone = worker(|job| {
        assert!(job.checkpoint(&"x".repeat(5_000_000)).is_err());
        job.step("b", || Ok(()))
    });
    assert_eq!(alone.perform("t", ()).unwrap().outcome, "ack");
}

#[test]
fn a_step_whose_result_is_too_large_is_not_kept_in_what_is_saved_at_the_end() {
    let outcome = worker(|job| {
        job.step("a", || Ok(()))?;
        job.step("b", || {
            job.iterate(0..2)?.for_each(drop);
            Ok("x".repeat(70_000))
        })
    });
    let outcome = outcome.perform("t", ()).unwrap();
    assert_eq!(failed(&outcome), ("CheckpointTooLarge", false));
    let saved = json!({"ojs_resume": 1, "steps": [["a", null]], "cursors": {"b": 1}, "state": null});
    assert_eq!(outcome.last_checkpoint(), Some(&saved));
}

#[test]
fn where_there_are_fewer_rows_than_an_attempt_had_finished_none_is_left() {
    let worker = worker(|job| job.iterate(0..3)?.collect::<Result<Vec<i32>>>());
    assert_eq!(resumed(&worker, json!([]), json!({"": 5})).result::<Vec<i32>>().unwrap(), [0; 0]);
}

#[test]
fn what_an_earlier_attempt_saved_counts_also_where_a_backend_spells_its_version_otherwise() {
    let worker = worker(|job| job.step("a", || Ok("ran again".to_owned())));
    let saved = json!({"ojs_resume": 1.0, "steps": [["a", "kept"]], "cursors": {}, "state": null});
    let outcome = worker.perform_delivery(&Delivery::new("t", ()).unwrap().checkpoint(Some(&saved))).unwrap();
    assert_eq!(outcome.result::<String>().unwrap(), "kept");
}

#[test]
fn progress_beyond_its_range_is_clamped_and_nan_is_an_error() {
    let outcome = worker(|job| {
        for value in [f64::INFINITY, 7.0, f64::NEG_INFINITY, -1.0] {
            job.progress(value, "")?;
        }
        assert!(job.progress(f64::NAN, "").is_err());
        Ok(())
    });
    let progress: Vec<f64> =
        outcome.perform("t", ()).unwrap().progress.iter().map(|progress| progress.progress).collect();
    assert_eq!(progress, [1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_test_of_a_handler_that_hangs_ends_with_an_error_that_says_so() {
    let began = Instant::now();
    let hangs = worker(|_| -> Result<()> {
        loop {
            std::thread::park();
        }
    });
    let delivery = Delivery::new("t", ()).unwrap().time_limit(Duration::from_millis(50));
    let error = hangs.perform_delivery(&delivery).unwrap_err();
    assert!(error.to_string().contains("the handler of t has not ended after 50ms"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_envelope_is_all_that_the_backend_sent() {
    let outcome = worker(|job| {
        assert_eq!(job.envelope().get(), job.raw().get());
        Ok(job.envelope().to_owned())
    });
    assert_eq!(outcome.perform("t", ()).unwrap().result::<Value>().unwrap()["type"], "t");
}
