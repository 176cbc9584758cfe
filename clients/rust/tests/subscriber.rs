//! A program whose `tracing` subscriber panics, as that of `tracing-subscriber` does when nobody
//! reads standard error.
#![allow(missing_docs, clippy::panic, clippy::pedantic, clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};

use ojs_worker::{Result, Worker};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct Broken(&'static AtomicBool);

impl Subscriber for Broken {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        assert!(!self.0.load(Ordering::SeqCst), "new_span");
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        panic!("event");
    }
    fn enter(&self, _: &Id) {
        panic!("enter");
    }
    fn exit(&self, _: &Id) {
        panic!("exit");
    }
    fn try_close(&self, _: Id) -> bool {
        panic!("close");
    }
}

#[test]
fn no_job_is_lost() {
    static WITHOUT_SPANS: AtomicBool = AtomicBool::new(false);
    tracing::subscriber::set_global_default(Broken(&WITHOUT_SPANS)).unwrap();
    let mut worker = Worker::new();
    worker.handle("count", |_| Ok(1)).handle("fail", |_| -> Result<()> { Err(std::io::Error::other("kaputt"))? });
    for without_spans in [false, true] {
        WITHOUT_SPANS.store(without_spans, Ordering::SeqCst);
        assert_eq!(worker.perform("count", ()).unwrap().result, 1);
        assert_eq!(worker.perform("fail", ()).unwrap().error["message"], "kaputt");
    }
}
