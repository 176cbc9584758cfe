//! Processes that go away, or that have to: what becomes of the jobs that they held.

use std::time::Duration;

use serde_json::json;

use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, Stage, job, moment, never};
use crate::support::proc;

/// The error of a job whose process is gone.
fn is_worker_death(error: &serde_json::Value) -> bool {
    error["code"] == "worker_death" && error["retryable"] == true
}

#[test]
fn a_worker_that_ends_with_a_job_ends_the_init_with_its_status_after_one_fail() {
    for (end, status, how) in [
        ("os._exit(9)", 9, json!({"exit_status": 9, "held": 1, "oom_kills": 0})),
        ("die()", 137, json!({"signal": "SIGKILL", "held": 1, "oom_kills": 0})),
        (
            "die(signal.SIGSEGV)",
            139,
            json!({"signal": "SIGSEGV", "held": 1, "oom_kills": 0}),
        ),
        ("os._exit(0)", 0, json!({"exit_status": 0, "held": 1, "oom_kills": 0})),
    ] {
        let stage = Stage::new();
        stage.enqueue([1]);
        let mut init = stage
            .worker(&format!("link = Link(); link.ready(); link.job(); {end}"))
            .start();
        init.ends_with(status);
        let error = stage.failure("j1");
        assert!(is_worker_death(&error), "{error}");
        assert_eq!(error["details"], how, "{error}");
        let last = stage.backend.records().pop().unwrap();
        assert_eq!(last.endpoint, Endpoint::Deregister);
    }
}

#[test]
fn a_worker_that_closes_its_socket_on_its_way_out_keeps_its_exit_status() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "link = Link(); link.ready(); link.job(); link.socket.close(); os._exit(9)";
    let mut init = stage.worker(script).start();
    init.ends_with(9);
    assert!(is_worker_death(&stage.failure("j1")));
}

#[test]
fn a_status_of_the_worker_that_is_mapped_ends_the_init_with_success() {
    for (mapped, status) in [("9,143", 0), ("143", 9)] {
        let stage = Stage::new();
        let worker = stage.worker("link = Link(); link.ready(); os._exit(9)");
        let mut init = worker.with("OJS_INIT_REMAP_EXIT", mapped).start();
        init.ends_with(status);
    }
}

#[test]
fn a_worker_that_ended_in_good_order_is_not_started_again_on_failure_only() {
    let stage = Stage::new();
    let mut init = stage
        .worker("link = Link(); link.ready()")
        .with("OJS_RESTART", "on-failure")
        .start();
    init.ends_with(0);
    assert_eq!(stage.backend.records_of(Endpoint::Register).len(), 1);
}

#[test]
fn what_each_worker_leaves_behind_is_asked_to_end_and_killed_also_where_proc_is_not_mounted() {
    let stage = Stage::new();
    let unmount = "while umount -l /proc 2> /dev/null; do :; done; [ ! -e /proc/self ] && exec \"$@\"";
    let script = "
def stays():
    note_signals(signal.SIGTERM)
    note('left')
    os.write(told, b'.')
    rest()
lives = os.open(os.environ['MARK'], os.O_RDWR | os.O_APPEND | os.O_CREAT)
if os.fstat(lives).st_size == 2:
    link = Link()
    link.ready()
    note('last')
    rest()
os.write(lives, b'.')
hears, told = os.pipe()
child(stays)
os.read(hears, 1)
os._exit(1)";
    let start = stage.worker(script).with("MARK", stage.at("mark"));
    let mut init = start
        .with_all(&[("OJS_RESTART", "always"), ("OJS_CANCEL_GRACE", "100ms")])
        .through(&["unshare", "-m", "--", "sh", "-c", unmount, "sh"])
        .start();
    init.notes_line("last");
    assert_eq!(
        init.notes().iter().filter(|line| *line == "signal 15").count(),
        2,
        "{}",
        init.story()
    );
    assert_eq!(proc::descendants(init.pid).len(), 1, "{}", init.story());
    init.stops();
}

#[test]
fn with_process_group_what_is_left_of_a_worker_that_ended_by_sigterm_gets_no_second_one() {
    let stage = Stage::new();
    // The kernel shows starts in ticks of 10 ms.
    let script = "
def stays():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    time.sleep(0.02)
    note('runs')
    signal.sigwait([signal.SIGTERM])
    again = signal.sigtimedwait([signal.SIGTERM], 0.3)
    note('asked', 'again' if again else 'once')
child(stays)
link = Link()
link.ready()
rest()";
    let start = stage.worker(script).with("OJS_INIT_PROCESS_GROUP", "true");
    let mut init = start.with("OJS_CANCEL_GRACE", "5s").start();
    init.notes_line("runs");
    init.logs("takes up to 1 job");
    init.signal(libc::SIGTERM);
    assert_eq!(init.noted("asked"), "once", "{}", init.story());
    init.ends_with(0);
}

