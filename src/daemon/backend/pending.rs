//! A request that is not answered yet, and how far it is.

use crate::daemon::backend::exchange::Exchange;
use crate::daemon::backend::open_stream::OpenStream;
use ojs_lifecycle::api::{Call, Lane, Moment};

/// How far a request is.
pub(in crate::daemon) enum RequestStage {
    /// Other requests of its kind have their turn first.
    Waiting,
    /// The request is on its way to a connection, and waits for this.
    Reaching(Awaits),
    /// The request is on a connection.
    Exchanging(Box<Exchange>),
}

/// The thing that a request on its way to a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Awaits {
    /// Its turn.
    Turn,
    /// The token.
    Token,
    /// The addresses of the backend's name.
    Address,
    /// The peer.
    Peer,
}

/// A request.
pub(in crate::daemon) struct Pending {
    /// The call to the backend.
    pub(in crate::daemon) call: Call,
    /// Which bounds it is under.
    pub(in crate::daemon) lane: Lane,
    /// The time limit of the answer.
    pub(in crate::daemon) give_up: Moment,
    /// How far it is.
    pub(in crate::daemon) stage: RequestStage,
    /// The state of the event stream, if the answer is one.
    pub(in crate::daemon) stream: Option<Box<OpenStream>>,
    /// When its turn began.
    pub(in crate::daemon) began: Option<Moment>,
    /// An equal request hangs on another connection.
    pub(in crate::daemon) is_again: bool,
    /// A kept connection was closed under it: it gets a fresh one.
    pub(in crate::daemon) is_second: bool,
    /// The backend may have received the request on the first connection.
    pub(in crate::daemon) first_was_sent: bool,
}

impl Pending {
    /// A new request.
    pub(in crate::daemon) fn new(call: Call, lane: Lane, give_up: Moment, stage: RequestStage) -> Self {
        Self {
            call,
            lane,
            give_up,
            stage,
            stream: None,
            began: None,
            is_again: false,
            is_second: false,
            first_was_sent: false,
        }
    }

    /// Whether the backend may have got it.
    pub(in crate::daemon) fn is_sent(&self) -> bool {
        let is_sent = match &self.stage {
            RequestStage::Exchanging(exchange) => exchange.is_sent(),
            RequestStage::Waiting | RequestStage::Reaching(_) => false,
        };
        is_sent || self.first_was_sent
    }
}
