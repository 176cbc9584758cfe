//! What the workers of a trial note, and who runs a job at the moment.
//!
//! Who runs a job holds a lock on a file of its name. The kernel gives the lock back when the last process that has it is
//! gone, so that two who run the same job at the same time cannot miss each other, whatever becomes of them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::support::sys;

/// What happened to a job in the hands of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A worker runs it.
    Took,
    /// The worker could not: somebody else runs it.
    Overlap,
    /// Its ACK is in the socket, whole.
    Acked,
    /// Its FAIL is.
    Failed,
    /// It is given back now; whoever reads this cannot know whether that got through.
    Releasing,
}

impl Word {
    const ALL: [Self; 5] = [Self::Took, Self::Overlap, Self::Acked, Self::Failed, Self::Releasing];

    pub fn name(self) -> &'static str {
        match self {
            Self::Took => "took",
            Self::Overlap => "overlap",
            Self::Acked => "acked",
            Self::Failed => "failed",
            Self::Releasing => "releasing",
        }
    }
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub struct Note {
    /// Milliseconds on the clock of the backend's record.
    pub ms: f64,
    pub word: Word,
    pub job: String,
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
        let line = format!("{} {} {job}\n", sys::monotonic_ns(), word.name());
        let file = OpenOptions::new().create(true).append(true).open(self.path());
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// All lines so far. `epoch`: what `CLOCK_MONOTONIC` said in nanoseconds when the backend was started.
    pub fn read(&self, epoch: u64) -> Vec<Note> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        let note = |line: &str| {
            let mut words = line.split(' ');
            let at: u64 = words.next()?.parse().ok()?;
            let word = words.next()?;
            Some(Note {
                ms: at.saturating_sub(epoch) as f64 / 1e6,
                word: Word::ALL.into_iter().find(|known| known.name() == word)?,
                job: words.next()?.to_owned(),
            })
        };
        text.lines().filter_map(note).collect()
    }

    /// From now on somebody runs this job, until the lock is dropped and each process that was forked meanwhile is gone;
    /// `None`: somebody does already.
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
