//! One request at a time to the collector, on the transport of the backend.

use mio::Registry;
use mio::event::Event;

use crate::config::{self, BackendUrl, Config};
use crate::daemon::backend::answer::{AnswerReader, Received};
use crate::daemon::backend::connection::ConnectionPhase;
use crate::daemon::backend::exchange::{Exchange, ExchangeStep};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::head::UrlParts;
use crate::daemon::backend::kept::{Used, Wanted};
use crate::daemon::backend::lookup::LoopWake;
use crate::daemon::backend::reach::{Reach, Reached, Upstream, Way};
use crate::daemon::backend::tls_words;
use crate::daemon::tokens::{COLLECTOR_SLOTS, TokenOwner};
use ojs_lifecycle::api::ids::CallId;
use ojs_lifecycle::api::{Lane, Moment};
use ojs_wire::backend::spare::Spare;

/// Most bytes of an answer that are read: it has the number of rejected spans and a message.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// The only request.
const REQUEST: CallId = CallId(0);

/// How far the request is.
enum Stage {
    /// There is none.
    Idle,
    /// The request is on its way to a connection; its next step is due at this time at the latest.
    Reaching(Option<Moment>),
    Exchanging(Box<Exchange>),
}

/// The connection to the collector.
pub(in crate::daemon) struct Sender {
    /// The collector, in the terms of the transport.
    peer: config::Backend,
    is_https: bool,
    /// The request up to its length.
    head: String,
    reach: Reach<CallId>,
    upstream: Upstream,
    stage: Stage,
    /// The whole request, while it may have to be sent on another connection.
    request: Vec<u8>,
    /// A kept connection was closed under it: it gets a fresh one.
    is_second: bool,
    /// The request may take its next step at once.
    is_ready: bool,
    /// Kept connections with an event of the kernel.
    stirred: Vec<usize>,
}

impl Sender {
    /// To this collector. `wake` wakes the loop when its name was looked up.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(super) fn new(config: &Config, url: &BackendUrl, wake: LoopWake, now: Moment) -> Result<Self, String> {
        let peer = config::Backend {
            url: Some(url.clone()),
            auth_token_file: None,
            auth_token: None,
            headers: config.otel.headers.clone(),
            proxy: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            ..config.backend.clone()
        };
        let place = UrlParts::of(url.as_str());
        Ok(Self {
            upstream: Upstream::new(&peer, &place, &wake, now)?,
            head: head(&peer, &place),
            is_https: url.is_https(),
            reach: Reach::new(COLLECTOR_SLOTS, TokenOwner::Collector),
            stage: Stage::Idle,
            request: Vec::new(),
            is_second: false,
            is_ready: false,
            stirred: Vec::new(),
            peer,
        })
    }

    /// Begins a request with this body, in the next turn.
    pub(super) fn send(&mut self, body: &[u8]) {
        self.request = format!("{}{}\r\n\r\n", self.head, body.len()).into_bytes();
        self.request.extend_from_slice(body);
        self.stage = Stage::Reaching(None);
        self.is_second = false;
        self.is_ready = true;
    }

    /// Ends the request without its answer.
    pub(super) fn give_up(&mut self) {
        self.reach.give_up(REQUEST);
        if let Stage::Exchanging(exchange) = std::mem::replace(&mut self.stage, Stage::Idle) {
            self.reach.reset(exchange.slot);
        }
        self.request = Vec::new();
    }

    /// The kernel reported an event on the connection in this slot.
    pub(in crate::daemon) fn is_ready(&mut self, slot: usize, event: &Event) {
        let Some(connection) = self.reach.slots.get(slot) else {
            return;
        };
        connection.is_ready(event);
        if connection.owner.is_some() {
            self.is_ready = true;
        } else {
            self.stirred.push(slot);
        }
    }

    /// True if another turn has work at once.
    pub(in crate::daemon) fn has_more(&self) -> bool {
        self.is_ready || !self.stirred.is_empty()
    }

    /// When the request has its next step without an event.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        match self.stage {
            Stage::Reaching(due) => due,
            Stage::Idle | Stage::Exchanging(_) => None,
        }
    }

    /// Advances the request. Returns its answer, or why there is none.
    pub(super) fn turn(&mut self, registry: &Registry, now: Moment) -> Option<Result<Received, Fault>> {
        // A collector that leaves matters to the next request only.
        self.upstream.signs.clear();
        let has_names = self.upstream.names.take(now);
        let upstream = &mut self.upstream;
        let mut way = Way {
            registry,
            now,
            upstream,
        };
        for slot in std::mem::take(&mut self.stirred) {
            self.reach.look_at_kept(slot, &mut way);
        }
        self.reach.close_outdated(now);
        let is_due = matches!(self.stage, Stage::Reaching(Some(due)) if due <= now);
        if !(std::mem::take(&mut self.is_ready) || has_names || is_due) {
            return None;
        }
        match self.stage {
            Stage::Idle => None,
            Stage::Reaching(_) => self.advance(registry, now),
            Stage::Exchanging(_) => self.exchange(registry, now),
        }
    }

    /// Why there is no answer, for a person.
    pub(super) fn reason(&self, fault: &Fault) -> String {
        // The transport knows no other peer than the backend.
        if let Fault::Tls(error) = fault {
            tls_words::of_collector(error, &self.peer)
        } else {
            tls_words::named_collector(&fault.reason(&self.peer, self.is_https, true))
        }
    }

    fn advance(&mut self, registry: &Registry, now: Moment) -> Option<Result<Received, Fault>> {
        let wanted = Wanted {
            lane: Lane::Side,
            may_come_twice: true,
            takes_kept: !self.is_second,
            used_since: None,
        };
        let upstream = &mut self.upstream;
        let mut way = Way {
            registry,
            now,
            upstream,
        };
        let due = match self.reach.advance(REQUEST, wanted, &mut way, &mut || false) {
            Reached::Open(slot) => {
                let answer = AnswerReader::new(MOST_ANSWER_BYTES);
                let exchange = Exchange::new(slot, self.request.clone(), answer);
                self.stage = Stage::Exchanging(Box::new(exchange));
                return self.exchange(registry, now);
            }
            Reached::Token(until) | Reached::Address(until) => until,
            Reached::Dialing { next_at, is_paused } => {
                self.is_ready = is_paused;
                next_at
            }
            Reached::NoToken => return self.end(Err(Fault::Internal)),
            Reached::Failed(fault) => return self.end(Err(fault)),
        };
        self.stage = Stage::Reaching(due);
        None
    }

    fn exchange(&mut self, registry: &Registry, now: Moment) -> Option<Result<Received, Fault>> {
        let Stage::Exchanging(exchange) = &mut self.stage else {
            return None;
        };
        let Some(connection) = self.reach.slots.get(exchange.slot) else {
            return self.end(Err(Fault::Internal));
        };
        if connection.phase != ConnectionPhase::Open {
            return None;
        }
        let has_served = connection.has_served;
        match exchange.step(connection, &mut self.upstream.buffers, &mut Spare::default()) {
            ExchangeStep::Waits => None,
            ExchangeStep::Paused => {
                self.is_ready = true;
                None
            }
            ExchangeStep::Over(None) => self.finish(registry, now),
            ExchangeStep::Over(Some(fault)) => {
                self.reach.reset(exchange.slot);
                if fault.is_hang_up() && has_served && !self.is_second {
                    self.is_second = true;
                    self.stage = Stage::Reaching(None);
                    self.is_ready = true;
                    return None;
                }
                self.end(Err(fault))
            }
        }
    }

    /// The answer is there: the connection is kept for the next request.
    fn finish(&mut self, registry: &Registry, now: Moment) -> Option<Result<Received, Fault>> {
        let Stage::Exchanging(exchange) = std::mem::replace(&mut self.stage, Stage::Idle) else {
            return None;
        };
        let slot = exchange.slot;
        let Some(received) = exchange.received() else {
            self.reach.slots.close(slot);
            return self.end(Err(Fault::Internal));
        };
        let used = Used {
            since: now,
            keep_alive: received.head.keep_alive,
            lane: Lane::Side,
        };
        let leaves_open = received.leaves_connection_open;
        let upstream = &mut self.upstream;
        self.reach.keep(
            slot,
            used,
            leaves_open,
            &mut Way {
                registry,
                now,
                upstream,
            },
        );
        self.end(Ok(received))
    }

    fn end(&mut self, result: Result<Received, Fault>) -> Option<Result<Received, Fault>> {
        self.give_up();
        Some(result)
    }
}

