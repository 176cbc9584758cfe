//! The addresses of a name. Those of IPv4 and of IPv6 are looked up apart, because a name server
//! that fails one half of the question would hide the other half.
//!
//! The name is looked up only when a connection is to be opened, and never if it is an address. If
//! a look-up is slow, fails for the moment or finds no thread, the last known addresses are used:
//! no name server may hold up a heartbeat.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::daemon::backend::fault::Fault;
use crate::daemon::backend::lookup::{FamilyLookup, Look, NameQuery, STACK_BYTES};
use ojs_lifecycle::api::Moment;
use ojs_os::names::{self, AddressFamily, NameError};
use ojs_os::threads::LoopWake;

/// How long the last known addresses wait for newer ones.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the addresses of one family wait for those of the other (RFC 8305, section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// How long the last known addresses are used while the look-up fails or is not answered: time for
/// a name server to restart. Later another host may have them. An address that serves requests is
/// used for longer, because a name server must not stop heartbeats to a backend that works.
const STALE_LIMIT: Duration = Duration::from_secs(60);

/// No new question is sent so soon after an answer; a failure counts for a shorter time.
const FRESH_LIMIT: Duration = Duration::from_secs(3);
const FAILURE_LIMIT: Duration = Duration::from_millis(500);

/// For so long an address that did not answer is tried behind the others.
const LATE_FOR: Duration = Duration::from_secs(60);

/// Most addresses that are known not to answer.
const MOST_LATE: usize = 16;

/// The knowledge about a name.
#[derive(Debug)]
pub(in crate::daemon) enum Lookup {
    /// The addresses of the name.
    Known(Vec<SocketAddr>),
    /// The look-up is under way. At this time ojs-init uses the last known addresses if there are
    /// any, or repeats a look-up that failed.
    Wait(Option<Moment>),
    /// The name has no address that ojs-init could use.
    Failed(Fault),
}

/// Why there are no addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Miss {
    NoName,
    NoAddress,
    Failed,
    NoThread,
}

/// The addresses of one family.
struct Half {
    lookup: FamilyLookup,
    /// The last known addresses, and when they were found.
    known: Option<(Vec<SocketAddr>, Moment)>,
    /// Why the last look-up found none, and when.
    miss: Option<(Miss, Moment)>,
    /// When a request to one of the known addresses last succeeded.
    served_at: Option<Moment>,
}

/// The one name that there is.
pub(in crate::daemon) struct Names {
    host: String,
    /// The name itself, if it is an address.
    numeric: Option<SocketAddr>,
    /// IPv6 and IPv4, in the order in which they are tried.
    halves: [Half; 2],
    /// Addresses that did not answer, and when.
    late: VecDeque<(SocketAddr, Moment)>,
}

impl Names {
    /// The addresses of this host at this port. `wake` wakes the loop for [`Names::take`].
    pub(in crate::daemon) fn new(host: &str, port: u16, wake: LoopWake) -> Self {
        Self::with(host, port, wake, names::lookup, STACK_BYTES)
    }

    fn with(host: &str, port: u16, wake: LoopWake, look: Look, stack_bytes: usize) -> Self {
        let address = host.parse::<IpAddr>().ok();
        let question = NameQuery {
            host: host.to_owned(),
            port,
            look,
            wake,
            stack_bytes,
        };
        Self {
            host: host.to_owned(),
            numeric: address.map(|address| SocketAddr::new(address, port)),
            halves: [AddressFamily::V6, AddressFamily::V4]
                .map(|family| Half::new(FamilyLookup::new(question.clone(), family))),
            late: VecDeque::new(),
        }
    }

    /// The addresses, or until when to wait for them.
    pub(in crate::daemon) fn addresses(&mut self, now: Moment) -> Lookup {
        if let Some(address) = self.numeric {
            return Lookup::Known(vec![address]);
        }
        if let Some(first) = self.halves.iter().filter_map(|half| half.fresh_since(now)).min() {
            let until = first.after(RESOLUTION_DELAY);
            let is_pending = self.halves.iter().any(|half| half.lookup.asked.is_some());
            return if is_pending && now < until {
                Lookup::Wait(Some(until))
            } else {
                self.last_known(now)
            };
        }
        let host = &self.host;
        self.halves.iter_mut().for_each(|half| half.ask(host, now));
        self.without_fresh(now)
    }

    /// The result without a fresh answer: the last known addresses, after some time if newer ones
    /// may arrive.
    fn without_fresh(&self, now: Moment) -> Lookup {
        let has_known = self.halves.iter().any(|half| half.may_be_used(now));
        let pending = || self.halves.iter().filter_map(|half| Some((half, half.lookup.asked?)));
        // Only a family that had addresses is worth a wait, because another one may never answer.
        let of_known = pending().filter(|(half, _)| half.may_be_used(now));
        let asked = of_known.map(|(_, asked)| asked).max();
        match asked.or_else(|| pending().map(|(_, asked)| asked).max()) {
            Some(_) if !has_known => Lookup::Wait(self.halves.iter().filter_map(Half::again_at).min()),
            Some(asked) => match asked.after(PATIENCE) {
                until if until <= now => self.last_known(now),
                until => Lookup::Wait(Some(until)),
            },
            None if has_known => self.last_known(now),
            None => Lookup::Failed(self.fault()),
        }
    }

