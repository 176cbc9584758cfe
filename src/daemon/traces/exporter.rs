//! When a batch of spans is sent, sent again, or dropped.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use log::{debug, info, warn};
use mio::{Registry, Waker};

use crate::config::Config;
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::lookup::loop_wake;
use crate::daemon::traces::sender::{CollectorAnswer, Sender};
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Effect, Moment, Reply};
use ojs_lifecycle::view::spans::WallClock;
use ojs_lifecycle::view::traces::Traces;
use ojs_os::clock;
use ojs_wire::traces::{self, SpanSource};

/// Spans of a batch that is sent at once. To write so many costs the loop less than 1 ms.
const BATCH_SPANS: usize = 256;

/// How long the first span of a smaller batch waits for others: the default of the OpenTelemetry
/// SDKs.
const BATCH_WAITS: Duration = Duration::from_secs(5);

/// Longest wait for the answer to a batch, the connection included: the default of OpenTelemetry.
const TRY_LIMIT: Duration = Duration::from_secs(10);

/// How often a batch is sent, before it is dropped.
const MOST_TRIES: u32 = 3;

/// The pause after a failure. Each further failure doubles it, until a batch arrives.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Longest pause that a collector can ask for (`Retry-After`).
const LONGEST_WISH: Duration = Duration::from_secs(5 * 60);

/// Longest time for the last spans before the exit, at most a quarter of what the orchestrator
/// leaves.
const LAST_SPANS: Duration = Duration::from_millis(500);

/// The variable with the headers for the collector, which are secrets. The worker gets it, because
/// its own SDK may need it.
pub const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Spans that left ojs-init since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that the collector has accepted.
    pub sent: u64,
    /// Spans that were dropped: too many waited, or the collector did not accept them.
    pub dropped: u64,
}

/// A batch on its way.
#[derive(Debug)]
struct Batch {
    body: String,
    spans: u64,
    tries: u32,
}

/// The spans of this process.
pub struct Exporter {
    /// The spans of active jobs, and the queue of finished ones.
    pub(in crate::daemon) recorder: Traces,
    source: SpanSource,
    pub(in crate::daemon) sender: Sender,
    /// The collector, for messages.
    url: String,
    batch: Option<Batch>,
    /// The try ends at this time. None: no request is under way.
    give_up: Option<Moment>,
    /// The next batch is sent now or later.
    due: Option<Moment>,
    /// Nothing is sent before this time.
    pause_until: Option<Moment>,
    /// Failures since a batch arrived.
    failures: u32,
    counts: SpanCounts,
    /// Spans that were dropped before the collector failed.
    dropped_before: u64,
    jitter: RandomState,
}

