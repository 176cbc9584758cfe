//! Events, in order: every request, and the server's own acts.

use std::collections::VecDeque;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::faults::{FAULT_NAMES, LOSE_REPLY};
use crate::moment::Moment;
use crate::operation::Operation;

/// Most jobs that an event names.
pub(crate) const MAX_EVENT_JOBS: usize = 1_000;

/// Names of the server's own acts.
const OCCURRENCES: [&str; 6] = [
    "visibility_timeout",
    "worker_death",
    "expired",
    "refusing",
    "listening",
    "freezing",
];

/// A name that the program itself has. If the reference were spelled out, serde would try to borrow
/// it from its input.
type KnownName = &'static str;

/// One event, which can be written as JSON and read again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1 and has no gaps.
    pub number: u64,
    /// Milliseconds since the start of the server, by a clock that never runs backwards. Of a
    /// request: when it was answered, or when the server decided not to answer it.
    pub ms: f64,
    /// Of a request: when its head had been read, in milliseconds like `ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ms: Option<f64>,
    /// Of a request: milliseconds from then until its answer was handed to the connection, whole or
    /// in part; `None`: no answer was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<f64>,
    /// The wall clock at `ms`, RFC 3339.
    #[serde(default)]
    pub time: String,
    /// The operation of a request, or the act of the server: `visibility_timeout`, `worker_death`,
    /// `expired`, `refusing`, `listening`, `freezing`.
    #[serde(deserialize_with = "operation")]
    pub operation: KnownName,
    /// The method and path of a request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The worker that the event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The jobs that the event is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
    /// How many more jobs the event is about: of a batch only the first are named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_jobs: usize,
    /// Of a heartbeat: the state that the worker reported. Of a job: its new state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The HTTP status of the answer, also of one that a fault lost; `None`: there was none, or no
    /// request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The fault that met the request.
    #[serde(default, deserialize_with = "fault", skip_serializing_if = "Option::is_none")]
    pub fault: Option<KnownName>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The name of an operation or of an act of the server.
fn operation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = Operation::ALL.into_iter().map(Operation::name).chain(OCCURRENCES);
    find(known, &name).ok_or_else(|| D::Error::custom(format!("the operation '{name}' is not known")))
}

/// The name of a fault.
fn fault<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'static str>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let found = find(FAULT_NAMES.into_iter(), &name);
    let known = found.ok_or_else(|| D::Error::custom(format!("the fault '{name}' is not known")))?;
    Ok(Some(known))
}

fn find(mut known: impl Iterator<Item = &'static str>, name: &str) -> Option<&'static str> {
    known.find(|known| *known == name)
}

/// A moment as events have it: in milliseconds, with three decimals.
pub(crate) fn millis(moment: Moment) -> f64 {
    (moment.as_secs_f64() * 1e6).round() / 1e3
}

/// The last events; older ones are forgotten.
#[derive(Debug)]
pub(crate) struct EventLog {
    ring: VecDeque<Event>,
    capacity: usize,
    next_number: u64,
}

impl EventLog {
    /// A log with room for that many events.
    pub fn new(capacity: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            capacity: capacity.max(1),
            next_number: 1,
        }
    }

    /// Adds an event at this time.
    pub fn push(&mut self, now: Moment, time: String, event: Event) {
        if self.ring.len() >= self.capacity {
            self.ring.pop_front();
        }
        let ms = millis(now);
        // Both were rounded: the record has their difference, rounded again.
        let took = |since: f64| ((ms - since).max(0.0) * 1e3).round() / 1e3;
        let took_ms = event.arrived_ms.filter(|_| event.is_answered()).map(took);
        self.ring.push_back(Event {
            number: self.next_number,
            ms,
            took_ms,
            time,
            ..event
        });
        self.next_number += 1;
    }

    /// The events with a higher number than `after`, oldest first.
    pub fn after(&self, after: u64) -> impl Iterator<Item = &Event> {
        // Numbers have no gaps, so earlier events are skipped by counting.
        let first = self.ring.front().map_or(self.next_number, |event| event.number);
        let skipped = usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        self.ring.iter().skip(skipped)
    }

    /// The number that the next event gets.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }
}

impl Event {
    /// Whether it is a request of which an answer left, if only half of it.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.status.is_some() && self.fault != Some(LOSE_REPLY)
    }

    /// An event of which only the operation is known.
    pub(crate) fn new(operation: &'static str) -> Self {
        Self {
            number: 0,
            ms: 0.0,
            arrived_ms: None,
            took_ms: None,
            time: String::new(),
            operation,
            request: String::new(),
            worker: None,
            jobs: Vec::new(),
            more_jobs: 0,
            state: None,
            status: None,
            fault: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_events_go_first_and_numbers_go_on() {
        let mut events = EventLog::new(2);
        for _ in 0..3 {
            events.push(Moment::ZERO, String::new(), Event::new("x"));
        }
        let numbers = |after| events.after(after).map(|event| event.number).collect::<Vec<_>>();
        assert_eq!(numbers(0), [2, 3]);
        assert_eq!(numbers(2), [3]);
        assert_eq!(numbers(9), [0; 0]);
    }

    #[test]
    fn how_long_an_answer_took_is_told_unless_it_got_lost() {
        let mut events = EventLog::new(9);
        for (status, fault) in [(Some(200), None), (Some(200), Some(LOSE_REPLY)), (None, Some("hang"))] {
            let event = Event {
                arrived_ms: Some(1.5),
                status,
                fault,
                ..Event::new("ack")
            };
            events.push(Duration::from_micros(4_750), String::new(), event);
        }
        let took: Vec<_> = events.after(0).map(|event| event.took_ms).collect();
        assert_eq!(took, [Some(3.25), None, None]);
    }

    #[test]
    fn an_event_that_is_written_is_read_as_the_same() {
        let operations = Operation::ALL.into_iter().map(Operation::name).chain(OCCURRENCES);
        for (operation, fault) in operations.zip(FAULT_NAMES.into_iter().cycle()) {
            let event = Event {
                number: 7,
                ms: 1.25,
                arrived_ms: Some(1.0),
                took_ms: Some(0.25),
                worker: Some("w".into()),
                jobs: vec!["j".into()],
                more_jobs: 3,
                state: Some("quiet".into()),
                status: Some(200),
                fault: Some(fault),
                ..Event::new(operation)
            };
            for event in [event, Event::new(operation)] {
                let text = serde_json::to_string(&event).unwrap();
                assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
            }
        }
    }

    #[test]
    fn an_operation_or_a_fault_that_nobody_knows_is_named() {
        for text in [
            r#"{"number":1,"ms":0,"operation":"sneeze"}"#,
            r#"{"number":1,"ms":0,"operation":"ack","fault":"sneeze"}"#,
        ] {
            let error = serde_json::from_str::<Event>(text).unwrap_err().to_string();
            assert!(error.contains("'sneeze'"), "{error}");
        }
    }
}
