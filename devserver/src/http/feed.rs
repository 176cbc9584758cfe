//! A stream of events (SSE): job changes for a subscriber, or the wrong events of a faulty backend.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use crate::faults::StreamFault;
use crate::ids::new_id;
use crate::json::raw;
use crate::moment::wall;
use crate::state::Shared;
use crate::store::changes::Change;
use crate::store::job::JobState;

/// A comment line (real-time extension 2.4).
const COMMENT: &str = ":heartbeat\n\n";

/// Milliseconds after which a client is to reconnect (2.3).
const RETRY: &str = "retry: 3000\n\n";

/// How often a stream lies.
const LIE_EVERY: Duration = Duration::from_millis(100);

/// Events of a flood that are handed over at once, and the pause after them: others have to be
/// served, too.
const FLOOD: usize = 500;
const FLOOD_PAUSE: Duration = Duration::from_millis(1);

/// The subject of a subscription.
#[derive(Debug)]
pub(super) enum Topic {
    /// All jobs of a queue.
    Queue(String),
    /// One job; `over` is its state if it has ended.
    Job { id: String, over: Option<JobState> },
    /// Announces available jobs of one of these queues.
    Available(Vec<String>),
}

/// A stream that a client requested.
#[derive(Debug)]
pub(super) struct Feed {
    topic: Topic,
    /// The number of the last change that was looked at.
    seen: u64,
    fault: Option<StreamFault>,
    is_open: bool,
    is_over: bool,
}

#[derive(Serialize)]
struct StateChanged<'a> {
    job_id: &'a str,
    queue: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    from: &'static str,
    to: &'static str,
    timestamp: String,
}

impl Feed {
    /// A stream of this, from the change after that number on.
    pub fn new(topic: Topic, seen: u64) -> Self {
        Self {
            topic,
            seen,
            fault: None,
            is_open: false,
            is_over: false,
        }
    }

    /// This feed with a fault.
    pub fn with(self, fault: StreamFault) -> Self {
        Self {
            fault: Some(fault),
            ..self
        }
    }

    /// The next piece of text, and the stream after it; `None`: the stream has ended.
    async fn next(mut self, shared: Arc<Shared>) -> Option<(String, Self)> {
        if !self.is_open {
            self.is_open = true;
            if let Some(text) = self.opening(&shared) {
                return Some((text, self));
            }
        }
        match self.fault {
            Some(StreamFault::Ends) => return None,
            Some(StreamFault::Hangs) => std::future::pending().await,
            Some(StreamFault::Lies) => {
                sleep(LIE_EVERY).await;
                return Some((self.lie(&shared), self));
            }
            Some(StreamFault::Floods) => {
                sleep(FLOOD_PAUSE).await;
                let lie = self.lie(&shared);
                return Some((lie.repeat(FLOOD), self));
            }
            Some(StreamFault::Silent | StreamFault::WithoutComments) | None => {}
        }
        if self.is_over {
            return None;
        }
        let text = self.news(&shared).await;
        Some((text, self))
    }

    /// The text before all events.
    fn opening(&mut self, shared: &Shared) -> Option<String> {
        match (&self.topic, self.fault) {
            (Topic::Available(_), _) | (_, Some(StreamFault::Hangs | StreamFault::Ends)) => None,
            (Topic::Job { id, over: Some(_) }, None) => {
                let mut text = RETRY.to_owned();
                let state = shared.lock();
                if let Some(job) = state.store.job(id) {
                    let change = Change {
                        number: self.seen,
                        at: shared.clock.now(),
                        job: Arc::clone(&job.id),
                        queue: Arc::clone(&job.queue),
                        kind: job.kind.clone(),
                        from: job.state,
                        to: job.state,
                        attempt: 0,
                        took: None,
                    };
                    write_change(&mut text, shared, &change);
                }
                self.is_over = true;
                Some(text)
            }
            (_, Some(StreamFault::WithoutComments)) => Some(RETRY.to_owned()),
            (Topic::Queue(_) | Topic::Job { .. }, Some(_) | None) => Some(format!("{RETRY}{COMMENT}")),
        }
    }

