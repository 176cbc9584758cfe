//! Many connections at once, and words that wait on both sides: signals, timers and the others
//! still get their turn.

use std::time::Duration;

use crate::backend::{Endpoint, Outcome};
use crate::stage::{PATIENCE, Stage};
use crate::support::proc;
use crate::support::wait::{Stopwatch, wait_until};

/// Most memory that the init may have touched, in KiB, with two hundred connections that flood it.
const MOST_MEMORY_KIB: u64 = 48 << 10;

#[test]
fn two_hundred_connections_that_flood_delay_neither_heartbeats_nor_the_end_and_cost_little_memory() {
    let stage = Stage::new();
    let script = r#"
def flood():
    links = [Link() for _ in range(200)]
    for link in links:
        link.ready(types=["none"])
        link.socket.setblocking(False)
    note("flood")
    frames = b'{"type":"pong","id":1}\n' * 2000
    sent = dict.fromkeys(links, 0)
    while True:
        for link in links:
            try:
                sent[link] = (sent[link] + link.socket.send(frames[sent[link]:])) % len(frames)
            except BlockingIOError:
                pass

for _ in range(2):
    child(flood)
link = Link()
link.ready(types=["t"])
link.work()"#;
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_HEARTBEAT_INTERVAL", "200ms"), ("OJS_LOG_LEVEL", "info")])
        .start();
    init.notes_times("flood", 2);
    stage.enqueue(0..5);
    stage.wait_for_outcomes();
    // Two hundred connections want all that there is of the machine, and others work on it, too:
    // once is enough.
    let beats_in_three_seconds = || {
        let before = stage.backend.records_of(Endpoint::Heartbeat).len();
        wait_until(Duration::from_secs(3), || false);
        stage.backend.records_of(Endpoint::Heartbeat).len() - before
    };
    let mut most = 0;
    for _ in 0..4 {
        most = most.max(beats_in_three_seconds());
        if most >= 8 {
            break;
        }
    }
    assert!(most >= 8, "at most {most} heartbeats in three seconds");
    let peak = init.memory_kib("VmHWM");
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    println!("peak memory: {peak} KiB; gone in {took:?}");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_large_result_is_read_although_a_large_job_waits_to_be_read() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready(2)
first = link.job()
while not os.path.exists(os.environ['NOTES'] + '.go'):
    time.sleep(0.005)
link.ack(first, result='x' * (1 << 20))
note('written')
link.ack(link.job())
link.note_all()";
    let mut init = stage.worker(script).start();
    init.notes_line("job j1");
    let large = format!(r#"{{"id":"large","type":"t","args":["{}"]}}"#, "x".repeat(1 << 20));
    stage.backend.enqueue(&large);
    init.logs("Job given to the worker [job large, ");
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    init.notes_line("written");
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(Some("x".repeat(1 << 20).into()))]);
    assert_eq!(stage.outcomes("large"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_job_and_a_result_of_the_largest_size_pass_although_nothing_else_happens() {
    // `worker.max_frame` by default, less what a frame has besides its payload.
    const PAYLOAD: usize = (4 << 20) - 1024;
    let stage = Stage::new();
    let script = format!(
        "
link = Link()
link.ready(1)
job = link.until('job')['job']
link.ack(job['id'], result='x' * {PAYLOAD} if len(job['args'][0]) == {PAYLOAD} else 'cut')
link.note_all()"
    );
    let mut init = stage.worker(&script).start();
    let envelope = format!(r#"{{"id":"large","type":"t","args":["{}"]}}"#, "x".repeat(PAYLOAD));
    stage.backend.enqueue(&envelope);
    let began = Stopwatch::start();
    stage.wait_for_outcomes();
    // A frame that waits for something else to happen waits for the next ping, which comes after 10
    // s.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let acked = Outcome::Acked(Some("x".repeat(PAYLOAD).into()));
    assert!(stage.outcomes("large") == [acked], "{}", init.story());
    init.stops();
}

#[test]
fn a_process_that_will_never_read_again_is_ended_when_there_is_something_to_tell_it() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def deaf():
    link = Link()
    link.ready(2, types=['t'])
    link.job()
    link.socket.shutdown(socket.SHUT_RD)
    note('deaf')
    rest()

child(deaf)
rest()";
    let mut init = stage.worker(script).with("OJS_CANCEL_GRACE", "200ms").start();
    init.notes_line("deaf");
    stage.enqueue([2]);
    assert!(
        wait_until(PATIENCE, || !stage.outcomes("j1").is_empty()),
        "{}",
        init.story()
    );
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    init.stops();
}

/// Open files that the init may have: too few for a hold on each of [`CHILDREN`].
const FEW_FILES: &str = "ulimit -n 400; exec \"$@\"";
const CHILDREN: usize = 600;

#[test]
fn children_that_connect_once_and_live_on_cost_no_descriptors_without_end() {
    let stage = Stage::new();
    let script = format!(
        r#"
def once():
    Link().socket.close()
    note("closed")
    rest()

link = Link()
link.ready()
for number in range({CHILDREN}):
    child(once)
link.work()"#
    );
    let mut init = stage.worker(&script).through(&["sh", "-c", FEW_FILES, "sh"]).start();
    init.notes_times("closed", CHILDREN);
    stage.enqueue(0..5);
    stage.wait_for_outcomes();
    let open = proc::descriptors(init.pid).len();
    assert!(open < 256, "{open} descriptors");
    assert!(!init.log().contains("closed by ojs-init"), "{}", init.log());
    init.stops();
}

#[test]
fn children_that_had_a_job_are_watched_until_they_end_and_the_others_wait_for_that() {
    let stage = Stage::new();
    // Each takes one job, closes its connection without an answer and lives on.
    let script = r#"
def once():
    link = Link()
    link.ready()
    link.job()
    link.socket.close()
    note("took")
    rest()

for number in range(90):
    child(once)
rest()"#;
    let mut init = stage
        .worker(script)
        .with("OJS_CONCURRENCY", "100")
        .through(&["sh", "-c", "ulimit -n 288; exec \"$@\"", "sh"])
        .start();
    stage.enqueue(0..90);
    init.logs("keep all descriptors that there are for workers");
    let open = proc::descriptors(init.pid).len();
    assert!(open < 200, "{open} descriptors");
    assert!(init.is_running());
    init.stops();
}

#[test]
fn connections_that_are_closed_for_the_same_reason_again_and_again_are_told_once_in_a_while() {
    let stage = Stage::new();
    let script = "
for _ in range(60):
    link = Link()
    for _ in range(3):
        link.raw(b'[]\\n')
    while link.line() is not None:
        pass
note('over')
rest()";
    let mut init = stage.worker(script).start();
    init.notes_line("over");
    init.logs("closed by ojs-init: three malformed frames in a row");
    let log = init.log();
    let told = log
        .matches("closed by ojs-init: three malformed frames in a row")
        .count();
    assert!((1..=10).contains(&told), "{told} times: {log}");
}
