//! Names to addresses, on a thread: the C library's lookup has no deadline.
//!
//! It is asked only when a connection is to be opened, and never for an address. Where the lookup is slow, fails for the
//! moment or finds no thread, the addresses of last time do: no name server may hold up a heartbeat. There is one thread,
//! and one more while the first one hangs.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crate::daemon::backend::fault::Fault;
use crate::lifecycle::api::Moment;
use crate::os::threads;

/// Stack of the thread, in bytes. The C library's lookup takes some 10 KiB of it.
const STACK_BYTES: usize = 256 * 1024;

/// How long the addresses of last time wait for newer ones.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the addresses of last time do while the lookup fails: a name server that restarts has as long. Later the
/// addresses may be somebody else's.
const STALE_LIMIT: Duration = Duration::from_secs(60);

/// Nobody is asked again so soon after an answer; a failure counts for a shorter time.
const FRESH_LIMIT: Duration = Duration::from_secs(3);
const FAILURE_LIMIT: Duration = Duration::from_millis(500);

/// A lookup that takes longer hangs, and another thread tries.
const HANGS_AFTER: Duration = Duration::from_secs(10);

/// Most threads at once, those included that hang.
const MOST_THREADS: usize = 2;

/// An address that did not answer is tried behind the others for so long.
const LATE_FOR: Duration = Duration::from_secs(60);

/// Most addresses that are known not to answer.
const MOST_LATE: usize = 16;

/// How a name is looked up, for as long as that may take.
type Look = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Tells the loop that there is something to take.
pub(in crate::daemon) type Wake = Arc<dyn Fn() + Send + Sync>;

fn ask_the_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// What is known of a name.
#[derive(Debug)]
pub(in crate::daemon) enum Lookup {
    /// These are its addresses.
    Known(Vec<SocketAddr>),
    /// It is asked for; at this time the addresses of last time do, if there are any.
    Wait(Option<Moment>),
    /// It has none that we could use.
    Failed(Fault),
}

/// What a lookup found, and which thread says so.
type Found = (u64, io::Result<Vec<SocketAddr>>);

