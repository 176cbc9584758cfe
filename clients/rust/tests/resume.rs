//! Loops and steps that go on where an earlier attempt stopped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ojs_worker::testing::{Delivery, Outcome};
use ojs_worker::{Discard, Error, Job, Result, Worker};
use serde_json::{json, Value};

type Done = Arc<Mutex<Vec<u64>>>;

fn worker<T: serde::Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Worker {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker
}

fn delivery() -> Delivery {
    Delivery::new("t", ()).unwrap()
}

/// A worker that goes through so many rows, and what it has done.
fn rows(count: u64, pause: Duration, end: impl Fn(u64) -> Result<()> + Send + Sync + 'static) -> (Worker, Done) {
    let done = Done::default();
    let notes = Arc::clone(&done);
    let worker = worker(move |job| {
        for row in job.iterate(0..count)? {
            let row = row?;
            thread::sleep(pause);
            end(row)?;
            notes.lock().unwrap().push(row);
        }
        Ok(())
    });
    (worker, done)
}

fn failed(outcome: &Outcome) -> (&str, bool) {
    let error = outcome.error.as_ref().unwrap_or_else(|| panic!("it has not failed: {outcome:?}"));
    (&error.kind, error.retryable)
}

#[test]
fn a_loop_goes_on_behind_the_last_finished_row() {
    let tries = AtomicUsize::new(0);
    let (worker, done) = rows(5, Duration::ZERO, move |row| {
        if row == 3 && tries.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(Error::from_boxed("broken"));
        }
        Ok(())
    });
    let first = worker.perform_delivery(&delivery()).unwrap();
    assert_eq!(first.outcome, "fail");
    assert_eq!(first.checkpoints, [json!({"ojs_resume": 1, "steps": [], "cursors": {"": 2}, "state": null})]);
    let second = worker.perform_delivery(&delivery().checkpoint(first.last_checkpoint())).unwrap();
    assert_eq!((second.outcome.as_str(), second.checkpoints.len()), ("ack", 0), "one that ends well saves nothing");
    assert_eq!(*done.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn each_row_is_done_once_through_many_shutdowns() {
    let (worker, done) = rows(60, Duration::from_millis(5), |_| Ok(()));
    let mut checkpoint: Option<Value> = None;
    let mut shutdowns = 0;
    loop {
        // More than the notice that the client takes, by a few rows.
        let delivery = delivery().stop_in(Duration::from_millis(265)).checkpoint(checkpoint.as_ref());
        let outcome = worker.perform_delivery(&delivery).unwrap();
        if outcome.outcome == "ack" {
            break;
        }
        assert_eq!((outcome.outcome.as_str(), outcome.reason.as_str()), ("release", "resumes at its checkpoint"));
        checkpoint = outcome.last_checkpoint().cloned().or(checkpoint);
        shutdowns += 1;
    }
    assert!(shutdowns >= 10, "{shutdowns}");
    assert_eq!(*done.lock().unwrap(), (0..60).collect::<Vec<_>>());
}

#[test]
fn no_row_begins_that_would_be_cut_off_and_a_loop_goes_on_where_there_is_time() {
    let (near, done) = rows(3, Duration::from_millis(200), |_| Ok(()));
    let outcome = near.perform_delivery(&delivery().stop_in(Duration::from_millis(450))).unwrap();
    assert_eq!((outcome.outcome.as_str(), done.lock().unwrap().len()), ("release", 1), "{outcome:?}");
    let (far, done) = rows(3, Duration::from_millis(1), |_| Ok(()));
    let outcome = far.perform_delivery(&delivery().stop_in(Duration::from_secs(20))).unwrap();
    assert_eq!((outcome.outcome.as_str(), done.lock().unwrap().len()), ("ack", 3));
}

#[test]
fn a_cancelled_loop_ends_as_the_reason_asks_for_and_has_saved_its_position() {
    for (reason, expected) in
        [("shutdown", "release"), ("cancelled", "release"), ("lost", "release"), ("timeout", "fail")]
    {
        let (worker, done) = rows(10_000, Duration::from_millis(2), |_| Ok(()));
        let cancelled = delivery().cancel(reason, Duration::from_millis(30));
        let outcome = worker.perform_delivery(&cancelled).unwrap();
        assert_eq!(outcome.outcome, expected, "{reason}");
        let last = *done.lock().unwrap().last().unwrap();
        assert_eq!(outcome.last_checkpoint().unwrap()["cursors"][""], json!(last), "{reason}");
    }
}

#[test]
fn a_handler_that_swallows_the_end_of_a_loop_is_given_back_all_the_same() {
    let worker = worker(|job| {
        let rows: Vec<u64> = job.iterate(0..1000u64)?.map_while(Result::ok).collect();
        Ok(rows.len())
    });
    let outcome = worker.perform_delivery(&delivery().stop_in(Duration::from_millis(100))).unwrap();
    assert_eq!((outcome.outcome.as_str(), outcome.reason.as_str()), ("release", "resumes at its checkpoint"));
}

#[test]
fn rows_with_keys_are_skipped_up_to_the_saved_one_and_one_that_is_gone_is_an_error() {
    let keyed = worker(|job| {
        let ids = job.args::<Vec<u64>>()?;
        let rows = job.iterate_keyed(&ids, |id| json!({"id": id}))?;
        rows.map(|row| row.copied()).collect::<Result<Vec<u64>>>()
    });
    let saved = json!({"ojs_resume": 1, "steps": [], "cursors": {"": {"id": 20}}, "state": null});
    let perform = |ids: &[u64]| {
        let delivery = Delivery::new("t", ids).unwrap().checkpoint(Some(&saved));
        keyed.perform_delivery(&delivery).unwrap()
    };
    assert_eq!(perform(&[10, 15, 20, 30, 40]).result::<Vec<u64>>().unwrap(), [30, 40]);
    assert_eq!(failed(&perform(&[10, 30])), ("StepsChanged", false));
}

#[test]
fn rows_may_be_opened_behind_the_saved_key() {
    let worker = worker(|job| {
        let open = |after: Option<u64>| Ok(after.map_or(0, |after| after + 1)..5);
        let rows = job.iterate_from(open, |row| *row)?;
        rows.collect::<Result<Vec<u64>>>()
    });
    assert_eq!(worker.perform("t", ()).unwrap().result::<Vec<u64>>().unwrap(), [0, 1, 2, 3, 4]);
    let cursor = |position: Value| json!({"ojs_resume": 1, "steps": [], "cursors": {"": position}, "state": null});
    let outcome = worker.perform_delivery(&delivery().checkpoint(Some(&cursor(json!(2))))).unwrap();
    assert_eq!(outcome.result::<Vec<u64>>().unwrap(), [3, 4]);
    let outcome = worker.perform_delivery(&delivery().checkpoint(Some(&cursor(json!("k7"))))).unwrap();
    assert_eq!(failed(&outcome), ("StepsChanged", false));
}

#[test]
fn a_finished_step_is_a_checkpoint_and_does_not_run_again() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let worker = worker(move |job| {
        let path: String = job.step("resize", || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok("a.png".to_owned())
        })?;
        job.step("notify", || if job.attempt() == Some(1) { Err(Error::from_boxed("broken")) } else { Ok(()) })?;
        Ok(path)
    });
    let first = worker.perform("t", ()).unwrap();
    assert_eq!(failed(&first), ("error", true));
    let second = worker.perform_delivery(&delivery().attempt(2).checkpoint(first.last_checkpoint())).unwrap();
    assert_eq!(second.result::<String>().unwrap(), "a.png");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let steps = &second.last_checkpoint().unwrap()["steps"];
    assert_eq!(*steps, json!([["resize", "a.png"], ["notify", null]]));
}

