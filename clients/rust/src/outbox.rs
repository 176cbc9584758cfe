//! What is to be written. Any thread may send; frames never mix. One thread at a time has the turn
//! to write: who queues a frame while nobody has it writes all that waits, by writes that do not
//! wait, and others go on meanwhile. What the socket has no room for is left to the thread that
//! waits.

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
/// How often a thread writes before it leaves what others have queued meanwhile to the thread that
/// waits.
const MOST_WRITES: usize = 8;
/// How long a writing takes when the socket is full, and how many frames wait then.
const FULL_AFTER: Duration = Duration::from_millis(20);
const FULL_FROM: usize = 64;

/// A frame that waits or waited: frames are numbered as they are queued, and go out in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(Option<u64>);

/// Who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Nobody: nothing waits.
    #[default]
    Free,
    /// A thread that has queued a frame.
    Sender,
    /// The thread that waits for room in the socket.
    Writer,
}

/// A frame is queued. Who has it calls [`Outbox::write`] if it has the turn.
#[must_use = "nobody else writes while this has the turn"]
#[derive(Debug)]
pub(crate) struct Queued {
    ticket: Ticket,
    has_turn: bool,
}

pub(crate) struct Outbox {
    socket: UnixStream,
    waiting: Mutex<Waiting>,
    filled: Condvar,
    written: Condvar,
    bell: Arc<Bell>,
    /// A test of a handler sees all that is said, however slowly it reads.
    keeps_all: bool,
    /// How long who waits for a frame waits: [`WRITE_TIMEOUT`], but for our own tests.
    pub(crate) patience: Duration,
}

