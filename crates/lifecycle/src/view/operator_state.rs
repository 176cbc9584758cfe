//! The programs on the control socket: the request of each.

use std::collections::BTreeMap;

use crate::api::ClientId;
use crate::timers::Timers;

/// The clients that are connected. The shell bounds their number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Operators {
    pub(super) clients: BTreeMap<ClientId, Client>,
    /// The end of the time of each client to send its request, or to wait.
    pub(crate) timers: Timers<ClientId>,
}

/// The state of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// The client has asked for nothing yet.
    Silent,
    /// The client has its reply.
    Answered,
    /// The client has its reply, and is shown the end as well.
    Watching,
    Waiting {
        /// The wait ends when no job is active; otherwise when its time ends.
        until_idle: bool,
    },
}

impl Operators {
    /// Whether no client with a request is left.
    pub(crate) fn have_left(&self) -> bool {
        self.clients.values().all(|client| *client == Client::Silent)
    }

    /// Whether this one is connected.
    pub(crate) fn knows(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    pub(super) fn waiting(&self) -> usize {
        let is_waiting = |client: &&Client| matches!(client, Client::Waiting { .. });
        self.clients.values().filter(is_waiting).count()
    }
}
