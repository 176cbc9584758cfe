//! The owners of the poll's tokens: one table for the whole loop.

use mio::Token;

/// Connections of probes, each of which has a slot.
pub const PROBE_SLOTS: usize = 64;

/// Slots of connections to the backend: twice 64 reports, some other requests, kept connections,
/// attempts at further addresses, and streams of events.
pub const BACKEND_SLOTS: usize = 260;

/// Slots of connections to the backend for requests of the gateway's clients: those under way, kept
/// connections, and attempts at further addresses.
pub const TUNNEL_SLOTS: usize = 192;

/// Slots of connections to the collector of traces: one, and attempts at further addresses.
pub const COLLECTOR_SLOTS: usize = 8;

/// Kinds of owners. Their tokens alternate, because most kinds have no fixed number of owners.
const KINDS: usize = 8;

/// The owner of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenOwner {
    Signals,
    /// The threads that block in place of the loop.
    Threads,
    /// The listener for the worker's programs: one of them connects.
    Interface,
    /// The listener of the health endpoints: a client connects.
    ProbeListener,
    ControlSocket,
    /// The connection of a probe, in this slot.
    Probe(usize),
    /// A client of the control socket, by its number.
    Client(u64),
    /// A connection to the backend, in this slot.
    Backend(usize),
    /// A connection to the backend for a request of a gateway's client, in this slot.
    Tunnel(usize),
    /// A connection to the collector of traces, in this slot.
    Collector(usize),
    /// A connection of one of the worker's programs, by its number.
    Connection(u64),
    /// A process of the worker, by its number.
    Process(u64),
    /// No token of ojs-init.
    Nothing,
}

impl TokenOwner {
    /// The token of this source.
    pub fn token(self) -> Token {
        let (kind, number) = match self {
            Self::Signals => (0, 0),
            Self::Interface => (0, 1),
            Self::Threads => (0, 2),
            Self::ProbeListener => (0, 3),
            Self::ControlSocket => (0, 4),
            Self::Nothing => (0, 5),
            Self::Probe(slot) => (1, slot),
            Self::Client(number) => (2, size(number)),
            Self::Backend(slot) => (3, slot),
            Self::Tunnel(slot) => (4, slot),
            Self::Collector(slot) => (5, slot),
            Self::Connection(number) => (6, size(number)),
            Self::Process(number) => (7, size(number)),
        };
        // A counter that wraps after 2^61 connections.
        Token(number * KINDS + kind)
    }

    /// The source that a token stands for.
    pub fn of(token: Token) -> Self {
        let slot = token.0 / KINDS;
        // A part of a token always fits.
        let number = u64::try_from(slot).unwrap_or(u64::MAX);
        match (token.0 % KINDS, slot) {
            (0, 0) => Self::Signals,
            (0, 1) => Self::Interface,
            (0, 2) => Self::Threads,
            (0, 3) => Self::ProbeListener,
            (0, 4) => Self::ControlSocket,
            (1, _) => Self::Probe(slot),
            (2, _) => Self::Client(number),
            (3, _) => Self::Backend(slot),
            (4, _) => Self::Tunnel(slot),
            (5, _) => Self::Collector(slot),
            (6, _) => Self::Connection(number),
            (7, _) => Self::Process(number),
            _ => Self::Nothing,
        }
    }
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_known_again_by_its_token_and_no_two_have_the_same() {
        let single = [
            TokenOwner::Signals,
            TokenOwner::Threads,
            TokenOwner::Interface,
            TokenOwner::ProbeListener,
            TokenOwner::ControlSocket,
            TokenOwner::Nothing,
        ];
        let workers = [1, 2, 3, u64::from(u32::MAX)];
        let sources: Vec<TokenOwner> = single
            .into_iter()
            .chain((0..PROBE_SLOTS).map(TokenOwner::Probe))
            .chain((0..16).map(TokenOwner::Client))
            .chain((0..BACKEND_SLOTS).map(TokenOwner::Backend))
            .chain((0..TUNNEL_SLOTS).map(TokenOwner::Tunnel))
            .chain((0..COLLECTOR_SLOTS).map(TokenOwner::Collector))
            .chain(workers.map(TokenOwner::Connection))
            .chain(workers.map(TokenOwner::Process))
            .collect();
        for source in &sources {
            assert_eq!(TokenOwner::of(source.token()), *source);
        }
        let mut tokens: Vec<Token> = sources.iter().map(|source| source.token()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), sources.len());
    }
}
