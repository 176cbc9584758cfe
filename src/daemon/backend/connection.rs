//! One connection to the backend, with TLS if its URL begins with https. Nothing here blocks.
//! Events of the kernel are remembered because the kernel reports each only once. The reads and
//! writes of one turn are bounded.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use nix::errno::Errno;
use socket2::SockRef;

use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::route::Opening;
use crate::daemon::backend::tls_session::TlsSession;
use ojs_lifecycle::api::Moment;
use ojs_lifecycle::api::ids::CallId;
use ojs_wire::http::connect::{self, ConnectReply};

/// Most bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// First size of the read buffer. It grows after an answer fills it, which never happens in most
/// processes.
const FIRST_READ_BYTES: usize = 8 << 10;

/// Most bytes that are written to one connection in a turn.
const WRITTEN_PER_TURN: usize = 256 << 10;

/// Most steps of a handshake in a turn; a usual one has two or three.
const STEPS_OF_HANDSHAKE: usize = 8;

/// Most buffers without plain bytes that are read of a connection without a request. TLS sends some
/// for itself; its tickets fit into one.
const MOST_READS_OF_NOTHING: usize = 8;

/// The read buffers of all connections.
#[derive(Debug)]
pub(in crate::daemon) struct Buffers {
    raw: Vec<u8>,
    plain: Vec<u8>,
}

impl Buffers {
    /// Frees the room that large answers needed.
    pub(in crate::daemon) fn shrink(&mut self) {
        self.raw.truncate(FIRST_READ_BYTES);
        self.raw.shrink_to_fit();
        self.plain = Vec::new();
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            raw: vec![0; FIRST_READ_BYTES],
            plain: Vec::new(),
        }
    }
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum ConnectionPhase {
    /// The peer has not accepted the connection yet.
    Connecting,
    /// The proxy is asked, or TLS begins.
    Handshake,
    /// The connection can be used.
    Open,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::daemon) enum Sent {
    /// The kernel has all of it.
    All,
    /// There is no room for more now.
    Some,
    /// There are more bytes, and other connections have their turn first.
    Paused,
}

/// The result of a read.
#[derive(Debug)]
pub(in crate::daemon) enum Got<'a> {
    /// These bytes; empty if TLS received only bytes for itself.
    Bytes(&'a [u8]),
    /// There is nothing to read for now.
    Nothing,
    /// The peer has closed the connection; with TLS it is clean if the peer sent a goodbye.
    End { is_clean: bool },
}

/// The request to a proxy, and its answer so far.
struct ProxyRequest {
    request: Arc<[u8]>,
    sent: usize,
    /// At most one buffer more than is read of it.
    reply: Vec<u8>,
    /// The TLS session that begins when the proxy has connected.
    tls: Option<TlsSession>,
}

impl ProxyRequest {
    fn new(request: Arc<[u8]>, tls: Option<TlsSession>) -> Self {
        Self {
            request,
            sent: 0,
            reply: Vec::new(),
            tls,
        }
    }
}

/// One connection.
pub(in crate::daemon) struct BackendConnection<O = CallId> {
    /// The socket.
    pub(in crate::daemon) stream: TcpStream,
    tls: Option<Box<TlsSession>>,
    /// The proxy that has not connected yet.
    proxy: Option<Box<ProxyRequest>>,
    is_through_proxy: bool,
    /// How far it is.
    pub(in crate::daemon) phase: ConnectionPhase,
    /// The request that it belongs to; none when it is kept for another one.
    pub(in crate::daemon) owner: Option<O>,
    /// The address that it leads to.
    pub(in crate::daemon) address: SocketAddr,
    /// Since when it is there.
    pub(in crate::daemon) since: Moment,
    /// When the last request on it was answered; none before that.
    pub(in crate::daemon) idle_since: Option<Moment>,
    /// Until then the peer keeps the connection without a request: as it announced, or as is usual.
    pub(in crate::daemon) kept_until: Moment,
    /// Whether it has served a request.
    pub(in crate::daemon) has_served: bool,
    /// The connection waits for its turn.
    pub(in crate::daemon) is_queued: bool,
    may_read: bool,
    may_write: bool,
    /// The peer has closed the connection, and earlier bytes may still be readable.
    is_closing: bool,
    /// TLS has received the peer's goodbye.
    is_ended: bool,
    /// The fault behind the last good bytes of TLS.
    broken: Option<Fault>,
}

