//! Streams of events: requests whose answer does not end. Events are handed over as they arrive,
//! and the silence of a stream is bounded.

use std::time::Duration;

use crate::daemon::backend::client::{Backend, BackendSays, BackendTimer};
use crate::daemon::backend::outcome::Heard;
use crate::daemon::backend::pending::RequestStage;
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Call, Failure, Moment, Reply, StreamNews, StreamTopic};
use ojs_wire::backend::request::Words;

/// A comment line arrives at least every 15 s (real-time extension 2.4). A backend that is silent
/// for three times as long is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(45);

/// The stream of several queues has no comment lines.
const LONGEST_SILENCE_OF_QUEUES: Duration = Duration::from_secs(10 * 60);

/// The status of its answer.
const OK: u16 = 200;

impl Backend {
    /// Handles bytes of a stream that answers this request. Returns true if the stream continues.
    pub(in crate::daemon::backend) fn heard_events(&mut self, id: CallId, bytes: &[u8], now: Moment) -> bool {
        let Some(pending) = self.pending.get_mut(&id) else {
            return false;
        };
        let Call::Listen { topic } = &pending.call else {
            return true;
        };
        let silence = match topic {
            StreamTopic::Queue(_) => LONGEST_SILENCE,
            StreamTopic::Queues(_) => LONGEST_SILENCE_OF_QUEUES,
        };
        let is_new = pending.stream.is_none();
        let told = pending.stream.get_or_insert_default().take(bytes, now);
        if is_new {
            self.said.push((id, BackendSays::News(StreamNews::Opened)));
        }
        let Some(told) = told else {
            self.end_stream(id, Failure::Overloaded, "it tells of too much in too short a time");
            return false;
        };
        if is_new || !bytes.is_empty() {
            self.deadlines.arm(BackendTimer::GiveUp(id), now.after(silence));
        }
        let told = told.into_iter().map(|news| (id, BackendSays::News(news)));
        self.said.extend(told);
        true
    }

    /// Whether the answer to this request is a stream.
    pub(in crate::daemon::backend) fn is_open_stream(&self, id: CallId) -> bool {
        self.pending.get(&id).is_some_and(|pending| pending.stream.is_some())
    }

    /// Ends the stream.
    pub(in crate::daemon::backend) fn end_stream(&mut self, id: CallId, failure: Failure, why: &str) {
        if let Some(pending) = self.pending.get(&id)
            && let RequestStage::Exchanging(exchange) = &pending.stage
        {
            self.reach.reset(exchange.slot);
        }
        log::debug!("backend: a stream of events ends: {why}");
        let words = Words {
            failure: Some(why.to_owned()),
            ..Words::default()
        };
        let heard = Heard {
            status: Some(OK),
            words,
            outcome: None,
        };
        self.answer(id, (Reply::Failed(failure), heard));
    }
}
