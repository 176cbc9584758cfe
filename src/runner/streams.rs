//! The streams of a job: its standard output, its standard error, and its lines on `OJS_JOB_FD`.

use std::io::{self, ErrorKind, PipeReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::config::values::enums::ExecOutput;
use crate::daemon::log::sink;
use crate::runner::news::{UnsentNews, first_letters};
use crate::runner::outcome;
use crate::runner::output::{Limited, Lines, Tail};
use crate::runner::redaction::Redaction;
use ojs_os::socket::{Piece, read_piece};
use ojs_wire::frame::{Frame, FrameReader};

/// Most bytes that are read of one stream of a job in a turn, because other jobs need their turn.
pub const READ_BYTES: usize = 64 << 10;

/// Most bytes that are read of a stream after its job has ended: as much as the largest pipe of a
/// job can hold. A leftover process may write for ever.
const MOST_LEFT_BYTES: usize = (1 << 20) + READ_BYTES;

/// One of a job's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStream {
    Stdout,
    Stderr,
    Channel,
}

impl JobStream {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Channel];

    /// Its name in a line of the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
            Self::Channel => "OJS_JOB_FD",
        }
    }
}

/// The runner's ends of them. A stream is dropped after its other end is closed.
#[derive(Debug)]
pub struct OpenStreams {
    pub stdout: Option<PipeReader>,
    pub stderr: Option<PipeReader>,
    pub channel: Option<UnixStream>,
}

/// The streams of one job, and their bytes.
#[derive(Debug)]
pub struct JobStreams {
    open: OpenStreams,
    /// In the order of [`JobStream::ALL`]: true if there may be bytes to read.
    ready: [bool; 3],
    output: ExecOutput,
    result: Limited,
    stdout_lines: Lines,
    tail: Tail,
    stderr_lines: Lines,
    channel_lines: FrameReader,
}

/// The buffer and the redaction with which all streams are read.
#[derive(Debug)]
pub struct OutputReader {
    buffer: Vec<u8>,
    pub redaction: Redaction,
}

impl OutputReader {
    /// A reader that strikes these secrets from the log.
    pub fn new(redaction: Redaction) -> Self {
        Self {
            buffer: vec![0; READ_BYTES],
            redaction,
        }
    }
}

/// The result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OneRead {
    Some(Piece),
    Empty,
    End,
}

impl OneRead {
    /// True if more bytes may be there. The poll reports only later ones.
    fn may_have_more(self) -> bool {
        matches!(self, Self::Some(piece) if piece.length == READ_BYTES || piece.is_cut)
    }
}

/// How it is after a turn of reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AfterTurn {
    /// A stream has more.
    pub has_more: bool,
    /// The channel has more: that can wait.
    pub channel_has_more: bool,
}

impl JobStreams {
    /// The streams of a job that was just started.
    pub fn new(open: OpenStreams, output: ExecOutput, output_limit: u64, max_frame: u64) -> Self {
        let most_line = usize::try_from(max_frame).unwrap_or(usize::MAX);
        Self {
            open,
            ready: [false; 3],
            output,
            result: Limited::new(output_limit),
            stdout_lines: Lines::default(),
            tail: Tail::default(),
            stderr_lines: Lines::default(),
            channel_lines: FrameReader::new(most_line),
        }
    }

    /// The descriptors, for the poll.
    pub fn descriptors(&self) -> impl Iterator<Item = (JobStream, RawFd)> {
        JobStream::ALL
            .into_iter()
            .filter_map(|stream| Some((stream, self.descriptor(stream)?)))
    }

    fn descriptor(&self, stream: JobStream) -> Option<RawFd> {
        match stream {
            JobStream::Stdout => self.open.stdout.as_ref().map(AsRawFd::as_raw_fd),
            JobStream::Stderr => self.open.stderr.as_ref().map(AsRawFd::as_raw_fd),
            JobStream::Channel => self.open.channel.as_ref().map(AsRawFd::as_raw_fd),
        }
    }

    /// There are bytes to read.
    pub fn set_ready(&mut self, stream: JobStream) {
        *self.ready_of(stream) = true;
    }

    fn ready_of(&mut self, stream: JobStream) -> &mut bool {
        let [stdout, stderr, channel] = &mut self.ready;
        match stream {
            JobStream::Stdout => stdout,
            JobStream::Stderr => stderr,
            JobStream::Channel => channel,
        }
    }

    /// Reads once of each stream with unread bytes.
    pub fn read_some(&mut self, job: &str, reader: &mut OutputReader, news: &mut UnsentNews) -> AfterTurn {
        let mut after = AfterTurn::default();
        for stream in JobStream::ALL {
            if !*self.ready_of(stream) {
                continue;
            }
            let has_more = self.read_once(stream, job, reader, news).may_have_more();
            *self.ready_of(stream) = has_more && stream != JobStream::Channel;
            after.has_more |= has_more && stream != JobStream::Channel;
            after.channel_has_more |= has_more && stream == JobStream::Channel;
        }
        after
    }

    /// The job has ended: reads the bytes that are there, at most `MOST_LEFT_BYTES`, and no later
    /// ones.
    pub fn read_rest(&mut self, job: &str, reader: &mut OutputReader, news: &mut UnsentNews) {
        for stream in JobStream::ALL {
            let mut total = 0;
            while total < MOST_LEFT_BYTES {
                match self.read_once(stream, job, reader, news) {
                    OneRead::Some(piece) => total += piece.length,
                    OneRead::Empty | OneRead::End => break,
                }
            }
        }
        self.open = OpenStreams {
            stdout: None,
            stderr: None,
            channel: None,
        };
        let redaction = &reader.redaction;
        self.stdout_lines
            .end(redaction, &mut |line| sink::say_of_job(job, "stdout", line));
        self.stderr_lines
            .end(redaction, &mut |line| sink::say_of_job(job, "stderr", line));
    }

