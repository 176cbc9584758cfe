//! Name servers that hang, fail, change and lie.
#![allow(clippy::unwrap_used, reason = "a test without its answer has failed")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(20);

type Answer = Result<Vec<SocketAddr>, NameError>;

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(1_000_000 + millis))
}

fn address(last: u8) -> SocketAddr {
    ([127, 0, 0, last], 80).into()
}

/// A name with an IPv4 address alone, as most have.
fn found(_: &str, _: u16, family: AddressFamily) -> Answer {
    match family {
        AddressFamily::V4 => Ok(vec![address(1)]),
        AddressFamily::V6 => Err(NameError::NoAddress),
    }
}

/// A name server that does not answer for longer than any test waits.
fn silent(_: &str, _: u16, _: AddressFamily) -> Answer {
    thread::park_timeout(LONG * 3);
    Err(NameError::Failed("no answer".to_owned()))
}

/// The answer of a name server to the two questions that a name such as `address+nodata` spells: A,
/// then AAAA.
fn as_spelled(host: &str, _: u16, family: AddressFamily) -> Answer {
    let (a, aaaa) = host.split_once('+').unwrap();
    match (family, if family == AddressFamily::V4 { a } else { aaaa }) {
        (AddressFamily::V4, "address") => Ok(vec![address(1)]),
        (AddressFamily::V6, "address") => Ok(vec!["[::1]:80".parse().unwrap()]),
        (_, "nodata") => Err(NameError::NoAddress),
        (_, "nxdomain") => Err(NameError::NoName),
        (_, "fails") => Err(NameError::Failed("SERVFAIL".to_owned())),
        _ => silent(host, 80, family),
    }
}

/// A name, and the wake-ups of its loop.
struct Rig {
    names: Names,
    woken: Receiver<()>,
}

fn rig(host: &str, look: Look, stack_bytes: usize) -> Rig {
    let (sender, woken) = mpsc::channel();
    let wake: LoopWake = Arc::new(move || sender.send(()).unwrap_or_default());
    Rig {
        names: Names::with(host, 80, wake, look, stack_bytes),
        woken,
    }
}

impl Rig {
    fn of(look: Look) -> Self {
        rig("b", look, STACK_BYTES)
    }

    /// Waits for so many results and takes them.
    fn hear(&mut self, results: usize, now: Moment) {
        for _ in 0..results {
            self.woken.recv_timeout(LONG).unwrap();
        }
        assert!(results == 0 || self.names.take(now));
    }

    fn known(&mut self, now: Moment) -> Vec<SocketAddr> {
        known(&mut self.names, now)
    }

    fn until(&mut self, now: Moment) -> Option<Moment> {
        match self.names.addresses(now) {
            Lookup::Wait(until) => until,
            other @ (Lookup::Known(_) | Lookup::Failed(_)) => panic!("{other:?}"),
        }
    }

    /// How many threads there are for IPv6 and for IPv4.
    fn threads(&self) -> [usize; 2] {
        self.names.halves.each_ref().map(|half| half.lookup.threads())
    }
}

fn known(names: &mut Names, now: Moment) -> Vec<SocketAddr> {
    match names.addresses(now) {
        Lookup::Known(addresses) => addresses,
        other @ (Lookup::Wait(_) | Lookup::Failed(_)) => panic!("{other:?}"),
    }
}

#[test]
fn an_address_asks_nobody() {
    for host in ["127.0.0.1", "::1"] {
        let mut rig = rig(host, silent, STACK_BYTES);
        assert_eq!(rig.known(at(0)), [SocketAddr::new(host.parse().unwrap(), 80)]);
        assert_eq!(rig.threads(), [0, 0]);
    }
}

/// A x AAAA: a received address is used whatever happens to the other half, at once or 50 ms later.
/// Without an address the fault is the right one.
#[test]
fn one_half_of_an_answer_is_enough_whatever_becomes_of_the_other() {
    let kinds = ["address", "nodata", "nxdomain", "fails", "silent"];
    for (a, aaaa) in kinds.iter().flat_map(|a| kinds.map(|aaaa| (*a, aaaa))) {
        let mut rig = rig(&format!("{a}+{aaaa}"), as_spelled, STACK_BYTES);
        assert_eq!(rig.until(at(0)), None, "{a} {aaaa}");
        let answered = [a, aaaa].iter().filter(|kind| **kind != "silent").count();
        rig.hear(answered, at(10));
        let addresses = [(aaaa, "[::1]:80"), (a, "127.0.0.1:80")].map(|(kind, address)| {
            let is_there = kind == "address";
            is_there.then(|| address.parse::<SocketAddr>().unwrap())
        });
        let addresses: Vec<SocketAddr> = addresses.into_iter().flatten().collect();
        if addresses.is_empty() {
            let fault = match (a, aaaa) {
                ("silent", _) | (_, "silent") => {
                    // The failed half is looked up again, because the other half may not answer for
                    // long.
                    let again = [a, aaaa].contains(&"fails").then(|| at(510));
                    assert_eq!(rig.until(at(10)), again, "{a} {aaaa}");
                    if again.is_some() {
                        rig.until(at(510));
                        rig.hear(1, at(520));
                        assert_eq!(rig.until(at(520)), Some(at(1_020)), "{a} {aaaa}");
                    }
                    continue;
                }
                ("nxdomain", _) | ("nodata", "nxdomain") => Fault::NoHost,
                ("nodata", "nodata") => Fault::NoAddress,
                _ => Fault::NameServerFailed,
            };
            let said = rig.names.addresses(at(10));
            assert_eq!(format!("{said:?}"), format!("Failed({fault:?})"), "{a} {aaaa}");
            continue;
        }
        if answered == 1 {
            assert_eq!(rig.until(at(10)), Some(at(60)), "{a} {aaaa}");
            assert_eq!(rig.known(at(60)), addresses, "{a} {aaaa}");
        }
        // Both are known within 3 s of the answer, and no question is sent again.
        assert_eq!(rig.known(at(60)), addresses, "{a} {aaaa}");
        assert_eq!(rig.known(at(3_009)), addresses, "{a} {aaaa}");
        assert_eq!(rig.threads(), [1, 1], "{a} {aaaa}");
    }
}

