//! Name look-ups of one address family, on a thread: the C library's look-up has no deadline. There
//! is one thread, and one more while the first one hangs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mio::Waker;

use ojs_lifecycle::api::Moment;
use ojs_os::names::{AddressFamily, NameError};
use ojs_os::threads::{Helper, LoopWake};

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
pub(in crate::daemon::backend) type Look = fn(&str, u16, AddressFamily) -> Found;

/// The wake-up of this loop. An error means that the loop has ended.
pub(in crate::daemon) fn loop_wake(waker: Arc<Waker>) -> LoopWake {
    Arc::new(move || waker.wake().unwrap_or_default())
}

/// The result of a look-up.
type Found = Result<Vec<SocketAddr>, NameError>;

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
    pub(in crate::daemon::backend) asked: Option<Moment>,
    /// The threads. The last one is asked, and the others hang.
    threads: Vec<Helper<Found>>,
}

impl FamilyLookup {
    /// The look-up of this family. No question is sent yet.
    pub(in crate::daemon::backend) fn new(question: NameQuery, family: AddressFamily) -> Self {
        Self {
            question,
            family,
            asked: None,
            threads: Vec::new(),
        }
    }

    /// Starts a look-up, unless one is under way that does not hang.
    ///
    /// # Errors
    /// There is no thread.
    pub(in crate::daemon::backend) fn ask(&mut self, now: Moment) -> io::Result<()> {
        let mut newest = self.threads.last();
        if let Some(asked) = self.asked {
            let hangs = asked.elapsed(now) >= HANGS_AFTER;
            if !hangs || self.threads.len() >= MOST_THREADS {
                return Ok(());
            }
            let (host, family) = (&self.question.host, self.family);
            log::debug!("backend: {host}: the {family:?} look-up hangs; another thread tries");
            newest = None;
        }
        if !newest.is_some_and(Helper::ask) {
            self.threads.push(self.start()?);
        }
        self.asked = Some(now);
        Ok(())
    }

    /// Starts a thread, and asks it.
    fn start(&self) -> io::Result<Helper<Found>> {
        let family = self.family;
        let name = match family {
            AddressFamily::V4 => "resolve4",
            AddressFamily::V6 => "resolve6",
        };
        let question = self.question.clone();
        let look = move || (question.look)(&question.host, question.port, family);
        Helper::start(name, question.stack_bytes, self.question.wake.clone(), look)
    }

    /// The next result. A failed look-up that another thread has replaced is left out.
    pub(in crate::daemon::backend) fn take(&mut self) -> Option<Found> {
        let mut threads = self.threads.iter().enumerate();
        let (at, result) = threads.find_map(|(at, thread)| Some((at, thread.take(Duration::ZERO)?)))?;
        let is_newest = at + 1 == self.threads.len();
        if is_newest {
            self.asked = None;
        }
        if !is_newest || result.is_none() {
            self.threads.remove(at);
        }
        match result.unwrap_or_else(|| Err(NameError::Failed("its look-up has failed".to_owned()))) {
            Ok(mut addresses) => {
                addresses.truncate(MOST_ADDRESSES);
                Some(Ok(addresses))
            }
            Err(error) if is_newest => Some(Err(error)),
            Err(_) => self.take(),
        }
    }

    /// How many threads there are.
    #[cfg(test)]
    pub(in crate::daemon::backend) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Drops the thread, as a panic in it would.
    #[cfg(test)]
    pub(in crate::daemon::backend) fn lose_thread(&mut self) {
        self.threads.clear();
    }
}
