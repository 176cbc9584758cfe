//! HTTP/1.1: connections, and what happens to a request on its way to its answer.

mod admin;
mod away;
mod dev;
mod jobs;
mod reply;
mod request;
mod routes;
mod workers;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::events::{Event, MAX_EVENT_JOBS, millis};
use crate::faults::Fault;
use crate::operation::Operation;
use crate::server::Shared;
use crate::store::job::Moment;
use reply::{About, Reply, ReplyBody};
use request::Request;

/// Most connections at once; more wait in the kernel.
const MAX_CONNECTIONS: usize = 1024;

/// How often is looked whether something is due when nobody asks for anything.
const TICK: Duration = Duration::from_millis(20);

/// How long a request that is being answered may take when the port is closed.
const CLOSE_PATIENCE: Duration = Duration::from_millis(100);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How often the port is asked for when it is to be opened again and somebody else has it.
const REBIND: Duration = Duration::from_millis(20);

/// A fresh id of a job.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Whether somebody can connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Yes.
    Open,
    /// No, until then.
    Closed {
        /// `None`: until somebody says otherwise.
        until: Option<Moment>,
    },
    /// Never again.
    Over,
}

/// What every connection has.
struct Context {
    shared: Arc<Shared>,
    gate: watch::Sender<Gate>,
}

