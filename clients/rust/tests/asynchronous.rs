//! Handlers that are futures.
#![cfg(feature = "async")]
#![allow(missing_docs, clippy::pedantic, clippy::unwrap_used, reason = "tests")]

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ojs_worker::testing::Delivery;
use ojs_worker::{Job, Result, Worker};
use tokio::time::sleep;

async fn greet(job: &Job, name: String) -> Result<String> {
    sleep(Duration::from_millis(1)).await;
    Ok(format!("{name} {}", job.kind()))
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_and_closures_are_handlers() {
    let mut worker = Worker::new();
    worker.handle_async("function", greet);
    worker.handle_async("closure", async |job, name: String| {
        let not_send = Rc::new(name);
        sleep(Duration::from_millis(1)).await;
        greet(job, not_send.to_string()).await
    });
    worker.with_state(3).handle_async("state", async |_job, state: &i32, add: i32| Ok(state + add));
    assert_eq!(worker.perform("function", ("ann",)).unwrap().result, "ann function");
    assert_eq!(worker.perform("closure", ("bob",)).unwrap().result, "bob closure");
    assert_eq!(worker.perform("state", (4,)).unwrap().result, 7);
    assert_eq!(worker.perform("state", ("x",)).unwrap().error["type"], "InvalidArgs");
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_drops_the_future_where_it_waits() {
    let is_dropped = Arc::new(AtomicBool::new(false));
    let mut worker = Worker::new();
    worker.with_state(Arc::clone(&is_dropped)).handle_async("t", async |_job, flag, (): ()| {
        let _guard = SetOnDrop(Arc::clone(flag));
        sleep(Duration::from_secs(60)).await;
        Ok(())
    });
    let cancel = Some(("shutdown", Duration::from_millis(50)));
    let delivery = Delivery { cancel, ..Delivery::new("t", ()).unwrap() };
    assert_eq!(worker.perform_delivery(&delivery).unwrap().reason, "shutdown");
    assert!(is_dropped.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_may_be_a_future() {
    let mut worker = Worker::new();
    worker.handle_async("t", async |job, (): ()| {
        job.step_async("a", async || {
            sleep(Duration::from_millis(1)).await;
            Ok(5)
        })
        .await
    });
    let outcome = worker.perform("t", ()).unwrap();
    assert_eq!((outcome.result, &outcome.checkpoints[0]["steps"][0][1]), (5.into(), &5.into()));
}

#[test]
#[should_panic(expected = "handle_async needs a tokio runtime of several threads")]
fn a_handler_without_a_runtime_is_refused() {
    Worker::new().handle_async("t", greet);
}

#[tokio::test]
#[should_panic(expected = "handle_async needs a tokio runtime of several threads")]
async fn a_runtime_whose_only_thread_the_worker_blocks_is_refused() {
    Worker::new().handle_async("t", greet);
}
