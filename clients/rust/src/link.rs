//! The connection to ojs-init: whole lines in both directions.
//!
//! Handlers write their own frames, so that a frame costs no switch to another thread. A full socket
//! blocks the handlers that have something to send, and therefore at most one frame of each of them
//! waits: progress and checkpoints never pile up. The reader never writes. It queues its pongs, and
//! a thread for that writes them: ojs-init is read even while nothing can be written, so the two
//! programs never wait for each other.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{mem, thread};

/// Capacity above which the reader frees its line buffer, in bytes.
const KEPT_BYTES: usize = 1 << 20;

pub(crate) struct Link {
    queue: Mutex<Vec<u8>>,
    socket: Mutex<UnixStream>,
    flusher: Sender<()>,
    /// The longest frame that ojs-init takes, in bytes without the line break.
    pub(crate) max_frame: AtomicUsize,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Arc<Link>> {
        let (flusher, wanted) = mpsc::channel();
        let (queue, socket, max_frame) = (Mutex::default(), Mutex::new(socket), AtomicUsize::new(usize::MAX));
        let link = Arc::new(Link { queue, socket, flusher, max_frame });
        let weak = Arc::downgrade(&link);
        spawn("ojs-flusher", move || wanted.iter().for_each(|()| drop(weak.upgrade().map(|link| link.flush()))))?;
        Ok(link)
    }

    /// Queues a whole line. The next `flush` writes it, in the order of the queue.
    pub(crate) fn push(&self, line: Vec<u8>) {
        lock(&self.queue).extend(line);
    }

    /// Returns when the kernel has all lines that were queued before: this thread wrote them, or
    /// another one did while this one waited for the socket.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut socket = lock(&self.socket);
        let lines = mem::take(&mut *lock(&self.queue));
        socket.write_all(&lines)
    }

    /// Queues a line and never waits for the socket, for threads that must not block.
    pub(crate) fn send_later(&self, line: Vec<u8>) {
        self.push(line);
        let _ = self.flusher.send(());
    }
}

/// Calls `found` with each line until the stream ends. What follows the last line break is no frame.
pub(crate) fn read_lines(socket: UnixStream, mut found: impl FnMut(&[u8])) {
    let mut reader = BufReader::with_capacity(64 * 1024, socket);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
        found(&line);
        line.clear();
        line.shrink_to(KEPT_BYTES);
    }
}
