//! What becomes of a job, by what its handler does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // whoever runs it looks at it

use std::collections::HashMap;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ojs_worker::testing::{Delivery, Failed, Outcome};
use ojs_worker::{Discard, Error, Job, Options, Output, Release, Result, Retry, RunError, SayError, Worker};
use serde::Serialize;
use serde_json::{json, Value};

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

fn worker<T: Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Worker {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker
}

fn perform<T: Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Outcome {
    worker(handler).perform("t", ()).unwrap()
}

fn failed<T: Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Failed {
    let outcome = perform(handler);
    assert_eq!(outcome.outcome, "fail", "{outcome:?}");
    outcome.error.unwrap()
}

#[test]
fn a_result_goes_through_json_and_none_is_none() {
    let outcome = worker(|job| job.args::<(u64, String)>()).perform("t", (u64::MAX, "ä")).unwrap();
    assert_eq!(outcome.result::<(u64, String)>().unwrap(), (u64::MAX, "ä".to_owned()));
    assert_eq!(perform(|_| Ok(())).result::<Value>().unwrap(), Value::Null);
    assert_eq!(perform(|_| Ok(None::<u8>)).outcome, "ack");
}

#[test]
fn any_error_fails_retryable_with_its_type_message_sources_and_line() {
    #[derive(Debug)]
    struct NotSent(io::Error);
    impl std::fmt::Display for NotSent {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("not sent")
        }
    }
    impl std::error::Error for NotSent {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let line = line!() + 1;
    let error = failed(|_| -> Result<()> { Err(NotSent(io::Error::other("the line is cut")))? });
    assert_eq!(error.message, "not sent: the line is cut");
    assert!(error.kind.ends_with("NotSent"), "{}", error.kind);
    assert_eq!((error.code.as_str(), error.retryable), ("handler_error", true));
    assert!(error.backtrace[0].starts_with(&format!("tests/handlers.rs:{line}:")), "{:?}", error.backtrace);
}

#[test]
fn a_panic_fails_with_its_stack_innermost_first_and_the_worker_lives_on() {
    fn inner_of_all() {
        panic!("{} is broken", "it");
    }
    let worker = worker(|_| -> Result<()> {
        inner_of_all();
        Ok(())
    });
    for _ in 0..2 {
        let error = worker.perform("t", ()).unwrap().error.unwrap();
        assert_eq!((error.message.as_str(), error.kind.as_str(), error.retryable), ("it is broken", "panic", true));
        assert!(error.backtrace[0].starts_with("tests/handlers.rs:"), "{:?}", error.backtrace);
        let inner = error.backtrace.iter().position(|line| line.contains("inner_of_all"));
        assert!(inner.is_some_and(|at| at <= 2), "{:?}", error.backtrace);
        let is_foreign =
            |line: &String| line.contains("/rustc/") || line.contains("src/pool.rs") || line.contains("ojs_worker::");
        assert!(!error.backtrace.iter().any(is_foreign), "{:?}", error.backtrace);
    }
}

#[test]
fn a_panic_with_anything_fails_the_job() {
    let error = failed(|_| -> Result<()> { std::panic::panic_any(17) });
    assert_eq!(error.message, "a panic without a message");
}

#[test]
fn retry_fails_in_its_own_words_and_says_how_long_to_wait() {
    let error = failed(|_| -> Result<()> {
        let cause = io::Error::other("busy");
        let details = json!({"tenant": 7});
        Err(Retry::because(cause).after(Duration::from_micros(1500)).code("x_busy").details(details).into())
    });
    assert_eq!((error.message.as_str(), error.code.as_str(), error.retryable), ("busy", "x_busy", true));
    assert!(error.kind.contains("io::error::Error"), "{}", error.kind);
    assert_eq!(error.details, json!({"tenant": 7, "retry_after_ms": 2}));
}

#[test]
fn discard_fails_for_good_and_release_gives_the_job_back() {
    let error = failed(|_| -> Result<()> { Err(Discard::new("no address").kind("NoAddress").into()) });
    assert_eq!((error.message.as_str(), error.kind.as_str(), error.retryable), ("no address", "NoAddress", false));
    let outcome = perform(|_| -> Result<()> { Err(Release::new("not mine").into()) });
    assert_eq!((outcome.outcome.as_str(), outcome.reason.as_str()), ("release", "not mine"));
}

#[test]
fn details_that_are_no_object_are_left_out() {
    let error = failed(|_| -> Result<()> { Err(Retry::new("no").details([1, 2]).into()) });
    assert_eq!(error.details, Value::Null);
}

#[test]
fn a_verdict_is_found_behind_errors_of_others() {
    let error = failed(|_| -> Result<()> {
        let verdict: Error = Discard::new("for good").into();
        let others = io::Error::other(verdict.into_std());
        Err(others)?
    });
    assert_eq!((error.message.as_str(), error.retryable), ("for good", false));
    let error = failed(|_| -> Result<()> { Err(Error::from_boxed("a text alone")) });
    assert_eq!((error.message.as_str(), error.retryable), ("a text alone", true));
}

