//! Workers that break the rules of the protocol, or do not read: it costs them, and nobody else.

use std::time::Duration;

use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage, job, moment, never};
use crate::support::proc;
use crate::support::wait::wait_until;

/// Most memory that the init may have touched, in KiB, whatever its workers do. It touches about 6
/// MiB by itself; a connection that does not read may have a frame and 4 MiB of answers waiting for
/// it.
const MOST_MEMORY_KIB: u64 = 32 << 10;

/// A second process with a connection of its own, which acks whatever it gets.
const STEADY: &str = "
def steady():
    link = Link()
    link.ready(types=['t'])
    note('steady')
    link.work()
child(steady)
while 'steady' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
";

/// With a process that misbehaves: `BAD` is its script.
fn beside_a_steady_one(stage: &Stage, bad: &str) -> Init {
    let bad = bad.replace('\n', "\n    ");
    let script = format!("{STEADY}\ndef bad():\n    {bad}\nnote('bad', child(bad))\nrest()");
    stage
        .worker(&script)
        .with_all(&[("OJS_CANCEL_GRACE", "200ms"), ("OJS_LOG_LEVEL", "info")])
        .start()
}

/// The steady one gets its jobs done.
fn assert_jobs_flow(stage: &Stage, numbers: std::ops::Range<u32>) {
    stage.enqueue(numbers.clone());
    for number in numbers {
        let id = format!("j{number}");
        assert!(wait_until(PATIENCE, || !stage.outcomes(&id).is_empty()), "{id}");
        assert_eq!(stage.outcomes(&id), [Outcome::Acked(None)], "{id}");
    }
}

#[test]
fn three_malformed_frames_in_a_row_close_the_connection_and_two_do_not() {
    let stage = Stage::new();
    let script = "
link = Link()
link.ready()
held = link.job()
for _ in range(2):
    for garbage in [b'hello', b'{\"type\":1}']:
        link.raw(garbage + b'\\n')
        note(link.until('error')['code'])
    link.say('pong', id=1)
link.ack(held)
link.until('ok')
for _ in range(3):
    link.raw(b'[]\\n')
link.note_all()
note('over')
rest()";
    stage.enqueue([1]);
    let mut init = stage.worker(script).start();
    init.notes_line("over");
    init.logs("closed by ojs-init: three malformed frames in a row");
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    let notes = init.notes();
    assert_eq!(
        notes.iter().filter(|line| line.starts_with("error")).count(),
        3,
        "{notes:?}"
    );
    assert_eq!(&notes[2..6], ["not_json", "invalid_frame", "not_json", "invalid_frame"]);
}

#[test]
fn a_process_that_talks_garbage_while_it_holds_a_job_is_ended_before_the_job_fails() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(types=['bad'])
link.job()
link.raw(b'garbage\\n' * 3)
while True:
    time.sleep(0.01)
    note('alive', time.monotonic_ns())";
    let mut init = beside_a_steady_one(&stage, bad);
    // Before that nobody takes its job.
    init.logs("connection 2 ");
    stage.backend.enqueue(r#"{"id":"j1","type":"bad","args":[]}"#);
    let error = stage.failure("j1");
    assert_eq!(error["code"], "worker_death", "{error}");
    let notes = init.notes();
    if let Some(last) = notes.iter().rev().find_map(|line| line.strip_prefix("alive ")) {
        assert!(stage.settled_at("j1") > moment(last), "{}", init.story());
    }
    assert_jobs_flow(&stage, 10..15);
    init.stops();
}

#[test]
fn a_frame_over_the_limit_is_refused_and_the_next_one_counts() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
held = link.job()
link.say('progress', job_id=held, progress=0.5, message='x' * 70000)
note(link.until('error')['code'])
link.ack(held, result='small')
link.note_all()";
    let mut init = stage.worker(script).with("OJS_MAX_FRAME", "64KiB").start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(Some("small".into()))]);
    init.notes_line("frame_too_long");
    init.stops();
}

