//! Names to addresses, with a deadline.
//!
//! The C library's lookup has none, so it runs on a thread of its own that may be left behind. ureq's own resolver does
//! the same, but panics when there is no thread to be had and starts it with signals unblocked.
//!
//! Where there is no thread to be had the addresses of last time do: every request asks for them, also one that has a
//! connection already.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::lane_pool::STACK_BYTES;
use crate::os::signals::{self, SignalSet};

/// Most lookups at once, those included that nobody waits for any more.
const MOST_LOOKUPS: usize = 160;

/// Most addresses of one name that are tried; what ureq has room for.
const MOST_ADDRESSES: usize = 16;

/// Lookups that have not ended.
static LOOKUPS: AtomicUsize = AtomicUsize::new(0);

/// The name and port that was looked up last, and its addresses. There is one backend.
static LAST: Mutex<Option<Known>> = Mutex::new(None);

/// What is known of a name.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct WithDeadline;

impl Resolver for WithDeadline {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default_port);
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match literal.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => match look_up(host.to_owned(), port, *timeout.after, STACK_BYTES) {
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
struct Lookup;

impl Lookup {
    fn begin() -> Option<Self> {
        let more = |count| (count < MOST_LOOKUPS).then_some(count + 1);
        LOOKUPS
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| Self)
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        LOOKUPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The addresses of a host; `None`: nobody knows in time.
fn look_up(host: String, port: u16, limit: Duration, stack_bytes: usize) -> io::Result<Option<Vec<SocketAddr>>> {
    let lookup = Lookup::begin().ok_or_else(|| io::Error::other("too many lookups of names are unanswered"))?;
    let (found, answer) = mpsc::sync_channel(1);
    let name = host.clone();
    let look = move || {
        SignalSet::ALL.set_as_mask();
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        drop(lookup);
        // Nobody waits any more: then nobody needs it.
        let _ = found.send(addresses);
    };
    let thread = thread::Builder::new()
        .name("resolve".to_owned())
        .stack_size(stack_bytes);
    if let Err(error) = signals::around_thread_start(|| thread.spawn(look)) {
        return addresses_of_last_time(&name, port).map(Some).ok_or(error);
    }
    match answer.recv_timeout(limit) {
        Ok(addresses) => addresses.map(|addresses: Vec<SocketAddr>| {
            remember(name, port, &addresses);
            Some(addresses)
        }),
        Err(_) => Ok(None),
    }
}

fn remember(host: String, port: u16, addresses: &[SocketAddr]) {
    let known = Known {
        host,
        port,
        addresses: addresses.to_vec(),
    };
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
}

fn addresses_of_last_time(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = last.as_ref().filter(|known| known.host == host && known.port == port)?;
    Some(known.addresses.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_name_is_looked_up_and_one_that_takes_too_long_is_given_up() {
        let found = look_up("localhost".to_owned(), 80, PATIENCE, STACK_BYTES).unwrap();
        assert!(found.unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(
            look_up("localhost".to_owned(), 80, Duration::ZERO, STACK_BYTES).unwrap(),
            None
        );
    }

    #[test]
    fn without_a_thread_the_addresses_of_last_time_do() {
        // No other test asks for this name, so that nothing is known of it but what is found here.
        let look = |stack_bytes| look_up("127.0.0.1".to_owned(), 4711, PATIENCE, stack_bytes);
        look(1 << 60).unwrap_err();
        let found = look(STACK_BYTES).unwrap();
        assert!(found.is_some());
        assert_eq!(look(1 << 60).unwrap(), found);
        assert_eq!(addresses_of_last_time("127.0.0.1", 4712), None);
    }
}
