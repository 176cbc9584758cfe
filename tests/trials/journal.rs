//! The notes of a trial's workers, and who runs a job at the moment.
//!
//! A worker that runs a job holds a lock on a file of its name. The kernel gives the lock back when
//! the last process that has it is gone, so that two who run the same job at the same time cannot
//! miss each other, whatever becomes of them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::support::sys;

/// An event of a job in the hands of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A worker runs it.
    Took,
    /// The worker could not: somebody else runs it.
    Overlap,
    /// The handler of an SDK is done with it; its ACK or FAIL goes out.
    Ended,
    /// Its ACK is in the socket, whole; of an SDK's worker: it is answered, and was taken.
    Acked,
    /// Its FAIL is in the socket, whole, or was answered, as with the ACK.
    Failed,
    /// The job is given back now. A reader cannot know whether that got through.
    Releasing,
    /// The worker was told to give it up: the shutdown's time is over.
    Cancelled,
    /// A process of the worker can be asked to end from here on. Of a process, as what follows: the
    /// job is its number.
    Started,
    /// The worker got SIGTERM.
    Terminated,
    /// The worker does now what it is for: it crashes, or closes its socket.
    Acting,
}

impl Word {
    const ALL: [Self; 10] = [
        Self::Took,
        Self::Overlap,
        Self::Ended,
        Self::Acked,
        Self::Failed,
        Self::Releasing,
        Self::Cancelled,
        Self::Started,
        Self::Terminated,
        Self::Acting,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Took => "took",
            Self::Overlap => "overlap",
            Self::Ended => "ended",
            Self::Acked => "acked",
            Self::Failed => "failed",
            Self::Releasing => "releasing",
            Self::Cancelled => "cancelled",
            Self::Started => "started",
            Self::Terminated => "terminated",
            Self::Acting => "acting",
        }
    }
}

/// Stands before the process group of the worker at the end of a line.
const GROUP: &str = "group-";

/// Longest line that a signal handler adds, in bytes.
const HANDLERS_LINE: usize = 64;

/// Adds a line about this process to the file of [`Journal::open`], with system calls alone: a
/// signal may have interrupted anything.
pub fn note_in_handler(journal: RawFd, word: Word) {
    let mut line = [0; HANDLERS_LINE];
    let mut rest = line.as_mut_slice();
    let (now, process, group) = (sys::monotonic_ns(), std::process::id(), nix::unistd::getpgrp());
    let _ = writeln!(rest, "{now} {} {process} {GROUP}{group}", word.name());
    let left = rest.len();
    // SAFETY: the buffer lives, and holds at least that many bytes.
    unsafe { libc::write(journal, line.as_ptr().cast(), HANDLERS_LINE - left) };
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub struct Note {
    /// Milliseconds on the clock of the backend's record.
    pub ms: f64,
    pub word: Word,
    pub job: String,
    /// The worker: the number of the process that the init started, which is that of its process
    /// group. A note that does not name it is of the worker that was started last.
    pub worker: Option<i32>,
}

/// The files of a trial.
#[derive(Debug, Clone)]
pub struct Journal {
    dir: PathBuf,
}

impl Journal {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// Adds a line, in one piece.
    pub fn note(&self, word: Word, job: &str) {
        let (now, group) = (sys::monotonic_ns(), nix::unistd::getpgrp());
        let line = format!("{now} {} {job} {GROUP}{group}\n", word.name());
        self.open().write_all(line.as_bytes()).unwrap();
    }

    /// Adds a line about this process.
    pub fn note_process(&self, word: Word) {
        self.note(word, &std::process::id().to_string());
    }

    /// For notes of a signal handler: see [`note_in_handler`].
    pub fn open(&self) -> File {
        let file = OpenOptions::new().create(true).append(true).open(self.path());
        file.unwrap()
    }

    /// All lines so far. `epoch`: what `CLOCK_MONOTONIC` said in nanoseconds when the backend was
    /// started.
    pub fn read(&self, epoch: u64) -> Vec<Note> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        let mut started = None;
        let note = |line: &str| {
            let mut words = line.split(' ');
            let at: u64 = words.next()?.parse().ok()?;
            let word = words.next()?;
            let word = Word::ALL.into_iter().find(|known| known.name() == word)?;
            let job = words.next()?.to_owned();
            let group = words.next().and_then(|last| last.strip_prefix(GROUP)?.parse().ok());
            if word == Word::Started {
                started = group.or(job.parse().ok());
            }
            Some(Note {
                ms: at.saturating_sub(epoch) as f64 / 1e6,
                word,
                job,
                worker: group.or(started),
            })
        };
        text.lines().filter_map(note).collect()
    }

    /// From now on somebody runs this job, until the lock is dropped and each process that was
    /// forked meanwhile is gone; `None`: somebody does already.
    pub fn run(&self, job: &str) -> Option<Flock<File>> {
        self.lock(&format!("job-{job}"), FlockArg::LockExclusiveNonblock)
    }

    /// Held by each process of the worker.
    pub fn live(&self) -> Option<Flock<File>> {
        self.lock("alive", FlockArg::LockSharedNonblock)
    }

    /// Whether no process of the worker is left.
    pub fn all_are_gone(&self) -> bool {
        self.lock("alive", FlockArg::LockExclusiveNonblock).is_some()
    }

    fn lock(&self, name: &str, how: FlockArg) -> Option<Flock<File>> {
        let file = OpenOptions::new().create(true).append(true).open(self.dir.join(name));
        match Flock::lock(file.unwrap(), how) {
            Ok(lock) => Some(lock),
            Err((_, Errno::EWOULDBLOCK)) => None,
            Err((_, error)) => panic!("flock: {error}"),
        }
    }
}
