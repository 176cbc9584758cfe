//! The reader of another library: hyper, which is the development server's HTTP.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

/// A request as hyper passes it to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRequest {
    pub method: String,
    pub target: String,
    /// Names in lower case and values, sorted.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: SeenBody,
}

/// How much hyper has of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenBody {
    Waits,
    Bad,
    Whole(Vec<u8>),
}

/// The requests that hyper reads from a connection.
#[derive(Debug)]
pub struct Seen {
    pub requests: Vec<SeenRequest>,
    /// Whether hyper waits for more bytes.
    pub waits: bool,
}

/// A connection that has these bytes, and then no more for now.
struct Connection<'d>(&'d [u8]);

impl hyper::rt::Read for Connection<'_> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut to: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        let (now, later) = connection.0.split_at(connection.0.len().min(to.remaining()));
        connection.0 = later;
        if now.is_empty() {
            return Poll::Pending;
        }
        to.put_slice(now);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Connection<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Notes that it was woken.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The requests that a server on hyper reads, with the settings of the development server.
pub fn requests(data: &[u8]) -> Seen {
    let seen: RefCell<Vec<SeenRequest>> = RefCell::default();
    let service = service_fn(|request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or_else(String::new, ToString::to_string);
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec()));
        let mut headers: Vec<_> = headers.collect();
        headers.sort();
        seen.borrow_mut().push(SeenRequest {
            method: head.method.to_string(),
            target,
            headers,
            body: SeenBody::Waits,
        });
        let seen = &seen;
        async move {
            let body = match body.collect().await {
                Ok(body) => SeenBody::Whole(body.to_bytes().to_vec()),
                Err(_) => SeenBody::Bad,
            };
            if let Some(request) = seen.borrow_mut().last_mut() {
                request.body = body;
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut waits = true;
    {
        let mut connection = pin!(http1::Builder::new().serve_connection(Connection(data), service));
        while waits && flag.0.swap(false, Ordering::Relaxed) {
            waits = connection.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        }
    }
    Seen {
        requests: seen.into_inner(),
        waits,
    }
}