impl Exporter {
    /// Records spans if a collector is configured. `waker` ends a wait of the loop.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn start(config: &Config, waker: &Arc<Waker>, now: Moment) -> Result<Option<Box<Self>>, String> {
        let Some(url) = &config.otel.endpoint else {
            return Ok(None);
        };
        let (server, port) = config.backend.host_and_port();
        let source = SpanSource {
            resource: resource(config),
            server: server.to_owned(),
            port,
            clock: wall_clock(),
        };
        info!("traces: spans of jobs go to {}", url.as_str());
        let jitter = RandomState::new();
        Ok(Some(Box::new(Self {
            recorder: Traces::new(jitter.hash_one(0)),
            source,
            sender: Sender::new(config, url, loop_wake(Arc::clone(waker)), now)?,
            url: url.as_str().to_owned(),
            batch: None,
            give_up: None,
            due: None,
            pause_until: None,
            failures: 0,
            counts: SpanCounts::default(),
            dropped_before: 0,
            jitter,
        })))
    }

    /// The machine orders this.
    pub fn observe(&mut self, effect: &Effect) {
        self.recorder.observe(effect, now);
    }

    /// The backend answered this.
    pub fn answered(&mut self, call: CallId, reply: &Reply, status: Option<u16>) {
        self.recorder.answered(call, reply, status, now());
    }

    /// The counts for the metrics.
    pub fn counts(&self) -> SpanCounts {
        let dropped = self.counts.dropped + self.recorder.dropped();
        SpanCounts { dropped, ..self.counts }
    }

    /// When the next thing is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        if let Some(give_up) = self.give_up {
            return Some(self.sender.next_deadline().map_or(give_up, |due| due.min(give_up)));
        }
        let due = if self.batch.is_some() {
            self.pause_until
        } else {
            self.due
        };
        due.max(self.pause_until.filter(|_| due.is_some()))
    }

    /// Sends what is due, and takes in what was answered. The loop knows the kernel's events up to
    /// `polled_at`: a later deadline waits for the next poll, which may report the answer.
    pub fn turn(&mut self, registry: &Registry, now: Moment, polled_at: Moment) {
        if let Some(result) = self.sender.turn(registry, now, polled_at) {
            self.ended(result, now);
        }
        if self.give_up.is_some_and(|give_up| give_up <= polled_at) {
            self.sender.give_up();
            self.ended(Err(self.sender.reason(&Fault::NoAnswerInTime)), now);
        }
        if self.give_up.is_none() {
            self.begin(now);
            if self.give_up.is_some()
                && let Some(result) = self.sender.turn(registry, now, polled_at)
            {
                self.ended(result, now);
            }
        }
    }

    /// Begins to send the next batch, if it is time for that.
    fn begin(&mut self, now: Moment) {
        let waiting = self.recorder.waiting();
        if waiting > 0 && self.due.is_none() {
            self.due = Some(now.after(BATCH_WAITS));
        }
        if self.pause_until.is_some_and(|until| until > now) {
            return;
        }
        if self.batch.is_none() {
            let is_due = waiting >= BATCH_SPANS || self.due.is_some_and(|due| due <= now);
            if waiting == 0 || !is_due {
                return;
            }
            let jobs = self.recorder.take(BATCH_SPANS);
            let spans = jobs.iter().map(|job| job.spans() as u64).sum();
            // The date may have been corrected since the batch before, and the monotonic clock
            // stands still while the machine is suspended.
            self.source.clock = wall_clock();
            let body = traces::request(&jobs, &self.source);
            let tries = 0;
            self.batch = Some(Batch { body, spans, tries });
            self.due = None;
        }
        if let Some(batch) = &mut self.batch {
            batch.tries += 1;
            self.sender.send(batch.body.as_bytes(), now);
            self.give_up = Some(now.after(TRY_LIMIT));
        }
    }

    /// A try has ended.
    fn ended(&mut self, result: Result<CollectorAnswer, String>, now: Moment) {
        self.give_up = None;
        match result {
            Ok((head, body)) if (200..300).contains(&head.status) => self.arrived(&body),
            Ok((head, _)) => {
                let status = head.status;
                let may_come_again = matches!(status, 429 | 502..=504);
                let wish = head
                    .headers
                    .value("Retry-After")
                    .and_then(|wish| str::from_utf8(wish).ok());
                let wish = wish.and_then(|wish| traces::retry_after(wish, clock::since_1970()));
                let why = format!("it answers with status {status}");
                self.failed(&why, may_come_again, wish, now);
            }
            Err(why) => self.failed(&why, true, None, now),
        }
    }

    fn arrived(&mut self, answer: &[u8]) {
        let spans = self.batch.take().map_or(0, |batch| batch.spans);
        let rejected = traces::rejected(answer).min(spans);
        self.counts.sent += spans - rejected;
        self.counts.dropped += rejected;
        self.pause_until = None;
        if rejected > 0 {
            debug!("traces: the collector has rejected {rejected} of {spans} spans");
        }
        if std::mem::take(&mut self.failures) > 0 {
            let lost = self.counts().dropped - self.dropped_before;
            info!("traces: {} takes spans again; {lost} were dropped", self.url);
        }
    }

    fn failed(&mut self, why: &str, may_come_again: bool, wish: Option<Duration>, now: Moment) {
        if self.failures == 0 {
            self.dropped_before = self.counts().dropped;
            warn!(
                "traces: cannot send spans to {}: {why}; they are dropped while that lasts, and jobs go on as ever; \
                 otel.endpoint has to be OTLP over HTTP (usually port 4318, not 4317)",
                self.url
            );
        } else {
            debug!("traces: cannot send spans to {}: {why}", self.url);
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let pause = doubled
            .min(LONGEST_PAUSE)
            .max(wish.unwrap_or_default().min(LONGEST_WISH));
        // Up to a quarter more, so that the workers of a fleet do not come back all at once.
        let more = pause.mul_f64((self.jitter.hash_one(self.failures) % 256) as f64 / 1024.0);
        self.pause_until = Some(now.after(pause + more));
        let is_over = |batch: &mut Batch| !may_come_again || batch.tries >= MOST_TRIES;
        if let Some(batch) = self.batch.take_if(is_over) {
            self.counts.dropped += batch.spans;
        }
    }

    /// Begins the end: what waits is sent without a further wait. Returns until when, at most;
    /// `left` is the time to the orchestrator's SIGKILL, if that is known. None: there is nothing
    /// to send, or the collector is away.
    pub fn begin_end(&self, left: Option<Duration>, now: Moment) -> Option<Moment> {
        let most = left.map_or(LAST_SPANS, |left| LAST_SPANS.min(left / 4));
        let is_over = most.is_zero() || self.failures > 0 || !self.has_spans();
        (!is_over).then(|| now.after(most))
    }

    /// True if there are spans that the collector does not have, and it has not failed.
    pub fn has_spans(&self) -> bool {
        self.failures == 0 && (self.batch.is_some() || self.recorder.waiting() > 0)
    }

    /// In the end: the next batch goes out without a wait.
    pub fn hurry(&mut self, now: Moment) {
        self.due = Some(now);
    }

    /// Drops what is left.
    pub fn end(&mut self) {
        self.sender.give_up();
        let waiting = self.recorder.waiting() as u64;
        let left = waiting + self.batch.take().map_or(0, |batch| batch.spans);
        self.counts.dropped += left;
        if left > 0 {
            info!(
                "traces: the last {left} spans did not reach {} before the exit",
                self.url
            );
        }
    }
}

