//! Spans as OTLP over HTTP wants them in JSON: the mapping of protobuf, with ids in hexadecimal
//! digits and numbers in place of the names of enums. `docs/tracing.md` explains each attribute.
//!
//! Names come from the OJS documents *Observability* (6 and 7) and *Distributed Tracing* (4, 5 and
//! 8), and from OpenTelemetry's conventions for messaging. What has no name there begins with
//! `ojs_init.`.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::backend::{reply, trace};
use crate::json::object::Object;
use crate::names;
use ojs_lifecycle::api::{JobEnd, JobError, Moment, Trace};
use ojs_lifecycle::view::spans::{FetchSpan, MOST_TEXT_BYTES, ReportSpan, SpanEvent, TracedJob, WallClock};
use ojs_values::text::beginning;

/// Most bytes of the backtrace of an error.
const MOST_BACKTRACE_BYTES: usize = 4096;

/// Bytes that the spans of a job usually take.
const USUAL_JOB_BYTES: usize = 2048;

/// The name of the instrumentation scope.
const SCOPE: &str = "ojs-init";

/// The flags of a span: *sampled*, and that it is known where its parent is: in this process.
const OWN_FLAGS: u32 = 0x101;

/// The flags of a link: *sampled*, and that it is known where its span is: in another process.
const LINK_FLAGS: u32 = 0x301;

/// The kinds and states of the protocol that are used.
const KIND_CLIENT: u8 = 3;
const KIND_CONSUMER: u8 = 5;
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// The sender of spans.
#[derive(Debug, Clone)]
pub struct SpanSource {
    /// The attributes of the resource: name and value.
    pub resource: Vec<(String, String)>,
    /// Host and port of the backend, the peer of each request that is a span.
    pub server: String,
    pub port: u16,
    pub clock: WallClock,
}

/// A context as a header, a variable or a field spells it.
pub fn traceparent(context: &Trace) -> String {
    trace::write(context)
}

