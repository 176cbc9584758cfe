//! The port and the connections: opened, closed and opened again by the gate.

use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::exchange::answer;
use crate::moment::Moment;
use crate::state::{Freeze, Gate, Shared};

/// How often the server checks for due timers if it receives no request.
const TICK: Duration = Duration::from_millis(20);

/// Longest time for an open request when the port is closed.
const CLOSE_PATIENCE: Duration = Duration::from_millis(100);

/// How long a server that leaves waits for open requests: as long as the public backends do.
const LEAVE_PATIENCE: Duration = Duration::from_secs(30);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Retry interval if the port is to be opened again and another process has it.
const REBIND: Duration = Duration::from_millis(20);

/// Serves until the gate is [`Gate::Over`].
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    mut gate_seen: watch::Receiver<Gate>,
) {
    let mut listener = tokio::net::TcpListener::from_std(listener).ok();
    // The port while clients are refused: another server, for example of another test, must not get
    // it.
    let mut kept: Option<TcpSocket> = None;
    let mut tasks = JoinSet::new();
    tasks.spawn(tick(Arc::clone(&shared)));
    loop {
        let now = *gate_seen.borrow_and_update();
        match now {
            Gate::Over => return,
            // The port is closed when the last request has ended.
            Gate::Leaving if listener.is_none() => {
                shared.set_listening(false);
                let _ = gate_seen.changed().await;
            }
            Gate::Leaving => {
                listener = None;
                kept = keep(address);
            }
            Gate::Closed { until } => {
                // The listener still exists if the gate was closed before any client connected.
                if listener.take().is_some() {
                    kept = keep(address);
                }
                shared.set_listening(false);
                let wait = until.map(|until| until.saturating_sub(shared.clock.now()));
                tokio::select! {
                    _ = gate_seen.changed() => {}
                    () = sleep(wait.unwrap_or_default()), if wait.is_some() => {
                        shared.gate.send_if_modified(|gate| std::mem::replace(gate, Gate::Open) == now);
                    }
                }
            }
            Gate::Open => match listener.take() {
                Some(open) => {
                    let mut connections = accept(&shared, &open, &mut gate_seen).await;
                    // The port first: from now on new clients are refused.
                    drop(open);
                    kept = keep(address);
                    let ended = async { while connections.join_next().await.is_some() {} };
                    let patience = match *gate_seen.borrow() {
                        Gate::Leaving => LEAVE_PATIENCE,
                        Gate::Open | Gate::Closed { .. } | Gate::Over => CLOSE_PATIENCE * 2,
                    };
                    // Connections that have not ended by then end with the set.
                    let _ = timeout(patience, ended).await;
                }
                None => match kept.take().map_or_else(|| bind(address), |kept| kept.listen(BACKLOG)) {
                    Ok(bound) => {
                        listener = Some(bound);
                        shared.set_listening(true);
                    }
                    Err(_) => sleep(REBIND).await,
                },
            },
        }
    }
}

fn bind(address: SocketAddr) -> std::io::Result<tokio::net::TcpListener> {
    let bound = TcpListener::bind(address)?;
    bound.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(bound)
}

/// Keeps the port without listening: clients are refused. Without it the port is free for a while,
/// as it was before.
fn keep(address: SocketAddr) -> Option<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.ok()?;
    socket.set_reuseaddr(true).ok()?;
    socket.bind(address).ok()?;
    Some(socket)
}

async fn tick(shared: Arc<Shared>) {
    loop {
        sleep(TICK).await;
        drop(shared.lock());
    }
}

/// Accepts connections until the gate is no longer open, which ends them all; returns those that
/// are ending.
async fn accept(
    shared: &Arc<Shared>,
    listener: &tokio::net::TcpListener,
    gate: &mut watch::Receiver<Gate>,
) -> JoinSet<()> {
    let room = Arc::new(Semaphore::new(
        shared.options.max_connections.min(Semaphore::MAX_PERMITS),
    ));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(shared);
                    let gate = gate.clone();
                    let freeze = shared.freeze.subscribe();
                    connections.spawn(async move {
                        connection(shared, stream, gate, freeze).await;
                        drop(place);
                    });
                }
                // Out of descriptors, most likely: some will be given back.
                Err(_) => sleep(REBIND).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = no_longer_open(gate) => return connections,
        }
    }
}

async fn no_longer_open(gate: &mut watch::Receiver<Gate>) {
    // An error: the server has ended, and with it the port.
    let _ = gate.wait_for(|gate| *gate != Gate::Open).await;
}

async fn connection(
    shared: Arc<Shared>,
    stream: TcpStream,
    mut gate: watch::Receiver<Gate>,
    mut freeze: watch::Receiver<Freeze>,
) {
    // Small answers to small requests: none of them waits for another one.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(&shared, request));
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            biased;
            () = no_longer_open(&mut gate) => {
                connection.as_mut().graceful_shutdown();
                let patience = match *gate.borrow() {
                    Gate::Leaving => LEAVE_PATIENCE,
                    Gate::Open | Gate::Closed { .. } | Gate::Over => CLOSE_PATIENCE,
                };
                let _ = timeout(patience, connection).await;
                return;
            }
            Ok(()) = freeze.changed() => {
                let until = freeze.borrow_and_update().until;
                frozen(&shared, until, &mut gate, &mut freeze).await;
            }
            // A broken connection is the client's fault, or was intended.
            _ = connection.as_mut() => return,
        }
    }
}

/// Waits until the connection may continue, the gate closes, or the freeze changes.
async fn frozen(
    shared: &Shared,
    until: Option<Moment>,
    gate: &mut watch::Receiver<Gate>,
    freeze: &mut watch::Receiver<Freeze>,
) {
    let left = until.map(|until| until.saturating_sub(shared.clock.now()));
    tokio::select! {
        () = sleep(left.unwrap_or_default()), if left.is_some() => {}
        () = no_longer_open(gate) => {}
        // The connection is frozen for another time.
        Ok(()) = freeze.changed() => freeze.mark_changed(),
    }
}