/// The head of each request up to its length.
fn head(peer: &config::Backend, place: &UrlParts) -> String {
    let path = if place.prefix.is_empty() { "/" } else { &place.prefix };
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", place.authority);
    let names_agent = peer
        .headers
        .iter()
        .any(|header| header.name.eq_ignore_ascii_case("User-Agent"));
    if !names_agent {
        head.push_str(concat!("User-Agent: ojs-init/", env!("CARGO_PKG_VERSION"), "\r\n"));
    }
    for header in &peer.headers {
        head.push_str(&format!("{}: {}\r\n", header.name, header.value));
    }
    head.push_str("Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: ");
    head
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;
    use crate::config::{Environment, Flags, load};

    #[test]
    fn no_reason_of_a_collector_names_the_backend_or_one_of_its_settings() {
        let variables = [
            b"OJS_URL=https://b".as_slice(),
            b"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c/v1/traces",
        ];
        let config = load(&Flags::default(), &Environment::from_entries(variables.into_iter())).unwrap();
        let url = config.otel.endpoint.clone().unwrap();
        let sender = Sender::new(&config, &url, Arc::new(|| {}), Moment::new(Default::default())).unwrap();
        let certificate = |reason| Fault::Tls(Error::InvalidCertificate(reason));
        let alert = |alert| Fault::Tls(Error::AlertReceived(alert));
        let cases = [
            (
                certificate(CertificateError::UnknownIssuer),
                "no public CA stands behind the collector's certificate",
            ),
            (
                certificate(CertificateError::BadSignature),
                "the collector's certificate is not signed by the CA",
            ),
            (
                certificate(CertificateError::Expired),
                "the collector's certificate has expired",
            ),
            (
                certificate(CertificateError::NotValidForName),
                "the one of otel.endpoint",
            ),
            (
                alert(AlertDescription::CertificateRequired),
                "the collector demands a client certificate",
            ),
            (
                alert(AlertDescription::HandshakeFailure),
                "the collector demands a client certificate",
            ),
            (alert(AlertDescription::InternalError), "the collector ended TLS"),
            (Fault::ClosedInHandshake, "the port of otel.endpoint"),
            (Fault::NotHttp, "the port of otel.endpoint"),
            (Fault::NoHost, "no host of this name"),
            (Fault::NoResolver, "no thread can be had"),
            (Fault::Closed, "the connection was closed"),
            (Fault::Io(io::Error::from_raw_os_error(111)), "connection refused"),
        ];
        let reasons: Vec<String> = cases.iter().map(|(fault, _)| sender.reason(fault)).collect();
        let is_wrong = |text: &&String| text.contains("backend") || text.contains("OJS_");
        assert_eq!(reasons.iter().filter(is_wrong).collect::<Vec<_>>(), [""; 0]);
        for (reason, (_, words)) in reasons.iter().zip(&cases) {
            assert!(reason.contains(words), "{reason}");
        }
    }
}