/// The body of a request with the spans of these jobs.
pub fn request(jobs: &[TracedJob], source: &SpanSource) -> String {
    let mut page = Json(String::with_capacity(jobs.len() * USUAL_JOB_BYTES));
    page.raw(r#"{"resourceSpans":[{"resource":{"#);
    let resource = source.resource.iter();
    let resource = resource.map(|(name, value)| (name.as_str(), Attribute::Text(value)));
    page.attributes(&resource.collect::<Vec<_>>());
    page.raw(r#"},"scopeSpans":[{"scope":{"name":"#);
    page.text(SCOPE);
    page.raw(r#","version":"#);
    page.text(env!("CARGO_PKG_VERSION"));
    page.raw(r#"},"spans":["#);
    for (index, job) in jobs.iter().enumerate() {
        if index > 0 {
            page.raw(",");
        }
        Spans { job, source }.write(&mut page);
    }
    page.raw("]}]}]}");
    page.0
}

/// How long the collector asks to wait, by its header `Retry-After`. `now` is the time since the
/// beginning of 1970, because the header may be a date.
pub fn retry_after(value: &str, now: Duration) -> Option<Duration> {
    reply::retry_after(value, now)
}

/// The number of spans that the collector has rejected, by the body of its answer. An answer that
/// cannot be read rejects none.
pub fn rejected(body: &[u8]) -> u64 {
    let number = || {
        let body: &RawValue = serde_json::from_slice(body).ok()?;
        let partial = Object::read(body.get())?.object("partialSuccess")?;
        // 64 bits are a string in this mapping, and some collectors send a number.
        let text = partial.text("rejectedSpans").and_then(|text| text.parse().ok());
        text.or_else(|| partial.whole("rejectedSpans"))
    };
    number().unwrap_or(0)
}

#[derive(Clone, Copy)]
enum Attribute<'a> {
    Text(&'a str),
    Number(u64),
}

type Attributes<'a> = Vec<(&'a str, Attribute<'a>)>;

/// The parts of a span that all kinds have.
struct Head<'a> {
    span: u64,
    parent: Option<u64>,
    name: String,
    kind: u8,
    began: Moment,
    ended: Moment,
    /// The span that led to this one.
    link: Option<Trace>,
    attributes: Attributes<'a>,
}

/// The spans of a job.
struct Spans<'a> {
    job: &'a TracedJob,
    source: &'a SpanSource,
}

impl<'a> Spans<'a> {
    fn write(&self, page: &mut Json) {
        if let Some(fetch) = &self.job.fetch {
            self.fetch(fetch, page);
            page.raw(",");
        }
        self.process(page);
        for report in &self.job.reports {
            page.raw(",");
            self.report(report, page);
        }
    }

    /// The request that returned the job: the root of the trace.
    fn fetch(&self, fetch: &FetchSpan, page: &mut Json) {
        let mut attributes = self.common("receive", "fetch");
        attributes.push(("ojs.job.state", Attribute::Text("active")));
        attributes.push(("messaging.batch.message_count", Attribute::Number(fetch.jobs as u64)));
        self.add_server(&mut attributes);
        let head = Head {
            span: fetch.span,
            parent: None,
            name: self.of_queue("fetch"),
            kind: KIND_CLIENT,
            began: fetch.began,
            ended: fetch.ended,
            link: self.job.subject.trace,
            attributes,
        };
        self.head(&head, page);
        page.raw(r#","status":{"code":1}}"#);
    }

    /// The job itself.
    fn process(&self, page: &mut Json) {
        let job = self.job;
        let mut attributes = self.common("process", "process");
        let bytes = job.bytes.map(|bytes| Attribute::Number(bytes as u64));
        attributes.extend(bytes.map(|bytes| ("messaging.message.body.size", bytes)));
        if let Some(end) = job.end {
            attributes.push(("ojs_init.outcome", Attribute::Text(names::end(end))));
            attributes.extend(state_after(end).map(|state| ("ojs.job.state", Attribute::Text(state))));
        }
        let error = self.error();
        if let Some((kind, message)) = error {
            attributes.push(("error.type", Attribute::Text(kind)));
            attributes.push(("error.message", Attribute::Text(message)));
            let attempt = job.subject.attempt.map(Attribute::Number);
            attributes.extend(attempt.map(|attempt| ("ojs.job.error.attempt", attempt)));
        }
        let head = Head {
            span: job.span,
            parent: job.fetch.as_ref().map(|fetch| fetch.span),
            name: self.of_queue("process"),
            kind: KIND_CONSUMER,
            began: job.began,
            ended: job.ended,
            link: job.subject.trace,
            attributes,
        };
        self.head(&head, page);
        self.events(page);
        match (job.end, error) {
            (Some(JobEnd::Acked | JobEnd::Cancelled), _) => page.status(STATUS_OK, ""),
            (_, Some((_, message))) => page.status(STATUS_ERROR, message),
            (Some(JobEnd::Requeued | JobEnd::Failed | JobEnd::Left | JobEnd::Lost) | None, None) => {}
        }
        page.raw("}");
    }

    /// A request with the outcome of the job.
    fn report(&self, report: &ReportSpan, page: &mut Json) {
        let name = if report.is_ack { "ack" } else { "nack" };
        let mut attributes = self.common("settle", name);
        self.add_server(&mut attributes);
        let status = report.status.map(|status| status.to_string());
        if let Some(status) = report.status {
            attributes.push(("http.response.status_code", Attribute::Number(status.into())));
        }
        if report.failure.is_some() {
            let cause = status.as_deref().unwrap_or("no_answer");
            attributes.push(("error.type", Attribute::Text(cause)));
        }
        let head = Head {
            span: report.span,
            parent: Some(self.job.span),
            name: format!("ojs.{name}"),
            kind: KIND_CLIENT,
            began: report.began,
            ended: report.ended,
            link: None,
            attributes,
        };
        self.head(&head, page);
        let status = if report.failure.is_some() {
            STATUS_ERROR
        } else {
            STATUS_OK
        };
        page.status(status, "");
        page.raw("}");
    }

    fn of_queue(&self, operation: &str) -> String {
        match &*self.job.subject.queue {
            "" => operation.to_owned(),
            queue => format!("{} {operation}", beginning(queue, MOST_TEXT_BYTES)),
        }
    }

    /// The attributes that all spans of a job have.
    fn common(&self, kind: &'a str, operation: &'a str) -> Attributes<'a> {
        let subject = &self.job.subject;
        let mut attributes = vec![
            ("messaging.system", Attribute::Text("ojs")),
            ("messaging.operation.type", Attribute::Text(kind)),
            ("messaging.operation.name", Attribute::Text(operation)),
            ("messaging.destination.name", Attribute::Text(&subject.queue)),
            ("messaging.message.id", Attribute::Text(&subject.id.0)),
            ("ojs.job.id", Attribute::Text(&subject.id.0)),
            ("ojs.job.type", Attribute::Text(&subject.kind)),
            ("ojs.job.queue", Attribute::Text(&subject.queue)),
        ];
        let attempt = subject.attempt.map(Attribute::Number);
        attributes.extend(attempt.map(|attempt| ("ojs.job.attempt", attempt)));
        let worker = self.job.worker.as_ref().map(|worker| Attribute::Text(&worker.0));
        attributes.extend(worker.map(|worker| ("ojs.worker.id", worker)));
        attributes
    }

    fn add_server(&self, attributes: &mut Attributes<'a>) {
        attributes.push(("server.address", Attribute::Text(&self.source.server)));
        attributes.push(("server.port", Attribute::Number(self.source.port.into())));
    }

    /// Type and message of the error that the job's span has.
    fn error(&self) -> Option<(&'a str, &'a str)> {
        if let Some(error) = &self.job.error {
            return Some((kind_of(error), &error.message));
        }
        match self.job.end? {
            JobEnd::Lost => Some(("lost", "the reservation was lost")),
            JobEnd::Left => Some(("left", "the backend accepted no outcome")),
            JobEnd::Acked | JobEnd::Failed | JobEnd::Requeued | JobEnd::Cancelled => None,
        }
    }

    fn head(&self, head: &Head<'_>, page: &mut Json) {
        page.raw(r#"{"traceId":""#);
        page.trace(self.job.trace);
        page.raw(r#"","spanId":""#);
        page.hex(head.span);
        if let Some(parent) = head.parent {
            page.raw(r#"","parentSpanId":""#);
            page.hex(parent);
        }
        page.put(format_args!(
            r#"","flags":{OWN_FLAGS},"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}","name":"#,
            head.kind,
            self.nanos(head.began),
            self.nanos(head.ended),
        ));
        page.text(&head.name);
        page.raw(",");
        page.attributes(&head.attributes);
        if let Some(link) = head.link {
            page.raw(r#","links":[{"traceId":""#);
            page.trace(link.trace);
            page.raw(r#"","spanId":""#);
            page.hex(link.span);
            page.put(format_args!(r#"","flags":{LINK_FLAGS}}}]"#));
        }
    }

    fn events(&self, page: &mut Json) {
        page.raw(r#","events":["#);
        let mut before = "";
        for (at, event) in &self.job.events {
            let (name, attribute) = event_words(*event);
            page.raw(before);
            self.event(*at, name, attribute.as_slice(), page);
            before = ",";
        }
        if let Some(error) = &self.job.error {
            let backtrace = error.backtrace.as_deref().map(backtrace_lines);
            let mut attributes = vec![
                ("exception.type", Attribute::Text(kind_of(error))),
                ("exception.message", Attribute::Text(&error.message)),
            ];
            let backtrace = backtrace.as_deref().map(Attribute::Text);
            attributes.extend(backtrace.map(|backtrace| ("exception.stacktrace", backtrace)));
            page.raw(before);
            self.event(self.job.ended, "exception", &attributes, page);
        }
        page.raw("]");
    }

    fn event(&self, at: Moment, name: &str, attributes: &[(&str, Attribute<'_>)], page: &mut Json) {
        page.put(format_args!(r#"{{"timeUnixNano":"{}","name":"#, self.nanos(at)));
        page.text(name);
        page.raw(",");
        page.attributes(attributes);
        page.raw("}");
    }

    fn nanos(&self, at: Moment) -> u128 {
        let date: Duration = self.source.clock.date(at);
        date.as_nanos()
    }
}

/// The name of an event, in the words of the OJS document *Events* where it has one.
fn event_words(event: SpanEvent) -> (&'static str, Option<(&'static str, Attribute<'static>)>) {
    match event {
        SpanEvent::Fetched => ("ojs_init.fetched", None),
        SpanEvent::HandedOver => ("job.started", None),
        SpanEvent::Progress => ("job.progress", None),
        SpanEvent::Cancel(reason) => {
            let reason = Attribute::Text(names::cancel_reason(reason));
            ("ojs_init.cancel", Some(("ojs_init.cancel.reason", reason)))
        }
        SpanEvent::TimedOut => ("ojs_init.timeout", None),
        SpanEvent::Outcome(end) => match end {
            JobEnd::Acked => ("job.completed", None),
            JobEnd::Failed => ("job.failed", None),
            JobEnd::Cancelled => ("job.cancelled", None),
            JobEnd::Requeued => ("ojs_init.requeued", None),
            JobEnd::Left => ("ojs_init.left", None),
            JobEnd::Lost => ("ojs_init.lost", None),
        },
    }
}

/// The state of the job at the backend, where it is known: only the backend knows whether a FAIL
/// leads to another attempt.
fn state_after(end: JobEnd) -> Option<&'static str> {
    match end {
        JobEnd::Acked => Some("completed"),
        JobEnd::Cancelled => Some("cancelled"),
        JobEnd::Requeued => Some("available"),
        JobEnd::Failed | JobEnd::Left | JobEnd::Lost => None,
    }
}

fn kind_of(error: &JobError) -> &str {
    let kind = error.kind.as_deref().or(error.code.as_deref());
    kind.unwrap_or("handler_error")
}

/// The lines of a backtrace, which is a JSON array of strings.
fn backtrace_lines(json: &str) -> String {
    let lines: Vec<String> = serde_json::from_str(json).unwrap_or_default();
    let mut text = lines.join("\n");
    text.truncate(beginning(&text, MOST_BACKTRACE_BYTES).len());
    text
}

/// JSON as it grows. Writing to memory cannot fail.
struct Json(String);

impl Json {
    fn raw(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
    }

    fn text(&mut self, text: &str) {
        let needs_escape = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\');
        if text.bytes().any(needs_escape) {
            return self.raw(&Value::from(text).to_string());
        }
        self.raw("\"");
        self.raw(text);
        self.raw("\"");
    }

    fn trace(&mut self, id: u128) {
        trace::push_hex(&mut self.0, &id.to_be_bytes());
    }

    fn hex(&mut self, id: u64) {
        trace::push_hex(&mut self.0, &id.to_be_bytes());
    }

    fn attributes(&mut self, attributes: &[(&str, Attribute<'_>)]) {
        self.raw(r#""attributes":["#);
        for (index, (name, value)) in attributes.iter().enumerate() {
            self.raw(if index == 0 { r#"{"key":"# } else { r#",{"key":"# });
            self.text(name);
            match value {
                Attribute::Text(text) => {
                    let most = if *name == "exception.stacktrace" {
                        MOST_BACKTRACE_BYTES
                    } else {
                        MOST_TEXT_BYTES
                    };
                    self.raw(r#","value":{"stringValue":"#);
                    self.text(beginning(text, most));
                    self.raw("}}");
                }
                Attribute::Number(number) => {
                    self.put(format_args!(r#","value":{{"intValue":"{number}"}}}}"#));
                }
            }
        }
        self.raw("]");
    }

    fn status(&mut self, code: u8, message: &str) {
        self.put(format_args!(r#","status":{{"code":{code}"#));
        if !message.is_empty() {
            self.raw(r#","message":"#);
            self.text(beginning(message, MOST_TEXT_BYTES));
        }
        self.raw("}");
    }
}

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