#[test]
fn a_prefork_process_that_dies_with_a_job_costs_that_job_only() {
    let stage = Stage::new();
    stage.enqueue([1, 2]);
    // The child of the child holds it.
    let script = "
def victim():
    link = Link()
    link.ready()
    note('victim', link.job(), os.getpid())
    rest()

def steady():
    link = Link()
    link.ready()
    held = link.job()
    note('steady', held)
    while not os.path.exists(os.environ['NOTES'] + '.go'):
        time.sleep(0.01)
    link.ack(held)
    link.work()

child(lambda: (child(victim), rest()))
while 'victim' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
child(steady)
rest()";
    let mut init = stage.worker(script).start();
    let victim = init.noted("victim");
    let (lost, pid) = victim.split_once(' ').unwrap();
    let kept = init.noted("steady");
    crate::support::sys::send(init.outer_pid(pid), libc::SIGKILL).unwrap();
    let error = stage.failure(lost);
    assert!(is_worker_death(&error), "{error}");
    assert!(stage.outcomes(&kept).is_empty());
    std::fs::write(stage.at("init.notes.go"), "").unwrap();
    stage.enqueue([3]);
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes(&kept), [Outcome::Acked(None)]);
    assert_eq!(stage.outcomes("j3"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn no_job_fails_before_a_daemon_that_the_dead_worker_left_is_gone() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def daemon():
    def leave(*_):
        time.sleep(0.4)
        note('daemon', time.monotonic_ns())
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    note('there')
    rest()

link = Link()
link.ready()
link.job()
child(lambda: child(daemon, session=True))
while 'there' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
die()";
    let mut init = stage.worker(script).with("OJS_CANCEL_GRACE", "5s").start();
    let error = stage.failure("j1");
    assert!(is_worker_death(&error), "{error}");
    assert!(
        stage.settled_at("j1") > moment(&init.noted("daemon")),
        "{}",
        init.story()
    );
    init.ends_with(137);
}

#[test]
fn a_daemon_that_does_not_listen_is_killed_before_the_job_of_the_dead_worker_fails() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def daemon():
    note_signals(signal.SIGTERM)
    note('alive', time.monotonic_ns())
    note('there')
    while True:
        time.sleep(0.01)
        note('alive', time.monotonic_ns())

link = Link()
link.ready()
link.job()
child(daemon, session=True)
while 'there' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
die()";
    let mut init = stage.worker(script).with("OJS_CANCEL_GRACE", "300ms").start();
    let error = stage.failure("j1");
    assert!(is_worker_death(&error), "{error}");
    let notes = init.notes();
    let last = notes.iter().rev().find_map(|line| line.strip_prefix("alive ")).unwrap();
    assert!(stage.settled_at("j1") > moment(last), "{}", init.story());
    assert!(notes.contains(&"signal 15".to_owned()));
    init.ends_with(137);
}

#[test]
fn the_processes_of_a_dead_worker_that_hold_jobs_are_ended_too() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def serve():
    link = Link()
    link.ready()
    link.job()
    rest()

child(serve, session=True)
while 'job' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
sys.exit(5)";
    let mut init = stage.worker(script).start();
    init.ends_with(5);
    let error = stage.failure("j1");
    assert!(is_worker_death(&error), "{error}");
}

/// A worker whose process closes its connection while it holds a job, and lives on.
const CLOSES: &str = "
note_signals(signal.SIGTERM, signal.SIGCONT)
def serve():
    link = Link()
    link.ready()
    link.job()
    note('alive', time.monotonic_ns())
    link.socket.close()
    while True:
        time.sleep(0.01)
        note('alive', time.monotonic_ns())

child(serve)
rest()";

#[test]
fn a_process_that_closes_its_connection_with_a_job_is_asked_and_killed_before_the_job_fails() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(CLOSES).with("OJS_CANCEL_GRACE", "400ms").start();
    let error = stage.failure("j1");
    assert!(is_worker_death(&error), "{error}");
    let notes = init.notes();
    let position = |wanted: &str| notes.iter().position(|line| line == wanted);
    assert!(
        position("signal 15").is_some() && position("signal 18").is_some(),
        "{}",
        init.story()
    );
    let last = notes.iter().rev().find_map(|line| line.strip_prefix("alive ")).unwrap();
    let first = notes.iter().find_map(|line| line.strip_prefix("alive ")).unwrap();
    assert!(stage.settled_at("j1") > moment(last));
    let grace = moment(last) - moment(first);
    assert!(grace > Duration::from_millis(250), "{grace:?}");
    // The worker itself goes on.
    assert!(init.is_running());
}

