//! A connection to the backend, with TLS where its URL says https.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector, Transport, TransportAdapter,
};

/// Most bytes of all that comes before the body of an answer, interim answers (100 to 199) included: what makes each of
/// them ends nowhere, and each costs time. A head has 32 KiB at most, and is read with as much of its body.
const MOST_HEAD_BYTES: usize = 128 << 10;

/// How far the request at hand is, which one lane carries out at a time.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Course {
    wanted_connection: AtomicBool,
    got_connection: AtomicBool,
    is_in_head: AtomicBool,
    head_bytes: AtomicUsize,
}

impl Course {
    /// A request goes out.
    pub(in crate::daemon) fn begin(&self) {
        self.wanted_connection.store(false, Ordering::Relaxed);
        self.got_connection.store(false, Ordering::Relaxed);
        self.head_bytes.store(0, Ordering::Relaxed);
        self.is_in_head.store(true, Ordering::Relaxed);
    }

    /// The head of its answer is there.
    pub(in crate::daemon) fn has_head(&self) {
        self.is_in_head.store(false, Ordering::Relaxed);
    }

    /// Whether it has, or wanted, a connection of its own.
    pub(in crate::daemon) fn is_on_new_connection(&self) -> bool {
        self.wanted_connection.load(Ordering::Relaxed)
    }

    /// Whether it had no connection that it could have been sent on.
    pub(in crate::daemon) fn has_no_connection(&self) -> bool {
        self.is_on_new_connection() && !self.got_connection.load(Ordering::Relaxed)
    }

    /// Counts bytes that came in.
    fn received(&self, count: usize) -> Result<(), Error> {
        if !self.is_in_head.load(Ordering::Relaxed) {
            return Ok(());
        }
        let before = self.head_bytes.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > MOST_HEAD_BYTES {
            return Err(Error::Io(io::Error::other(EndlessHead)));
        }
        Ok(())
    }
}

/// An answer whose head does not end, `100 Continue` upon `100 Continue` for example.
#[derive(Debug)]
pub(in crate::daemon) struct EndlessHead;

impl fmt::Display for EndlessHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its answer does not begin: interim answers (status 100 to 199) and headers without an end")
    }
}

impl std::error::Error for EndlessHead {}

/// Makes connections, with TLS where that is wanted.
#[derive(Debug)]
pub(in crate::daemon) struct Connect {
    tcp: TcpConnector,
    tls: Option<Arc<ClientConfig>>,
    course: Arc<Course>,
}

impl Connect {
    /// `tls`: what https needs; none where the backend's URL is http.
    pub(in crate::daemon) fn new(tls: Option<Arc<ClientConfig>>, course: Arc<Course>) -> Self {
        Self {
            tcp: TcpConnector::default(),
            tls,
            course,
        }
    }
}

impl Connector<()> for Connect {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<()>) -> Result<Option<Self::Out>, Error> {
        self.course.wanted_connection.store(true, Ordering::Relaxed);
        let Some(tcp) = self.tcp.connect(details, chained)? else {
            return Ok(None);
        };
        let inner = match &self.tls {
            Some(config) if details.needs_tls() => handshake(Arc::clone(config), details, tcp.boxed())?,
            Some(_) | None => tcp.boxed(),
        };
        self.course.got_connection.store(true, Ordering::Relaxed);
        Ok(Some(Box::new(Metered {
            inner,
            course: Arc::clone(&self.course),
        })))
    }
}

fn handshake(
    config: Arc<ClientConfig>,
    details: &ConnectionDetails<'_>,
    below: Box<dyn Transport>,
) -> Result<Box<dyn Transport>, Error> {
    let host = details.uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut below = TransportAdapter::new(below, Arc::clone(&details.current_time));
    below.set_timeout(details.timeout);
    tls.complete_io(&mut below).map_err(in_handshake)?;
    let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
    Ok(Box::new(Tls {
        buffers,
        stream: StreamOwned::new(tls, below),
    }))
}

/// The connection was closed before there was TLS on it.
#[derive(Debug)]
pub(in crate::daemon) struct ClosedInHandshake;

impl fmt::Display for ClosedInHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the connection was closed in the TLS handshake; check the port of backend.url, and whether what listens there \
             speaks TLS",
        )
    }
}

impl std::error::Error for ClosedInHandshake {}

fn in_handshake(error: io::Error) -> io::Error {
    let is_of_tls = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    let is_closed = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    );
    if is_closed && !is_of_tls {
        return io::Error::new(error.kind(), ClosedInHandshake);
    }
    error
}

/// A connection that counts what comes before the body of an answer.
#[derive(Debug)]
struct Metered {
    inner: Box<dyn Transport>,
    course: Arc<Course>,
}

impl Transport for Metered {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let before = self.inner.buffers().input().len();
        let has_more = self.inner.await_input(timeout)?;
        let after = self.inner.buffers().input().len();
        self.course.received(after.saturating_sub(before))?;
        Ok(has_more)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// A connection with TLS.
struct Tls {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Transport for Tls {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