#[test]
fn a_result_that_is_no_json_fails_for_good_as_invalid_result() {
    fn deep(levels: usize) -> Value {
        (0..levels).fold(Value::from(1), |inner, _| json!([inner]))
    }
    let all = [
        failed(|_| Ok(f64::NAN)),
        failed(|_| Ok(json!({"a": [1.5], "b": null})).and(Ok(vec![Some(f32::INFINITY), None]))),
        failed(|_| Ok(HashMap::from([((1, 2), 3)]))),
        failed(|_| Ok(deep(100))),
    ];
    for error in all {
        assert_eq!((error.kind.as_str(), error.retryable), ("InvalidResult", false));
        assert!(error.message.starts_with("the handler's result is not JSON: "), "{}", error.message);
    }
    assert_eq!(perform(|_| Ok(deep(99))).outcome, "ack");
}

#[test]
fn a_result_over_max_frame_is_dropped_and_the_job_is_done() {
    let outcome = perform(|_| Ok("x".repeat(5_000_000)));
    assert_eq!((outcome.outcome.as_str(), outcome.result::<Value>().unwrap()), ("ack", Value::Null));
}

#[test]
fn an_unknown_type_fails_retryable_and_the_star_takes_what_has_none() {
    let mut worker = worker(|_| Ok("t"));
    let error = worker.perform("other", ()).unwrap().error.unwrap();
    assert_eq!((error.code.as_str(), error.retryable), ("handler_not_found", true));
    worker.handle("*", |job| Ok(job.kind().to_owned()));
    assert_eq!(worker.perform("other", ()).unwrap().result::<String>().unwrap(), "other");
}

#[test]
fn arguments_have_types_and_those_that_do_not_fit_fail_for_good() {
    let mut worker = Worker::new();
    worker.handle_typed("add", |_, (a, b): (u32, u32)| Ok(a + b));
    assert_eq!(worker.perform("add", (2, 3)).unwrap().result::<u32>().unwrap(), 5);
    let error = worker.perform("add", (2, "secret")).unwrap().error.unwrap();
    assert_eq!((error.kind.as_str(), error.retryable), ("InvalidArgs", false));
    assert!(error.message.contains("expected u32") && !error.message.contains("secret"), "{}", error.message);
}

