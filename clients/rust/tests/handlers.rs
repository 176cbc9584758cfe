//! Handlers and what becomes of their jobs.
#![allow(missing_docs, clippy::panic, clippy::pedantic, clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{error, fmt, io};

use ojs_worker::testing::{Delivery, Outcome};
use ojs_worker::{Discard, Error, Job, Options, Output, Release, Result, Retry, Verdict, Worker};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Performs a job of a worker with one handler.
fn outcome_of<T: serde::Serialize>(handler: impl Fn(&Job) -> Result<T> + Send + Sync + 'static) -> Outcome {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    worker.perform("t", ()).unwrap()
}

fn cancelled(reason: &'static str, handler: impl Fn(&Job) -> Result<()> + Send + Sync + 'static) -> Outcome {
    let mut worker = Worker::new();
    worker.handle("t", handler);
    let delivery = Delivery { cancel: Some((reason, Duration::from_millis(20))), ..Delivery::new("t", ()).unwrap() };
    worker.perform_delivery(&delivery).unwrap()
}

#[test]
fn results_are_json() {
    assert_eq!(outcome_of(|_| Ok(json!({"n": 1}))).result, json!({"n": 1}));
    assert_eq!(outcome_of(|_| Ok(())).result, Value::Null);
    let not_json = outcome_of(|_| Ok(std::collections::HashMap::from([((1, 2), 3)])));
    assert_eq!((not_json.outcome.as_str(), not_json.result), ("ack", Value::Null));
}

#[derive(Debug)]
struct Outer(io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not sent")
    }
}