    /// Waits for an event, or for the end of the longest silence.
    async fn news(&mut self, shared: &Shared) -> String {
        let mut newest = shared.newest_change.subscribe();
        let has_comments = !matches!(self.topic, Topic::Available(_)) && self.fault.is_none();
        let is_silent = self.fault == Some(StreamFault::Silent);
        let until = Instant::now() + shared.options.stream_heartbeat;
        loop {
            let text = self.take(shared);
            if !text.is_empty() && !is_silent {
                return text;
            }
            let seen = self.seen;
            let is_late = timeout_at(until, newest.wait_for(|newest| *newest > seen))
                .await
                .is_err();
            if is_late && (has_comments || is_silent) {
                return COMMENT.to_owned();
            }
            if is_late {
                // No event, and a comment line is not allowed either.
                let _ = newest.wait_for(|newest| *newest > seen).await;
            }
        }
    }

    /// The events since the last look, as text.
    fn take(&mut self, shared: &Shared) -> String {
        let state = shared.lock();
        let changes = state.store.changes();
        let mut text = String::new();
        let (missed, later) = changes.after(self.seen);
        if missed > 0 && !matches!(self.topic, Topic::Available(_)) {
            let _ = write!(text, "event: system.events_dropped\ndata: {{\"count\":{missed}}}\n\n");
        }
        for change in later {
            match &self.topic {
                Topic::Queue(name) if **name == *change.queue => write_change(&mut text, shared, change),
                Topic::Job { id, .. } if **id == *change.job => {
                    write_change(&mut text, shared, change);
                    self.is_over |= change.to.is_terminal();
                }
                Topic::Available(queues) if change.to == JobState::Available => {
                    if queues.iter().any(|name| **name == *change.queue) {
                        write_available(&mut text, &change.queue);
                    }
                }
                Topic::Queue(_) | Topic::Job { .. } | Topic::Available(_) => {}
            }
        }
        self.seen = changes.newest();
        text
    }

    /// An event of a job that is not there.
    fn lie(&self, shared: &Shared) -> String {
        let mut text = String::new();
        let queue = match &self.topic {
            Topic::Queue(name) => name.as_str(),
            Topic::Available(queues) => {
                write_available(&mut text, queues.first().map_or("", String::as_str));
                return text;
            }
            Topic::Job { .. } => "default",
        };
        let change = Change {
            number: self.seen,
            at: shared.clock.now(),
            job: new_id().into(),
            queue: queue.into(),
            kind: "not.there".to_owned(),
            from: JobState::Pending,
            to: JobState::Available,
            attempt: 0,
            took: None,
        };
        write_change(&mut text, shared, &change);
        text
    }
}

fn write_change(text: &mut String, shared: &Shared, change: &Change) {
    let data = raw(&StateChanged {
        job_id: &change.job,
        queue: &change.queue,
        kind: &change.kind,
        from: change.from.name(),
        to: change.to.name(),
        timestamp: wall(shared.clock.epoch(), change.at),
    });
    let _ = write!(
        text,
        "id: {}\nevent: job.state_changed\ndata: {}\n\n",
        change.number,
        data.get()
    );
}

fn write_available(text: &mut String, queue: &str) {
    let data = raw(&serde_json::json!({ "queue": queue }));
    let _ = write!(text, "event: job_available\ndata: {}\n\n", data.get());
}

/// The next piece of text on its way, and the stream after it.
type NextPiece = Pin<Box<dyn Future<Output = Option<(String, Feed)>> + Send>>;

/// A stream as hyper polls it: the server makes events only when the client reads, so a slow reader
/// costs nothing and misses some.
pub(super) struct RunningFeed {
    shared: Arc<Shared>,
    next: NextPiece,
    is_over: bool,
}

impl RunningFeed {
    pub fn new(shared: &Arc<Shared>, feed: Feed) -> Self {
        Self {
            shared: Arc::clone(shared),
            next: Box::pin(feed.next(Arc::clone(shared))),
            is_over: false,
        }
    }

    /// The next piece; `None`: the stream has ended.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.next.as_mut().poll(context).map(|next| {
            let Some((text, feed)) = next else {
                self.is_over = true;
                return None;
            };
            self.next = Box::pin(feed.next(Arc::clone(&self.shared)));
            Some(Bytes::from(text))
        })
    }
}