    /// Why there is no address. The fault of IPv4 counts, unless IPv4 merely has no address: a name
    /// server without IPv6 gives unreliable answers about it.
    fn fault(&self) -> Fault {
        let [v6, v4] = self.halves.each_ref().map(|half| half.miss.map(|(miss, _)| miss));
        let miss = if v4.is_none_or(|miss| miss == Miss::NoAddress) {
            v6.or(v4)
        } else {
            v4
        };
        match miss {
            Some(Miss::NoName) => Fault::NoHost,
            Some(Miss::NoAddress) | None => Fault::NoAddress,
            Some(Miss::Failed) => Fault::NameServerFailed,
            Some(Miss::NoThread) => Fault::NoResolver,
        }
    }

    /// Notes that these addresses did not answer, so the next request does not wait for them.
    pub(in crate::daemon) fn are_late(&mut self, addresses: &[SocketAddr], now: Moment) {
        self.late.retain(|(late, _)| !addresses.contains(late));
        self.late.extend(addresses.iter().map(|address| (*address, now)));
        let too_many = self.late.len().saturating_sub(MOST_LATE);
        self.late.drain(..too_many);
    }

    /// Notes that a request to this address succeeded.
    pub(in crate::daemon) fn served(&mut self, address: SocketAddr, now: Moment) {
        for half in &mut self.halves {
            if matches!(&half.known, Some((known, _)) if known.contains(&address)) {
                half.served_at = Some(now);
            }
        }
    }

    /// The last known addresses, with the late ones at the end.
    fn last_known(&self, now: Moment) -> Lookup {
        let is_late = |address: &SocketAddr| {
            let mut late = self.late.iter();
            late.any(|(late, at)| late == address && at.elapsed(now) < LATE_FOR)
        };
        let usable = self.halves.iter().filter(|half| half.may_be_used(now));
        let known = usable.filter_map(|half| half.known.as_ref());
        let known = known.flat_map(|(addresses, _)| addresses).copied();
        let (late, mut addresses): (Vec<SocketAddr>, Vec<_>) = known.partition(is_late);
        addresses.extend(late);
        Lookup::Known(addresses)
    }

    /// Takes the results of the threads. Returns true if waiting requests should look again.
    pub(in crate::daemon) fn take(&mut self, now: Moment) -> bool {
        let mut is_new = false;
        for half in &mut self.halves {
            while let Some(result) = half.lookup.take() {
                half.learn(&self.host, result, now);
                is_new = true;
            }
        }
        if self.halves.iter().any(|half| half.fresh_since(now).is_some()) {
            self.halves.iter_mut().for_each(|half| half.forget_outlived(now));
        }
        is_new
    }
}

impl Half {
    fn new(lookup: FamilyLookup) -> Self {
        Self {
            lookup,
            known: None,
            miss: None,
            served_at: None,
        }
    }

    /// When the addresses were found, if they are still fresh.
    fn fresh_since(&self, now: Moment) -> Option<Moment> {
        let (_, at) = self.known.as_ref().filter(|_| self.miss.is_none())?;
        (at.elapsed(now) < FRESH_LIMIT).then_some(*at)
    }

    /// When the failed look-up is repeated, because the other family may not answer for long.
    fn again_at(&self) -> Option<Moment> {
        let (miss, at) = self.miss.filter(|_| self.lookup.asked.is_none())?;
        match miss {
            Miss::Failed | Miss::NoThread => Some(at.after(FAILURE_LIMIT)),
            Miss::NoName | Miss::NoAddress => None,
        }
    }

    /// Whether the last known addresses may be used while no look-up has brought newer ones.
    fn may_be_used(&self, now: Moment) -> bool {
        let is_young = |at: &Moment| at.elapsed(now) < STALE_LIMIT;
        let outlives = match self.miss {
            Some((Miss::NoThread, _)) => true,
            // The name server has said nothing against the addresses.
            Some((Miss::Failed, _)) | None => self.served_at.as_ref().is_some_and(is_young),
            Some((Miss::NoName | Miss::NoAddress, _)) => false,
        };
        self.known.as_ref().is_some_and(|(_, at)| outlives || is_young(at))
    }

    /// Starts a look-up, unless one is under way or has just failed.
    fn ask(&mut self, host: &str, now: Moment) {
        let has_just_failed = self.miss.is_some_and(|(_, at)| at.elapsed(now) < FAILURE_LIMIT);
        if has_just_failed && self.lookup.asked.is_none() {
            return;
        }
        if let Err(error) = self.lookup.ask(now) {
            log::debug!("backend: {host}: no thread to look it up: {error}");
            self.miss = Some((Miss::NoThread, now));
        }
    }

    /// Records the result of a look-up.
    fn learn(&mut self, host: &str, result: Result<Vec<SocketAddr>, NameError>, now: Moment) {
        let miss = match result {
            Ok(addresses) => {
                self.known = Some((addresses, now));
                self.miss = None;
                return;
            }
            Err(NameError::NoName) => Miss::NoName,
            Err(NameError::NoAddress) => Miss::NoAddress,
            Err(NameError::Failed(text)) => {
                log::debug!("backend: {host}: {text}");
                Miss::Failed
            }
        };
        self.miss = Some((miss, now));
    }

    /// The other family has an answer. Drops the earlier addresses of this family if they are gone
    /// or too old.
    fn forget_outlived(&mut self, now: Moment) {
        let is_gone = matches!(self.miss, Some((Miss::NoName | Miss::NoAddress, _)));
        if is_gone || !self.may_be_used(now) {
            self.known = None;
        }
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
