//! The TCP socket of the gateway.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;
use socket2::{Domain, Socket, Type};

/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// Bytes that the kernel buffers for a client that does not read; the kernel doubles the value for
/// its own use. Without this bound it would buffer megabytes for each, in the container's memory.
const SEND_BUFFER: usize = 128 << 10;

/// The receive buffer of a connection.
const RECEIVE_BUFFER: usize = 128 << 10;

/// Listens at the address. Port 0 means a free port.
///
/// A connection is accepted before any byte was sent on it. `TCP_DEFER_ACCEPT` would spare a
/// wake-up. Without it the owner is known even if it sends an outcome and dies, and that outcome
/// counts.
///
/// # Errors
///
/// The address is in use, or does not exist here.
pub fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Connections of a former life that are being closed do not hold the port.
    socket.set_reuse_address(true)?;
    // Connections have them from the listener.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    // Small answers are not held back for more.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into());
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test without its sockets has failed")]
mod tests {
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use ojs_os::clock;

    fn has_somebody(listener: &TcpListener) -> Option<mio::net::TcpStream> {
        match listener.accept() {
            Ok((accepted, _)) => Some(accepted),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                None
            }
        }
    }

    fn takes(listener: &TcpListener) -> mio::net::TcpStream {
        let latest = clock::monotonic() + Duration::from_secs(30);
        loop {
            if let Some(accepted) = has_somebody(listener) {
                return accepted;
            }
            assert!(clock::monotonic() < latest, "nobody came");
            std::thread::yield_now();
        }
    }

    #[test]
    fn connections_have_what_the_listener_was_given_for_them() {
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let accepted = takes(&listener);
        assert!(accepted.nodelay().unwrap());
        let buffers = socket2::SockRef::from(&accepted);
        assert_eq!(buffers.send_buffer_size().unwrap(), 2 * SEND_BUFFER);
    }
}
