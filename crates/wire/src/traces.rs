//! Spans as OTLP over HTTP wants them in JSON: the mapping of protobuf, with ids in hexadecimal
//! digits and numbers in place of the names of enums. `docs/tracing.md` explains each attribute.
//!
//! Names come from the OJS documents *Observability* (6 and 7) and *Distributed Tracing* (4, 5 and
//! 8), and from OpenTelemetry's conventions for messaging. What has no name there begins with
//! `ojs_init.`.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde_with_macros::skip_serializing_none;

use crate::backend::reply;
use crate::backend::trace::{self, hex};
use crate::json::object::Object;
use crate::names;
use ojs_lifecycle::api::{JobEnd, JobError, Moment, Trace};
use ojs_lifecycle::view::spans::{FetchSpan, MOST_TEXT_BYTES, ReportSpan, SpanEvent, TracedJob, WallClock};
use ojs_values::text::beginning;

/// Most bytes of the backtrace of an error.
const MOST_BACKTRACE_BYTES: usize = 4096;

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
    let resource = source.resource.iter();
    let resource: Vec<Attribute<'_>> = resource.map(|(name, value)| text(name, value)).collect();
    let spans: Vec<Span<'_>> = jobs.iter().flat_map(|job| Spans { job, source }.all()).collect();
    // Nothing in it can fail to be written.
    let resource = serde_json::to_string(&resource).unwrap_or_default();
    let spans = serde_json::to_string(&spans).unwrap_or_default();
    let scope = concat!(r#"{"name":"ojs-init","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":{resource}}},"scopeSpans":[{{"scope":{scope},"spans":{spans}}}]}}]}}"#
    )
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
        let partial = Object::read_bytes(body)?.object("partialSuccess")?;
        // 64 bits are a string in this mapping, and some collectors send a number.
        let text = partial.text("rejectedSpans").and_then(|text| text.parse().ok());
        text.or_else(|| partial.whole("rejectedSpans"))
    };
    number().unwrap_or(0)
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    flags: u32,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    name: Cow<'a, str>,
    attributes: Vec<Attribute<'a>>,
    /// The span that led to this one.
    links: Option<[Link; 1]>,
    events: Option<Vec<Event<'a>>>,
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AttributeValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AttributeValue<'a> {
    StringValue(Cow<'a, str>),
    /// As text, because 64 bits are a string in this mapping.
    IntValue(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    trace_id: String,
    span_id: String,
    flags: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    time_unix_nano: String,
    name: &'static str,
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

impl Status<'_> {
    const OK: Self = Self {
        code: STATUS_OK,
        message: "",
    };
}

fn text<'a>(key: &'a str, value: &'a str) -> Attribute<'a> {
    let value = AttributeValue::StringValue(beginning(value, MOST_TEXT_BYTES).into());
    Attribute { key, value }
}

fn number(key: &str, value: u64) -> Attribute<'_> {
    let value = AttributeValue::IntValue(value.to_string());
    Attribute { key, value }
}

/// The spans of a job.
struct Spans<'a> {
    job: &'a TracedJob,
    source: &'a SpanSource,
}

