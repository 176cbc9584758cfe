//! The owners of the poll's tokens: one table for the whole loop.

use mio::Token;

/// Connections of probes, each of which has a slot.
pub const PROBE_SLOTS: usize = 64;

/// Clients of the control socket, each of which has a slot.
pub const CLIENT_SLOTS: usize = 16;

/// Slots of connections to the backend: twice 64 reports, some other requests, kept connections,
/// attempts at further addresses, and streams of events.
pub const BACKEND_SLOTS: usize = 260;

/// Slots of connections to the backend for requests of the gateway's clients: those under way, kept
/// connections, and attempts at further addresses.
pub const TUNNEL_SLOTS: usize = 192;

/// Slots of connections to the collector of traces: one, and attempts at further addresses.
pub const COLLECTOR_SLOTS: usize = 8;

/// The first token of a probe's connection. Those below are single ones.
const FIRST_PROBE: usize = 16;

const FIRST_CLIENT: usize = FIRST_PROBE + PROBE_SLOTS;

const FIRST_BACKEND: usize = FIRST_CLIENT + CLIENT_SLOTS;

const FIRST_TUNNEL: usize = FIRST_BACKEND + BACKEND_SLOTS;

const FIRST_COLLECTOR: usize = FIRST_TUNNEL + TUNNEL_SLOTS;

/// Tokens of workers start here. Connections and processes alternate, because the number of each is
/// unknown.
const FIRST_WORKER: usize = FIRST_COLLECTOR + COLLECTOR_SLOTS;

/// Connections and processes alternate there.
const WORKER_KINDS: usize = 2;

const LAST_PROBE: usize = FIRST_CLIENT - 1;
const LAST_CLIENT: usize = FIRST_BACKEND - 1;
const LAST_BACKEND: usize = FIRST_TUNNEL - 1;
const LAST_TUNNEL: usize = FIRST_COLLECTOR - 1;
const LAST_COLLECTOR: usize = FIRST_WORKER - 1;

/// The owner of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenOwner {
    Signals,
    /// The threads that block in place of the loop, for the backend's connections.
    BackendThreads,
    /// The file with the token for the backend.
    TokenFile,
    /// The listener for the worker's programs: one of them connects.
    Interface,
    /// The listener of the health endpoints: a client connects.
    ProbeListener,
    ControlSocket,
    /// The connection of a probe, in this slot.
    Probe(usize),
    /// A client of the control socket, in this slot.
    Client(usize),
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
        Token(match self {
            Self::Signals => 0,
            Self::Interface => 1,
            Self::BackendThreads => 2,
            Self::TokenFile => 3,
            Self::ProbeListener => 4,
            Self::ControlSocket => 5,
            Self::Nothing => FIRST_PROBE - 1,
            Self::Probe(slot) => FIRST_PROBE + slot,
            Self::Client(slot) => FIRST_CLIENT + slot,
            Self::Backend(slot) => FIRST_BACKEND + slot,
            Self::Tunnel(slot) => FIRST_TUNNEL + slot,
            Self::Collector(slot) => FIRST_COLLECTOR + slot,
            Self::Connection(number) => of_worker(number, 0),
            Self::Process(number) => of_worker(number, 1),
        })
    }

    /// The source that a token stands for.
    pub fn of(token: Token) -> Self {
        match token.0 {
            0 => Self::Signals,
            1 => Self::Interface,
            2 => Self::BackendThreads,
            3 => Self::TokenFile,
            4 => Self::ProbeListener,
            5 => Self::ControlSocket,
            slot @ FIRST_PROBE..=LAST_PROBE => Self::Probe(slot - FIRST_PROBE),
            slot @ FIRST_CLIENT..=LAST_CLIENT => Self::Client(slot - FIRST_CLIENT),
            slot @ FIRST_BACKEND..=LAST_BACKEND => Self::Backend(slot - FIRST_BACKEND),
            slot @ FIRST_TUNNEL..=LAST_TUNNEL => Self::Tunnel(slot - FIRST_TUNNEL),
            slot @ FIRST_COLLECTOR..=LAST_COLLECTOR => Self::Collector(slot - FIRST_COLLECTOR),
            worker @ FIRST_WORKER.. => {
                let number = worker - FIRST_WORKER;
                // Half of a token always fits.
                let half = u64::try_from(number / WORKER_KINDS).unwrap_or(u64::MAX);
                if number.is_multiple_of(WORKER_KINDS) {
                    Self::Connection(half)
                } else {
                    Self::Process(half)
                }
            }
            _ => Self::Nothing,
        }
    }
}

fn of_worker(number: u64, kind: usize) -> usize {
    // A counter that wraps after 2^62 connections.
    FIRST_WORKER + usize::try_from(number).unwrap_or(0) * WORKER_KINDS + kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_known_again_by_its_token_and_no_two_have_the_same() {
        let single = [
            TokenOwner::Signals,
            TokenOwner::BackendThreads,
            TokenOwner::TokenFile,
            TokenOwner::Interface,
            TokenOwner::ProbeListener,
            TokenOwner::ControlSocket,
            TokenOwner::Nothing,
        ];
        let workers = [1, 2, 3, u64::from(u32::MAX)];
        let sources: Vec<TokenOwner> = single
            .into_iter()
            .chain((0..PROBE_SLOTS).map(TokenOwner::Probe))
            .chain((0..CLIENT_SLOTS).map(TokenOwner::Client))
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
