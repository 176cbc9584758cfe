//! Bytes that could not be written at once, with a bound.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};

use ojs_lifecycle::api::Envelope;

/// Most waiting parts in one write: a large job has three.
const PARTS_PER_WRITE: usize = 8;

/// Bytes on their way to one connection.
#[derive(Debug)]
pub struct Outbound {
    /// The waiting parts, in their order. None is empty.
    parts: VecDeque<Part>,
    /// Bytes of the first part that are written.
    written: usize,
    /// Bytes that wait.
    len: usize,
    /// Most bytes that may wait.
    most: usize,
    /// The memory of large jobs that are written.
    free: Vec<Vec<u8>>,
}

/// Bytes of one kind.
#[derive(Debug)]
struct Part {
    bytes: Bytes,
    kind: Kind,
}

/// The storage of waiting bytes.
#[derive(Debug)]
enum Bytes {
    Own(Vec<u8>),
    /// The text of a large job is not copied.
    Shared(Envelope),
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A job: large, and no answer.
    Job,
    /// Any other frame: small, and mostly an answer.
    Control,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The kernel has accepted all bytes.
    All,
    /// Some of it waits here.
    Some,
    /// The bound for waiting bytes is exceeded: nothing of the last frame was accepted.
    Overflow,
    Closed,
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(envelope) => envelope.as_bytes(),
        }
    }
}

impl Outbound {
    /// A buffer of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            parts: VecDeque::new(),
            written: 0,
            len: 0,
            most,
            free: Vec::new(),
        }
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory of large jobs that were written since the last time.
    pub fn take_free(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.free)
    }

    /// How many bytes wait that are no job's.
    pub fn control(&self) -> usize {
        let waiting = self.waiting().filter(|(_, kind)| *kind == Kind::Control);
        waiting.map(|(bytes, _)| bytes.len()).sum()
    }

    /// The waiting bytes, without those of the first part that are written.
    fn waiting(&self) -> impl Iterator<Item = (&[u8], Kind)> {
        let written = std::iter::once(self.written).chain(std::iter::repeat(0));
        let parts = self.parts.iter().zip(written);
        parts.map(|(part, written)| (part.bytes.as_slice().get(written..).unwrap_or_default(), part.kind))
    }

    /// Writes a frame behind the waiting bytes, as far as that does not block.
    pub fn send(&mut self, frame: &[u8], kind: Kind, stream: &mut impl Write) -> Written {
        if self.len == 0 {
            return match write_some(frame, stream) {
                Ok(count) if count == frame.len() => Written::All,
                Ok(count) => {
                    self.queue(frame.get(count..).unwrap_or_default(), kind);
                    Written::Some
                }
                Err(_) => Written::Closed,
            };
        }
        if self.len + frame.len() > self.most {
            return Written::Overflow;
        }
        self.queue(frame, kind);
        Written::Some
    }

    /// Writes the frame of a large job, like [`Outbound::send`]. The envelope is between `head` and
    /// `tail`.
    pub fn send_large(
        &mut self,
        (head, envelope, tail): (Vec<u8>, Envelope, Vec<u8>),
        stream: &mut impl Write,
    ) -> Written {
        let bytes = head.len() + envelope.len() + tail.len();
        let was_empty = self.len == 0;
        if !was_empty && self.len + bytes > self.most {
            return Written::Overflow;
        }
        for bytes in [Bytes::Own(head), Bytes::Shared(envelope), Bytes::Own(tail)] {
            self.push(bytes, Kind::Job);
        }
        if was_empty { self.flush(stream) } else { Written::Some }
    }

    fn queue(&mut self, bytes: &[u8], kind: Kind) {
        match self.parts.back_mut() {
            Some(Part {
                bytes: Bytes::Own(last),
                kind: Kind::Control,
            }) if kind == Kind::Control => {
                last.extend_from_slice(bytes);
                self.len += bytes.len();
                self.drop_written();
            }
            Some(_) | None => self.push(Bytes::Own(bytes.to_vec()), kind),
        }
    }

    /// Small frames may follow each other here for long, so written ones are removed.
    fn drop_written(&mut self) {
        if let Some(Part {
            bytes: Bytes::Own(first),
            ..
        }) = self.parts.front_mut()
        {
            first.drain(..self.written);
            self.written = 0;
        }
    }

    fn push(&mut self, bytes: Bytes, kind: Kind) {
        let count = bytes.as_slice().len();
        if count > 0 {
            self.len += count;
            self.parts.push_back(Part { bytes, kind });
        }
    }

    /// Removes so many bytes, which the kernel has accepted.
    fn taken(&mut self, count: usize) {
        self.len = self.len.saturating_sub(count);
        self.written += count;
        while let Some(first) = self.parts.front()
            && first.bytes.as_slice().len() <= self.written
        {
            self.written -= first.bytes.as_slice().len();
            if let Some(Part {
                bytes: Bytes::Shared(envelope),
                ..
            }) = self.parts.pop_front()
            {
                self.free.extend(envelope.into_memory());
            }
        }
    }

    /// Writes waiting bytes, as far as that does not block.
    pub fn flush(&mut self, stream: &mut impl Write) -> Written {
        while self.len > 0 {
            let mut slices = [IoSlice::new(&[]); PARTS_PER_WRITE];
            let mut used = 0;
            for (slice, (bytes, _)) in slices.iter_mut().zip(self.waiting()) {
                *slice = IoSlice::new(bytes);
                used += 1;
            }
            match stream.write_vectored(slices.get(..used).unwrap_or_default()) {
                Ok(0) => return Written::Some,
                Ok(count) => self.taken(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Written::Some,
                Err(_) => return Written::Closed,
            }
        }
        // Gives back the room of many parts.
        self.parts = VecDeque::new();
        Written::All
    }
}

