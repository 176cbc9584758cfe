//! What is to be written. Any thread may send; frames never mix. A frame goes out at once by a write that does not wait;
//! only what the socket has no room for is left to the thread that waits.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::bell::Bell;
use crate::error::SayError;

/// How long a frame may wait for ojs-init to read.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many frames may wait; no ojs-init that works asks for so many.
const MOST_WAITING: usize = 100_000;
/// How many bytes are given to the kernel at once, one longer frame apart.
const WRITE_BUDGET: usize = 256 * 1024;
/// How long a writing takes when the socket is full, and how many frames wait then.
const FULL_AFTER: Duration = Duration::from_millis(20);
const FULL_FROM: usize = 64;

/// A frame that waits or waited: frames are numbered as they are queued, and go out in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(Option<u64>);

pub(crate) struct Outbox {
    socket: UnixStream,
    waiting: Mutex<Waiting>,
    filled: Condvar,
    written: Condvar,
    bell: Arc<Bell>,
    /// A test of a handler sees all that is said, however slowly it reads.
    keeps_all: bool,
}

#[derive(Default)]
struct Waiting {
    /// The rest of a frame of which a part is written.
    head: Option<Vec<u8>>,
    /// Before all others.
    urgent: VecDeque<Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    /// The number of the next frame, and of the first one that is not written.
    next: u64,
    finished: u64,
    /// Since when something waits for room in the socket.
    stuck_since: Option<Instant>,
    is_writing: bool,
    failure: Option<SayError>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.head.is_none() && self.urgent.is_empty() && self.queue.is_empty()
    }

    /// The place of a frame in the queue, if nothing of it was written.
    fn at(&self, ticket: Ticket) -> Option<usize> {
        let first = self.next - self.queue.len() as u64;
        ticket.0?.checked_sub(first).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < self.queue.len())
    }
}