#[derive(Default)]
struct Waiting {
    /// What is left of frames of which a part is written, and how many numbered ones those are.
    head: Option<(Vec<u8>, u64)>,
    /// Before all others.
    urgent: VecDeque<Vec<u8>>,
    queue: VecDeque<Vec<u8>>,
    /// The number of the next frame, and of the first one that is not written.
    next: u64,
    finished: u64,
    turn: Turn,
    /// Since when something waits for room in the socket.
    stuck_since: Option<Instant>,
    /// How many threads wait for a frame to be written.
    watchers: usize,
    /// The bell is to ring when nothing waits any more.
    is_flush_awaited: bool,
    failure: Option<SayError>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.head.is_none() && self.urgent.is_empty() && self.queue.is_empty()
    }

    /// As much as goes out at once, and how many numbered frames that are.
    fn take(&mut self) -> (Vec<u8>, u64) {
        let (mut batch, mut count) = self.head.take().unwrap_or_default();
        while batch.len() < WRITE_BUDGET {
            let Some(frame) = self.urgent.pop_front() else { break };
            batch.extend_from_slice(&frame);
        }
        while batch.len() < WRITE_BUDGET {
            let Some(frame) = self.queue.pop_front() else { break };
            batch.extend_from_slice(&frame);
            count += 1;
        }
        (batch, count)
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
        Outbox { socket, waiting, filled, written, bell, keeps_all, patience: WRITE_TIMEOUT }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a frame, an urgent one before all others that wait.
    pub(crate) fn send(&self, frame: Vec<u8>, is_urgent: bool) -> Result<Ticket, SayError> {
        self.queue(frame, is_urgent).map(|queued| self.write(queued))
    }

    /// The first half of [`send`](Outbox::send), for where a lock is held: it makes no system call.
    pub(crate) fn queue(&self, frame: Vec<u8>, is_urgent: bool) -> Result<Queued, SayError> {
        let mut waiting = self.lock();
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.queue.len() + waiting.urgent.len() >= MOST_WAITING {
            self.fail(&mut waiting, SayError::Stalled);
            return Err(SayError::Stalled);
        }
        let ticket = if is_urgent {
            waiting.urgent.push_back(frame);
            Ticket(None)
        } else {
            waiting.queue.push_back(frame);
            waiting.next += 1;
            Ticket(Some(waiting.next - 1))
        };
        let has_turn = waiting.turn == Turn::Free;
        if has_turn {
            waiting.turn = Turn::Sender;
        }
        Ok(Queued { ticket, has_turn })
    }

    /// The other half: writes what waits, as far as the socket has room.
    pub(crate) fn write(&self, queued: Queued) -> Ticket {
        if !queued.has_turn {
            return queued.ticket;
        }
        let mut waiting = self.lock();
        for _ in 0..MOST_WRITES {
            let (batch, count) = waiting.take();
            drop(waiting);
            let sent = SockRef::from(&self.socket).send_with_flags(&batch, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
            waiting = self.lock();
            if waiting.failure.is_some() {
                return queued.ticket;
            }
            let size = match sent {
                Ok(size) => size,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                Err(_) => {
                    self.fail(&mut waiting, SayError::ConnectionLost);
                    return queued.ticket;
                }
            };
            if size < batch.len() {
                waiting.head = Some((batch[size..].to_vec(), count));
                break;
            }
            if self.is_all_written(&mut waiting, count) {
                return queued.ticket;
            }
        }
        waiting.turn = Turn::Writer;
        waiting.stuck_since = Some(Instant::now());
        self.filled.notify_one();
        queued.ticket
    }

    /// Notes what is written. If it was all, the turn is free.
    fn is_all_written(&self, waiting: &mut Waiting, count: u64) -> bool {
        waiting.finished += count;
        if waiting.watchers > 0 {
            self.written.notify_all();
        }
        if !waiting.is_empty() {
            return false;
        }
        (waiting.turn, waiting.stuck_since) = (Turn::Free, None);
        if std::mem::take(&mut waiting.is_flush_awaited) {
            self.bell.ring();
        }
        true
    }

    /// Gives a frame another text when it still waits because the other end reads too slowly; else
    /// it is false.
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

    /// Waits until a frame is given to the kernel, for so long as nothing of it is written.
    pub(crate) fn wait_written(&self, ticket: Ticket) -> Result<(), SayError> {
        let Some(number) = ticket.0 else { return Ok(()) };
        let deadline = Instant::now() + self.patience;
        let mut waiting = self.lock();
        while waiting.finished <= number {
            if waiting.failure.is_some() {
                return Err(SayError::ConnectionLost);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && waiting.at(ticket).is_some() {
                // It stays where it is: a newer one may have taken its place, and somebody waits
                // for that.
                return Err(SayError::Stalled);
            }
            // What is half written already is waited for: the connection moves, or ends.
            let left = left.max(Duration::from_millis(100));
            waiting.watchers += 1;
            waiting = self.written.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
            waiting.watchers -= 1;
        }
        Ok(())
    }

    /// Why nothing more is written.
    pub(crate) fn failure(&self) -> Option<SayError> {
        self.lock().failure.clone()
    }

    /// Whether all is written; if not, the bell rings when it is.
    pub(crate) fn is_flushed(&self) -> bool {
        let mut waiting = self.lock();
        waiting.is_flush_awaited = waiting.turn != Turn::Free;
        !waiting.is_flush_awaited
    }

    fn fail(&self, waiting: &mut Waiting, failure: SayError) {
        if waiting.failure.is_some() {
            return;
        }
        *waiting = Waiting {
            failure: Some(failure),
            next: waiting.next,
            finished: waiting.finished,
            watchers: waiting.watchers,
            ..Waiting::default()
        };
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
        let mut waiting = self.lock();
        loop {
            waiting = self
                .filled
                .wait_while(waiting, |waiting| waiting.turn != Turn::Writer && waiting.failure.is_none())
                .unwrap_or_else(PoisonError::into_inner);
            if waiting.failure.is_some() {
                return;
            }
            let (batch, count) = waiting.take();
            waiting.stuck_since = Some(Instant::now());
            drop(waiting);
            let result = (&self.socket).write_all(&batch);
            waiting = self.lock();
            if waiting.failure.is_some() {
                return;
            }
            match result {
                Ok(()) => {
                    self.is_all_written(&mut waiting, count);
                }
                Err(_) => self.fail(&mut waiting, SayError::ConnectionLost),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
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
    fn a_frame_that_nobody_waits_for_any_longer_goes_out_all_the_same() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut out = Outbox::new(ours, Arc::new(Bell::default()), false);
        out.patience = Duration::from_millis(30);
        while out.is_flushed() {
            out.send(vec![b'x'; 10_000], false).unwrap();
        }
        let ticket = out.send(b"first\n".to_vec(), false).unwrap();
        thread::sleep(FULL_AFTER);
        assert!(out.replace(ticket, b"second\n".to_vec()));
        assert_eq!(out.wait_written(ticket), Err(SayError::Stalled), "the first one's time is over");
        out.patience = WRITE_TIMEOUT;
        let all = thread::scope(|scope| {
            scope.spawn(|| out.run());
            let reader = scope.spawn(|| {
                let mut all = String::new();
                theirs.read_to_string(&mut all).unwrap();
                all
            });
            out.wait_written(ticket).unwrap();
            out.close();
            out.socket.shutdown(std::net::Shutdown::Both).unwrap();
            reader.join().unwrap()
        });
        assert!(all.ends_with("second\n"), "who has sent the second one is told that it is written");
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

    #[test]
    fn threads_that_send_at_once_write_whole_frames_each_in_its_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let out = Outbox::new(ours, Arc::new(Bell::default()), false);
        thread::scope(|scope| {
            scope.spawn(|| out.run());
            let reader = scope.spawn(|| {
                let mut next = [0; 4];
                let mut lines = BufReader::new(&theirs).lines().map_while(Result::ok);
                while next != [5000; 4] {
                    let line = lines.next().expect("not all frames are written");
                    let numbers: Vec<usize> = line.split(' ').map(|number| number.parse().unwrap()).collect();
                    assert_eq!(numbers[1], next[numbers[0]], "{line}");
                    next[numbers[0]] += 1;
                }
            });
            let senders: Vec<_> = (0..4)
                .map(|sender| {
                    let out = &out;
                    scope.spawn(move || {
                        for number in 0..5000 {
                            let ticket = out.send(format!("{sender} {number}\n").into_bytes(), false).unwrap();
                            if number % 100 == 0 {
                                out.wait_written(ticket).unwrap();
                            }
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            while !out.is_flushed() {
                out.bell.wait(Some(Duration::from_secs(20)));
            }
            reader.join().unwrap();
            out.close();
        });
    }

    #[test]
    fn the_bell_rings_when_all_is_written_that_somebody_waits_for() {
        let (out, mut theirs, _tickets) = full();
        assert!(!out.is_flushed());
        let writer = Arc::clone(&out);
        thread::spawn(move || writer.run());
        thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink()));
        let began = Instant::now();
        while !out.bell.has_rung() {
            assert!(began.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(1));
        }
        assert!(out.is_flushed());
    }
}
