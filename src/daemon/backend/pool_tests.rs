use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::*;
use crate::lifecycle::api::JobId;
use crate::os::clock;

/// Longest that any step of a test may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ids from here on hang until the gate opens.
const HANGS: u64 = 100;

/// The id of the call that panics.
const PANICS: u64 = 99;

/// Whose answer makes the taker of answers panic.
const POISONS: u64 = 98;

const PLAN: LanePlan = LanePlan {
    name: "lane",
    most_threads: 2,
    kept_threads: 0,
    most_waiting: 2,
    idle_limit: Duration::from_secs(3600),
    stack_bytes: STACK_BYTES,
};

/// A door that calls wait at.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let closed = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(closed, |is_open| !*is_open).unwrap());
    }
}

struct Fake(Arc<Gate>);

impl Work for Fake {
    fn carry_out(&mut self, job: &Ticket) -> (Reply, Heard) {
        if job.id.0 >= HANGS {
            self.0.pass();
        }
        assert_ne!(job.id.0, PANICS, "a bug");
        (Reply::Accepted, Heard::default())
    }
}

struct Rig {
    pool: Pool,
    gate: Arc<Gate>,
    made: Arc<AtomicUsize>,
    answers: Receiver<(u64, Reply, String)>,
}

impl Rig {
    fn new(plan: LanePlan) -> Self {
        let gate = Arc::new(Gate::default());
        let made = Arc::new(AtomicUsize::new(0));
        let (sender, answers): (Sender<_>, _) = channel();
        let make = {
            let (gate, made) = (Arc::clone(&gate), Arc::clone(&made));
            Arc::new(move || -> Box<dyn Work> {
                made.fetch_add(1, Ordering::SeqCst);
                Box::new(Fake(Arc::clone(&gate)))
            })
        };
        let answer = Arc::new(move |id: CallId, reply, _| {
            let name = thread::current().name().unwrap_or_default().to_owned();
            sender.send((id.0, reply, name)).unwrap();
            assert_ne!(id.0, POISONS, "a bug of whoever takes the answers");
        });
        Self {
            pool: Pool::new(plan, make, answer),
            gate,
            made,
            answers,
        }
    }

    fn send(&mut self, id: u64) {
        self.pool.send(Ticket {
            id: CallId(id),
            call: Call::GetJob { job: JobId("j".into()) },
            give_up: Moment::new(Duration::MAX),
        });
    }

    fn answer(&self) -> (u64, Reply, String) {
        self.answers.recv_timeout(PATIENCE).unwrap()
    }

    fn until(&self, condition: impl Fn(&PoolState) -> bool) {
        until_in(&self.pool.lane.shared, condition);
    }
}

fn until_in(shared: &PoolShared, condition: impl Fn(&PoolState) -> bool) {
    let deadline = clock::monotonic() + PATIENCE;
    while !condition(&shared.lock()) {
        assert!(clock::monotonic() < deadline, "the pool never gets there");
        thread::yield_now();
    }
}

fn no_room() -> Reply {
    Reply::Failed(Failure::Overloaded)
}

#[test]
fn an_idle_thread_takes_the_next_call() {
    let mut rig = Rig::new(PLAN);
    for id in 1..=3 {
        rig.send(id);
        assert_eq!(rig.answer(), (id, Reply::Accepted, "lane-1".to_owned()));
    }
    assert_eq!(rig.made.load(Ordering::SeqCst), 1);
}

#[test]
fn a_thread_that_hangs_delays_nobody_while_another_can_be_had() {
    let mut rig = Rig::new(PLAN);
    rig.send(HANGS);
    rig.until(|state| state.idle == 0);
    rig.send(1);
    assert_eq!(rig.answer(), (1, Reply::Accepted, "lane-2".to_owned()));
    rig.gate.open();
    assert_eq!(rig.answer().0, HANGS);
}

#[test]
fn beyond_the_threads_calls_wait_and_beyond_that_they_are_refused_at_once() {
    let mut rig = Rig::new(PLAN);
    for id in [HANGS, HANGS + 1, 1, 2, 3, 4] {
        rig.send(id);
    }
    let refused: Vec<_> = [rig.answer(), rig.answer()].into();
    let here = thread::current().name().unwrap_or_default().to_owned();
    assert_eq!(refused, [(3, no_room(), here.clone()), (4, no_room(), here)]);
    assert!(rig.answers.try_recv().is_err());
    rig.gate.open();
    let mut served: Vec<u64> = (0..4).map(|_| rig.answer().0).collect();
    served.sort_unstable();
    assert_eq!(served, [1, 2, HANGS, HANGS + 1]);
}