impl Outbox {
    pub(crate) fn new(socket: UnixStream, bell: Arc<Bell>, keeps_all: bool) -> Outbox {
        let (waiting, filled, written) = <(Mutex<Waiting>, Condvar, Condvar)>::default();
        Outbox { socket, waiting, filled, written, bell, keeps_all }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame, an urgent one before all others that wait.
    pub(crate) fn send(&self, frame: Vec<u8>, is_urgent: bool) -> Result<Ticket, SayError> {
        let mut waiting = self.lock();
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.queue.len() + waiting.urgent.len() >= MOST_WAITING {
            self.fail(&mut waiting, SayError::Stalled);
            return Err(SayError::Stalled);
        }
        let is_free = !waiting.is_writing && waiting.is_empty();
        if !is_free {
            if is_urgent {
                waiting.urgent.push_back(frame);
                self.filled.notify_one();
                return Ok(Ticket(None));
            }
            waiting.queue.push_back(frame);
        } else {
            match SockRef::from(&self.socket).send_with_flags(&frame, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
                Ok(size) if size == frame.len() => return Ok(Ticket(None)),
                Ok(size) => waiting.head = Some(frame[size..].to_vec()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    waiting.head = Some(frame);
                }
                Err(_) => {
                    self.fail(&mut waiting, SayError::ConnectionLost);
                    return Err(SayError::ConnectionLost);
                }
            }
            waiting.stuck_since = Some(Instant::now());
        }
        waiting.next += 1;
        self.filled.notify_one();
        Ok(Ticket(Some(waiting.next - 1)))
    }

    /// Gives a frame another text when it still waits because the other end reads too slowly; else it is false.
    pub(crate) fn replace(&self, ticket: Ticket, frame: Vec<u8>) -> bool {
        let mut waiting = self.lock();
        let is_full =
            waiting.stuck_since.is_some_and(|since| since.elapsed() >= FULL_AFTER) || waiting.queue.len() >= FULL_FROM;
        let Some(at) = waiting.at(ticket).filter(|_| is_full && !self.keeps_all) else { return false };
        waiting.queue[at] = frame;
        true
    }

    /// Takes a frame back that waits because the other end reads too slowly.
    pub(crate) fn drop_waiting(&self, ticket: Ticket) {
        self.replace(ticket, Vec::new());
    }

    /// Waits until a frame is given to the kernel. One of which nothing was written for that long is taken back.
    pub(crate) fn wait_written(&self, ticket: Ticket) -> Result<(), SayError> {
        let Some(number) = ticket.0 else { return Ok(()) };
        let deadline = Instant::now() + WRITE_TIMEOUT;
        let mut waiting = self.lock();
        while waiting.finished <= number {
            if waiting.failure.is_some() {
                return Err(SayError::ConnectionLost);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if let Some(at) = waiting.at(ticket) {
                    waiting.queue[at] = Vec::new();
                    return Err(SayError::Stalled);
                }
            }
            // What is half written already is waited for: the connection moves, or ends.
            let left = left.max(Duration::from_millis(100));
            waiting = self.written.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Why nothing more is written.
    pub(crate) fn failure(&self) -> Option<SayError> {
        self.lock().failure.clone()
    }

    pub(crate) fn is_flushed(&self) -> bool {
        let waiting = self.lock();
        !waiting.is_writing && waiting.is_empty()
    }

    fn fail(&self, waiting: &mut Waiting, failure: SayError) {
        if waiting.failure.is_some() {
            return;
        }
        *waiting =
            Waiting { failure: Some(failure), next: waiting.next, finished: waiting.finished, ..Waiting::default() };
        self.filled.notify_all();
        self.written.notify_all();
        self.bell.ring();
    }

    /// Lets [`run`](Outbox::run) return; what waits is thrown away.
    pub(crate) fn close(&self) {
        self.fail(&mut self.lock(), SayError::ConnectionLost);
    }

    /// Writes what the socket had no room for, until it fails or is closed.
    pub(crate) fn run(&self) {
        while let Some((batch, count)) = self.take() {
            let result = (&self.socket).write_all(&batch);
            let mut waiting = self.lock();
            waiting.is_writing = false;
            match result {
                Ok(()) => waiting.finished += count,
                Err(_) => self.fail(&mut waiting, SayError::ConnectionLost),
            }
            if waiting.is_empty() {
                waiting.stuck_since = None;
            }
            let is_idle = waiting.is_empty();
            drop(waiting);
            self.written.notify_all();
            if is_idle {
                self.bell.ring();
            }
        }
    }

    /// As much as goes out at once, and how many numbered frames that are; nothing at the end.
    fn take(&self) -> Option<(Vec<u8>, u64)> {
        let mut waiting = self.lock();
        while waiting.is_empty() && waiting.failure.is_none() {
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.failure.is_some() {
            return None;
        }
        let mut count = 0;
        let mut batch = waiting.head.take().inspect(|_| count += 1).unwrap_or_default();
        while batch.len() < WRITE_BUDGET {
            let Some(frame) = waiting.urgent.pop_front() else { break };
            batch.extend_from_slice(&frame);
        }
        while batch.len() < WRITE_BUDGET {
            let Some(frame) = waiting.queue.pop_front() else { break };
            batch.extend_from_slice(&frame);
            count += 1;
        }
        waiting.is_writing = true;
        waiting.stuck_since = Some(Instant::now());
        Some((batch, count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;

    fn full() -> (Arc<Outbox>, UnixStream, Vec<Ticket>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let out = Arc::new(Outbox::new(ours, Arc::new(Bell::default()), false));
        let mut tickets = Vec::new();
        while out.is_flushed() {
            out.send(vec![b'x'; 10_000], false).unwrap();
        }
        for _ in 0..FULL_FROM {
            tickets.push(out.send(b"old\n".to_vec(), false).unwrap());
        }
        (out, theirs, tickets)
    }

    #[test]
    fn a_frame_that_waits_for_a_slow_reader_is_replaced_and_pongs_overtake_it() {
        let (out, mut theirs, tickets) = full();
        assert!(out.replace(tickets[3], b"new\n".to_vec()));
        out.send(b"pong\n".to_vec(), true).unwrap();
        let writer = Arc::clone(&out);
        thread::spawn(move || writer.run());
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            String::from_utf8(all).unwrap()
        });
        out.wait_written(tickets[FULL_FROM - 1]).unwrap();
        assert!(!out.replace(tickets[3], b"late\n".to_vec()), "it is written already");
        out.close();
        out.socket.shutdown(std::net::Shutdown::Both).unwrap();
        let all = reader.join().unwrap();
        let frames = all.trim_start_matches('x');
        assert!(frames.starts_with("pong\nold\nold\nold\nnew\nold\n"), "{frames}");
    }

    #[test]
    fn what_waits_when_the_connection_ends_is_told_so() {
        let (out, theirs, tickets) = full();
        drop(theirs);
        let writer = Arc::clone(&out);
        thread::spawn(move || writer.run());
        assert_eq!(out.wait_written(tickets[0]), Err(SayError::ConnectionLost));
        assert_eq!(out.send(b"more\n".to_vec(), false), Err(SayError::ConnectionLost));
    }
}
