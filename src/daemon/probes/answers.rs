//! The responses to probes and to requests for metrics.

use std::sync::Arc;
use std::time::Duration;

use log::trace;

use crate::daemon::log::sink::LogHandle;
use crate::daemon::traces::exporter::SpanCounts;
use crate::daemon::worker_usage::UsageReader;
use ojs_lifecycle::api::Moment;
use ojs_lifecycle::machine::Lifecycle;
use ojs_lifecycle::view::metrics::Metrics;
use ojs_wire::http::probe::{ProbePath, ProbeRequest, answer, metrics as metrics_response, refuse, show};
use ojs_wire::metrics::{self, Observed};

/// How long a copy of the status is used. The status is built from every job, and repeated requests
/// must not use up the loop's time.
const STATUS_STAYS: Duration = Duration::from_millis(100);

/// How long a copy of the metrics is used. Frequent requests then use little of the loop's time,
/// and slow readers share a copy. A response may take five seconds, so there are six copies at
/// most, of [`metrics::MOST_BYTES`] each.
const METRICS_STAY: Duration = Duration::from_secs(1);

/// The sources of the answers.
pub struct ProbeContext<'a> {
    /// The machine, which knows how the worker is.
    pub machine: &'a Lifecycle,
    pub metrics: &'a Metrics,
    /// The memory and the processor time of the worker, read when a client asks for them.
    pub usage: &'a mut UsageReader,
    /// The log, which counts the records that it drops.
    pub log: &'a LogHandle,
    /// The spans of jobs.
    pub spans: SpanCounts,
}

/// Makes the responses to probes.
#[derive(Debug, Default)]
pub struct ProbeAnswers {
    metrics: Option<SharedPage>,
    status: Option<SharedPage>,
}

/// A response that several connections may share, and when it was made.
#[derive(Debug)]
struct SharedPage {
    at: Moment,
    to_get: Arc<[u8]>,
    to_head: Arc<[u8]>,
}

impl ProbeAnswers {
    /// The response to a request.
    pub fn respond(&mut self, request: ProbeRequest, sources: &mut ProbeContext<'_>, now: Moment) -> Arc<[u8]> {
        match request.asks {
            Ok(ProbePath::Probe(probe)) => {
                let health = sources.machine.health(probe, now);
                trace!("{probe:?}: {health:?}");
                answer(&health, request.wants_body).into()
            }
            Ok(ProbePath::Status) => {
                let make = || {
                    let status = sources.machine.status(now);
                    [true, false].map(|wants_body| show(&status, wants_body))
                };
                shared(&mut self.status, STATUS_STAYS, request.wants_body, now, make)
            }
            Ok(ProbePath::Metrics) => {
                let make = || {
                    let text = metrics_text(sources, now);
                    [true, false].map(|wants_body| metrics_response(&text, wants_body))
                };
                shared(&mut self.metrics, METRICS_STAY, request.wants_body, now, make)
            }
            Err(refusal) => refuse(refusal, request.wants_body).into(),
        }
    }
}

/// The copy that is kept, or a new one if there is none or it is too old: the response to GET, and
/// that to HEAD.
fn shared(
    kept: &mut Option<SharedPage>,
    stays: Duration,
    wants_body: bool,
    now: Moment,
    make: impl FnOnce() -> [Vec<u8>; 2],
) -> Arc<[u8]> {
    let fresh = kept.take().filter(|shared| shared.at.elapsed(now) < stays);
    let shared = kept.insert(fresh.unwrap_or_else(|| {
        let [to_get, to_head] = make().map(Arc::from);
        SharedPage {
            at: now,
            to_get,
            to_head,
        }
    }));
    Arc::clone(if wants_body { &shared.to_get } else { &shared.to_head })
}

fn metrics_text(sources: &mut ProbeContext<'_>, now: Moment) -> String {
    let snapshot = sources.machine.snapshot();
    metrics::text(&Observed {
        metrics: sources.metrics,
        snapshot: &snapshot,
        drain_left: sources.machine.drain_left(now),
        usage: sources.usage.read(snapshot.heartbeat_interval, now),
        log_records_dropped: sources.log.dropped(),
        spans_sent: sources.spans.sent,
        spans_dropped: sources.spans.dropped,
        now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_within_its_time_reads_the_same_and_later_something_new() {
        let at = |millis| Moment::new(Duration::from_millis(millis));
        let mut kept = None;
        let mut read = |now, text: &str| {
            let make = || [text.as_bytes().to_vec(), Vec::new()];
            let read = shared(&mut kept, Duration::from_millis(100), true, at(now), make);
            String::from_utf8(read.to_vec()).unwrap()
        };
        assert_eq!(read(5_000, "first"), "first");
        assert_eq!(read(5_099, "second"), "first");
        assert_eq!(read(5_100, "third"), "third");
    }
}
