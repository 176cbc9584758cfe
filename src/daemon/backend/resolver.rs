//! Names to addresses, with a deadline.
//!
//! The C library's lookup has none, so it runs on a thread of its own that may be left behind. ureq's own resolver does
//! the same, but panics when there is no thread to be had and starts it with signals unblocked.
//!
//! Every request asks for the addresses, also one that has a connection already. So where the lookup is slow, fails for
//! the moment or finds no thread, the addresses of last time do: no name server may hold up a heartbeat.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::daemon::backend::pool::STACK_BYTES;
use crate::os::clock;
use crate::os::threads;

/// Most lookups at once, those included that nobody waits for any more.
const MOST_LOOKUPS: usize = 160;

/// Most addresses of one name that are tried; what ureq has room for.
const MOST_ADDRESSES: usize = 16;

/// How long the addresses of last time wait for newer ones.
const FRESH_LIMIT: Duration = Duration::from_millis(500);

/// How long the addresses of last time do while the lookup fails: a name server that restarts has as long. Later the
/// addresses may be somebody else's.
const STALE_LIMIT: Duration = Duration::from_secs(60);

/// What is known of names in this process.
static NAMES: Names = Names::new();

/// Lookups and what they found.
struct Names {
    /// Lookups that have not ended.
    lookups: AtomicUsize,
    /// The name and port that was found last. There is one backend.
    last: Mutex<Option<KnownAddresses>>,
}

/// What is known of a name.
#[derive(Debug, Clone, PartialEq)]
struct KnownAddresses {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
    /// When it was found, on the monotonic clock.
    at: Duration,
}

/// How a name is looked up, for as long as that may take.
type RunningLookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

fn ask_the_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// See the module.
#[derive(Debug)]
pub(in crate::daemon) struct WithDeadline;

impl Resolver for WithDeadline {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default_port);
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match literal.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => match NAMES.look_up(host, port, *timeout.after, ask_the_system, STACK_BYTES) {
                Ok(Some(addresses)) => addresses,
                Ok(None) => return Err(Error::Timeout(timeout.reason)),
                Err(error) => {
                    log::debug!("backend: {host}: {error}");
                    return Err(Error::HostNotFound);
                }
            },
        };
        let mut resolved = self.empty();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            resolved.push(address);
        }
        if resolved.is_empty() {
            return Err(Error::HostNotFound);
        }
        Ok(resolved)
    }
}

