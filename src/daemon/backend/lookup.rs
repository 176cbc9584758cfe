//! Name look-ups of one address family, on a thread: the C library's look-up has no deadline. There
//! is one thread, and one more while the first one hangs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use ojs_lifecycle::api::Moment;
use ojs_os::names::{AddressFamily, NameError};
use ojs_os::threads;

/// Stack of the thread, in bytes. The C library's look-up uses some 10 KiB of it.
pub(in crate::daemon::backend) const STACK_BYTES: usize = 256 * 1024;

/// After this time a look-up counts as hanging, and another thread tries.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// Most threads of one family at once, including hanging ones.
const MOST_THREADS: usize = 2;

/// Most addresses of one family that are kept of an answer. A DNS answer over TCP could hold
/// thousands.
const MOST_ADDRESSES: usize = 64;

/// Looks a name up, without a time limit.
pub(in crate::daemon::backend) type Look = fn(&str, u16, AddressFamily) -> Result<Vec<SocketAddr>, NameError>;

/// Wakes the loop because a result is there.
pub(in crate::daemon) type LoopWake = Arc<dyn Fn() + Send + Sync>;

/// The result of a look-up, and the number of the thread that made it.
type Found = (u64, Result<Vec<SocketAddr>, NameError>);

/// The question of a look-up.
#[derive(Clone)]
pub(in crate::daemon::backend) struct NameQuery {
    /// The name.
    pub(in crate::daemon::backend) host: String,
    /// The port that each address gets.
    pub(in crate::daemon::backend) port: u16,
    /// The look-up itself; tests have their own.
    pub(in crate::daemon::backend) look: Look,
    /// Wakes the loop for each result.
    pub(in crate::daemon::backend) wake: LoopWake,
    /// Stack of each thread, in bytes.
    pub(in crate::daemon::backend) stack_bytes: usize,
}

/// Look-ups of one family.
pub(in crate::daemon::backend) struct FamilyLookup {
    pub(in crate::daemon::backend) question: NameQuery,
    family: AddressFamily,
    /// Since when a look-up is under way.
    asked: Option<Moment>,
    /// Asks the newest thread.
    questions: Option<Sender<()>>,
    /// The number of the newest thread.
    newest: u64,
    threads: Arc<AtomicUsize>,
    found: Receiver<Found>,
    finder: Sender<Found>,
}

impl FamilyLookup {
    /// The look-up of this family. No question is sent yet.
    pub(in crate::daemon::backend) fn new(question: NameQuery, family: AddressFamily) -> Self {
        // The channel holds at most one result of each thread.
        let (finder, found) = mpsc::channel();
        Self {
            question,
            family,
            asked: None,
            questions: None,
            newest: 0,
            threads: Arc::default(),
            found,
            finder,
        }
    }

    /// Since when a look-up is under way.
    pub(in crate::daemon::backend) fn asked(&self) -> Option<Moment> {
        self.asked
    }

    /// Starts a look-up, unless one is under way that does not hang.
    ///
    /// # Errors
    /// There is no thread.
    pub(in crate::daemon::backend) fn ask(&mut self, now: Moment) -> io::Result<()> {
        if let Some(asked) = self.asked {
            let hangs = asked.elapsed(now) >= HANGS_AFTER;
            if !hangs || self.threads.load(Ordering::Relaxed) >= MOST_THREADS {
                return Ok(());
            }
            let (host, family) = (&self.question.host, self.family);
            log::debug!("backend: {host}: the {family:?} look-up hangs; another thread tries");
            self.questions = None;
        }
        let is_asked = self
            .questions
            .as_ref()
            .is_some_and(|questions| questions.send(()).is_ok());
        if !is_asked {
            self.start()?;
        }
        self.asked = Some(now);
        Ok(())
    }

    /// Starts a thread, and asks it.
    fn start(&mut self) -> io::Result<()> {
        let (questions, asked) = mpsc::channel();
        let number = self.newest + 1;
        let thread = LookupThread {
            number,
            question: self.question.clone(),
            family: self.family,
            asked,
            finder: self.finder.clone(),
            _counted: Counted::one_of(&self.threads),
        };
        let name = match self.family {
            AddressFamily::V4 => "resolve4",
            AddressFamily::V6 => "resolve6",
        };
        threads::spawn(name, self.question.stack_bytes, move || thread.run())?;
        self.newest = number;
        // The thread has just begun to listen.
        let _ = questions.send(());
        self.questions = Some(questions);
        Ok(())
    }

    /// The next result. A failed look-up that another thread has replaced is left out.
    pub(in crate::daemon::backend) fn take(&mut self) -> Option<Result<Vec<SocketAddr>, NameError>> {
        loop {
            let (number, result) = self.found.try_recv().ok()?;
            let is_newest = number == self.newest;
            if is_newest {
                self.asked = None;
            }
            match result {
                Ok(mut addresses) => {
                    addresses.truncate(MOST_ADDRESSES);
                    return Some(Ok(addresses));
                }
                Err(error) if is_newest => return Some(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// How many threads there are.
    #[cfg(test)]
    pub(in crate::daemon::backend) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Drops the thread, as a panic in it would.
    #[cfg(test)]
    pub(in crate::daemon::backend) fn lose_thread(&mut self) {
        self.questions = None;
    }
}

/// Counts a thread for as long as it lasts, however it ends.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one_of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread of look-ups. It ends if its channel of questions closes.
struct LookupThread {
    number: u64,
    question: NameQuery,
    family: AddressFamily,
    asked: Receiver<()>,
    finder: Sender<Found>,
    _counted: Counted,
}

impl LookupThread {
    fn run(self) {
        let NameQuery { host, port, look, .. } = &self.question;
        while self.asked.recv().is_ok() {
            let result = look(host, *port, self.family);
            if self.finder.send((self.number, result)).is_err() {
                return;
            }
            (self.question.wake)();
        }
    }
}