impl<O> BackendConnection<O> {
    /// Starts to connect.
    ///
    /// # Errors
    /// The system refuses the connection.
    pub(in crate::daemon) fn start(address: SocketAddr, owner: O, now: Moment) -> io::Result<Self> {
        Ok(Self {
            stream: TcpStream::connect(address)?,
            tls: None,
            proxy: None,
            is_through_proxy: false,
            phase: ConnectionPhase::Connecting,
            owner: Some(owner),
            address,
            since: now,
            idle_since: None,
            kept_until: now,
            has_served: false,
            is_queued: false,
            may_read: false,
            may_write: false,
            is_closing: false,
            is_ended: false,
            broken: None,
        })
    }

    /// Remembers an event of the kernel.
    pub(in crate::daemon) fn is_ready(&mut self, event: &Event) {
        self.is_closing |= event.is_read_closed() || event.is_error();
        self.may_read |= event.is_readable() || self.is_closing;
        self.may_write |= event.is_writable() || event.is_error();
    }

    /// True if there may be bytes to read.
    pub(in crate::daemon) fn may_read(&self) -> bool {
        self.may_read
    }

    /// Makes the next turn look at the connection without an event of the kernel.
    pub(in crate::daemon) fn look_again(&mut self) {
        self.may_read = true;
    }

