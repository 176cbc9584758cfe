//! TLS on one connection: between the bytes of the socket and those of HTTP. rustls does it; its
//! buffers are bounded.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::daemon::backend::fault::Fault;

/// One session.
pub(in crate::daemon) struct TlsSession {
    session: ClientConnection,
    /// Bytes that the socket has not accepted yet: at most what rustls buffers.
    outgoing: Vec<u8>,
    /// Written bytes of them.
    written: usize,
}

impl TlsSession {
    /// A session with this host that has not begun.
    ///
    /// # Errors
    /// The host can have no certificate, or rustls fails.
    pub(in crate::daemon) fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self, Fault> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            session: ClientConnection::new(config, name).map_err(Fault::Tls)?,
            outgoing: Vec::new(),
            written: 0,
        })
    }

    /// True until both sides trust each other.
    pub(in crate::daemon) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Decrypts bytes of the socket into `plain`. Returns true if the peer has sent its goodbye.
    ///
    /// # Errors
    /// TLS refuses the bytes. An alert for the peer waits to be written.
    pub(in crate::daemon) fn receive(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<bool, Fault> {
        while !bytes.is_empty() {
            // Bytes behind a goodbye are not read.
            if self.session.read_tls(&mut bytes)? == 0 {
                return Ok(true);
            }
            // The bytes before a record that TLS refuses count: they may be the end of an answer.
            let processed = self.session.process_new_packets();
            match self.session.reader().read_to_end(plain) {
                Ok(_) => return processed.map(|_| true).map_err(Fault::Tls),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            processed.map_err(Fault::Tls)?;
        }
        Ok(false)
    }

    /// Buffers as many of the bytes as there is room for, and returns their number.
    ///
    /// # Errors
    /// rustls fails.
    pub(in crate::daemon) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.session.writer().write(bytes)
    }

    /// Writes the bytes that wait for the socket. Returns true if none are left.
    ///
    /// # Errors
    /// The connection broke.
    pub(in crate::daemon) fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        loop {
            if self.written == self.outgoing.len() {
                self.outgoing.clear();
                self.written = 0;
                if !self.session.wants_write() {
                    return Ok(true);
                }
                // All records at once, so that a small request is one call.
                self.session.write_tls(&mut self.outgoing)?;
            }
            match socket.write(self.outgoing.get(self.written..).unwrap_or_default()) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Frees the memory that a large request or answer needed.
    pub(in crate::daemon) fn shrink(&mut self) {
        self.outgoing = Vec::new();
        self.written = 0;
    }
}
