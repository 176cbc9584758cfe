//! What happened, in order: every request, and what the server did by itself.

use std::collections::VecDeque;

use serde::Serialize;

use crate::store::job::Moment;

/// Most jobs that an event names.
pub(crate) const MAX_EVENT_JOBS: usize = 1_000;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Counts from 1 and has no gaps.
    pub number: u64,
    /// Milliseconds since the start of the server, by a clock that only goes forward.
    pub ms: f64,
    /// What the wall clock said, RFC 3339.
    pub time: String,
    /// The operation of a request, or what the server did: `visibility_timeout`, `worker_death`, `expired`, `refusing`,
    /// `listening`.
    pub operation: &'static str,
    /// The method and path of a request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The worker that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The jobs that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
    /// How many more jobs it is about: of a batch only the first are named.
    #[serde(skip_serializing_if = "is_none")]
    pub more_jobs: usize,
    /// Of a heartbeat: what the worker said that it is. Of a job: the state that it got into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The HTTP status of the answer; `None`: there was none, or no request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The fault that met the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// The last events; older ones are forgotten.
#[derive(Debug)]
pub(crate) struct Events {
    ring: VecDeque<Event>,
    most: usize,
    next: u64,
}

impl Events {
    /// Room for that many.
    pub fn new(most: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            most: most.max(1),
            next: 1,
        }
    }

    /// Takes an event in, at this time.
    pub fn push(&mut self, now: Moment, time: String, event: Event) {
        if self.ring.len() >= self.most {
            self.ring.pop_front();
        }
        let ms = (now.as_secs_f64() * 1e6).round() / 1e3;
        self.ring.push_back(Event {
            number: self.next,
            ms,
            time,
            ..event
        });
        self.next += 1;
    }

    /// Those with a higher number than `after`, oldest first.
    pub fn after(&self, after: u64) -> impl Iterator<Item = &Event> {
        // Numbers have no gaps: what comes before is skipped without looking at it.
        let first = self.ring.front().map_or(self.next, |event| event.number);
        let skipped = usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        self.ring.iter().skip(skipped)
    }

    /// The number that the next one gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }
}

impl Event {
    /// An event of which nothing is known yet but what it is.
    pub(crate) fn new(operation: &'static str) -> Self {
        Self {
            number: 0,
            ms: 0.0,
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
    use super::*;

    #[test]
    fn the_oldest_events_go_first_and_numbers_go_on() {
        let mut events = Events::new(2);
        for _ in 0..3 {
            events.push(Moment::ZERO, String::new(), Event::new("x"));
        }
        let numbers = |after| events.after(after).map(|event| event.number).collect::<Vec<_>>();
        assert_eq!(numbers(0), [2, 3]);
        assert_eq!(numbers(2), [3]);
        assert_eq!(numbers(9), [0; 0]);
    }
}