#[test]
fn an_envelope_over_the_limit_fails_for_good_and_never_reaches_the_worker() {
    let stage = Stage::new();
    stage
        .backend
        .enqueue(&job(1, &format!(r#","meta":"{}""#, "x".repeat(70_000))));
    stage.enqueue([2]);
    let mut init = stage
        .worker("link = Link(); link.ready(2); link.work()")
        .with("OJS_MAX_FRAME", "64KiB")
        .start();
    stage.wait_for_outcomes();
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&"job_too_large".into(), &false.into()),
        "{error}"
    );
    assert_eq!(stage.outcomes("j2"), [Outcome::Acked(None)]);
    assert!(!init.notes().contains(&"job j1".to_owned()));
    init.stops();
}

#[test]
fn an_answer_for_a_job_of_another_connection_is_refused() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
other = Link()
other.until('hello')
link = Link()
link.ready()
held = link.job()
other.ack(held)
note('first', other.until('error')['code'])
link.ack(held, result=1)
link.until('ok')
link.ack(held, result=2)
note('second', link.until('error')['code'])
link.note_all()";
    let mut init = stage.worker(script).start();
    assert_eq!(init.noted("first"), "not_held");
    assert_eq!(init.noted("second"), "not_held");
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(Some(1.into()))]);
    init.stops();
}

#[test]
fn a_flood_of_answers_whose_errors_nobody_reads_neither_grows_the_init_nor_stops_the_others() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(types=['none'])
ack = b'{\"type\":\"ack\",\"job_id\":\"no such job\"}\\n' * 1000
link.socket.settimeout(1.5)
sent = 0
try:
    while sent < 100 << 20:
        sent += link.socket.send(ack)
except TimeoutError:
    note('stuck', sent)
except ConnectionError:
    note('thrown out', sent)
rest()";
    let mut init = beside_a_steady_one(&stage, bad);
    init.noted("bad");
    assert_jobs_flow(&stage, 0..50);
    let ended = wait_until(PATIENCE, || {
        init.notes()
            .iter()
            .any(|line| line.starts_with("stuck") || line.starts_with("thrown out"))
    });
    assert!(ended, "{}", init.story());
    assert_jobs_flow(&stage, 50..100);
    let peak = init.memory_kib("VmHWM");
    println!("peak memory in a flood of unread answers: {peak} KiB");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_process_that_floods_and_never_reads_is_ended() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(types=['none'])
ack = b'{\"type\":\"ack\",\"job_id\":\"no such job\"}\\n' * 1000
link.socket.settimeout(1)
try:
    while True:
        link.socket.send(ack)
except TimeoutError:
    note('stuck', os.getpid())
rest()";
    let mut init = beside_a_steady_one(&stage, bad);
    let process = init.noted("stuck");
    let process = init.outer_pid(&process);
    assert!(
        wait_until(Duration::from_secs(60), || !proc::lives(process)),
        "{}",
        init.story()
    );
    assert_jobs_flow(&stage, 0..5);
    init.stops();
}

#[test]
fn a_flood_of_frames_from_a_worker_that_reads_does_not_grow_the_init() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(types=['none'])
ack = b'{\"type\":\"ack\",\"job_id\":\"no such job\"}\\n' * 1000
import threading
def drain():
    while link.socket.recv(1 << 20):
        pass
threading.Thread(target=drain, daemon=True).start()
for _ in range(500):
    link.raw(ack)
note('flooded')
rest()";
    let mut init = beside_a_steady_one(&stage, bad);
    init.noted("bad");
    assert_jobs_flow(&stage, 0..30);
    // Half a million frames are work.
    let is_over = wait_until(Duration::from_secs(60), || init.notes().contains(&"flooded".to_owned()));
    assert!(is_over, "{}", init.story());
    let peak = init.memory_kib("VmHWM");
    println!("peak memory in a flood of answers: {peak} KiB");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_frame_without_an_end_does_not_grow_the_init() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(types=['none'])