#[test]
fn steps_in_another_order_or_of_one_name_fail_for_good_and_the_message_names_them() {
    let worker = worker(|job| {
        for name in job.args::<Vec<String>>()? {
            job.step(&name, || Ok(()))?;
        }
        Ok(())
    });
    let saved = json!({"ojs_resume": 1, "steps": [["a", null]], "cursors": {"b": 3}, "state": null});
    let perform =
        |names: &[&str]| worker.perform_delivery(&Delivery::new("t", names).unwrap().checkpoint(Some(&saved))).unwrap();
    assert_eq!(perform(&["a", "b", "c"]).outcome, "ack");
    for names in [["b", "a"], ["a", "c"]] {
        let outcome = perform(&names);
        assert_eq!(failed(&outcome), ("StepsChanged", false));
        let message = outcome.error.unwrap().message;
        assert!(message.contains("had a, b;") && message.contains(&names.join(", ")[..1]), "{message}");
    }
    assert_eq!(failed(&perform(&["a", "a"])), ("WrongUse", false));
}

#[test]
fn a_step_or_loop_within_a_step_is_told_from_one_beside_it() {
    let nested = worker(|job| job.step("outer", || job.step("inner", || Ok(()))));
    assert_eq!(failed(&nested.perform("t", ()).unwrap()), ("WrongUse", false));
    let twice = worker(|job| Ok(job.iterate([1])?.count() + job.iterate([2])?.count()));
    assert_eq!(failed(&twice.perform("t", ()).unwrap()), ("WrongUse", false));
    let within = worker(|job| {
        job.iterate([1])?.for_each(drop);
        job.step("b", || {
            job.iterate([1, 2, 3])?.take(2).for_each(drop);
            Err::<(), _>(Discard::new("stop here").into())
        })
    });
    let outcome = within.perform("t", ()).unwrap();
    assert_eq!(outcome.last_checkpoint().unwrap()["cursors"], json!({"": 0, "b": 0}));
}

