//! Metrics in Prometheus' text format, version 0.0.4. `docs/metrics.md` defines each of them.
//!
//! The text has no id, no address and no label of a worker. Of a job it has only the queue and the
//! type.

use std::fmt::{Display, Write};
use std::time::Duration;

use crate::names;
use ojs_lifecycle::api::{JobEnd, Moment, Snapshot, WorkerState};
use ojs_lifecycle::view::metrics::{Histogram, JobKind, Metrics, OTHER, PerKind, StatusLabel};
use ojs_values::usage::WorkerUsage;

/// How the text is declared.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most bytes of the text: the bounds of [`ojs_lifecycle::view::metrics`] keep it below that.
pub const MOST_BYTES: usize = 3 << 19;

/// The states that are shown; each is 1 or 0.
const STATES: [WorkerState; 3] = [WorkerState::Running, WorkerState::Quiet, WorkerState::Terminate];

/// Type, name and help of each family.
const FAMILIES: &str = "\
counter ojs_job_completed_total Jobs whose ACK the backend has.
histogram ojs_job_duration_seconds From the hand-over of a job to a worker to the first request that tells the \
    backend its outcome.
counter ojs_init_jobs_total Reservations of jobs that ended, by how.
counter ojs_init_job_timeouts_total Jobs whose own timeout was over.
counter ojs_init_job_errors_total FAILs that the backend has, by the type of their error.
gauge ojs_worker_active_jobs Jobs that are claimed and not yet settled.
gauge ojs_init_oldest_job_age_seconds Since the oldest active job was claimed.
gauge ojs_init_jobs_unanswered Jobs that were cancelled or lost, whose handlers have not answered in time: each \
    holds a place in the worker.
gauge ojs_init_jobs_past_timeout Jobs whose own timeout is over, and which go on since nobody is ended for that.
gauge ojs_init_jobs_held_back Jobs that were given back and are held before they go: they do not count as active.
gauge ojs_init_concurrency Most jobs that may be active at once.
gauge ojs_init_free_credit Jobs that a FETCH would ask for now.
gauge ojs_init_memory_taken_ratio Share of the container's memory limit that is taken, where there is a memory gate.
gauge ojs_init_memory_gate_closed Whether no jobs are asked for because too much of it is taken.
gauge ojs_init_connections_ready Connections of the worker that have said ready, pausing ones included.
gauge ojs_init_worker_capacity Jobs that the connections of the worker take at a time, together.
gauge ojs_init_worker_running Whether the worker's process runs.
gauge ojs_init_worker_age_seconds Since the worker's process was started.
gauge ojs_init_worker_jobs Jobs that were given to the worker since its process was started.
gauge ojs_init_worker_memory_bytes Memory of the worker with all its descendants; a page that they share counts once.
gauge ojs_init_worker_processes Processes of the worker, zombies included.
counter ojs_init_worker_cpu_seconds_total Processor time of this worker and the ones before it, with all their \
    descendants.
gauge ojs_init_state 1 for the state that it is in, 0 for the others.
gauge ojs_init_drain_seconds Since the preStop hook or, without one, since terminate began; 0 before.
gauge ojs_init_drain_left_seconds During a preStop hook and in terminate: until jobs are cut off; 0 in the stop phase.
gauge ojs_init_exit_left_seconds In terminate: until the exit at the latest.
counter ojs_init_jobs_cut_off_total Jobs that the shutdown has cut off.
gauge ojs_init_heartbeat_age_seconds Since the backend last accepted a heartbeat; since the start where it has \
    accepted none.
gauge ojs_init_heartbeat_interval_seconds Time between two heartbeats.
counter ojs_init_heartbeats_failed_total Heartbeats that the backend did not accept.
gauge ojs_init_event_streams Open streams of events of the backend.
gauge ojs_init_event_streams_telling Open streams of events that have told something.
gauge ojs_init_event_streams_deaf Streams of events that were closed because they told nothing of new jobs.
counter ojs_init_wakeups_total FETCHes that such a stream brought forward.
counter ojs_init_requests_total Requests to the backend, by the HTTP status of the answer; none where there was no \
    answer.
counter ojs_init_results_dropped_total Jobs that are done and whose result the backend did not take.
counter ojs_init_jobs_dropped_total Jobs that the worker has no more, for all that can be told, without an outcome.
counter ojs_init_give_back_loops_total How often a type, or a job, began to be given back again and again.
counter ojs_init_worker_restarts_total Workers that were started after the first one, recycled ones apart.
counter ojs_init_worker_recycles_total Recyclings of the worker, by reason.
counter ojs_init_reaped_orphans_total Processes that were reaped and are not the worker.
counter ojs_init_log_records_dropped_total Records of the log that were dropped because standard error was too slow.
counter ojs_init_spans_sent_total Spans of jobs that the collector of traces has accepted.
counter ojs_init_spans_dropped_total Spans of jobs that were dropped: the collector was away, slow, or did not \
    accept them.
