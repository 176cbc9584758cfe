//! Name servers that hang, fail, change and lie.
#![allow(clippy::unwrap_used, reason = "a test without its answer has failed")]

use std::sync::atomic::AtomicU32;
use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(1_000_000 + millis))
}

fn address(last: u8) -> SocketAddr {
    ([127, 0, 0, last], 80).into()
}

fn found(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(vec![address(1)])
}

/// A name server that does not answer for longer than any test waits.
fn silent(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    thread::park_timeout(LONG * 3);
    Err(io::Error::other("no answer"))
}

/// What the loop is told, and the name.
struct Rig {
    names: Names,
    woken: Receiver<()>,
}

fn rig(look: Look, stack_bytes: usize) -> Rig {
    let (sender, woken) = mpsc::channel();
    let wake: Wake = Arc::new(move || sender.send(()).unwrap_or_default());
    Rig {
        names: Names::with("b", 80, wake, look, stack_bytes),
        woken,
    }
}

impl Rig {
    fn of(look: Look) -> Self {
        rig(look, STACK_BYTES)
    }

    fn hear(&mut self, now: Moment) {
        self.woken.recv_timeout(LONG).unwrap();
        assert!(self.names.take(now));
    }

    fn known(&mut self, now: Moment) -> Vec<SocketAddr> {
        match self.names.addresses(now) {
            Lookup::Known(addresses) => addresses,
            other @ (Lookup::Wait(_) | Lookup::Failed(_)) => panic!("{other:?}"),
        }
    }

    fn until(&mut self, now: Moment) -> Option<Moment> {
        match self.names.addresses(now) {
            Lookup::Wait(until) => until,
            other @ (Lookup::Known(_) | Lookup::Failed(_)) => panic!("{other:?}"),
        }
    }

    fn threads(&self) -> usize {
        self.names.threads.load(Ordering::Relaxed)
    }
}

#[test]
fn an_address_asks_nobody() {
    for host in ["127.0.0.1", "::1"] {
        let mut names = Names::with(host, 80, Arc::new(|| ()), silent, STACK_BYTES);
        let Lookup::Known(addresses) = names.addresses(at(0)) else {
            panic!("{host}")
        };
        assert_eq!(addresses, [SocketAddr::new(host.parse().unwrap(), 80)]);
        assert_eq!(names.newest, 0, "no thread");
    }
}

#[test]
fn a_name_is_looked_up_once_for_all_who_wait_and_again_only_after_a_while() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port| {
        COUNT.fetch_add(1, Ordering::Relaxed);
        found(host, port)
    };
    let mut rig = Rig::of(look);
    assert_eq!([rig.until(at(0)), rig.until(at(1))], [None, None]);
    rig.hear(at(2));
    assert_eq!(rig.known(at(2)), [address(1)]);
    assert_eq!(rig.known(at(3_001)), [address(1)]);
    assert_eq!(COUNT.load(Ordering::Relaxed), 1);
    assert_eq!(rig.until(at(3_002)), Some(at(3_502)));
    rig.hear(at(3_003));
    assert_eq!(COUNT.load(Ordering::Relaxed), 2);
    assert_eq!(rig.threads(), 1);
}

#[test]
fn a_name_that_gets_another_address_is_followed() {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut rig = Rig::of(|_, _| {
        Ok(vec![address(
            u8::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap(),
        )])
    });
    rig.until(at(0));
    rig.hear(at(0));
    assert_eq!(rig.known(at(0)), [address(1)]);
    rig.until(at(5_000));
    rig.hear(at(5_000));
    assert_eq!(rig.known(at(5_000)), [address(2)]);
}

#[test]
fn a_slow_name_server_holds_up_a_known_name_for_half_a_second_only() {
    static IS_SILENT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port| match IS_SILENT.fetch_add(1, Ordering::Relaxed) {
        0 => found(host, port),
        _ => silent(host, port),
    };
    let mut rig = Rig::of(look);
    rig.until(at(0));
    rig.hear(at(0));
    assert_eq!(rig.until(at(5_000)), Some(at(5_500)));
    assert_eq!(rig.known(at(5_500)), [address(1)]);
    // However long it takes, and without waiting again.
    assert_eq!(rig.known(at(14_999)), [address(1)]);
    assert_eq!(rig.threads(), 1);
    // Another thread tries, and no third one.
    assert_eq!(rig.until(at(15_000)), Some(at(15_500)));
    assert_eq!(rig.threads(), 2);
    assert_eq!(rig.known(at(60_000)), [address(1)]);
    assert_eq!(rig.threads(), 2);
}

#[test]
fn a_known_name_outlives_a_failing_name_server_for_a_minute() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let look: Look = |host, port| match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => found(host, port),
        1 => Ok(Vec::new()),
        _ => Err(io::Error::other("try again")),
    };
    let mut rig = Rig::of(look);
    rig.until(at(0));
    rig.hear(at(0));
    for millis in [30_000, 59_000] {
        rig.until(at(millis));
        rig.hear(at(millis));
        assert_eq!(rig.known(at(millis)), [address(1)], "{millis}");
    }
    rig.until(at(60_000));
    rig.hear(at(60_000));
    assert!(matches!(rig.names.addresses(at(60_000)), Lookup::Failed(Fault::NoHost)));
    assert_eq!(COUNT.load(Ordering::Relaxed), 4);
}

#[test]
fn without_a_thread_the_addresses_of_last_time_do() {
    let mut rig = rig(found, 1 << 60);
    assert!(matches!(rig.names.addresses(at(0)), Lookup::Failed(Fault::NoResolver)));
    rig.names.stack_bytes = STACK_BYTES;
    rig.until(at(0));
    rig.hear(at(0));
    rig.names.stack_bytes = 1 << 60;
    rig.names.questions = None;
    assert_eq!(rig.known(at(9_000)), [address(1)]);
}

#[test]
fn the_system_knows_this_machine() {
    let found = ask_the_system("localhost", 80).unwrap();
    assert!(!found.is_empty() && found.iter().all(|address| address.ip().is_loopback()));
}

#[test]
fn an_address_that_did_not_answer_is_tried_behind_the_others_for_a_minute() {
    let mut names = Names::with("backend", 1, Arc::new(|| {}), ask_the_system, STACK_BYTES);
    let all = ["10.0.0.1:1", "10.0.0.2:1"].map(|address| address.parse().unwrap());
    names.are_late(&all[..1], at(0));
    names.known = Some((all.to_vec(), at(59_000)));
    let order = |names: &mut Names, millis| match names.addresses(at(millis)) {
        Lookup::Known(addresses) => addresses,
        other @ (Lookup::Wait(_) | Lookup::Failed(_)) => panic!("{other:?}"),
    };
    assert_eq!(order(&mut names, 59_999), [all[1], all[0]]);
    assert_eq!(order(&mut names, 60_000), all);
    // There are never too many of them.
    for port in 0..1_000 {
        names.are_late(&[SocketAddr::from(([10, 0, 0, 3], port))], at(60_000));
    }
    assert_eq!(names.late.len(), MOST_LATE);
}