#[test]
fn a_handler_has_all_fields_of_its_job() {
    let handler = |job: &Job| {
        assert!(job.deadline().unwrap() > Instant::now() + Duration::from_secs(3));
        assert!(job.deadline_time().is_some() && job.remaining().is_none() && !job.is_stopping());
        assert_eq!(job.trace().unwrap().0, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(job.last_checkpoint::<Vec<u8>>()?, Some(vec![1]));
        Ok((job.id().to_owned(), job.queue().to_owned(), job.attempt(), job.meta().len(), job.raw().get().to_owned()))
    };
    let meta = json!({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    let delivery = Delivery::new("t", ()).unwrap().id("j-1").queue("mail").attempt(0);
    let delivery =
        delivery.meta(meta.as_object().unwrap().clone()).timeout(Duration::from_secs(4)).checkpoint(Some(&json!([1])));
    let outcome = worker(handler).perform_delivery(&delivery).unwrap();
    let (id, queue, attempt, meta, raw): (String, String, u32, usize, String) = outcome.result().unwrap();
    assert_eq!((id.as_str(), queue.as_str(), attempt, meta), ("j-1", "mail", 0, 1));
    assert!(raw.contains("\"timeout_ms\":4000"), "{raw}");
}

#[test]
fn progress_heartbeats_and_checkpoints_are_seen_in_the_outcome() {
    let outcome = perform(|job| {
        job.progress(1.000_000_2, "done")?;
        job.progress_with(0.5, "", &json!({"row": 7}))?;
        job.heartbeat()?;
        job.checkpoint(&"here")?;
        assert!(matches!(job.progress(f64::NAN, ""), Err(SayError::NotJson(_))));
        Ok(())
    });
    assert_eq!(outcome.progress.len(), 2);
    assert_eq!((outcome.progress[0].progress, outcome.progress[0].message.as_str()), (1.0, "done"));
    assert_eq!(outcome.progress[1].data, json!({"row": 7}));
    assert_eq!((outcome.heartbeats, outcome.last_checkpoint()), (1, Some(&json!("here"))));
}

#[test]
fn nothing_can_be_said_about_a_job_that_is_answered() {
    let kept = Arc::new(Mutex::new(None));
    let keeps = Arc::clone(&kept);
    perform(move |job| {
        *keeps.lock().unwrap() = Some(job.clone());
        Ok(())
    });
    let job = kept.lock().unwrap().take().unwrap();
    assert!(job.progress(0.5, "").is_err());
    assert!(job.checkpoint(&1).is_err());
}

#[test]
fn a_handler_that_gives_up_after_a_cancel_is_answered_as_the_reason_asks_for() {
    for (reason, outcome) in
        [("shutdown", "release"), ("cancelled", "release"), ("lost", "release"), ("timeout", "fail")]
    {
        let delivery = Delivery::new("t", ()).unwrap().cancel(reason, SOON);
        let answered = worker(|job| Ok(job.sleep(LONG)?)).perform_delivery(&delivery).unwrap();
        assert_eq!(answered.outcome, outcome, "{reason}");
        if let Some(error) = answered.error {
            assert_eq!((error.code.as_str(), error.kind.as_str(), error.retryable), ("timeout", "Timeout", true));
        } else {
            assert_eq!(answered.reason, reason);
        }
    }
}

#[test]
fn after_a_cancel_a_result_a_verdict_and_a_panic_are_what_they_are() {
    let delivery = Delivery::new("t", ()).unwrap().cancel("shutdown", SOON);
    let after = |end: fn() -> Result<u8>| {
        let handler = move |job: &Job| job.sleep(LONG).map_or_else(|_| end(), |()| Ok(0));
        worker(handler).perform_delivery(&delivery).unwrap()
    };
    assert_eq!(after(|| Ok(1)).outcome, "ack");
    assert!(!after(|| Err(Discard::new("no").into())).error.unwrap().retryable);
    assert_eq!(after(|| panic!("broken")).error.unwrap().kind, "panic");
}

#[test]
fn a_handler_that_does_not_end_is_an_error_of_the_test() {
    let handler = |_: &Job| {
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    };
    let delivery = Delivery::new("t", ()).unwrap().timeout(SOON).patience(SOON);
    let error = worker(handler).perform_delivery(&delivery).unwrap_err();
    assert!(error.to_string().contains("has not ended"), "{error}");
}

#[test]
fn a_shutdown_is_seen_from_the_first_line_on_and_cancels_when_its_time_is_over() {
    let handler = |job: &Job| {
        assert!(job.is_stopping() && job.wait_stopping(LONG));
        assert!(job.remaining().unwrap() <= Duration::from_millis(200));
        Ok(job.sleep(LONG)?)
    };
    let delivery = Delivery::new("t", ()).unwrap().stop_in(Duration::from_millis(200));
    let outcome = worker(handler).perform_delivery(&delivery).unwrap();
    assert_eq!((outcome.outcome.as_str(), outcome.reason.as_str()), ("release", "shutdown"));
}

#[test]
fn middleware_is_around_handlers_the_first_one_outermost() {
    struct Order(Vec<&'static str>);
    fn add(job: &Job, name: &'static str) {
        let mut order = job.kept::<Order>().map_or_else(Vec::new, |order| order.0.clone());
        order.push(name);
        job.keep(Order(order));
    }
    let mut worker = Worker::new();
    for name in ["outer", "inner"] {
        worker.wrap(move |job, next| {
            add(job, name);
            let result = next.run(job)?;
            Output::of(&format!("{name}({})", result.read::<String>()?))
        });
    }
    worker.handle("t", |job| Ok(job.kept::<Order>().unwrap().0.join(",")));
    for _ in 0..2 {
        let result: String = worker.perform("t", ()).unwrap().result().unwrap();
        assert_eq!(result, "outer(inner(outer,inner))", "nothing of one job is seen by the next");
    }
    worker.wrap(|_, _| Err(Discard::new("closed").into()));
    assert!(!worker.perform("t", ()).unwrap().error.unwrap().retryable);
}

#[test]
fn a_registration_that_is_wrong_panics_and_says_why() {
    let says = |register: fn(&mut Worker)| {
        let mut worker = worker(|_| Ok(()));
        let thrown = catch_unwind(AssertUnwindSafe(|| register(&mut worker))).unwrap_err();
        thrown.downcast_ref::<String>().unwrap().clone()
    };
    assert!(says(|worker| _ = worker.handle("t", |_| Ok(()))).contains("has a handler already"));
    assert!(says(|worker| _ = worker.handle("", |_| Ok(()))).contains("1 to 1024 bytes"));
    assert!(says(|_| drop(Worker::with(Options { concurrency: Some(0), ..Options::default() }))).contains("1 to 10000"));
}

#[test]
fn outside_of_ojs_init_run_says_so() {
    assert!(matches!(Worker::new().run(), Err(RunError::NoHandler)));
    let options = Options { socket_path: Some("/nonexistent/socket".into()), ..Options::default() };
    let mut worker = Worker::with(options);
    worker.handle("t", |_| Ok(()));
    let error = worker.run().unwrap_err().to_string();
    assert!(error.contains("not under ojs-init: cannot connect to /nonexistent/socket"), "{error}");
}

#[test]
fn arguments_of_a_test_that_are_no_array_are_an_error_of_the_test() {
    assert!(worker(|_| Ok(())).perform("t", "a@b.c").unwrap_err().to_string().contains("a tuple or an array"));
}
