//! Names to addresses, with a deadline.
//!
//! The C library's lookup has none, so it runs on a thread of its own that may be left behind. ureq's own resolver does
//! the same, but panics when there is no thread to be had and starts it with signals unblocked.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
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
            Err(_) => match look_up(host.to_owned(), port, *timeout.after) {
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
fn look_up(host: String, port: u16, limit: Duration) -> io::Result<Option<Vec<SocketAddr>>> {
    let lookup = Lookup::begin().ok_or_else(|| io::Error::other("too many lookups of names are unanswered"))?;
    let (found, answer) = mpsc::sync_channel(1);
    let look = move || {
        SignalSet::ALL.set_as_mask();
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        drop(lookup);
        // Nobody waits any more: then nobody needs it.
        let _ = found.send(addresses);
    };
    let thread = thread::Builder::new()
        .name("resolve".to_owned())
        .stack_size(STACK_BYTES);
    signals::around_thread_start(|| thread.spawn(look))?;
    match answer.recv_timeout(limit) {
        Ok(addresses) => addresses.map(Some),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_one_that_takes_too_long_is_given_up() {
        let found = look_up("localhost".to_owned(), 80, Duration::from_secs(20)).unwrap();
        assert!(found.unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(look_up("localhost".to_owned(), 80, Duration::ZERO).unwrap(), None);
    }
}
