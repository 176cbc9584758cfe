//! The connection to ojs-init: whole lines in both directions.
//!
//! Handlers write their own frames, so that a frame costs no switch to another thread. A full socket
//! blocks the handlers that have something to send, and therefore at most one frame of each of them
//! waits: progress and checkpoints never pile up. The reader never writes. Its pongs are queued, and
//! a thread of their own writes them, so ojs-init is read even while nothing can be written, and the
//! two programs cannot wait for each other.

use std::io::{self, BufRead, BufReader, Write};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

/// Capacity above which the reader frees its line buffer.
const KEPT_BYTES: usize = 1 << 20;

pub(crate) struct Link {
    queue: Mutex<Vec<u8>>,
    socket: Mutex<UnixStream>,
    flusher: OnceLock<Thread>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(body)
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Arc<Link>> {
        let link = Arc::new(Link { queue: Mutex::default(), socket: Mutex::new(socket), flusher: OnceLock::new() });
        let flushed = Arc::downgrade(&link);
        let flusher = spawn("ojs-flusher", move || {
            while let Some(link) = flushed.upgrade() {
                // A broken connection is the reader's to notice.
                let _ = link.flush();
                drop(link);
                thread::park();
            }
        })?;
        let _first = link.flusher.set(flusher.thread().clone());
        Ok(link)
    }

    /// Queues a whole line. It is written by the next `flush`, in the order of the queue.
    pub(crate) fn push(&self, line: Vec<u8>) {
        let mut queue = lock(&self.queue);
        if queue.is_empty() {
            *queue = line;
        } else {
            queue.extend(line);
        }
    }

    /// Returns when the kernel has everything that was queued before: either this thread writes it,
    /// or another one did while this one waited for the socket.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut socket = lock(&self.socket);
        let lines = mem::take(&mut *lock(&self.queue));
        socket.write_all(&lines)
    }

    /// Queues a line without ever waiting for the socket: for the threads that read and that take
    /// signals.
    pub(crate) fn push_from_reader(&self, line: Vec<u8>) {
        self.push(line);
        self.wake();
    }

    fn wake(&self) {
        if let Some(flusher) = self.flusher.get() {
            flusher.unpark();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Calls `found` with each line until the stream ends. What follows the last line break is no frame.
pub(crate) fn read_lines(socket: UnixStream, mut found: impl FnMut(&[u8])) {
    let mut reader = BufReader::with_capacity(64 * 1024, socket);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok() && line.ends_with(b"\n") {
        found(&line);
        line.clear();
        if line.capacity() > KEPT_BYTES {
            line = Vec::new();
        }
    }
}