impl error::Error for Outer {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn an_error_fails_the_job_with_its_class_causes_and_place() {
    let error = outcome_of(|_| -> Result<()> { Err(Outer(io::Error::other("disk full")))? }).error;
    assert_eq!(error["message"], "not sent: disk full");
    assert!(error["type"].as_str().unwrap().ends_with("Outer"));
    assert_eq!((&error["code"], &error["retryable"]), (&json!("handler_error"), &json!(true)));
    assert!(error["backtrace"][0].as_str().unwrap().contains("tests/handlers.rs:"));
    let boxed = || -> Result<(), Box<dyn error::Error + Send + Sync>> { Err("from elsewhere".into()) };
    let error = outcome_of(move |_| boxed().map_err(Error::from_boxed)).error;
    assert_eq!(error["message"], "from elsewhere");
}

#[test]
fn a_panic_fails_the_job_and_the_worker_goes_on() {
    let mut worker = Worker::new();
    worker.handle("panics", |_| -> Result<()> { panic!("attempt {}", 1) });
    worker.handle("works", |_| Ok("yes"));
    let error = worker.perform("panics", ()).unwrap().error;
    assert_eq!((&error["type"], &error["message"]), (&json!("panic"), &json!("attempt 1")));
    assert_eq!(worker.perform("works", ()).unwrap().result, "yes");
}

#[test]
fn a_handler_decides_about_its_job() {
    let retry = outcome_of(|_| -> Result<()> {
        let retry = Retry::new("busy").after(Duration::from_micros(1_500_100)).code("x_busy").kind("Busy");
        Err(retry.details(json!({"host": "a"})).into())
    });
    let details = json!({"host": "a", "retry_after_ms": 1501});
    assert_eq!((&retry.error["details"], &retry.error["code"]), (&details, &json!("x_busy")));
    assert_eq!((&retry.error["type"], &retry.error["retryable"]), (&json!("Busy"), &json!(true)));
    let discard = outcome_of(|_| -> Result<()> { Err(Discard::because(io::Error::other("gone")).into()) });
    assert_eq!((&discard.error["message"], &discard.error["retryable"]), (&json!("gone"), &json!(false)));
    assert_eq!(discard.error["type"], "std::io::error::Error");
    let release = outcome_of(|_| -> Result<()> { Err(Release::new("not mine").into()) });
    assert_eq!((release.outcome.as_str(), release.reason), ("release", json!("not mine")));
}

#[test]
fn an_outcome_is_found_among_the_sources_of_another_error() {
    let wrapped = outcome_of(|_| -> Result<()> { Err(Outer(io::Error::other(Discard::new("for good"))))? });
    assert_eq!((&wrapped.error["message"], &wrapped.error["retryable"]), (&json!("for good"), &json!(false)));
}

#[test]
fn a_cancel_wakes_a_handler_that_sleeps() {
    let began = Instant::now();
    let sleep = |job: &Job| Ok(job.sleep(Duration::from_secs(60))?);
    assert_eq!(cancelled("shutdown", sleep).reason, "shutdown");
    assert_eq!(cancelled("lost", sleep).reason, "lost");
    let timeout = cancelled("timeout", sleep);
    assert_eq!((&timeout.error["code"], &timeout.error["retryable"]), (&json!("timeout"), &json!(true)));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn after_a_cancel_own_outcomes_and_results_stay() {
    let wait = |job: &Job| job.sleep(Duration::from_secs(60)).is_err();
    let discard = cancelled("shutdown", move |job| Err(Discard::new(wait(job)).into()));
    assert_eq!(discard.error["message"], "true");
    let done = cancelled("shutdown", move |job| {
        assert!(wait(job));
        Ok(())
    });
    assert_eq!(done.outcome, "ack");
    let other = cancelled("shutdown", move |job| Err(io::Error::other(wait(job).to_string()))?);
    assert_eq!(other.outcome, "release");
}

#[derive(Debug, Deserialize, PartialEq)]
struct Mail {
    to: String,
    #[serde(default)]
    copies: u32,
}

/// What a typed handler gets, or the message of the failure.
fn typed<A: DeserializeOwned + fmt::Debug + 'static>(args: Value) -> String {
    let mut worker = Worker::new();
    worker.handle_typed("t", |_, args: A| Ok(format!("{args:?}")));
    let outcome = worker.perform("t", args).unwrap();
    if outcome.outcome == "fail" {
        assert_eq!((&outcome.error["type"], &outcome.error["retryable"]), (&json!("InvalidArgs"), &json!(false)));
        return outcome.error["message"].as_str().unwrap().to_owned();
    }
    outcome.result.as_str().unwrap().to_owned()
}

#[test]
fn arguments_come_in_their_order_by_name_or_alone() {
    assert_eq!(typed::<(String, u32)>(json!(["a", 2])), r#"("a", 2)"#);
    assert_eq!(typed::<Mail>(json!(["a", 2])), r#"Mail { to: "a", copies: 2 }"#);
    assert_eq!(typed::<Mail>(json!(["a"])), r#"Mail { to: "a", copies: 0 }"#);
    assert_eq!(typed::<Mail>(json!([{"copies": 3, "to": "a"}])), r#"Mail { to: "a", copies: 3 }"#);
    assert_eq!(typed::<Vec<u8>>(json!([1, 2])), "[1, 2]");
    assert_eq!(typed::<Vec<u8>>(json!([[1, 2]])), "[1, 2]");
    assert_eq!(typed::<Option<u8>>(json!([null])), "None");
    assert_eq!(typed::<u8>(json!([1])), "1");
    assert_eq!(typed::<()>(json!([])), "()");
}

#[test]
fn arguments_that_do_not_fit_are_named_without_their_value() {
    assert_eq!(typed::<(String, u32)>(json!(["a", "secret"])), "args[1]: invalid type: string, expected u32");
    assert_eq!(typed::<(String, u32)>(json!([7, "secret"])), "args[0]: invalid type: integer, expected a string");
    assert_eq!(typed::<u8>(json!(["secret"])), "args[0]: invalid type: string, expected u8");
    assert_eq!(typed::<u8>(json!([70_000])), "args[0]: invalid value: integer, expected u8");
    assert_eq!(typed::<(String, u32)>(json!(["secret"])), "1 arguments: invalid length 1, expected a tuple of size 2");
    assert!(typed::<(u8,)>(json!([1, 2])).starts_with("2 arguments: invalid length 2, expected "));
    assert_eq!(typed::<Mail>(json!([{"copies": 1}])), "args[0]: missing field `to`");
    assert_eq!(typed::<std::net::IpAddr>(json!(["secret"])), "args[0]: a value that the type does not take");
}

#[test]
fn a_job_has_what_its_envelope_says() {
    let mut worker = Worker::new();
    worker.handle("*", |job| {
        let attempts = (job.attempt(), job.is_last_attempt());
        Ok(json!([job.id(), job.kind(), job.queue(), job.meta()["tenant"], attempts, job.deadline().is_some()]))
    });
    let mut delivery = Delivery::new("any", ()).unwrap();
    delivery.job["max_attempts"] = json!(1);
    delivery.job["meta"] = json!({"tenant": "x"});
    delivery.job["timeout_ms"] = json!(60_000);
    let outcome = worker.perform_delivery(&delivery).unwrap();
    assert_eq!(outcome.result, json!(["test-job", "any", "default", "x", [1, true], true]));
}

#[test]
fn reports_reach_ojs_init_and_none_follows_the_answer() {
    let kept = Arc::new(Mutex::new(None));
    let keeper = Arc::clone(&kept);
    let outcome = outcome_of(move |job| {
        job.progress(2.0, "all");
        job.progress(f64::NAN, "nothing");
        job.checkpoint(&json!({"page": 1}))?;
        *keeper.lock().unwrap() = Some(job.clone());
        Ok(())
    });
    assert_eq!((outcome.progress.len(), &outcome.progress[0]["progress"]), (1, &json!(1)));
    assert_eq!(outcome.checkpoints, [json!({"page": 1})]);
    let job: Job = kept.lock().unwrap().take().unwrap();
    job.heartbeat();
}

#[test]
fn middleware_is_around_handlers_and_sees_each_failure_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tracker = Arc::clone(&seen);
    let mut worker = Worker::new();
    worker.wrap(move |job, next| {
        job.keep(7_u8);
        next.run(job).inspect_err(|error| {
            if error.verdict() != Verdict::Cancelled {
                tracker.lock().unwrap().push(error.kind().to_owned());
            }
        })
    });
    worker.wrap(|job, next| {
        let result = next.run(job)?;
        if result.text() == Some("\"stay\"") { Ok(result) } else { Output::of(&"replaced") }
    });
    worker.handle_typed("t", |job, mode: String| {
        assert_eq!(job.kept::<u8>().as_deref(), Some(&7));
        assert_ne!(mode, "panic");
        if mode == "discard" { Err(Discard::new("no").into()) } else { Ok(mode) }
    });
    assert_eq!(worker.perform("t", ("go",)).unwrap().result, "replaced");
    assert_eq!(worker.perform("t", ("stay",)).unwrap().result, "stay");
    for args in [json!(["panic"]), json!(["discard"]), json!([1])] {
        assert_eq!(worker.perform("t", args).unwrap().outcome, "fail");
    }
    assert_eq!(worker.perform("unknown", ()).unwrap().error["code"], "handler_not_found");
    assert_eq!(*seen.lock().unwrap(), ["panic", "Discard", "InvalidArgs"]);
}

#[test]
fn handlers_share_what_with_state_got() {
    let mut worker = Worker::new();
    let count = |_: &Job, jobs: &Mutex<u32>, add: u32| {
        *jobs.lock().unwrap() += add;
        Ok(*jobs.lock().unwrap())
    };
    worker.with_state(Mutex::new(0)).handle_typed("one", count).handle_typed("other", count);
    assert_eq!(worker.perform("one", (2,)).unwrap().result, 2);
    assert_eq!(worker.perform("other", (3,)).unwrap().result, 5);
}

#[test]
fn a_test_of_a_handler_that_does_not_end_is_an_error() {
    let mut worker = Worker::new();
    worker.handle("t", |job| Ok(job.sleep(Duration::from_secs(60))?));
    let delivery = Delivery { time_limit: Duration::from_millis(20), ..Delivery::new("t", ()).unwrap() };
    assert!(worker.perform_delivery(&delivery).unwrap_err().message().contains("has not ended after 20ms"));
    assert!(worker.perform("t", "not a tuple").unwrap_err().message().contains("a tuple or an array"));
}

#[test]
#[should_panic(expected = "Options::concurrency is Some(0): it is 1 to 10000")]
fn an_option_out_of_range_is_refused() {
    drop(Worker::with(Options { concurrency: Some(0) }));
}

#[test]
#[should_panic(expected = "the job type \"t\" has a handler already")]
fn a_second_handler_of_a_type_is_refused() {
    Worker::new().handle("t", |_| Ok(())).handle("t", |_| Ok(()));
}

#[test]
fn a_checkpoint_behind_the_answer_is_an_error() {
    let (send, late) = std::sync::mpsc::channel();
    let mut worker = Worker::new();
    worker.handle("leak", move |job| Ok(send.send(job.clone())?));
    assert_eq!(worker.perform("leak", ()).unwrap().outcome, "ack");
    let error = late.recv().unwrap().checkpoint(&1).unwrap_err();
    assert!(error.message().contains("answered"), "{error}");
}