/// Writes until all is written or there is no room. An error means that no byte can ever be
/// written.
fn write_some(bytes: &[u8], stream: &mut impl Write) -> io::Result<usize> {
    let mut count = 0;
    while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `room` bytes, then would block.
    struct Slow {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(3);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_taken_at_once_follows_in_order() {
        let mut slow = Slow {
            room: 4,
            taken: Vec::new(),
        };
        let mut outbound = Outbound::new(100);
        assert_eq!(outbound.send(b"hello\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!(outbound.send(b"ok\n", Kind::Control, &mut slow), Written::Some);
        slow.room = 3;
        assert_eq!(outbound.flush(&mut slow), Written::Some);
        assert_eq!(outbound.send(b"ping\n", Kind::Control, &mut slow), Written::Some);
        slow.room = 100;
        assert_eq!(outbound.flush(&mut slow), Written::All);
        assert_eq!(slow.taken, b"hello\nok\nping\n");
    }

    #[test]
    fn more_than_may_wait_is_refused_whole() {
        let mut slow = Slow {
            room: 0,
            taken: Vec::new(),
        };
        let mut outbound = Outbound::new(10);
        assert_eq!(outbound.send(b"12345678\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!(outbound.send(b"xx\n", Kind::Control, &mut slow), Written::Overflow);
        slow.room = 100;
        assert_eq!(outbound.flush(&mut slow), Written::All);
        assert_eq!(slow.taken, b"12345678\n");
    }

    #[test]
    fn the_rest_of_a_job_is_no_control_wherever_it_waits() {
        let mut slow = Slow {
            room: 2,
            taken: Vec::new(),
        };
        let mut outbound = Outbound::new(100);
        assert_eq!(outbound.send(b"ok\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!(outbound.send(b"a job\n", Kind::Job, &mut slow), Written::Some);
        assert_eq!(outbound.send(b"ping\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!((outbound.len(), outbound.control()), (12, 6));
        slow.room = 4;
        assert_eq!(outbound.flush(&mut slow), Written::Some);
        assert_eq!((outbound.len(), outbound.control()), (8, 5));
        slow.room = 5;
        assert_eq!(outbound.flush(&mut slow), Written::Some);
        assert_eq!((outbound.len(), outbound.control()), (3, 3));
        slow.room = 100;
        assert_eq!(outbound.flush(&mut slow), Written::All);
        assert_eq!((outbound.len(), outbound.control()), (0, 0));
    }

    #[test]
    fn a_large_job_is_written_from_where_it_is_and_its_memory_is_free_then() {
        let mut slow = Slow {
            room: 4,
            taken: Vec::new(),
        };
        let text = "{123456}".to_owned();
        let place = text.as_ptr();
        let mut outbound = Outbound::new(100);
        let frame = (b"job:".to_vec(), Envelope::large(text), b"\n".to_vec());
        assert_eq!(outbound.send_large(frame, &mut slow), Written::Some);
        assert_eq!(outbound.send(b"ping\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!((outbound.len(), outbound.control()), (14, 5));
        slow.room = 7;
        assert_eq!(outbound.flush(&mut slow), Written::Some);
        assert!(outbound.take_free().is_empty(), "a byte of it waits");
        slow.room = 100;
        assert_eq!(outbound.flush(&mut slow), Written::All);
        assert_eq!(slow.taken, b"job:{123456}\nping\n");
        let free = outbound.take_free();
        assert_eq!(free.iter().map(|memory| memory.as_ptr()).collect::<Vec<_>>(), [place]);
    }

    #[test]
    fn a_large_job_that_is_more_than_may_wait_is_refused_whole_behind_something_else() {
        let mut slow = Slow {
            room: 0,
            taken: Vec::new(),
        };
        let mut outbound = Outbound::new(10);
        let frame = || (Vec::new(), Envelope::large("1234567".to_owned()), b"\n".to_vec());
        assert_eq!(outbound.send(b"ok\n", Kind::Control, &mut slow), Written::Some);
        assert_eq!(outbound.send_large(frame(), &mut slow), Written::Overflow);
        slow.room = 100;
        assert_eq!(outbound.flush(&mut slow), Written::All);
        assert_eq!(outbound.send_large(frame(), &mut slow), Written::All);
        assert_eq!(slow.taken, b"ok\n1234567\n");
    }
}