#[test]
fn a_process_that_is_being_ended_gets_no_job_on_its_other_connection() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
note_signals(signal.SIGTERM)
def serve():
    link, other = Link(), Link()
    link.ready()
    link.job()
    other.ready()
    link.socket.close()
    other.job()
    note('took another')
    rest()

child(serve)
rest()";
    let mut init = stage.worker(script).with("OJS_CANCEL_GRACE", "700ms").start();
    init.notes_line("signal 15");
    stage.enqueue([2]);
    assert!(is_worker_death(&stage.failure("j1")), "{}", init.story());
    assert!(!init.notes().contains(&"took another".to_owned()), "{}", init.story());
    never("a job that nobody had fails", || {
        stage.outcomes("j2").iter().any(|outcome| *outcome != Outcome::Requeued)
    });
}

#[test]
fn the_reservation_is_kept_while_a_process_without_its_connection_is_being_ended() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(CLOSES)
        .with_all(&[("OJS_CANCEL_GRACE", "1s"), ("OJS_HEARTBEAT_INTERVAL", "100ms")])
        .start();
    init.notes_line("signal 15");
    let before = stage.backend.records_of(Endpoint::Heartbeat).len();
    stage.failure("j1");
    let beats = stage.backend.records_of(Endpoint::Heartbeat);
    let failed_at = stage.settled_at("j1");
    let named: Vec<_> = beats[before..]
        .iter()
        .filter(|beat| beat.at < failed_at)
        .map(|beat| beat.json()["active_jobs"].clone())
        .collect();
    assert!(named.len() >= 3, "{named:?}");
    // The one that goes out right after the FAIL may overtake it on another connection.
    let without_last = &named[..named.len() - 1];
    assert!(
        without_last.iter().all(|jobs| *jobs == serde_json::json!(["j1"])),
        "{named:?}"
    );
}

#[test]
fn a_job_that_outlives_its_timeout_is_cancelled_and_then_fails_with_its_process() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout_ms":100"#));
    let script = "
def serve():
    note_signals(signal.SIGTERM)
    link = Link()
    link.ready()
    link.job()
    link.note_all()

child(serve)
rest()";
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_TIMEOUT_GRACE", "200ms"), ("OJS_CANCEL_GRACE", "200ms")])
        .start();
    let error = stage.failure("j1");
    assert_eq!(error["code"], "timeout", "{error}");
    assert_eq!(error["retryable"], true);
    let notes = init.notes();
    assert!(notes.contains(&"cancel timeout j1".to_owned()), "{notes:?}");
    assert!(notes.contains(&"signal 15".to_owned()), "{notes:?}");
    init.stops();
}

#[test]
fn an_ack_within_the_grace_of_a_timeout_is_an_ack() {
    let stage = Stage::new();
    stage.backend.enqueue(&job(1, r#","timeout":0.1"#));
    let mut init = stage
        .worker("link = Link(); link.ready(); held = link.job(); link.until('cancel'); link.ack(held); link.work()")
        .start();
    stage.wait_for_outcomes();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn a_worker_that_dies_while_the_backend_is_away_fails_its_job_once_it_is_back() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker("link = Link(); link.ready(); link.job(); rest()").start();
    init.notes_line("job j1");
    stage.backend.refuse_connections();
    crate::support::sys::send(proc::children(init.pid)[0], libc::SIGKILL).unwrap();
    init.logs("the worker failed");
    stage.backend.accept_connections();
    assert!(is_worker_death(&stage.failure("j1")));
    init.ends_with(137);
    stage.backend.assert_one_outcome_each();
}

#[test]
fn a_closed_connection_without_a_job_costs_nobody_anything() {
    let stage = Stage::new();
    let script = "
def serve():
    note_signals(signal.SIGTERM)
    link = Link()
    link.ready()
    link.socket.close()
    note('closed', os.getpid())
    rest()

child(serve)
link = Link()
link.ready()
link.work()";
    let mut init = stage.worker(script).with("OJS_CANCEL_GRACE", "100ms").start();
    let process = init.noted("closed");
    let process = init.outer_pid(&process);
    stage.enqueue([1]);
    stage.wait_for_outcomes();
    never("a process that holds no job was ended", || {
        !proc::lives(process) || signalled(&init)
    });
}

fn signalled(init: &Init) -> bool {
    init.notes().contains(&"signal 15".to_owned())
}
