//! Bytes that could not be written at once, with a bound.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

/// Bytes on their way to one connection.
#[derive(Debug)]
pub struct Outbound {
    bytes: Vec<u8>,
    written: usize,
    most: usize,
    /// The kinds of frames that the waiting bytes belong to, in their order.
    parts: VecDeque<Part>,
}

/// Bytes of one kind.
#[derive(Debug)]
struct Part {
    bytes: usize,
    kind: Kind,
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A job: large, and no answer to anything.
    Job,
    /// Everything else: small, and mostly an answer.
    Control,
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The kernel has everything.
    All,
    /// Some of it waits here.
    Some,
    /// More would wait than may: nothing of the last frame was taken.
    Overflow,
    Closed,
}

impl Outbound {
    /// A buffer of at most `most` bytes.
    pub fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            written: 0,
            most,
            parts: VecDeque::new(),
        }
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// How many bytes wait that are no job's.
    pub fn control(&self) -> usize {
        let control = self.parts.iter().filter(|part| part.kind == Kind::Control);
        control.map(|part| part.bytes).sum()
    }

    /// Writes a frame after what waits already, as far as that goes without waiting.
    pub fn send(&mut self, frame: &[u8], kind: Kind, stream: &mut impl Write) -> Written {
        if self.len() == 0 {
            return match write_some(frame, stream) {
                Ok(count) if count == frame.len() => Written::All,
                Ok(count) => {
                    self.queue(frame.get(count..).unwrap_or_default(), kind);
                    Written::Some
                }
                Err(_) => Written::Closed,
            };
        }
        if self.len() + frame.len() > self.most {
            return Written::Overflow;
        }
        self.bytes.drain(..self.written);
        self.written = 0;
        self.queue(frame, kind);
        Written::Some
    }

    fn queue(&mut self, bytes: &[u8], kind: Kind) {
        self.bytes.extend_from_slice(bytes);
        match self.parts.back_mut() {
            Some(part) if part.kind == kind => part.bytes += bytes.len(),
            Some(_) | None => self.parts.push_back(Part {
                bytes: bytes.len(),
                kind,
            }),
        }
    }

    fn taken(&mut self, mut count: usize) {
        self.written += count;
        while let Some(part) = self.parts.front_mut() {
            let of_it = part.bytes.min(count);
            part.bytes -= of_it;
            count -= of_it;
            if part.bytes > 0 {
                return;
            }
            self.parts.pop_front();
        }
    }

    /// Writes what waits, as far as that goes without waiting.
    pub fn flush(&mut self, stream: &mut impl Write) -> Written {
        match write_some(self.bytes.get(self.written..).unwrap_or_default(), stream) {
            Ok(count) => self.taken(count),
            Err(_) => return Written::Closed,
        }
        if self.len() > 0 {
            return Written::Some;
        }
        // Gives back the memory of a large frame.
        self.bytes = Vec::new();
        self.written = 0;
        Written::All
    }
}

/// Writes until everything is written or there is no room. An error means that nothing can ever be
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

    /// Takes `room` bytes, then would block.
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
}