impl<'a> Spans<'a> {
    fn all(&self) -> Vec<Span<'a>> {
        let fetch = self.job.fetch.iter().map(|fetch| self.fetch(fetch));
        let reports = self.job.reports.iter().map(|report| self.report(report));
        fetch.chain([self.process()]).chain(reports).collect()
    }

    fn fetch(&self, fetch: &FetchSpan) -> Span<'a> {
        let mut attributes = self.common("receive", "fetch");
        attributes.push(text("ojs.job.state", "active"));
        attributes.push(number("messaging.batch.message_count", fetch.jobs as u64));
        self.add_server(&mut attributes);
        Span {
            links: self.links(),
            attributes,
            status: Some(Status::OK),
            ..self.span(fetch.span, self.of_queue("fetch"), fetch.began, fetch.ended)
        }
    }

    fn process(&self) -> Span<'a> {
        let job = self.job;
        let mut attributes = self.common("process", "process");
        let bytes = job.bytes.map(|bytes| bytes as u64);
        attributes.extend(bytes.map(|bytes| number("messaging.message.body.size", bytes)));
        if let Some(end) = job.end {
            attributes.push(text("ojs_init.outcome", names::end(end)));
            attributes.extend(state_after(end).map(|state| text("ojs.job.state", state)));
        }
        let error = self.error();
        if let Some((kind, message)) = error {
            attributes.push(text("error.type", kind));
            attributes.push(text("error.message", message));
            let attempt = job.subject.attempt;
            attributes.extend(attempt.map(|attempt| number("ojs.job.error.attempt", attempt)));
        }
        let status = match (job.end, error) {
            (Some(JobEnd::Acked | JobEnd::Cancelled), _) => Some(Status::OK),
            (_, Some((_, message))) => Some(Status {
                code: STATUS_ERROR,
                message: beginning(message, MOST_TEXT_BYTES),
            }),
            (Some(JobEnd::Requeued | JobEnd::Failed | JobEnd::Left | JobEnd::Lost) | None, None) => None,
        };
        Span {
            parent_span_id: job.fetch.as_ref().map(|fetch| hex(&fetch.span.to_be_bytes())),
            kind: KIND_CONSUMER,
            links: self.links(),
            attributes,
            events: Some(self.events()),
            status,
            ..self.span(job.span, self.of_queue("process"), job.began, job.ended)
        }
    }

    fn report(&self, report: &ReportSpan) -> Span<'a> {
        let (operation, name) = if report.is_ack {
            ("ack", "ojs.ack")
        } else {
            ("nack", "ojs.nack")
        };
        let mut attributes = self.common("settle", operation);
        self.add_server(&mut attributes);
        if let Some(status) = report.status {
            attributes.push(number("http.response.status_code", status.into()));
        }
        if report.failure.is_some() {
            let cause = report
                .status
                .map_or("no_answer".into(), |status| status.to_string().into());
            attributes.push(Attribute {
                key: "error.type",
                value: AttributeValue::StringValue(cause),
            });
        }
        let error = Status {
            code: STATUS_ERROR,
            message: "",
        };
        Span {
            parent_span_id: Some(hex(&self.job.span.to_be_bytes())),
            attributes,
            status: Some(if report.failure.is_some() { error } else { Status::OK }),
            ..self.span(report.span, name.into(), report.began, report.ended)
        }
    }

    /// A request to the backend, and what every other span has in common with one.
    fn span(&self, id: u64, name: Cow<'a, str>, began: Moment, ended: Moment) -> Span<'a> {
        Span {
            trace_id: hex(&self.job.trace.to_be_bytes()),
            span_id: hex(&id.to_be_bytes()),
            parent_span_id: None,
            flags: OWN_FLAGS,
            kind: KIND_CLIENT,
            start_time_unix_nano: self.nanos(began),
            end_time_unix_nano: self.nanos(ended),
            name,
            attributes: Vec::new(),
            links: None,
            events: None,
            status: None,
        }
    }

    fn links(&self) -> Option<[Link; 1]> {
        let link = self.job.subject.trace?;
        Some([Link {
            trace_id: hex(&link.trace.to_be_bytes()),
            span_id: hex(&link.span.to_be_bytes()),
            flags: LINK_FLAGS,
        }])
    }

    fn of_queue(&self, operation: &'static str) -> Cow<'a, str> {
        match &*self.job.subject.queue {
            "" => operation.into(),
            queue => format!("{} {operation}", beginning(queue, MOST_TEXT_BYTES)).into(),
        }
    }

    /// The attributes that all spans of a job have.
    fn common(&self, kind: &'a str, operation: &'a str) -> Vec<Attribute<'a>> {
        let subject = &self.job.subject;
        let mut attributes = vec![
            text("messaging.system", "ojs"),
            text("messaging.operation.type", kind),
            text("messaging.operation.name", operation),
            text("messaging.destination.name", &subject.queue),
            text("messaging.message.id", &subject.id.0),
            text("ojs.job.id", &subject.id.0),
            text("ojs.job.type", &subject.kind),
            text("ojs.job.queue", &subject.queue),
        ];
        attributes.extend(subject.attempt.map(|attempt| number("ojs.job.attempt", attempt)));
        let worker = self.job.worker.as_ref();
        attributes.extend(worker.map(|worker| text("ojs.worker.id", &worker.0)));
        attributes
    }

    fn add_server(&self, attributes: &mut Vec<Attribute<'a>>) {
        attributes.push(text("server.address", &self.source.server));
        attributes.push(number("server.port", self.source.port.into()));
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

    fn events(&self) -> Vec<Event<'a>> {
        let events = self.job.events.iter().map(|(at, event)| {
            let (name, attribute) = event_words(*event);
            self.event(*at, name, attribute.into_iter().collect())
        });
        let exception = self.job.error.as_ref().map(|error| {
            let mut attributes = vec![
                text("exception.type", kind_of(error)),
                text("exception.message", &error.message),
            ];
            attributes.extend(error.backtrace.as_deref().map(|backtrace| Attribute {
                key: "exception.stacktrace",
                value: AttributeValue::StringValue(backtrace_lines(backtrace).into()),
            }));
            self.event(self.job.ended, "exception", attributes)
        });
        events.chain(exception).collect()
    }

    fn event(&self, at: Moment, name: &'static str, attributes: Vec<Attribute<'a>>) -> Event<'a> {
        Event {
            time_unix_nano: self.nanos(at),
            name,
            attributes,
        }
    }

    fn nanos(&self, at: Moment) -> String {
        let date: Duration = self.source.clock.date(at);
        date.as_nanos().to_string()
    }
}

/// The name of an event, in the words of the OJS document *Events* where it has one.
fn event_words(event: SpanEvent) -> (&'static str, Option<Attribute<'static>>) {
    match event {
        SpanEvent::Fetched => ("ojs_init.fetched", None),
        SpanEvent::HandedOver => ("job.started", None),
        SpanEvent::Progress => ("job.progress", None),
        SpanEvent::Cancel(reason) => {
            let reason = text("ojs_init.cancel.reason", names::cancel_reason(reason));
            ("ojs_init.cancel", Some(reason))
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

#[cfg(test)]
#[path = "traces_tests.rs"]
mod tests;
