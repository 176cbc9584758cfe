//! A collector for one test, and what it got.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stage::{PATIENCE, Stage, Start, root};
use crate::support::namespace::spawn;
use crate::support::sys;
use crate::support::wait::{wait_for, wait_until};

/// A collector that runs until it is dropped.
pub struct Collector {
    pid: i32,
    spans: PathBuf,
    port: String,
}

impl Collector {
    /// One with these manners: accept, hang, refuse or busy.
    pub fn that_would(manner: &str, stage: &Stage) -> Self {
        let spans = stage.at("spans");
        let mut command = Command::new("python3");
        command
            .arg(root().join("tests/support/otlp_receiver.py"))
            .arg(&spans)
            .arg(manner)
            .stdin(Stdio::null());
        let pid = spawn(command);
        let port = spans.with_extension("port");
        let port = wait_for(PATIENCE, || std::fs::read_to_string(&port).ok());
        Self {
            pid,
            spans,
            port: port.expect("the collector listens"),
        }
    }

    /// Has ojs-init send its spans there.
    pub fn of<'a>(&self, start: Start<'a>) -> Start<'a> {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        start
            .with("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .with("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=abc%20def")
            .with("OTEL_SERVICE_NAME", "mailer")
    }

    /// The spans so far.
    pub fn spans(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.spans).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let spans: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let faults: Vec<&Value> = spans.iter().filter(|span| span.get("fault").is_some()).collect();
        assert!(faults.is_empty(), "{faults:?}");
        spans
    }

    /// Waits for a span of this name.
    pub fn span(&self, name: &str) -> Value {
        let find = || self.spans().into_iter().find(|span| span["name"] == name);
        wait_for(PATIENCE, find).unwrap_or_else(|| panic!("no span {name}: {:#?}", self.spans()))
    }

    /// Waits for so many spans.
    pub fn has(&self, count: usize) {
        assert!(
            wait_until(PATIENCE, || self.spans().len() == count),
            "{:#?}",
            self.spans()
        );
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = sys::send(self.pid, libc::SIGKILL);
        let _ = sys::reap(self.pid, true);
    }
}

/// An attribute of a span or of an event.
pub fn attribute<'a>(of: &'a Value, name: &str) -> &'a str {
    let attributes = of["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["key"] == name);
    let value = &found.unwrap_or_else(|| panic!("no {name}: {of:#}"))["value"];
    value
        .get("stringValue")
        .or(value.get("intValue"))
        .unwrap()
        .as_str()
        .unwrap()
}

/// The names of a span's events, in their order.
pub fn events(span: &Value) -> Vec<&str> {
    let events = span["events"].as_array().unwrap();
    events.iter().map(|event| event["name"].as_str().unwrap()).collect()
}
