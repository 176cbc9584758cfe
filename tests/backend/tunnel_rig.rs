//! A loop for requests that pass through, driven by the test itself, and a server that does with a
//! connection what it is told.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Waker};

use ojs_init::daemon::backend::client::{Backend, BackendSays};
use ojs_init::daemon::backend::settings::BackendSettings;
use ojs_init::daemon::backend::tunnel::{TunnelFailureKind, TunnelId, TunnelNews};
use ojs_init::daemon::tokens::TokenOwner;
use ojs_lifecycle::api::{Call, CallId, Moment, Reply};
use ojs_os::clock;
use ojs_wire::http::header_lines::HeaderLines;
use ojs_wire::http::tunnel::{TunnelBody, TunnelHead, TunnelRequest};

use crate::rig::{PATIENCE, settings};
use crate::support::wait;

/// Most of an answer that is ever in memory: what waits to be taken, and one buffer of the
/// connection.
pub const MOST_WAITING_BYTES: usize = 128 << 10;

/// The result of a tunnel so far.
#[derive(Debug, Default)]
pub struct Passed {
    pub head: Option<TunnelHead>,
    pub body: Vec<u8>,
    /// Whether there was room again after an offer that was not taken whole.
    pub has_room: bool,
    pub end: Option<TunnelNews>,
}

impl Passed {
    pub fn status(&self) -> u16 {
        self.head.as_ref().unwrap().status
    }

    /// Why it failed; `None`: it did not.
    pub fn failure(&self) -> Option<TunnelFailureKind> {
        match self.end.as_ref().unwrap() {
            TunnelNews::Failed(failure) => Some(failure.kind),
            TunnelNews::Done | TunnelNews::Head(_) | TunnelNews::HasBytes | TunnelNews::HasRoom => None,
        }
    }
}

pub struct TunnelRig {
    poll: Poll,
    pub backend: Backend,
    pub passed: BTreeMap<u64, Passed>,
    /// Answers to requests of our own.
    pub replies: Vec<Reply>,
    /// Whether the body of answers is taken as it comes.
    pub takes: bool,
    opened: u64,
}

impl TunnelRig {
    pub fn new(settings: BackendSettings) -> Self {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), TokenOwner::Threads.token()).unwrap();
        Self {
            backend: Backend::start(settings, Arc::new(waker)).unwrap(),
            poll,
            passed: BTreeMap::new(),
            replies: Vec::new(),
            takes: true,
            opened: 0,
        }
    }

    pub fn of(server: &Server) -> Self {
        Self::new(settings(&server.url()))
    }

    pub fn open(&mut self, request: TunnelRequest) -> u64 {
        self.opened += 1;
        let now = Moment::new(clock::monotonic());
        self.backend.tunnels.open(TunnelId(self.opened), request, now);
        self.passed.insert(self.opened, Passed::default());
        self.opened
    }

    /// Its client is gone.
    pub fn abandon(&mut self, id: u64) {
        let now = Moment::new(clock::monotonic());
        self.backend.tunnels.abandon(TunnelId(id), now);
    }

    /// A request of our own beside them.
    pub fn send(&mut self, call: Call) {
        let give_up = Moment::new(clock::monotonic()).after(PATIENCE);
        self.backend.send(CallId(1), call, give_up, false);
    }

    /// One round of the loop.
    pub fn pump(&mut self) {
        let mut events = Events::with_capacity(256);
        let timeout = if self.backend.has_more() { 0 } else { 10 };
        let polled_at = Moment::new(clock::monotonic());
        let polled = self.poll.poll(&mut events, Some(Duration::from_millis(timeout)));
        if let Err(error) = polled {
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
            return;
        }
        for event in &events {
            let owner = TokenOwner::of(event.token());
            if let TokenOwner::Tunnel(slot) = owner {
                self.backend.tunnels.is_ready(slot, event);
            } else if let TokenOwner::Backend(slot) = owner {
                self.backend.is_ready(slot, event);
            }
        }
        let now = Moment::new(clock::monotonic());
        let replies = &mut self.replies;
        self.backend.turn(self.poll.registry(), now, polled_at, |_, says| {
            if let BackendSays::Answer(reply, _) = says {
                replies.push(reply);
            }
        });
        while let Some((TunnelId(id), news)) = self.backend.tunnels.next_news() {
            let passed = self.passed.get_mut(&id).unwrap();
            assert!(passed.end.is_none(), "{news:?} after {:?}", passed.end);
            match news {
                TunnelNews::Head(head) => assert!(passed.head.replace(head).is_none(), "a second head"),
                TunnelNews::HasBytes => assert!(passed.head.is_some(), "a body before its head"),
                TunnelNews::HasRoom => passed.has_room = true,
                TunnelNews::Done | TunnelNews::Failed(_) => passed.end = Some(news),
            }
        }
        for (id, passed) in &mut self.passed {
            let body = self.backend.tunnels.body(TunnelId(*id));
            assert!(body.len() <= MOST_WAITING_BYTES, "{} bytes wait", body.len());
            if self.takes && !body.is_empty() {
                passed.body.extend_from_slice(body);
                let count = body.len();
                if self.backend.tunnels.took(TunnelId(*id), count) {
                    passed.end = Some(TunnelNews::Done);
                }
            }
        }
    }

    /// Rounds until this is so.
    pub fn until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) {
        let latest = wait::now() + PATIENCE;
        while !is_so(self) {
            assert!(wait::now() < latest, "it never was so");
            self.pump();
        }
    }

    /// Rounds until then.
    pub fn until_time(&mut self, time: Instant) {
        while wait::now() < time {
            self.pump();
        }
    }

    /// The result of a tunnel in the end.
    pub fn end_of(&mut self, id: u64) -> Passed {
        self.until(|rig| rig.passed[&id].end.is_some());
        self.passed.remove(&id).unwrap()
    }

    /// The result of this request, whose body is this.
    pub fn pass(&mut self, request: TunnelRequest, mut body: &[u8]) -> Passed {
        let id = self.open(request);
        self.offer_all(id, &mut body);
        self.end_of(id)
    }

    /// Offers all of this, unless the tunnel ends before.
    pub fn offer_all(&mut self, id: u64, body: &mut &[u8]) {
        self.until(|rig| {
            if rig.passed[&id].end.is_some() {
                return true;
            }
            let taken = rig.backend.tunnels.offer(TunnelId(id), body);
            *body = &body[taken..];
            body.is_empty()
        });
        self.backend.tunnels.body_done(TunnelId(id));
    }
}

pub fn request(method: &str, target: &str, body: TunnelBody) -> TunnelRequest {
    let headers = [
        ("Host", "127.0.0.1:1"),
        ("Authorization", "Bearer of-the-worker"),
        ("X-Of-The-Worker", "1"),
    ];
    TunnelRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: HeaderLines::of(headers.into_iter().map(|(name, value)| (name, value.as_bytes()))),
        body,
    }
}

pub fn get(target: &str) -> TunnelRequest {
    request("GET", target, TunnelBody::None)
}

/// A server that hands each connection, with its number from 1, to the same function.
pub struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    pub fn start(serve: impl Fn(TcpStream, usize) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
        let counter = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
                let serve = Arc::clone(&serve);
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // A connection that breaks is the other side's business.
                thread::spawn(move || serve(stream, number).ok());
            }
        });
        Self { address, accepted }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}