/// The attributes of all spans: of the configuration, and of this process.
fn resource(config: &Config) -> Vec<(String, String)> {
    let mut resource = config.otel.resource.clone();
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    let own = [
        ("host.name", host.unwrap_or_default()),
        ("telemetry.sdk.name", "ojs-init".to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    for (name, value) in own {
        if !resource.iter().any(|(other, _)| other == name) {
            resource.push((name.to_owned(), value));
        }
    }
    resource
}

fn now() -> Moment {
    Moment::new(clock::monotonic())
}

/// The present date, for spans with times of the monotonic clock.
fn wall_clock() -> WallClock {
    WallClock {
        at: now(),
        since_1970: clock::since_1970(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its batch has failed")]
mod tests {
    use mio::{Poll, Token};
    use ojs_lifecycle::api::{
        Call, Delivery, Envelope, FetchForm, JobId, JobNotice, Outcome, Reservation, Subject, WorkerId,
    };

    use super::*;
    use crate::config::{Environment, Flags, load};

    /// The effects of a FETCH that returns one job, and of its ACK.
    fn run_a_job(exporter: &mut Exporter) {
        let fetch = Call::Fetch {
            worker: WorkerId("w".into()),
            count: 1,
            queues: None,
            visibility: Duration::from_secs(30),
            form: FetchForm::Full,
        };
        let id = CallId(1);
        exporter.observe(&Effect::CallBackend {
            id,
            call: fetch,
            give_up: now().after(TRY_LIMIT),
            is_again: false,
        });
        let subject = Arc::new(Subject {
            id: JobId("j1".into()),
            kind: "email.send".into(),
            queue: "default".into(),
            attempt: Some(1),
            max_attempts: None,
            trace: None,
        });
        let delivery = Delivery {
            subject: Arc::clone(&subject),
            envelope: Envelope::default(),
            checkpoint: None,
            timeout: None,
            reservation: Reservation::default(),
            has_crashed: false,
            visibility: None,
            waited: None,
        };
        exporter.answered(id, &Reply::Fetched(vec![delivery]), Some(200));
        exporter.recorder.handles(Some(id));
        exporter.observe(&Effect::Notify(JobNotice::Claimed(Arc::clone(&subject)).into()));
        exporter.recorder.handles(None);
        let settled = JobNotice::Settled {
            job: subject,
            outcome: Outcome::Acked { result: None },
            took: None,
        };
        exporter.observe(&Effect::Notify(settled.into()));
    }

    #[test]
    fn spans_have_the_date_that_the_clock_shows_when_their_batch_is_made() {
        let variables = [
            b"OJS_URL=http://b".as_slice(),
            b"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces",
        ];
        let config = load(&Flags::default(), &Environment::from_entries(variables.into_iter())).unwrap();
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut exporter = Exporter::start(&config, &waker, now()).unwrap().unwrap();
        // The clock of the machine was set forward since the start.
        exporter.source.clock.since_1970 = Duration::from_secs(1);
        run_a_job(&mut exporter);
        exporter.hurry(now());
        exporter.begin(now());
        let body = exporter.batch.unwrap().body;
        let began = body.split_once(r#""startTimeUnixNano":""#).unwrap().1;
        let began: u64 = began.split('"').next().unwrap().parse().unwrap();
        let age = clock::since_1970().saturating_sub(Duration::from_nanos(began));
        assert!(age < Duration::from_secs(60), "{age:?}: {body}");
    }
}
