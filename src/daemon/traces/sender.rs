//! One request at a time to the collector, through a tunnel of its own.

use std::time::Duration;

use mio::Registry;
use mio::event::Event;

use crate::config::{self, BackendUrl, Config};
use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::head::own_lines;
use crate::daemon::backend::reach::{Upstream, Way};
use crate::daemon::backend::tls_words;
use crate::daemon::backend::tunnel::{TunnelId, TunnelNews};
use crate::daemon::backend::tunnels::{TunnelTurn, Tunnels};
use crate::daemon::tokens::{COLLECTOR_SLOTS, TokenOwner};
use ojs_lifecycle::api::Moment;
use ojs_os::threads::LoopWake;
use ojs_wire::http::header_lines::HeaderLines;
use ojs_wire::http::tunnel::{TunnelBody, TunnelHead, TunnelRequest};

/// Most bytes of an answer that are read: it has the number of rejected spans and a message.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// The only request.
const REQUEST: TunnelId = TunnelId(0);

/// The header lines of each request, unless `otel.headers` has a line of this name.
const HEADERS: [(&str, &[u8]); 3] = [
    ("User-Agent", concat!("ojs-init/", env!("CARGO_PKG_VERSION")).as_bytes()),
    ("Accept", b"application/json"),
    ("Content-Type", b"application/json"),
];

/// The collector's answer: its head, and its body up to [`MOST_ANSWER_BYTES`].
pub(super) type CollectorAnswer = (TunnelHead, Vec<u8>);

/// The connection to the collector.
pub(in crate::daemon) struct Sender {
    /// The collector, in the terms of the transport.
    peer: config::Backend,
    tunnels: Tunnels,
    upstream: Upstream,
    /// The received part of the answer.
    answer: Option<CollectorAnswer>,
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
            // The exporter gives up sooner.
            connect_timeout: Duration::MAX,
            ..config.backend.clone()
        };
        let mut own = own_lines(&peer);
        if own.prefix.is_empty() {
            own.prefix.push('/');
        }
        Ok(Self {
            upstream: Upstream::new(&peer, &wake, now)?,
            tunnels: Tunnels::new(own, COLLECTOR_SLOTS, TokenOwner::Collector),
            answer: None,
            peer,
        })
    }

    /// Begins a request with this body, in the next turn.
    pub(super) fn send(&mut self, body: &[u8], now: Moment) {
        let request = TunnelRequest {
            method: "POST".to_owned(),
            target: String::new(),
            headers: HeaderLines::of(HEADERS.into_iter()),
            body: TunnelBody::Length(body.len() as u64),
        };
        self.tunnels.open_whole(REQUEST, request, body.to_owned(), now);
    }

    /// Ends the request without its answer.
    pub(super) fn give_up(&mut self) {
        self.tunnels.close(REQUEST);
        self.answer = None;
    }

    /// The kernel reported an event on the connection in this slot.
    pub(in crate::daemon) fn is_ready(&mut self, slot: usize, event: &Event) {
        self.tunnels.is_ready(slot, event);
    }

    /// True if another turn has work at once.
    pub(in crate::daemon) fn has_more(&self) -> bool {
        self.tunnels.has_more()
    }

    /// When the request has its next step without an event.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.tunnels.next_deadline()
    }

    /// Advances the request. Returns its answer, or why there is none. Deadlines after `polled_at`
    /// are not due yet.
    pub(super) fn turn(
        &mut self,
        registry: &Registry,
        now: Moment,
        polled_at: Moment,
    ) -> Option<Result<CollectorAnswer, String>> {
        // A collector that leaves matters to the next request only.
        self.upstream.signs.clear();
        if self.upstream.names.take(now) {
            self.tunnels.thread_has_news();
        }
        let upstream = &mut self.upstream;
        self.tunnels.turn(&mut TunnelTurn {
            way: Way {
                registry,
                now,
                upstream,
            },
            heard_until: polled_at,
            server: &self.peer,
            reason,
        });
        while let Some((_, news)) = self.tunnels.next_news() {
            let is_over = match news {
                TunnelNews::Head(head) => {
                    self.answer = Some((head, Vec::new()));
                    false
                }
                TunnelNews::HasBytes => self.read(),
                TunnelNews::HasRoom => false,
                TunnelNews::Done => true,
                // The status counts, even if the rest of the answer is missing.
                TunnelNews::Failed(failure) => return Some(self.answer.take().ok_or(failure.text)),
            };
            if is_over {
                return self.answer.take().map(Ok);
            }
        }
        None
    }

    /// Takes the received bytes of the answer. Returns true if there is nothing more to read.
    fn read(&mut self) -> bool {
        let Some((_, body)) = &mut self.answer else {
            return false;
        };
        let bytes = self.tunnels.body(REQUEST);
        let count = bytes.len();
        body.extend_from_slice(bytes);
        if body.len() >= MOST_ANSWER_BYTES {
            self.tunnels.close(REQUEST);
            return true;
        }
        self.tunnels.took(REQUEST, count)
    }

    /// Why there is no answer, for a person.
    pub(super) fn reason(&self, fault: &Fault) -> String {
        reason(fault, &self.peer, true)
    }
}

