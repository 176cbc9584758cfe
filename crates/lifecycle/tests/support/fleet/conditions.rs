//! The conditions of one life of a fleet.

use std::time::Duration;

/// The event streams of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Each queue has a stream of the changes of its jobs.
    OfEachQueue,
    /// One stream for all queues. It announces that there are jobs, and not which.
    OfAllTogether,
    /// The backend has no streams.
    Missing,
}

/// The conditions.
#[derive(Debug, Clone)]
pub struct Conditions {
    pub workers: usize,
    /// The mean of a Poisson process; 0 is a fleet without work.
    pub jobs_a_second: f64,
    pub streams: Streams,
    /// A stream ends at the first write after this time. `None`: it never ends.
    pub streams_last: Option<Duration>,
    /// Jobs of one worker at a time.
    pub concurrency: u32,
    pub handler: Duration,
    /// Time of the backend for one request; it works on one at a time.
    pub service: Duration,
    /// Further time to each answer, half of it before the backend works on the request. Many
    /// requests spend it at once.
    pub slowness: Duration,
    /// Time on the network, in each direction.
    pub way: Duration,
    /// Time to the next stream when a change is announced to all of them.
    pub fan_out: Duration,
    /// Time before the measurement. All workers start in its first half.
    pub warm_up: Duration,
    /// Time from the start of the producers to the measurement.
    pub lead: Duration,
    /// Time of the measurement.
    pub measured: Duration,
    pub seed: u64,
}

impl Conditions {
    /// A quick backend with a stream for each queue, and handlers of 20 ms.
    pub fn usual(workers: usize, jobs_a_second: f64) -> Self {
        Self {
            workers,
            jobs_a_second,
            streams: Streams::OfEachQueue,
            streams_last: None,
            concurrency: 10,
            handler: Duration::from_millis(20),
            service: Duration::from_micros(200),
            slowness: Duration::ZERO,
            way: Duration::from_micros(500),
            fan_out: Duration::from_micros(10),
            warm_up: Duration::from_secs(45),
            lead: Duration::from_secs(30),
            measured: Duration::from_secs(30),
            seed: 1,
        }
    }

    /// The end of the measurement, and of the producers.
    pub(super) fn end(&self) -> Duration {
        self.warm_up + self.measured
    }

    /// When the producers begin.
    pub(super) fn lead_begins(&self) -> Duration {
        self.warm_up.saturating_sub(self.lead)
    }

    /// Whether this moment is measured.
    pub(super) fn is_measured(&self, at: Duration) -> bool {
        (self.warm_up..self.end()).contains(&at)
    }

    /// From the worker to the backend.
    pub(super) fn there(&self) -> Duration {
        self.way + self.slowness / 2
    }

    /// From the backend to the worker.
    pub(super) fn back(&self) -> Duration {
        self.slowness / 2 + self.way
    }

    /// When the stream at this place of the order receives a change.
    pub(super) fn heard_after(&self, place: usize) -> Duration {
        let places = u32::try_from(place + 1).unwrap_or(u32::MAX);
        self.fan_out.saturating_mul(places) + self.way
    }
}
