//! What whoever asks over HTTP is answered.

use std::sync::Arc;
use std::time::Duration;

use log::trace;

use crate::daemon::log::LogHandle;
use crate::lifecycle::figures::Figures;
use crate::lifecycle::machine::Lifecycle;
use crate::lifecycle::time::Moment;
use crate::wire::metrics::{self, Observed};
use crate::wire::probe::{Asked, Request, answer, metrics as metrics_response, refuse, show};

/// How long the metrics stay as they are. Whoever asks for them again and again takes little of the loop's time, and all
/// who read slowly what was asked for in one such time read the same copy: with the five seconds that a response may take
/// there are six copies at most, of [`metrics::MOST_BYTES`] each.
const METRICS_STAY: Duration = Duration::from_secs(1);

/// Where the answers come from.
#[derive(Debug)]
pub struct Sources<'a> {
    /// How it is.
    pub machine: &'a Lifecycle,
    /// What was counted.
    pub figures: &'a Figures,
    /// Counts what it drops.
    pub log: &'a LogHandle,
}

/// Makes answers.
#[derive(Debug, Default)]
pub struct ProbeAnswers {
    metrics: Option<Metrics>,
}

/// The metrics as they were, as responses.
#[derive(Debug)]
struct Metrics {
    at: Moment,
    to_get: Arc<[u8]>,
    to_head: Arc<[u8]>,
}

impl ProbeAnswers {
    /// The response to a request.
    pub fn respond(&mut self, request: Request, sources: &Sources<'_>, now: Moment) -> Arc<[u8]> {
        match request.asks {
            Ok(Asked::Probe(probe)) => {
                let health = sources.machine.health(probe, now);
                trace!("{probe:?}: {health:?}");
                answer(&health, request.wants_body).into()
            }
            Ok(Asked::Status) => show(&sources.machine.status(now), request.wants_body).into(),
            Ok(Asked::Metrics) => self.metrics(request.wants_body, sources, now),
            Err(refusal) => refuse(refusal, request.wants_body).into(),
        }
    }

    fn metrics(&mut self, wants_body: bool, sources: &Sources<'_>, now: Moment) -> Arc<[u8]> {
        let fresh = self
            .metrics
            .take()
            .filter(|metrics| metrics.at.until(now) < METRICS_STAY);
        let metrics = self.metrics.insert(fresh.unwrap_or_else(|| Metrics::now(sources, now)));
        Arc::clone(if wants_body { &metrics.to_get } else { &metrics.to_head })
    }
}

impl Metrics {
    fn now(sources: &Sources<'_>, now: Moment) -> Self {
        let text = metrics::text(&Observed {
            figures: sources.figures,
            snapshot: &sources.machine.snapshot(),
            log_records_dropped: sources.log.dropped(),
            now,
        });
        Self {
            at: now,
            to_get: metrics_response(&text, true).into(),
            to_head: metrics_response(&text, false).into(),
        }
    }
}