gauge ojs_init_build_info Always 1; the label says which version runs.
gauge process_start_time_seconds When ojs-init started, in seconds since the beginning of 1970.";

/// The input of the metrics.
#[derive(Debug)]
pub struct Observed<'a> {
    pub metrics: &'a Metrics,
    /// The present counts.
    pub snapshot: &'a Snapshot,
    /// The time until jobs are cut off; `None` before the drain and the preStop hook.
    pub drain_left: Option<Duration>,
    /// The memory and the processor time of the worker; `None` if they cannot be read.
    pub usage: Option<WorkerUsage>,
    pub log_records_dropped: u64,
    /// Spans that a collector of traces has accepted.
    pub spans_sent: u64,
    pub spans_dropped: u64,
    pub now: Moment,
}

/// The text. Equal metrics give equal text, in one fixed order.
pub fn text(observed: &Observed<'_>) -> String {
    let mut page = Page::default();
    page.jobs(observed.metrics);
    page.errors(observed.metrics);
    page.presence(observed);
    page.worker(observed);
    page.shutdown(observed);
    page.backend(observed);
    page.process(observed);
    page.text
}

/// The text as it grows. Writing to a string cannot fail.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn jobs(&mut self, metrics: &Metrics) {
        let name = self.family("ojs_job_completed_total");
        for (kind, of_kind) in metrics.kinds() {
            self.sample(name, &labels(kind), of_kind.ends(JobEnd::Acked));
        }
        let name = self.family("ojs_job_duration_seconds");
        for (kind, of_kind) in metrics.kinds() {
            for (end, histogram) in &of_kind.durations {
                self.histogram(name, kind, *end, histogram);
            }
        }
        let name = self.family("ojs_init_jobs_total");
        for (kind, of_kind) in metrics.kinds() {
            self.ends(name, kind, of_kind);
        }
        let name = self.family("ojs_init_job_timeouts_total");
        for (kind, of_kind) in metrics.kinds() {
            self.sample(name, &labels(kind), of_kind.timed_out);
        }
    }

    /// Adds the FAILs by the type of their error.
    fn errors(&mut self, metrics: &Metrics) {
        let name = self.family("ojs_init_job_errors_total");
        for (error, count) in metrics.errors() {
            self.sample(name, &[("error", error)], count);
        }
    }

    fn ends(&mut self, name: &str, kind: &JobKind, of_kind: &PerKind) {
        let [queue, kind] = labels(kind);
        for end in JobEnd::ALL {
            let outcome = ("outcome", names::end(end));
            self.sample(name, &[outcome, queue, kind], of_kind.ends(end));
        }
    }

    fn histogram(&mut self, name: &str, kind: &JobKind, end: JobEnd, histogram: &Histogram) {
        let [queue, kind] = labels(kind);
        let labels = [queue, kind, ("state", state_after(end))];
        let bucket = format!("{name}_bucket");
        for (most, count) in histogram.cumulated() {
            let most = most.as_secs_f64().to_string();
            let [queue, kind, state] = labels;
            self.sample(&bucket, &[queue, kind, state, ("le", &most)], count);
        }
        let [queue, kind, state] = labels;
        self.sample(&bucket, &[queue, kind, state, ("le", "+Inf")], histogram.count);
        self.sample(&format!("{name}_sum"), &labels, histogram.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), &labels, histogram.count);
    }

    /// Adds the gauges.
    fn presence(&mut self, observed: &Observed<'_>) {
        let snapshot = observed.snapshot;
        self.value("ojs_worker_active_jobs", snapshot.active);
        let oldest = snapshot.oldest_since;
        self.seconds(
            "ojs_init_oldest_job_age_seconds",
            oldest.map(|since| since.elapsed(observed.now)),
        );
        self.value("ojs_init_jobs_unanswered", snapshot.unanswered);
        self.value("ojs_init_jobs_past_timeout", snapshot.past_their_time);
        self.value("ojs_init_jobs_held_back", snapshot.held_back);
        self.value("ojs_init_concurrency", snapshot.concurrency);
        self.value("ojs_init_free_credit", snapshot.free_credit);
        self.value_if(
            "ojs_init_memory_taken_ratio",
            snapshot.memory_taken.map(|percent| f64::from(percent) / 100.0),
        );
        self.value("ojs_init_memory_gate_closed", u8::from(snapshot.memory_gate_is_closed));
        self.value("ojs_init_connections_ready", snapshot.ready_holders);
        self.value("ojs_init_worker_capacity", snapshot.capacity);
    }

    /// Adds the worker's process, and its memory and processor time.
    fn worker(&mut self, observed: &Observed<'_>) {
        let (snapshot, metrics, usage) = (observed.snapshot, observed.metrics, observed.usage);
        self.value("ojs_init_worker_running", u8::from(snapshot.worker_is_alive));
        let age = snapshot.worker_is_alive.then(|| metrics.worker_age(observed.now));
        self.seconds("ojs_init_worker_age_seconds", age.flatten());
        self.value("ojs_init_worker_jobs", metrics.worker_jobs());
        self.value_if("ojs_init_worker_memory_bytes", usage.map(|usage| usage.memory_bytes));
        self.value_if("ojs_init_worker_processes", usage.map(|usage| usage.processes));
        self.seconds("ojs_init_worker_cpu_seconds_total", usage.map(|usage| usage.cpu));
    }

    fn shutdown(&mut self, observed: &Observed<'_>) {
        let (snapshot, now) = (observed.snapshot, observed.now);
        let name = self.family("ojs_init_state");
        for state in STATES {
            let is_in = u8::from(state == snapshot.state);
            self.sample(name, &[("state", names::worker_state(state))], is_in);
        }
        let took = snapshot.drain_since.map_or(Duration::ZERO, |since| since.elapsed(now));
        self.seconds("ojs_init_drain_seconds", took);
        self.seconds("ojs_init_drain_left_seconds", observed.drain_left);
        self.seconds(
            "ojs_init_exit_left_seconds",
            snapshot.exit_by.map(|exit| exit.remaining(now)),
        );
        self.value("ojs_init_jobs_cut_off_total", snapshot.cut_off);
    }

    fn backend(&mut self, observed: &Observed<'_>) {
        let metrics = observed.metrics;
        self.seconds("ojs_init_heartbeat_age_seconds", metrics.heartbeat_age(observed.now));
        self.seconds(
            "ojs_init_heartbeat_interval_seconds",
            observed.snapshot.heartbeat_interval,
        );
        self.value("ojs_init_heartbeats_failed_total", metrics.heartbeats_failed);
        self.value("ojs_init_event_streams", observed.snapshot.streams);
        self.value("ojs_init_event_streams_telling", observed.snapshot.telling_streams);
        self.value("ojs_init_event_streams_deaf", observed.snapshot.deaf_streams);
        self.value("ojs_init_wakeups_total", metrics.wakeups);
        let name = self.family("ojs_init_requests_total");
        for (endpoint, status, count) in metrics.requests() {
            let status = match status {
                StatusLabel::None => "none".to_owned(),
                StatusLabel::Http(status) => status.to_string(),
                StatusLabel::Other => OTHER.to_owned(),
            };
            let labels = [("endpoint", names::endpoint(endpoint)), ("status", status.as_str())];
            self.sample(name, &labels, count);
        }
    }

    fn process(&mut self, observed: &Observed<'_>) {
        let metrics = observed.metrics;
        self.value("ojs_init_results_dropped_total", metrics.results_dropped);
        self.value("ojs_init_jobs_dropped_total", metrics.jobs_dropped);
        self.value("ojs_init_give_back_loops_total", metrics.give_back_loops);
        self.value("ojs_init_worker_restarts_total", metrics.restarts());
        let name = self.family("ojs_init_worker_recycles_total");
        for (reason, count) in &metrics.recycles {
            self.sample(name, &[("reason", reason)], count);
        }
        self.value("ojs_init_reaped_orphans_total", metrics.orphans_reaped);
        self.value("ojs_init_log_records_dropped_total", observed.log_records_dropped);
        self.value("ojs_init_spans_sent_total", observed.spans_sent);
        self.value("ojs_init_spans_dropped_total", observed.spans_dropped);
        let name = self.family("ojs_init_build_info");
        self.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.seconds("process_start_time_seconds", metrics.started_at);
    }

    /// Adds a family with one sample.
    fn value(&mut self, family: &'static str, value: impl Display) {
        self.value_if(family, Some(value));
    }

    fn seconds(&mut self, family: &'static str, time: impl Into<Option<Duration>>) {
        self.value_if(family, time.into().map(|time| time.as_secs_f64()));
    }

    fn value_if(&mut self, family: &'static str, value: Option<impl Display>) {
        let name = self.family(family);
        if let Some(value) = value {
            self.sample(name, &[], value);
        }
    }

    /// Begins a family. Returns its name.
    fn family(&mut self, name: &'static str) -> &'static str {
        let rows = FAMILIES.lines().filter_map(|row| row.split_once(' '));
        let mut families = rows.filter_map(|(of, row)| Some((of, row.strip_prefix(name)?.strip_prefix(' ')?)));
        if let Some((of, help)) = families.next() {
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {of}");
        }
        name
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"");
            value.chars().for_each(|c| self.escaped(c));
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn escaped(&mut self, c: char) {
        match c {
            '\\' => self.text.push_str("\\\\"),
            '"' => self.text.push_str("\\\""),
            '\n' => self.text.push_str("\\n"),
            c => self.text.push(c),
        }
    }
}

fn labels(kind: &JobKind) -> [(&'static str, &str); 2] {
    [("queue", &kind.queue), ("type", &kind.kind)]
}

/// The state of a job after an outcome. Only the backend knows whether a FAIL leads to another
/// attempt.
fn state_after(end: JobEnd) -> &'static str {
    if end == JobEnd::Acked {
        "completed"
    } else {
        names::end(end)
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