for _ in range(100):
    link.raw(b'x' * (1 << 20))
note('sent')
link.raw(b'\\n')
link.note_all()
rest()";
    let mut init = beside_a_steady_one(&stage, bad);
    init.notes_line("sent");
    assert_jobs_flow(&stage, 0..10);
    init.notes_line("error frame_too_long");
    let peak = init.memory_kib("VmHWM");
    println!("peak memory with a frame of 100 MiB: {peak} KiB");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_worker_that_does_not_read_its_large_jobs_holds_up_nobody_and_gets_one_at_a_time() {
    let stage = Stage::new();
    let bad = "link = Link()
link.ready(4, types=['large'])
rest()";
    let mut init = beside_a_steady_one(&stage, bad);
    // Not before somebody takes them: the steady one has one place, and a job that nobody takes
    // would not wait in the last one.
    init.logs("takes up to 4 jobs");
    let large = format!(r#""{}""#, "x".repeat(2 << 20));
    for number in 0..4 {
        stage
            .backend
            .enqueue(&format!(r#"{{"id":"large{number}","type":"large","args":[{large}]}}"#));
    }
    assert_jobs_flow(&stage, 0..30);
    // Only the one that was begun is with it; the others could go to somebody else.
    never("a job ended", || {
        stage
            .backend
            .outcomes()
            .iter()
            .any(|(id, outcomes)| id.starts_with("large") && !outcomes.is_empty())
    });
    let peak = init.memory_kib("VmHWM");
    println!("peak memory with unread large jobs: {peak} KiB");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    let bad = init.noted("bad");
    let pid = init.outer_pid(&bad);
    crate::support::sys::send(pid, libc::SIGKILL).unwrap();
    let failed = wait_until(PATIENCE, || {
        let outcomes = stage.backend.outcomes();
        outcomes
            .values()
            // The others go to nobody, and fail for that.
            .filter(
                |outcomes| matches!(outcomes.as_slice(), [Outcome::Failed(error)] if error["code"] == "worker_death"),
            )
            .count()
            == 1
    });
    assert!(failed, "{:?}", stage.backend.outcomes());
    init.stops();
    stage.backend.assert_one_outcome_each();
}

#[test]
fn a_worker_that_reads_slowly_gets_every_byte_of_its_large_jobs() {
    let stage = Stage::new();
    let large = "y".repeat(1 << 20);
    for number in 0..3 {
        stage
            .backend
            .enqueue(&format!(r#"{{"id":"large{number}","type":"t","args":["{large}"]}}"#));
    }
    let script = "
link = Link()
link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
whole = link.socket
class Slow:
    def recv(self, most):
        time.sleep(0.0002)
        return whole.recv(16384)
    sendall = whole.sendall
link.socket = Slow()
link.ready(3)
while True:
    job = link.until('job')['job']
    link.ack(job['id'], result=len(job['args'][0]))";
    let mut init = stage.worker(script).start();
    stage.wait_for_outcomes();
    for outcomes in stage.backend.outcomes().values() {
        assert_eq!(outcomes, &[Outcome::Acked(Some(large.len().into()))]);
    }
    init.stops();
}

#[test]
fn many_connections_that_come_and_go_leave_no_descriptor_behind() {
    let stage = Stage::new();
    let script = format!(
        "{STEADY}
def come_and_go():
    for _ in range(20):
        Link().ready()
for _ in range(40):
    os.waitpid(child(come_and_go), 0)
note('done')
rest()"
    );
    let mut init = stage.worker(&script).with("OJS_LOG_LEVEL", "info").start();
    init.notes_line("steady");
    init.notes_line("done");
    // Two dozen are ours, the log's, and those of the connections that are left.
    let settled = wait_until(Duration::from_secs(5), || proc::descriptors(init.pid).len() <= 30);
    assert!(settled, "{:#?}", proc::descriptors(init.pid));
    // Requests on behalf of those who are gone have been answered.
    stage.wait_for_more(Endpoint::Fetch, 2);
    assert_jobs_flow(&stage, 1..5);
    init.stops();
}

#[test]
fn more_connections_than_are_allowed_wait_until_others_are_closed() {
    assert_no_more_connections_than(1024, "4096");
}

#[test]
fn with_few_descriptors_fewer_connections_are_allowed_and_all_of_them_work() {
    assert_no_more_connections_than(54, "364");
}

/// With this limit on the init's open files.
fn assert_no_more_connections_than(most: usize, open_files: &str) {
    let stage = Stage::new();
    let script = r#"
import resource
MOST = int(os.environ["MOST"])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
links = []
for _ in range(MOST):
    links.append(Link())
    links[-1].until('hello')
late = Link()
late.socket.settimeout(0.3)
try:
    late.line()
    note('too many')
except TimeoutError:
    note('waits')
late.socket.settimeout(None)
links.pop().socket.close()
late.ready()
late.work()"#;
    let limited = format!("ulimit -Sn {open_files}; exec \"$0\" \"$@\"");
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_LOG_LEVEL", "info"), ("MOST", &most.to_string())])
        .through(&["sh", "-c", &limited])
        .start();
    init.notes_line("waits");
    assert_jobs_flow(&stage, 0..3);
    init.stops();
}

#[test]
fn a_worker_whose_types_take_nothing_gets_no_job_and_the_backend_hears_why() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker("link = Link(); link.ready(10, types=['other']); link.note_all()")
        .with("OJS_READY_TIMEOUT", "500ms")
        .start();
    let error = stage.failure("j1");
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&"handler_not_found".into(), &true.into()),
        "{error}"
    );
    init.stops();
}

#[test]
fn a_released_job_is_given_back_and_nothing_is_fetched_at_once() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
link = Link()
link.ready()
link.say('release', job_id=link.job(), reason='later')
note(link.until('ok')['for'])
link.work()";
    let mut init = stage.worker(script).with("OJS_POLL_INTERVAL", "600ms").start();
    assert!(wait_until(PATIENCE, || stage.outcomes("j1").len() == 2));
    assert_eq!(stage.outcomes("j1"), [Outcome::Requeued, Outcome::Acked(None)]);
    let given_back = stage.settled_at("j1");
    let fetches = stage.backend.records_of(Endpoint::Fetch);
    let next = fetches.iter().find(|fetch| fetch.at > given_back).unwrap();
    assert!(
        next.at - given_back > Duration::from_millis(200),
        "{:?}",
        next.at - given_back
    );
    init.notes_line("release");
    init.stops();
}

#[test]
fn frames_behind_a_descriptor_or_urgent_data_are_read_at_once() {
    let stage = Stage::new();
    // Each pair goes out in one piece, as far as the kernel lets it: nothing comes after it that
    // would have us read again.
    let script = "
def frame(job):
    return json.dumps({'type': 'ack', 'job_id': job}).encode() + b'\\n'
link = Link()
link.ready(4)
jobs = [link.job() for _ in range(4)]
os.kill(os.getppid(), signal.SIGSTOP)
socket.send_fds(link.socket, [frame(jobs[0])], [0])
link.raw(frame(jobs[1]))
os.kill(os.getppid(), signal.SIGCONT)
for _ in range(2):
    link.until('ok')
os.kill(os.getppid(), signal.SIGSTOP)
link.raw(frame(jobs[2]))
link.socket.send(b'!', socket.MSG_OOB)
link.raw(frame(jobs[3]))
os.kill(os.getppid(), signal.SIGCONT)
for _ in range(2):
    link.until('ok')
note('over')
rest()";
    stage.enqueue(1..=4);
    let mut init = stage
        .worker(script)
        .with("OJS_CONCURRENCY", "4")
        .start_outside_a_namespace();
    init.notes_line("over");
    // Nobody ends the worker of an init that is no PID 1.
    init.stops();
}