/// Counts a lookup for as long as it lasts, however it ends.
struct Lookup(&'static Names);

impl Drop for Lookup {
    fn drop(&mut self) {
        self.0.lookups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Names {
    const fn new() -> Self {
        Self {
            lookups: AtomicUsize::new(0),
            last: Mutex::new(None),
        }
    }

    /// The addresses of a host; `None`: nobody knows in time.
    fn look_up(
        &'static self,
        host: &str,
        port: u16,
        limit: Duration,
        look: RunningLookup,
        stack_bytes: usize,
    ) -> io::Result<Option<Vec<SocketAddr>>> {
        let known = self.last_time(host, port);
        let patience = known.as_ref().map_or(limit, |_| limit.min(FRESH_LIMIT));
        let answer = match self.begin(host.to_owned(), port, look, stack_bytes) {
            Ok(answer) => answer,
            Err(error) => return known.map(|known| Some(known.addresses)).ok_or(error),
        };
        match answer.recv_timeout(patience) {
            Ok(Ok(addresses)) => Ok(Some(addresses)),
            Ok(Err(error)) => {
                let is_fresh = |known: &KnownAddresses| clock::monotonic().saturating_sub(known.at) < STALE_LIMIT;
                known.filter(is_fresh).map(|known| Some(known.addresses)).ok_or(error)
            }
            Err(_) => Ok(known.map(|known| known.addresses)),
        }
    }

    /// Starts a lookup. What it finds is remembered, also when nobody waits for it any more.
    fn begin(
        &'static self,
        host: String,
        port: u16,
        look: RunningLookup,
        stack_bytes: usize,
    ) -> io::Result<Receiver<io::Result<Vec<SocketAddr>>>> {
        let lookup = self
            .count()
            .ok_or_else(|| io::Error::other("too many lookups of names are unanswered"))?;
        let (found, answer) = mpsc::sync_channel(1);
        let work = move || {
            let result = look(&host, port);
            if let Ok(addresses) = &result {
                self.remember(host, port, addresses);
            }
            drop(lookup);
            // Nobody waits any more: then nobody needs it.
            let _ = found.send(result);
        };
        threads::spawn("resolve", stack_bytes, work)?;
        Ok(answer)
    }

    fn count(&'static self) -> Option<Lookup> {
        let more = |count| (count < MOST_LOOKUPS).then_some(count + 1);
        let counted = self.lookups.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok().map(|_| Lookup(self))
    }

    fn remember(&self, host: String, port: u16, addresses: &[SocketAddr]) {
        let known = KnownAddresses {
            host,
            port,
            addresses: addresses.to_vec(),
            at: clock::monotonic(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }

    fn last_time(&self, host: &str, port: u16) -> Option<KnownAddresses> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().filter(|known| known.host == host && known.port == port)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn names() -> &'static Names {
        Box::leak(Box::new(Names::new()))
    }

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 80).into()
    }

    fn found(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![address()])
    }

    fn failing(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Err(io::Error::other("try again"))
    }

    /// A name server that does not answer for longer than any test waits.
    fn silent(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        thread::park_timeout(PATIENCE * 3);
        Err(io::Error::other("no answer"))
    }

    #[test]
    fn a_name_is_looked_up_and_one_that_takes_too_long_is_given_up() {
        let look = |limit, look| names().look_up("localhost", 80, limit, look, STACK_BYTES).unwrap();
        let found = look(PATIENCE, ask_the_system as RunningLookup);
        assert!(found.unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(look(Duration::from_millis(10), silent), None);
    }

    #[test]
    fn a_slow_name_server_holds_up_a_known_name_for_half_a_second_only() {
        let names = names();
        names.look_up("b", 80, PATIENCE, found, STACK_BYTES).unwrap();
        let before = clock::monotonic();
        let again = names.look_up("b", 80, PATIENCE, silent, STACK_BYTES).unwrap();
        assert_eq!(again, Some(vec![address()]));
        assert!(clock::monotonic() - before < PATIENCE / 2);
        // Another port is another name.
        let other = names.look_up("b", 81, Duration::from_millis(10), silent, STACK_BYTES);
        assert_eq!(other.unwrap(), None);
    }

    #[test]
    fn a_known_name_outlives_a_failing_name_server_for_a_minute() {
        let names = names();
        let look = |look| names.look_up("b", 80, PATIENCE, look, STACK_BYTES);
        look(failing).unwrap_err();
        look(found).unwrap();
        assert_eq!(look(failing).unwrap(), Some(vec![address()]));
        let mut last = names.last.lock().unwrap();
        last.as_mut().unwrap().at = clock::monotonic().saturating_sub(STALE_LIMIT);
        drop(last);
        look(failing).unwrap_err();
    }

    #[test]
    fn without_a_thread_and_beyond_the_most_lookups_the_addresses_of_last_time_do() {
        let names = names();
        let look = |stack_bytes| names.look_up("b", 80, PATIENCE, found, stack_bytes);
        look(1 << 60).unwrap_err();
        assert!(look(STACK_BYTES).unwrap().is_some());
        assert_eq!(look(1 << 60).unwrap(), Some(vec![address()]));
        let taken: Vec<Lookup> = std::iter::from_fn(|| names.count()).collect();
        assert_eq!(taken.len(), MOST_LOOKUPS);
        assert_eq!(look(STACK_BYTES).unwrap(), Some(vec![address()]));
        let unknown = names.look_up("c", 80, PATIENCE, found, STACK_BYTES).unwrap_err();
        assert_eq!(unknown.to_string(), "too many lookups of names are unanswered");
    }
}
