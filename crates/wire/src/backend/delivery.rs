//! The answer to a FETCH: jobs, still as the text that they are.
//!
//! Each element of `jobs` is a reservation that the backend has made. So an answer that ends or
//! breaks in the middle is still good for the elements before that point. More jobs than were asked
//! for are all taken: only the lifecycle may give a job back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use ojs_lifecycle::api::{Delivery, JobId, Reservation, Subject, Text, Trace};

use crate::backend::envelope::one_line;
use crate::backend::timestamp;
use crate::backend::trace;
use crate::json::lenient::{Name, Object};

/// The jobs in an answer to a FETCH.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// The jobs, in their order.
    pub(crate) deliveries: Vec<Delivery>,
    /// Elements that are no job: without an id nobody can speak about them.
    pub(crate) unusable: usize,
    /// Whether the answer could be read to its end.
    pub(crate) is_whole: bool,
}

/// Reads the body of an answer to a FETCH.
pub(crate) fn fetched(body: &[u8]) -> Fetched {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => body
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    };
    let mut elements = Elements::default();
    let mut parser = serde_json::Deserializer::from_str(text);
    let is_whole =
        FetchAnswer(&mut elements).deserialize(&mut parser).is_ok() && parser.end().is_ok() && text.len() == body.len();
    let found = if elements.jobs.is_empty() {
        elements.job
    } else {
        elements.jobs
    };
    let mut fetched = Fetched {
        is_whole,
        ..Fetched::default()
    };
    for element in found {
        match delivery(element.get()) {
            Some(delivery) => fetched.deliveries.push(delivery),
            None => fetched.unusable += 1,
        }
    }
    fetched
}

/// One job, unless it has no usable id.
fn delivery(envelope: &str) -> Option<Delivery> {
    let fields = Object::read(envelope)?;
    let id = fields.text("id").filter(|id| !id.is_empty())?;
    let timeout = fields
        .duration("timeout_ms", Duration::from_millis(1))
        .or_else(|| fields.duration("timeout", Duration::from_secs(1)));
    let reservation = reservation(&fields);
    Some(Delivery {
        subject: Arc::new(Subject {
            id: JobId(id.into()),
            kind: fields.text("type").unwrap_or_default().into(),
            queue: fields.text("queue").unwrap_or_default().into(),
            attempt: reservation.attempt,
            max_attempts: fields.whole("max_attempts"),
            trace: trace(&fields),
        }),
        envelope: text(envelope),
        checkpoint: checkpoint(&fields),
        timeout,
        has_crashed: has_crashed(&fields),
        reservation,
        visibility: fields
            .duration("visibility_timeout_ms", Duration::from_millis(1))
            .or_else(|| fields.duration("visibility_timeout", Duration::from_secs(1))),
        waited: waited(&fields),
    })
}

/// Whether its last error is a FAIL of ojs-init about a process that went away while it held the
/// job: `worker_death`, with the number of jobs in `details`. Backends have a `worker_death` of
/// their own, for workers that they no longer hear of; that says nothing about the job.
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

/// From the creation of a job to this reservation, where the backend tells both. A job that was
/// scheduled for later has waited for that.
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

/// Where an earlier attempt wants this one to go on (requirements C-35): `checkpoint`, then
/// `last_checkpoint`, then `meta.checkpoint`.
///
/// The durable execution extension wraps what the worker saved, `checkpoint {state, sequence}`; the
/// worker gets back what it saved. Any other shape is nobody's wrapper but the worker's own value.
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

/// The deliveries before the end or the first error.
#[derive(Default)]
struct Elements<'a> {
    /// The elements of the array `jobs`.
    jobs: Vec<&'a RawValue>,
    /// Some backends repeat the first job here; it counts only where the array brings nothing.
    job: Vec<&'a RawValue>,
}

/// The whole answer.
struct FetchAnswer<'s, 'a>(&'s mut Elements<'a>);

impl<'a> DeserializeSeed<'a> for FetchAnswer<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for FetchAnswer<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(key)) = map.next_key()? {
            match &*key {
                "jobs" => map.next_value_seed(Array(&mut self.0.jobs))?,
                "job" => self.0.job.extend(map.next_value::<Option<&RawValue>>()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The array, or null: Go spells an empty one that way.
struct Array<'s, 'a>(&'s mut Vec<&'a RawValue>);

impl<'a> DeserializeSeed<'a> for Array<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Array<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of jobs")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut elements: S) -> Result<(), S::Error> {
        while let Some(element) = elements.next_element()? {
            self.0.push(element);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