    /// True if the peer has accepted the connection.
    ///
    /// # Errors
    /// The peer refuses the connection, or cannot be reached.
    pub(in crate::daemon) fn is_connected(&mut self) -> Result<bool, Fault> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error.into());
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                // Without it a small request waits for the answer to the one before.
                self.stream.set_nodelay(true)?;
                self.may_write = true;
                Ok(true)
            }
            Err(error)
                if error.kind() == ErrorKind::NotConnected
                    || error.raw_os_error() == Some(Errno::EINPROGRESS as i32) =>
            {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Begins to use the connection. The requests to the proxy and of TLS go first, if they are
    /// wanted.
    pub(in crate::daemon) fn begin(&mut self, opening: Opening) {
        let Opening { connect, tls } = opening;
        self.phase = if connect.is_some() || tls.is_some() {
            ConnectionPhase::Handshake
        } else {
            ConnectionPhase::Open
        };
        self.is_through_proxy = connect.is_some();
        match connect {
            // Nothing is encrypted for the proxy.
            Some(request) => self.proxy = Some(Box::new(ProxyRequest::new(request, tls))),
            None => self.tls = tls.map(Box::new),
        }
    }

    /// The fault that keeps it from use, if it is more than a silent address.
    pub(in crate::daemon) fn slow_fault(&self) -> Option<Fault> {
        match self.phase {
            ConnectionPhase::Handshake if self.proxy.is_some() => Some(Fault::ProxySilent),
            ConnectionPhase::Handshake if self.is_through_proxy => Some(Fault::NothingThroughProxy),
            ConnectionPhase::Connecting | ConnectionPhase::Handshake | ConnectionPhase::Open => None,
        }
    }

    /// Asks the proxy for a connection, if there is one; true: it is there.
    fn pass_proxy(&mut self, buffers: &mut Buffers) -> Result<bool, Fault> {
        let Some(mut proxy) = self.proxy.take() else {
            return Ok(true);
        };
        if !self.ask_proxy(&mut proxy, buffers).map_err(Fault::at_proxy)? {
            self.proxy = Some(proxy);
            return Ok(false);
        }
        self.tls = proxy.tls.take().map(Box::new);
        Ok(true)
    }

    fn ask_proxy(&mut self, proxy: &mut ProxyRequest, buffers: &mut Buffers) -> Result<bool, Fault> {
        self.send(&proxy.request, &mut proxy.sent)?;
        for _ in 0..STEPS_OF_HANDSHAKE {
            match self.receive(buffers)? {
                Got::Bytes(bytes) => proxy.reply.extend_from_slice(bytes),
                Got::Nothing => return Ok(false),
                Got::End { .. } => return Err(Fault::Closed),
            }
            match connect::read(&proxy.reply) {
                ConnectReply::Incomplete => {}
                ConnectReply::Connected => return Ok(true),
                ConnectReply::Refused(status) => return Err(Fault::ProxyRefused(status)),
                ConnectReply::NotOfProxy => return Err(Fault::NoProxy),
            }
        }
        Ok(false)
    }

    /// One step of the handshake. Returns true if it is complete.
    ///
    /// # Errors
    /// One side does not trust the other, or the connection broke.
    pub(in crate::daemon) fn shake_hands(&mut self, buffers: &mut Buffers) -> Result<bool, Fault> {
        if !self.pass_proxy(buffers)? {
            return Ok(false);
        }
        for _ in 0..STEPS_OF_HANDSHAKE {
            self.flush().map_err(|error| Fault::from(error).in_handshake())?;
            if self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()) {
                self.phase = ConnectionPhase::Open;
                return Ok(true);
            }
            match self.receive(buffers) {
                Ok(Got::Bytes(_)) => {}
                Ok(Got::Nothing) => return Ok(false),
                Ok(Got::End { .. }) => return Err(Fault::ClosedInHandshake),
                Err(fault) => {
                    // An alert that gives the peer the reason may be unsent.
                    let _ = self.flush();
                    return Err(fault.in_handshake());
                }
            }
        }
        Ok(false)
    }

    /// Writes the bytes that TLS has for the socket. Returns true if none are left.
    fn flush(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            Some(tls) if self.may_write => {
                let is_all = tls.flush(&mut self.stream)?;
                self.may_write = is_all;
                Ok(is_all)
            }
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }

    /// Writes on from the byte `sent` of a request.
    ///
    /// # Errors
    /// The connection broke.
    pub(in crate::daemon) fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<Sent, Fault> {
        let limit = sent.saturating_add(WRITTEN_PER_TURN);
        while self.may_write {
            if self.tls.is_some() && !self.flush()? {
                return Ok(Sent::Some);
            }
            let rest = bytes.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Sent::All);
            }
            if *sent >= limit {
                return Ok(Sent::Paused);
            }
            let result = match &mut self.tls {
                Some(tls) => tls.send(rest),
                None => self.stream.write(rest),
            };
            match result {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_write = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Sent::Some)
    }

    /// Reads the available bytes, at most one buffer.
    ///
    /// # Errors
    /// The connection broke.
    pub(in crate::daemon) fn receive<'a>(&mut self, buffers: &'a mut Buffers) -> Result<Got<'a>, Fault> {
        if let Some(fault) = self.broken.take() {
            return Err(fault);
        }
        if self.is_ended {
            return Ok(Got::End { is_clean: true });
        }
        let count = loop {
            if !self.may_read {
                return Ok(Got::Nothing);
            }
            match self.stream.read(&mut buffers.raw) {
                Ok(0) => {
                    return Ok(Got::End {
                        is_clean: self.tls.is_none(),
                    });
                }
                Ok(count) => break count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.may_read = false,
                Err(error) => return Err(error.into()),
            }
        };
        // A buffer that is not full holds all there was; the kernel reports later bytes anew.
        let is_full = count == buffers.raw.len();
        self.may_read = self.is_closing || is_full;
        if is_full {
            // The next read uses a larger buffer: there is more, or such answers are usual.
            buffers.raw.resize(READ_BYTES, 0);
        }
        let raw = buffers.raw.get(..count).unwrap_or_default();
        let Some(tls) = &mut self.tls else {
            return Ok(Got::Bytes(raw));
        };
        buffers.plain.clear();
        buffers.plain.shrink_to(READ_BYTES);
        match tls.receive(raw, &mut buffers.plain) {
            Ok(is_ended) => self.is_ended = is_ended,
            Err(fault) if buffers.plain.is_empty() => return Err(fault),
            // The good bytes count: a FETCH that breaks off is good for the jobs before that point.
            Err(fault) => self.broken = Some(fault),
        }
        self.may_read |= self.is_ended || self.broken.is_some();
        Ok(Got::Bytes(&buffers.plain))
    }

    /// True if the peer sends nothing while there is no request. Such bytes are no answer to the
    /// next request.
    pub(in crate::daemon) fn is_quiet(&mut self, buffers: &mut Buffers) -> bool {
        for _ in 0..MOST_READS_OF_NOTHING {
            match self.receive(buffers) {
                Ok(Got::Nothing) => return true,
                // TLS received bytes for itself only.
                Ok(Got::Bytes([])) => {}
                Ok(Got::Bytes(_) | Got::End { .. }) | Err(_) => return false,
            }
        }
        false
    }

    /// Drops unsent bytes at the close. The kernel would go on sending them for minutes, and a late
    /// FAIL could reach the next reservation of its job.
    pub(in crate::daemon) fn reset_at_close(&self) {
        if let Err(error) = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)) {
            log::debug!("backend: a connection is closed in good order: {error}");
        }
    }

    /// Frees the memory that a large request or answer needed.
    pub(in crate::daemon) fn shrink(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.shrink();
        }
    }
}