/// The one name that there is.
pub(in crate::daemon) struct Names {
    host: String,
    port: u16,
    look: Look,
    stack_bytes: usize,
    wake: Wake,
    /// The addresses of last time, and when they were found. For ever where the name is an address itself.
    known: Option<(Vec<SocketAddr>, Moment)>,
    is_address: bool,
    /// Addresses that did not answer, and when.
    late: VecDeque<(SocketAddr, Moment)>,
    /// When the last lookup failed, if it did.
    failed: Option<Moment>,
    /// Since when a lookup is under way.
    asked: Option<Moment>,
    /// Asks the newest thread.
    questions: Option<Sender<()>>,
    /// The number of the newest thread.
    newest: u64,
    threads: Arc<AtomicUsize>,
    found: Receiver<Found>,
    finder: Sender<Found>,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Names {
    /// The addresses of this host at this port; `wake` tells that [`Names::take`] has something.
    pub(in crate::daemon) fn new(host: &str, port: u16, wake: Wake) -> Self {
        Self::with(host, port, wake, ask_the_system, STACK_BYTES)
    }

    fn with(host: &str, port: u16, wake: Wake, look: Look, stack_bytes: usize) -> Self {
        let address = host.parse::<IpAddr>().ok();
        // At most one answer of each thread waits to be taken.
        let (finder, found) = mpsc::channel();
        Self {
            host: host.to_owned(),
            port,
            look,
            stack_bytes,
            wake,
            known: address.map(|address| (vec![SocketAddr::new(address, port)], Moment::new(Duration::ZERO))),
            is_address: address.is_some(),
            late: VecDeque::new(),
            failed: None,
            asked: None,
            questions: None,
            newest: 0,
            threads: Arc::default(),
            found,
            finder,
        }
    }

    /// The addresses, or until when to wait for them.
    pub(in crate::daemon) fn addresses(&mut self, now: Moment) -> Lookup {
        let age = self.known.as_ref().map(|(_, at)| at.elapsed(now));
        if self.is_address || age.is_some_and(|age| age < FRESH_LIMIT) {
            return self.last_time(now);
        }
        if self.failed.is_some_and(|failed| failed.elapsed(now) < FAILURE_LIMIT) {
            if age.is_some_and(|age| age < STALE_LIMIT) {
                return self.last_time(now);
            }
            return Lookup::Failed(Fault::NoHost);
        }
        match self.ask(now) {
            Ok(_) if age.is_none() => Lookup::Wait(None),
            Ok(asked) => match asked.after(PATIENCE) {
                until if until <= now => self.last_time(now),
                until => Lookup::Wait(Some(until)),
            },
            Err(error) => {
                log::debug!("backend: {}: no thread to look it up: {error}", self.host);
                self.last_time(now)
            }
        }
    }

    /// These addresses did not answer: whoever connects next need not wait for them.
    pub(in crate::daemon) fn are_late(&mut self, addresses: &[SocketAddr], now: Moment) {
        self.late.retain(|(late, _)| !addresses.contains(late));
        self.late.extend(addresses.iter().map(|address| (*address, now)));
        let too_many = self.late.len().saturating_sub(MOST_LATE);
        self.late.drain(..too_many);
    }

    /// Those of last time, with the late ones at the end.
    fn last_time(&self, now: Moment) -> Lookup {
        let is_late = |address: &SocketAddr| {
            let mut late = self.late.iter();
            late.any(|(late, at)| late == address && at.elapsed(now) < LATE_FOR)
        };
        match &self.known {
            Some((addresses, _)) => {
                let mut addresses = addresses.clone();
                addresses.sort_by_key(is_late);
                Lookup::Known(addresses)
            }
            None => Lookup::Failed(Fault::NoResolver),
        }
    }

    /// Has the name looked up, unless that is under way; since when it is.
    fn ask(&mut self, now: Moment) -> io::Result<Moment> {
        if let Some(asked) = self.asked {
            let hangs = asked.elapsed(now) >= HANGS_AFTER;
            if !hangs || self.threads.load(Ordering::Relaxed) >= MOST_THREADS {
                return Ok(asked);
            }
            log::debug!("backend: {}: the lookup hangs; another thread tries", self.host);
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
        Ok(now)
    }

    /// Starts a thread, and asks it.
    fn start(&mut self) -> io::Result<()> {
        let (questions, asked) = mpsc::channel();
        self.newest += 1;
        let thread = LookupThread {
            number: self.newest,
            host: self.host.clone(),
            port: self.port,
            look: self.look,
            asked,
            finder: self.finder.clone(),
            wake: Arc::clone(&self.wake),
            _counted: Counted::one_of(&self.threads),
        };
        threads::spawn("resolve", self.stack_bytes, move || thread.run())?;
        // It has just begun to listen.
        let _ = questions.send(());
        self.questions = Some(questions);
        Ok(())
    }

    /// Takes what was found; true: whoever waits should ask again.
    pub(in crate::daemon) fn take(&mut self, now: Moment) -> bool {
        let mut is_new = false;
        while let Ok((number, result)) = self.found.try_recv() {
            let is_newest = number == self.newest;
            match result {
                Ok(addresses) if !addresses.is_empty() => {
                    self.known = Some((addresses, now));
                    self.failed = None;
                }
                // One that was given up says nothing by failing.
                Ok(_) | Err(_) if !is_newest => continue,
                Ok(_) => self.failed = Some(now),
                Err(error) => {
                    log::debug!("backend: {}: {error}", self.host);
                    self.failed = Some(now);
                }
            }
            if is_newest {
                self.asked = None;
            }
            is_new = true;
        }
        is_new
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

/// What a thread needs. It ends when nobody asks it any more.
struct LookupThread {
    number: u64,
    host: String,
    port: u16,
    look: Look,
    asked: Receiver<()>,
    finder: Sender<Found>,
    wake: Wake,
    _counted: Counted,
}

impl LookupThread {
    fn run(self) {
        while self.asked.recv().is_ok() {
            let result = (self.look)(&self.host, self.port);
            if self.finder.send((self.number, result)).is_err() {
                return;
            }
            (self.wake)();
        }
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