#[test]
fn a_burst_gets_a_thread_for_each_call_even_before_the_woken_ones_run() {
    let mut rig = Rig::new(PLAN);
    rig.send(1);
    rig.answer();
    rig.send(HANGS);
    rig.send(HANGS + 1);
    rig.until(|state| state.threads == 2 && state.idle == 0 && state.waiting.is_empty());
    rig.gate.open();
}

#[test]
fn a_panic_is_an_unanswered_call_and_nothing_else() {
    let mut rig = Rig::new(PLAN);
    rig.send(PANICS);
    let unanswered = Reply::Failed(Failure::Unanswered);
    assert_eq!(rig.answer(), (PANICS, unanswered, "lane-1".to_owned()));
    rig.send(1);
    assert_eq!(rig.answer(), (1, Reply::Accepted, "lane-1".to_owned()));
    assert_eq!(
        rig.made.load(Ordering::SeqCst),
        2,
        "its connection is not trusted any more"
    );
}

#[test]
fn a_panic_of_whoever_takes_an_answer_costs_no_thread() {
    let mut rig = Rig::new(LanePlan {
        most_threads: 1,
        ..PLAN
    });
    for id in [POISONS, 1] {
        rig.send(id);
        assert_eq!(rig.answer(), (id, Reply::Accepted, "lane-1".to_owned()));
    }
}

#[test]
fn whoever_has_an_answer_finds_its_thread_idle() {
    let mut rig = Rig::new(PLAN);
    for id in 1..=50 {
        rig.send(id);
        assert_eq!(rig.answer().2, "lane-1");
    }
}

#[test]
fn a_call_without_a_thread_was_no_room() {
    let mut rig = Rig::new(LanePlan {
        stack_bytes: 1 << 60,
        ..PLAN
    });
    for id in 1..=5 {
        rig.send(id);
        assert_eq!((rig.answer().1, rig.pool.lane.shared.lock().threads), (no_room(), 0));
    }
}

#[test]
fn calls_wait_for_the_threads_that_there_are_when_no_further_one_can_be_had() {
    let mut rig = Rig::new(LanePlan {
        kept_threads: 1,
        most_threads: 4,
        ..PLAN
    });
    rig.pool.keep_one();
    rig.pool.keep_one();
    rig.until(|state| (state.threads, state.idle) == (1, 1));
    rig.pool.lane.plan.stack_bytes = 1 << 60;
    for id in [HANGS, 1, 2, 3] {
        rig.send(id);
        if id == HANGS {
            rig.until(|state| state.waiting.is_empty());
        }
    }
    assert_eq!((rig.answer().0, rig.pool.lane.shared.lock().threads), (3, 1));
    rig.gate.open();
    let served: Vec<_> = (0..3).map(|_| rig.answer()).collect();
    for (answer, id) in served.iter().zip([HANGS, 1, 2]) {
        assert_eq!(*answer, (id, Reply::Accepted, "lane".to_owned()));
    }
}

#[test]
fn threads_that_are_idle_for_long_end_but_for_those_that_are_kept() {
    let mut rig = Rig::new(LanePlan {
        kept_threads: 1,
        idle_limit: Duration::from_millis(20),
        ..PLAN
    });
    rig.send(HANGS);
    rig.send(HANGS + 1);
    rig.until(|state| state.threads == 2 && state.idle == 0 && state.waiting.is_empty());
    rig.gate.open();
    rig.until(|state| state.threads == 1 && state.idle == 1);
    rig.send(1);
    let names = [rig.answer(), rig.answer(), rig.answer()].map(|(_, _, name)| name);
    assert!(
        names.contains(&"lane".to_owned()) && names.contains(&"lane-2".to_owned()),
        "{names:?}"
    );
    rig.until(|state| state.threads == 1);
}

#[test]
fn a_dropped_pool_answers_what_waits_and_lets_its_threads_go() {
    let mut rig = Rig::new(LanePlan {
        most_threads: 1,
        kept_threads: 1,
        ..PLAN
    });
    rig.send(HANGS);
    rig.until(|state| state.idle == 0);
    rig.send(1);
    let shared = Arc::clone(&rig.pool.lane.shared);
    let Rig {
        pool, gate, answers, ..
    } = rig;
    drop(pool);
    let first = answers.recv_timeout(PATIENCE).unwrap();
    assert_eq!((first.0, first.1), (1, no_room()));
    gate.open();
    assert_eq!(answers.recv_timeout(PATIENCE).unwrap().0, HANGS);
    until_in(&shared, |state| state.threads == 0);
}