/// Serves until the gate is over.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    gate: watch::Sender<Gate>,
    mut gate_seen: watch::Receiver<Gate>,
) {
    let context = Arc::new(Context {
        shared: Arc::clone(&shared),
        gate,
    });
    let mut listener = tokio::net::TcpListener::from_std(listener).ok();
    // The port while nobody is let in: another server, of another test say, must not be given it.
    let mut held: Option<TcpSocket> = None;
    let mut tasks = JoinSet::new();
    tasks.spawn(tick(Arc::clone(&shared)));
    loop {
        let now = *gate_seen.borrow_and_update();
        match now {
            Gate::Over => return,
            Gate::Closed { until } => {
                // It is still there when the gate was closed before anybody was let in.
                if listener.take().is_some() {
                    held = hold(address);
                }
                shared.set_listening(false);
                let wait = until.map(|until| until.saturating_sub(shared.clock.now()));
                tokio::select! {
                    _ = gate_seen.changed() => {}
                    () = sleep(wait.unwrap_or_default()), if wait.is_some() => {
                        context.gate.send_if_modified(|gate| std::mem::replace(gate, Gate::Open) == now);
                    }
                }
            }
            Gate::Open => match listener.take() {
                Some(open) => {
                    let mut connections = accept(&context, &open, &mut gate_seen).await;
                    // The port first: whoever comes from here on is refused.
                    drop(open);
                    held = hold(address);
                    let ended = async { while connections.join_next().await.is_some() {} };
                    // Those that have not ended by then end with the set.
                    let _ = timeout(CLOSE_PATIENCE * 2, ended).await;
                }
                None => match held.take().map_or_else(|| bind(address), |held| held.listen(BACKLOG)) {
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

/// Keeps the port without listening: who connects is refused. Without that it is free for a while, which is how it was.
fn hold(address: SocketAddr) -> Option<TcpSocket> {
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

/// Takes connections until the gate is no longer open, which ends them all; gives those that are ending.
async fn accept(
    context: &Arc<Context>,
    listener: &tokio::net::TcpListener,
    gate: &mut watch::Receiver<Gate>,
) -> JoinSet<()> {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            (place, accepted) = next => match accepted {
                Ok((stream, _)) => {
                    let context = Arc::clone(context);
                    let gate = gate.clone();
                    connections.spawn(async move {
                        connection(context, stream, gate).await;
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
    // An error: the server is gone, and with it the port.
    let _ = gate.wait_for(|gate| *gate != Gate::Open).await;
}

async fn connection(context: Arc<Context>, stream: TcpStream, mut gate: watch::Receiver<Gate>) {
    // Small answers to small requests: none of them waits for another one.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(&context, request));
    let mut connection = pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // One that breaks is the other side's business, or was meant to.
        _ = connection.as_mut() => {}
        () = no_longer_open(&mut gate) => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(CLOSE_PATIENCE, connection).await;
        }
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug)]
struct Unanswered;

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fault: no answer")
    }
}

impl std::error::Error for Unanswered {}

async fn answer(
    context: &Arc<Context>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<ReplyBody>, Unanswered> {
    let shared = &context.shared;
    let (request, body) = match Request::read(request, shared.clock.now()).await {
        Ok(read) => read,
        Err((request, reply)) => return Ok(finish(shared, &request, &[], reply, None).into_response(&request.id)),
    };
    let fault = if request.operation == Operation::Dev {
        None
    } else {
        shared.take_fault(request.operation, &body)
    };
    let name = fault.as_ref().map(Fault::name);
    let route = || finish(shared, &request, &body, routes::route(context, &request, &body), name);
    match fault {
        Some(Fault::Hang) => {
            unanswered(shared, &request, &body, name);
            let never: Infallible = std::future::pending().await;
            match never {}
        }
        Some(Fault::Close) => {
            unanswered(shared, &request, &body, name);
            Err(Unanswered)
        }
        Some(Fault::Status { status, retry_after }) => {
            let reply = Reply::fault(status, retry_after.as_deref());
            Ok(finish(shared, &request, &body, reply, name).into_response(&request.id))
        }
        Some(Fault::Delay(delay)) => {
            // Whoever leaves meanwhile drops this future, and the request is not carried out.
            let mut left = Left(Some(|| unanswered(shared, &request, &body, name)));
            sleep(delay).await;
            left.0 = None;
            Ok(route().into_response(&request.id))
        }
        Some(Fault::LoseReply) => {
            route();
            Err(Unanswered)
        }
        Some(Fault::LateReply(delay)) => {
            let reply = routes::route(context, &request, &body);
            let about = reply.about.clone();
            let mut left = Left(Some(|| shared.note(event(&request, about.clone(), name))));
            sleep(delay).await;
            left.0 = None;
            Ok(finish(shared, &request, &body, reply, name).into_response(&request.id))
        }
        Some(Fault::Truncate) => Ok(route().into_half_response(&request.id)),
        Some(Fault::StoreAway { backend, delay }) => {
            let mut left = Left(Some(|| unanswered(shared, &request, &body, name)));
            sleep(away::delay(&request, delay)).await;
            left.0 = None;
            let reply = away::answer(context, &request, &body, backend);
            Ok(finish(shared, &request, &body, reply, name).into_response(&request.id))
        }
        Some(fault @ (Fault::Page | Fault::Redirect(_) | Fault::Limit { .. } | Fault::Overtaken { .. })) => {
            let reply = instead(context, &request, &body, &fault);
            Ok(finish(shared, &request, &body, reply, name).into_response(&request.id))
        }
        None => Ok(route().into_response(&request.id)),
    }
}

/// The answer of a fault that gives one at once.
fn instead(context: &Arc<Context>, request: &Request, body: &[u8], fault: &Fault) -> Reply {
    match fault {
        Fault::Page => Reply::page(200, None),
        Fault::Redirect(status) => Reply::page(*status, Some("/login")),
        Fault::Limit { bytes, status } => away::too_large(*bytes, *status),
        Fault::Overtaken { tells_state } => workers::overtaken(context, request, body, *tells_state),
        Fault::Hang
        | Fault::Close
        | Fault::Delay(_)
        | Fault::Status { .. }
        | Fault::LoseReply
        | Fault::LateReply(_)
        | Fault::Truncate
        | Fault::StoreAway { .. } => routes::route(context, request, body),
    }
}

/// What is done when this is dropped, unless it was taken out before.
struct Left<F: FnMut()>(Option<F>);

impl<F: FnMut()> Drop for Left<F> {
    fn drop(&mut self) {
        if let Some(mut note) = self.0.take() {
            note();
        }
    }
}

/// An event of a request.
fn event(request: &Request, about: About, fault: Option<&'static str>) -> Event {
    Event {
        arrived_ms: Some(millis(request.arrived)),
        request: request.line(),
        worker: about.worker,
        more_jobs: about.jobs.len().saturating_sub(MAX_EVENT_JOBS),
        jobs: about.jobs.into_iter().take(MAX_EVENT_JOBS).collect(),
        state: about.state,
        fault,
        ..Event::new(request.operation.name())
    }
}

/// Notes a request that gets no answer.
fn unanswered(shared: &Shared, request: &Request, body: &[u8], fault: Option<&'static str>) {
    shared.note(event(request, request.about(body), fault));
}

/// Notes a request and its answer.
fn finish(shared: &Shared, request: &Request, body: &[u8], mut reply: Reply, fault: Option<&'static str>) -> Reply {
    // Who looks at the events would otherwise see mostly himself.
    if request.operation != Operation::Dev {
        let mut about = std::mem::take(&mut reply.about);
        if about == About::default() {
            about = request.about(body);
        }
        shared.note(Event {
            status: Some(reply.status),
            ..event(request, about, fault)
        });
    }
    reply
}