#[test]
fn the_programs_own_state_comes_back_as_it_was_saved() {
    let worker = worker(|job| {
        let before: Option<Value> = job.last_checkpoint()?;
        job.checkpoint(&json!({"mine": 1}))?;
        job.step("a", || Ok(()))?;
        job.checkpoint(&json!({"mine": 2}))?;
        Ok(before)
    });
    let first = worker.perform("t", ()).unwrap();
    assert_eq!(first.checkpoints[0], json!({"mine": 1}));
    let form = json!({"ojs_resume": 1, "steps": [["a", null]], "cursors": {}, "state": {"mine": 2}});
    assert_eq!(first.last_checkpoint(), Some(&form));
    let second = worker.perform_delivery(&delivery().checkpoint(Some(&form))).unwrap();
    assert_eq!(second.result::<Value>().unwrap(), json!({"mine": 2}));
}

#[test]
fn more_than_64_kib_and_results_that_are_no_json_fail_for_good() {
    let large = worker(|job| job.step("a", || Ok("x".repeat(70_000))));
    let outcome = large.perform("t", ()).unwrap();
    assert_eq!(failed(&outcome), ("CheckpointTooLarge", false));
    assert!(outcome.error.unwrap().message.contains("65536"));
    let not_json = worker(|job| job.step("a", || Ok(f64::NAN)));
    assert_eq!(failed(&not_json.perform("t", ()).unwrap()), ("InvalidResult", false));
}

#[test]
fn a_step_that_took_long_is_not_begun_shortly_before_the_end() {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut worker = Worker::new();
    worker.handle("slow.step", move |job| {
        job.step("slow", || {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(400));
            Ok(())
        })
    });
    assert_eq!(worker.perform("slow.step", ()).unwrap().outcome, "ack");
    let delivery = Delivery::new("slow.step", ()).unwrap().stop_in(Duration::from_millis(500));
    let outcome = worker.perform_delivery(&delivery).unwrap();
    assert_eq!((outcome.outcome.as_str(), runs.load(Ordering::SeqCst)), ("release", 1));
}

#[test]
fn a_saved_index_counts_in_any_spelling_that_a_backend_gives_it() {
    let worker = worker(|job| job.iterate(0..4u64)?.collect::<Result<Vec<u64>>>());
    for index in [json!(1.0), json!(1)] {
        let saved = json!({"ojs_resume": 1, "steps": [], "cursors": {"": index}, "state": null});
        let outcome = worker.perform_delivery(&delivery().checkpoint(Some(&saved))).unwrap();
        assert_eq!(outcome.result::<Vec<u64>>().unwrap(), [2, 3]);
    }
}