#[test]
fn a_name_is_looked_up_once_for_all_who_wait_and_again_only_after_a_while() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port, family| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        found(host, port, family)
    };
    let mut rig = Rig::of(look);
    assert_eq!([rig.until(at(0)), rig.until(at(1))], [None, None]);
    rig.hear(2, at(2));
    assert_eq!(rig.known(at(2)), [address(1)]);
    assert_eq!(rig.known(at(3_001)), [address(1)]);
    assert_eq!(COUNT.load(Ordering::Relaxed), 2);
    assert_eq!(rig.until(at(3_002)), Some(at(3_502)));
    rig.hear(2, at(3_003));
    assert_eq!(COUNT.load(Ordering::Relaxed), 4);
    assert_eq!(rig.threads(), [1, 1]);
}

#[test]
fn a_name_that_gets_another_address_is_followed_also_from_one_family_to_the_other() {
    static ROUND: AtomicU32 = AtomicU32::new(0);
    let look: Look = |_, _, family| match (ROUND.load(Ordering::Relaxed), family) {
        (0, AddressFamily::V4) => Ok(vec![address(1)]),
        (1, AddressFamily::V4) => Ok(vec![address(2)]),
        (2, AddressFamily::V6) => Ok(vec!["[::1]:80".parse().unwrap()]),
        _ => Err(NameError::NoAddress),
    };
    let mut rig = Rig::of(look);
    for (round, expected) in [(0, "127.0.0.1:80"), (1, "127.0.0.2:80"), (2, "[::1]:80")] {
        ROUND.store(round, Ordering::Relaxed);
        let now = at(u64::from(round) * 5_000);
        rig.until(now);
        rig.hear(2, now);
        assert_eq!(rig.known(now), [expected.parse().unwrap()]);
    }
}

#[test]
fn a_slow_name_server_holds_up_a_known_name_for_half_a_second_only() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port, family| match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => found(host, port, family),
        _ => silent(host, port, family),
    };
    let mut rig = Rig::of(look);
    rig.until(at(0));
    rig.hear(2, at(0));
    assert_eq!(rig.until(at(5_000)), Some(at(5_500)));
    assert_eq!(rig.known(at(5_500)), [address(1)]);
    // The last addresses stay in use during the look-up, without another wait.
    assert_eq!(rig.known(at(14_999)), [address(1)]);
    assert_eq!(rig.threads(), [1, 1]);
    // Another thread tries, and no third one.
    assert_eq!(rig.until(at(15_000)), Some(at(15_500)));
    assert_eq!(rig.threads(), [2, 2]);
    assert_eq!(rig.known(at(59_999)), [address(1)]);
    assert_eq!(rig.threads(), [2, 2]);
    // Later another host may have the address.
    assert_eq!(rig.until(at(60_000)), None);
}

#[test]
fn a_family_that_is_never_answered_holds_up_nothing_but_50_ms_of_each_look_up() {
    static ASKED: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
    let look: Look = |host, port, family| match family {
        AddressFamily::V4 => found(host, port, family),
        AddressFamily::V6 => {
            *ASKED.0.lock().unwrap() += 1;
            ASKED.1.notify_all();
            silent(host, port, family)
        }
    };
    let mut rig = Rig::of(look);
    assert_eq!(rig.until(at(0)), None);
    for round in 0_u64..8 {
        let now = at(round * 4_000);
        if round > 0 {
            assert_eq!(rig.until(now), Some(now.after(PATIENCE)));
        }
        rig.hear(1, now);
        assert_eq!(rig.until(now), Some(now.after(RESOLUTION_DELAY)));
        assert_eq!(rig.known(now.after(RESOLUTION_DELAY)), [address(1)]);
    }
    assert_eq!(rig.threads(), [2, 1]);
    // Each of its threads asks once. The latest may only just have started.
    let (asked, heard) = (ASKED.0.lock().unwrap(), &ASKED.1);
    let (asked, _) = heard.wait_timeout_while(asked, LONG, |asked| *asked < 2).unwrap();
    assert_eq!(*asked, 2);
}

