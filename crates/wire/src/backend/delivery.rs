//! The answer to a FETCH: jobs, still as text.
//!
//! Each element of `jobs` is a reservation that the backend has made. So an answer that ends or
//! breaks in the middle is still good for the elements before that point. An answer with more jobs
//! than requested is accepted, because only the lifecycle may give a job back. A bound keeps small
//! elements from growing into much more memory than the answer has.

use std::sync::Arc;
use std::time::Duration;

use ojs_lifecycle::api::{Delivery, Envelope, JobId, Reservation, Subject, Text, Trace};

use crate::backend::elements;
use crate::backend::envelope::{into_one_line, one_line};
use crate::backend::split::{JobsBody, LargeJob};
use crate::backend::timestamp;
use crate::backend::trace;
use crate::json::object::Object;

/// The jobs in an answer to a FETCH.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The jobs, in their order.
    pub(crate) deliveries: Vec<Delivery>,
    /// Elements that are no job: without an id no request can name them.
    pub(crate) unusable: usize,
    /// Further elements, which were not read: there are more jobs than are accepted.
    pub(crate) surplus: usize,
    /// Whether the answer could be read to its end.
    pub(crate) is_whole: bool,
}

/// Reads the body of an answer to a FETCH, and accepts at most so many jobs. Large jobs stay in the
/// memory that they have in it.
pub(crate) fn fetched(mut body: JobsBody, most: usize) -> Fetched {
    regular(&mut body, most).unwrap_or_else(|| readable(&body.join(), most))
}

/// The jobs of a regular answer; reads each byte once.
fn regular(body: &mut JobsBody, most: usize) -> Option<Fetched> {
    let JobsBody { rest, large } = body;
    let rest = std::str::from_utf8(rest).ok()?;
    let mut fetched = Fetched {
        is_whole: true,
        ..Fetched::default()
    };
    // Which delivery each large job is, if it is one.
    let mut places = Vec::with_capacity(large.len());
    let is_regular = elements::regular(rest, &mut |span, fields| {
        let large = large.get(places.len()).filter(|large| large.at == span.start);
        if fetched.deliveries.len() >= most {
            places.extend(large.map(|_| None));
            fetched.surplus += 1;
            return true;
        }
        let delivery = match large {
            Some(large) => {
                let Some(fields) = Object::read(&large.text) else {
                    return false;
                };
                let delivery = delivery(&fields, Envelope::default());
                places.push(delivery.as_ref().map(|_| fetched.deliveries.len()));
                delivery
            }
            None => delivery(fields, text(rest.get(span).unwrap_or_default()).into()),
        };
        fetched.unusable += usize::from(delivery.is_none());
        fetched.deliveries.extend(delivery);
        true
    });
    if !is_regular || places.len() != large.len() {
        return None;
    }
    for (place, LargeJob { text, .. }) in places.into_iter().zip(large.drain(..)) {
        if let Some(delivery) = place.and_then(|place| fetched.deliveries.get_mut(place)) {
            delivery.envelope = Envelope::large(into_one_line(text));
        }
    }
    Some(fetched)
}

/// The jobs of any answer, up to its first unreadable place.
fn readable(body: &[u8], most: usize) -> Fetched {
    let valid = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => body
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    };
    let mut fetched = Fetched::default();
    let is_read = elements::readable(valid, &mut |element| {
        if fetched.deliveries.len() >= most {
            fetched.surplus += 1;
            return;
        }
        let fields = Object::read(element);
        let delivery = fields.and_then(|fields| delivery(&fields, text(element).into()));
        fetched.unusable += usize::from(delivery.is_none());
        fetched.deliveries.extend(delivery);
    });
    fetched.is_whole = is_read && valid.len() == body.len();
    fetched
}

/// One job, unless it has no usable id.
fn delivery(fields: &Object<'_>, envelope: Envelope) -> Option<Delivery> {
    let id = fields.text("id").filter(|id| !id.is_empty())?;
    let timeout = fields
        .duration("timeout_ms", Duration::from_millis(1))
        .or_else(|| fields.duration("timeout", Duration::from_secs(1)));
    let reservation = reservation(fields);
    Some(Delivery {
        subject: Arc::new(Subject {
            id: JobId(id.into()),
            kind: fields.text("type").unwrap_or_default().into(),
            queue: fields.text("queue").unwrap_or_default().into(),
            attempt: reservation.attempt,
            max_attempts: fields.whole("max_attempts"),
            trace: trace(fields),
        }),
        envelope,
        checkpoint: checkpoint(fields),
        timeout,
        has_crashed: has_crashed(fields),
        reservation,
        visibility: fields
            .duration("visibility_timeout_ms", Duration::from_millis(1))
            .or_else(|| fields.duration("visibility_timeout", Duration::from_secs(1))),
        waited: waited(fields),
    })
}

/// Whether its last error is a FAIL of ojs-init about a process that died while it held the job:
/// `worker_death`, with the number of jobs in `details`. Backends have a `worker_death` of their
/// own, for workers that stopped sending heartbeats: that one is no fact about the job.
fn has_crashed(fields: &Object<'_>) -> bool {
    let Some(error) = fields.object("error") else {
        return false;
    };
    let is_death = |name| error.text(name).is_some_and(|word| word == "worker_death");
    let is_ours = error
        .object("details")
        .is_some_and(|details| details.raw("held").is_some());
    (is_death("code") || is_death("type")) && is_ours
}

/// Time from the creation of a job to this reservation, if the backend sends both. `None` for a job
/// that was scheduled for later, because it waited for that time.
fn waited(fields: &Object<'_>) -> Option<Duration> {
    if fields.text("scheduled_at").is_some() {
        return None;
    }
    let at = |key| timestamp::since_1970(&fields.text(key)?);
    at("started_at")?.checked_sub(at("created_at")?)
}

/// The trace that it was enqueued in (distributed tracing 4).
fn trace(fields: &Object<'_>) -> Option<Trace> {
    trace::read(&fields.object("meta")?.text("traceparent")?)
}

/// The marks of this reservation, in an envelope or in a job that was looked at.
pub(crate) fn reservation(job: &Object<'_>) -> Reservation {
    Reservation {
        attempt: job.whole("attempt"),
        started_at: job.text("started_at").map(Text::from),
    }
}

/// The checkpoint from which an earlier attempt wants this one to continue (requirements C-35):
/// `checkpoint`, then `last_checkpoint`, then `meta.checkpoint`.
///
/// The durable execution extension wraps the saved value, `checkpoint {state, sequence}`; the
/// worker gets back the value that it saved. Any other shape is no wrapper but the worker's own
/// value.
fn checkpoint(fields: &Object<'_>) -> Option<Text> {
    let durable = |wrapped: &Object<'_>| {
        let is_wrapper = wrapped.raw("sequence").is_some() || wrapped.has_only("state");
        wrapped.raw("state").filter(|_| is_wrapper).map(text)
    };
    let unwrapped = fields.object("checkpoint").as_ref().and_then(durable);
    unwrapped
        .or_else(|| fields.raw("checkpoint").map(text))
        .or_else(|| fields.raw("last_checkpoint").map(text))
        .or_else(|| fields.object("meta")?.raw("checkpoint").map(text))
}

fn text(raw: &str) -> Text {
    one_line(raw).into()
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