/// The words for a fault. The transport knows no other peer than the backend.
fn reason(fault: &Fault, peer: &config::Backend, is_new: bool) -> String {
    if let Fault::Tls(error) = fault {
        tls_words::of_collector(error, peer)
    } else {
        tls_words::named_collector(&fault.reason(peer, is_new))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    use mio::{Events, Poll};
    use ojs_os::clock;
    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;
    use crate::config::{Environment, Flags, load};

    /// A sender to this collector.
    fn sender_to(url: &str) -> Sender {
        let variables = [
            "OJS_URL=https://b".to_owned(),
            format!("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={url}"),
        ];
        let environment = Environment::from_entries(variables.iter().map(String::as_bytes));
        let config = load(&Flags::default(), &environment).unwrap();
        let url = config.otel.endpoint.clone().unwrap();
        Sender::new(&config, &url, Arc::new(|| {}), Moment::new(Default::default())).unwrap()
    }

    #[test]
    fn a_batch_that_a_kept_connection_loses_goes_out_again_whole_on_a_fresh_one() {
        static BODY: [u8; 300_000] = [b'x'; 300_000];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = thread::spawn(move || {
            let accept = || listener.accept().unwrap().0;
            let read = |from: &mut TcpStream| {
                let mut bytes = Vec::new();
                while !bytes.ends_with(&BODY) {
                    let mut some = [0; 4096];
                    let count = from.read(&mut some).unwrap();
                    bytes.extend_from_slice(&some[..count]);
                }
                bytes.len() - BODY.len()
            };
            let (mut kept, answer) = (accept(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            let first = read(&mut kept);
            kept.write_all(answer).unwrap();
            let lost = read(&mut kept);
            drop(kept);
            let mut fresh = accept();
            let again = read(&mut fresh);
            fresh.write_all(answer).unwrap();
            assert_eq!([lost, again], [first; 2], "each has one head");
        });
        let mut sender = sender_to(&url);
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(16);
        for _ in 0..2 {
            let now = || Moment::new(clock::monotonic());
            sender.send(&BODY, now());
            let (head, body) = loop {
                if let Some(result) = sender.turn(poll.registry(), now(), now()) {
                    break result.unwrap();
                }
                poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
                for event in &events {
                    if let TokenOwner::Collector(slot) = TokenOwner::of(event.token()) {
                        sender.is_ready(slot, event);
                    }
                }
            };
            assert_eq!((head.status, body.as_slice()), (200, b"{}".as_slice()));
        }
        collector.join().unwrap();
    }

    #[test]
    fn no_reason_of_a_collector_names_the_backend_or_one_of_its_settings() {
        let sender = sender_to("https://c/v1/traces");
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