    /// Takes the last line of the channel if no line break ends it. A process that exited by itself
    /// has written all of the line. One that a signal ended may have been within a number.
    pub fn take_last_line(&mut self, is_by_itself: bool, job: &str, news: &mut UnsentNews) {
        let Some(line) = self.channel_lines.unfinished() else {
            return;
        };
        if is_by_itself {
            news.take_line(job, line);
        } else {
            let why = "it has no line break, as a signal ended the job";
            news.complain(job, first_letters(line), why);
        }
    }

    /// Asks the job to end: its reads of the channel return the end of the file.
    pub fn end_channel(&self) {
        if let Some(channel) = &self.open.channel {
            // An error means that the job has closed its end.
            let _ = channel.shutdown(Shutdown::Write);
        }
    }

    /// The result, and whether it was too long for one.
    pub fn result(&self) -> (&[u8], bool) {
        (self.result.bytes(), self.result.is_cut())
    }

    /// The end of standard error, and whether there was more before it.
    pub fn stderr(&mut self) -> (Vec<u8>, bool) {
        (self.tail.bytes().to_vec(), self.tail.is_cut())
    }

    fn read_once(&mut self, stream: JobStream, job: &str, reader: &mut OutputReader, news: &mut UnsentNews) -> OneRead {
        let OutputReader { buffer, redaction } = reader;
        let read = match stream {
            JobStream::Stdout => read(&mut self.open.stdout, |pipe| read_pipe(pipe, buffer)),
            JobStream::Stderr => read(&mut self.open.stderr, |pipe| read_pipe(pipe, buffer)),
            JobStream::Channel => read(&mut self.open.channel, |channel| read_piece(channel, buffer)),
        };
        let OneRead::Some(piece) = read else { return read };
        let bytes = buffer.get(..piece.length).unwrap_or_default();
        match (stream, self.output) {
            (JobStream::Stdout, ExecOutput::Result) => self.result.add(bytes),
            (JobStream::Stdout, ExecOutput::Log) => self
                .stdout_lines
                .add(bytes, redaction, &mut |line| sink::say_of_job(job, "stdout", line)),
            (JobStream::Stderr, ExecOutput::Result | ExecOutput::Log) => {
                self.tail.add(bytes, outcome::stderr_to_keep(redaction));
                self.stderr_lines
                    .add(bytes, redaction, &mut |line| sink::say_of_job(job, "stderr", line));
            }
            (JobStream::Channel, ExecOutput::Result | ExecOutput::Log) => self.take_lines(bytes, job, news),
        }
        read
    }

    fn take_lines(&mut self, mut bytes: &[u8], job: &str, news: &mut UnsentNews) {
        while let Some(frame) = self.channel_lines.next_frame(&mut bytes) {
            match frame {
                Frame::Line(line) => news.take_line(job, line),
                Frame::TooLong(line) => news.complain(job, first_letters(line), "it is longer than worker.max_frame"),
            }
        }
    }
}

fn read<S>(stream: &mut Option<S>, mut once: impl FnMut(&mut S) -> io::Result<Piece>) -> OneRead {
    let Some(open) = stream else { return OneRead::End };
    loop {
        match once(open) {
            Ok(Piece { length: 0, .. }) => break,
            Ok(piece) => return OneRead::Some(piece),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return OneRead::Empty,
            Err(_) => break,
        }
    }
    *stream = None;
    OneRead::End
}

fn read_pipe(pipe: &mut PipeReader, buffer: &mut [u8]) -> io::Result<Piece> {
    let length = pipe.read(buffer)?;
    Ok(Piece { length, is_cut: false })
}

/// Makes reads from it non-blocking. The other end is a different open file, which does not change.
///
/// # Errors
///
/// None is known.
pub fn never_wait(pipe: &PipeReader) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};

    use socket2::{MsgHdr, SockRef};

    use super::*;

    /// Sends these bytes, and a descriptor with them.
    fn send_with_descriptor(socket: &UnixStream, bytes: &[u8]) {
        let header = [libc::SOL_SOCKET, libc::SCM_RIGHTS, socket.as_raw_fd()].map(i32::to_ne_bytes);
        let length = size_of::<libc::cmsghdr>() + size_of::<RawFd>();
        let control = [&length.to_ne_bytes()[..], header.as_flattened(), &[0; 4]].concat();
        let bytes = [IoSlice::new(bytes)];
        let message = MsgHdr::new().with_buffers(&bytes).with_control(&control);
        SockRef::from(socket).sendmsg(&message, 0).unwrap();
    }

    #[test]
    fn what_follows_a_descriptor_that_a_job_sends_is_read_after_a_pause() {
        let (channel, jobs_end) = UnixStream::pair().unwrap();
        channel.set_nonblocking(true).unwrap();
        let open = OpenStreams {
            stdout: None,
            stderr: None,
            channel: Some(channel),
        };
        let mut streams = JobStreams::new(open, ExecOutput::Log, 100, 1000);
        let mut reader = OutputReader::new(Redaction::default());
        let mut news = UnsentNews::default();
        send_with_descriptor(&jobs_end, b"heartbeat\n");
        (&jobs_end).write_all(b"heartbeat\n").unwrap();
        let mut turn = || {
            streams.set_ready(JobStream::Channel);
            streams.read_some("j1", &mut reader, &mut news)
        };
        let later = AfterTurn {
            has_more: false,
            channel_has_more: true,
        };
        assert_eq!([turn(), turn()], [later, AfterTurn::default()]);
    }
}
