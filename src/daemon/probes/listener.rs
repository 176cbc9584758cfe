//! The TCP socket of the health endpoints: its address, and the result if it cannot listen.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use log::{info, warn};
use mio::net::TcpListener;
use socket2::{Domain, Socket, Type};

use crate::config::{Config, Listen, keys};
use crate::daemon::start::StartFailure;
use ojs_os::clock;
use ojs_values::exit::Exit;

/// Bytes of a response that the kernel buffers for each connection; the kernel doubles the value
/// for its own use. Without this bound it would buffer megabytes of metrics for a client that does
/// not read, in the container's memory.
const SEND_BUFFER: usize = 32 << 10;

/// The port that an orchestrator probes by default (GS 8.1).
const DEFAULT_PORT: u16 = 8081;

/// Connections that may wait to be accepted; the kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// How long an address may be in use at the start. An ojs-init that is still stopping has the
/// address until its end, and the next one need not fail.
const IN_USE_LIMIT: Duration = Duration::from_secs(1);

/// Between two attempts to have an address that is in use.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Listens at the configured address. A failure at the default address is no error: the operator
/// did not ask for it, and another container of the pod may have the port.
///
/// # Errors
///
/// A configured address is in use, or does not exist here: an error of the configuration.
pub fn listen(config: &Config) -> Result<Option<TcpListener>, StartFailure> {
    let Some(address) = address(config) else {
        return Ok(None);
    };
    let patience = if config.health.listen.is_some() {
        IN_USE_LIMIT
    } else {
        Duration::ZERO
    };
    match patient(address, patience).and_then(|listener| listener.local_addr().map(|address| (listener, address))) {
        Ok((listener, address)) => {
            info!("listening for probes on {address}");
            Ok(Some(listener))
        }
        Err(error) if config.health.listen.is_none() => {
            warn!(
                "there are no health endpoints: cannot listen on {address}: {error}; set health.listen \
                 (OJS_HEALTH_LISTEN) to another address, or to off"
            );
            Ok(None)
        }
        Err(error) => {
            let setting = config.settings.describe(&keys::LISTEN);
            let message = format!(
                "{setting}: cannot listen there: {error}; set another address, port 0 for any free one, or off"
            );
            Err(StartFailure::new(Exit::Usage, message))
        }
    }
}

fn patient(address: SocketAddr, patience: Duration) -> io::Result<TcpListener> {
    let give_up = clock::monotonic().saturating_add(patience);
    loop {
        match listener(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && clock::monotonic() < give_up => {
                clock::pause_until(clock::monotonic().saturating_add(TRY_AGAIN_AFTER));
            }
            result => return result,
        }
    }
}

/// Why ojs-init cannot listen at the configured address; `None` if it can, or need not.
pub(in crate::daemon) fn trouble(config: &Config) -> Option<io::Error> {
    address(config).and_then(|address| listener(address).err())
}

fn address(config: &Config) -> Option<SocketAddr> {
    match config.health.listen {
        Some(Listen::Off) => None,
        Some(Listen::At(address)) => Some(address),
        None => Some(SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT))),
    }
}

/// Listens at the address. Without IPv6, `[::]` means every address of IPv4.
fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let is_every = address.ip() == Ipv6Addr::UNSPECIFIED;
    match socket(address) {
        Err(error) if is_every && error.kind() != ErrorKind::AddrInUse => {
            let every_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            socket(every_v4).map_err(|_| error)
        }
        result => result,
    }
}

fn socket(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Connections of a former life that are being closed do not hold the port.
    socket.set_reuse_address(true)?;
    // Connections have it from the listener.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}