#[test]
fn a_known_name_outlives_a_failing_name_server_for_a_minute() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port, family| match (family, COUNT.fetch_add(1, Ordering::Relaxed)) {
        (_, 0 | 1) => found(host, port, family),
        (AddressFamily::V4, 2 | 3) => Err(NameError::NoName),
        (AddressFamily::V4, _) => Err(NameError::Failed("try again".to_owned())),
        (AddressFamily::V6, _) => Err(NameError::NoAddress),
    };
    let mut rig = Rig::of(look);
    rig.until(at(0));
    rig.hear(2, at(0));
    for millis in [30_000, 59_000] {
        rig.until(at(millis));
        rig.hear(2, at(millis));
        assert_eq!(rig.known(at(millis)), [address(1)], "{millis}");
    }
    rig.until(at(60_000));
    rig.hear(2, at(60_000));
    assert!(matches!(
        rig.names.addresses(at(60_000)),
        Lookup::Failed(Fault::NameServerFailed)
    ));
    assert_eq!(COUNT.load(Ordering::Relaxed), 8);
}

#[test]
fn an_address_that_serves_requests_outlives_a_name_server_that_fails_and_none_that_denies_it() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port, family| match (family, COUNT.fetch_add(1, Ordering::Relaxed)) {
        (_, 0 | 1) => found(host, port, family),
        (AddressFamily::V4, 2..=5) => Err(NameError::Failed("try again".to_owned())),
        (AddressFamily::V4, _) => Err(NameError::NoName),
        (AddressFamily::V6, _) => Err(NameError::NoAddress),
    };
    let mut rig = Rig::of(look);
    rig.until(at(0));
    rig.hear(2, at(0));
    for seconds in [300, 600] {
        let now = at(seconds * 1_000);
        rig.names.served(address(1), now);
        rig.names.served(address(2), now.after(STALE_LIMIT));
        let later = now.after(STALE_LIMIT - PATIENCE);
        rig.until(later);
        rig.hear(2, later);
        assert_eq!(rig.known(later), [address(1)], "{seconds}");
        // The name server did not fail in between: this is a new question.
        assert!(matches!(
            rig.names.last_known(now.after(STALE_LIMIT)),
            Lookup::Known(addresses) if addresses.is_empty()
        ));
    }
    rig.names.served(address(1), at(900_000));
    rig.until(at(900_000));
    rig.hear(2, at(900_000));
    assert!(matches!(
        rig.names.addresses(at(900_000)),
        Lookup::Failed(Fault::NoHost)
    ));
}

#[test]
fn an_address_that_serves_requests_stays_while_only_the_other_family_is_answered() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port, family| match (family, COUNT.fetch_add(1, Ordering::Relaxed)) {
        (AddressFamily::V4, 2..) => Err(NameError::Failed("try again".to_owned())),
        (AddressFamily::V4, _) => found(host, port, family),
        (AddressFamily::V6, _) => Ok(vec![address(6)]),
    };
    let mut rig = Rig::of(look);
    for seconds in [0, 59, 118] {
        rig.until(at(seconds * 1_000));
        rig.hear(2, at(seconds * 1_000));
        assert!(rig.known(at(seconds * 1_000)).contains(&address(1)), "{seconds}");
        rig.names.served(address(1), at(seconds * 1_000));
    }
}

#[test]
fn without_a_thread_the_addresses_of_last_time_do() {
    let mut rig = rig("b", found, 1 << 60);
    let stack_bytes = |rig: &mut Rig, bytes| {
        rig.names
            .halves
            .iter_mut()
            .for_each(|half| half.lookup.question.stack_bytes = bytes);
    };
    assert!(matches!(rig.names.addresses(at(0)), Lookup::Failed(Fault::NoResolver)));
    stack_bytes(&mut rig, STACK_BYTES);
    rig.until(at(500));
    rig.hear(2, at(500));
    stack_bytes(&mut rig, 1 << 60);
    rig.names.halves.iter_mut().for_each(|half| half.lookup.lose_thread());
    assert_eq!(rig.known(at(900_000)), [address(1)]);
}

#[test]
fn an_address_that_did_not_answer_is_tried_behind_the_others_for_a_minute() {
    let mut names = Names::with("backend", 1, Arc::new(|| {}), found, STACK_BYTES);
    let all = ["10.0.0.1:1", "10.0.0.2:1"].map(|address| address.parse().unwrap());
    names.are_late(&all[..1], at(0));
    names.halves[1].known = Some((all.to_vec(), at(59_000)));
    assert_eq!(known(&mut names, at(59_999)), [all[1], all[0]]);
    assert_eq!(known(&mut names, at(60_000)), all);
    // There are never too many of them.
    for port in 0..1_000 {
        names.are_late(&[SocketAddr::from(([10, 0, 0, 3], port))], at(60_000));
    }
    assert_eq!(names.late.len(), MOST_LATE);
}
