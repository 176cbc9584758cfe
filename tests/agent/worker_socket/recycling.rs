//! Recycling: a new process of the worker replaces the old one, and no job is lost.

use std::ffi::OsString;
use std::os::unix::fs::symlink;

use crate::backend::{Endpoint, Outcome};
use crate::cgroup::Cgroup;
use crate::operator::{OBEYS, run};
use crate::probe_client::Probes;
use crate::stage::{Init, PATIENCE, Stage, root};
use crate::support::wait::wait_until;
use crate::support::{proc, sys};

/// A worker that notes that it runs, and acks whatever it gets, two jobs at a time.
const WORKS: &str = "
note('runs')
link = Link()
link.ready(2)
link.work()";

/// The old worker ends before the next one starts.
const ONE_AT_A_TIME: (&str, &str) = ("OJS_WORKER_RECYCLE_OVERLAP", "off");

/// How many worker processes there were.
fn lives(init: &Init, note: &str) -> usize {
    init.notes().iter().filter(|line| line.starts_with(note)).count()
}

#[test]
fn a_worker_that_was_given_all_its_jobs_is_replaced_and_the_backend_sees_one_worker() {
    let stage = Stage::new();
    let start = stage.worker(WORKS).with("OJS_WORKER_MAX_JOBS", "5");
    let mut init = start.with_all(&[ONE_AT_A_TIME]).start();
    stage.enqueue(1..=30);
    stage.wait_for_outcomes();
    // Five jobs each at most, and one more if two were given at once.
    assert!(lives(&init, "runs") >= 5, "{}", init.story());
    assert_eq!(stage.count(Endpoint::Register), 1);
    assert!(!init.log().contains("starting the worker again"), "{}", init.story());
    init.stops();
    assert_eq!(stage.count(Endpoint::Deregister), 1);
    for number in 1..=30 {
        assert_eq!(stage.outcomes(&format!("j{number}")), [Outcome::Acked(None)]);
    }
}

#[test]
fn an_operator_recycles_the_worker_and_its_job_is_finished_first() {
    let stage = Stage::new();
    let script = "
note('runs', os.getpid())
link = Link()
link.ready()
while True:
    held = link.job()
    while held not in orders():
        time.sleep(0.01)
    link.ack(held)";
    let start = stage.worker(script).with("OJS_HEALTH_LISTEN", "127.0.0.1:0");
    let mut init = start.with_all(&[ONE_AT_A_TIME]).start();
    let probes = Probes::of(&mut init);
    stage.enqueue([1]);
    init.notes_line("job j1");
    let came = run(&stage, &init, &["recycle"]);
    assert_eq!(
        came.stdout, "the worker is recycled: it finishes its jobs and starts again, 1 job active\n",
        "{came:?}"
    );
    let came = run(&stage, &init, &["recycle"]);
    assert_eq!(
        came.stdout, "the worker is being recycled already, 1 job active\n",
        "{came:?}"
    );
    let answer = probes.get("/readyz");
    assert!(answer.reasons().contains(&"recycling".to_owned()), "{answer:?}");
    assert_eq!(probes.get("/healthz").status, 200);
    assert_eq!(probes.get("/livez").status, 200);
    let shown = run(&stage, &init, &["status"]).stdout;
    assert!(shown.contains("(operator)"), "{shown}");
    stage.are_not_fetched([2]);
    init.order("j1");
    init.logs("the worker was recycled in ");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.notes_line("job j2");
    init.order("j2");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    probes.become_([200, 200, 200]);
    init.stops();
}

#[test]
fn the_next_worker_takes_jobs_before_the_old_one_has_ended() {
    let stage = Stage::new();
    let script = "
note('runs', os.getpid())
link = Link()
link.ready()
while True:
    held = link.job()
    note('has', held, os.getpid())
    while held not in orders():
        time.sleep(0.01)
    link.ack(held)";
    let start = stage.worker(script).with("OJS_HEALTH_LISTEN", "127.0.0.1:0");
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    let probes = Probes::of(&mut init);
    stage.enqueue([1]);
    init.notes_line("job j1");
    probes.become_([200, 200, 200]);
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    stage.enqueue([2]);
    init.notes_line("job j2");
    assert_eq!(probes.get("/readyz").status, 200);
    assert!(!init.log().contains("was recycled"), "{}", init.story());
    init.order("j1");
    init.logs("the worker was recycled in ");
    init.order("j2");
    for job in ["j1", "j2"] {
        stage.becomes(job, &[Outcome::Acked(None)]);
    }
    assert_eq!(lives(&init, "runs "), 2, "{}", init.story());
    assert_eq!(stage.count(Endpoint::Register), 1);
    init.stops();
}

#[test]
fn a_process_that_the_old_worker_starts_late_is_no_sign_of_the_next_one_and_gets_no_job_beside_it() {
    let stage = Stage::new();
    let script = "
def late():
    link = Link()
    link.ready()
    note('late')
    note('late has', link.job())
    rest()
note('runs')
if os.path.exists(os.environ['MARK']):
    while 'ready' not in orders():
        time.sleep(0.01)
    link = Link()
    link.ready(2)
    link.work()
open(os.environ['MARK'], 'w').close()
link = Link()
link.ready()
held = link.job()
while 'late' not in orders():
    time.sleep(0.01)
child(late)
while held not in orders():
    time.sleep(0.01)
link.ack(held)
rest()";
    let start = stage.worker(script).with("MARK", stage.at("mark"));
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the next worker was started beside the old one");
    init.order("late");
    init.notes_line("late");
    init.order("ready");
    init.logs("takes up to 2 jobs");
    stage.enqueue(2..=9);
    for number in 2..=9 {
        stage.becomes(&format!("j{number}"), &[Outcome::Acked(None)]);
    }
    init.order("j1");
    init.logs("the worker was recycled in ");
    stage.becomes("j1", &[Outcome::Acked(None)]);
    init.stops();
}

/// The memory of so many processes cannot be read within a turn of the loop.
#[test]
fn where_a_container_has_memory_for_two_the_next_worker_of_many_processes_starts_beside_the_old_one() {
    let stage = Stage::new();
    let cgroup = Cgroup::new(&stage, "8000000000\n");
    let script = "
shared = bytearray(100 << 20)
for _ in range(40):
    child(rest)
link = Link()
link.ready()
while True:
    held = link.job()
    while held not in orders():
        time.sleep(0.01)
    link.ack(held)";
    let mut init = cgroup.of(stage.worker(script)).start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    stage.enqueue([2]);
    init.notes_line("job j2");
    assert_eq!(stage.outcomes("j1"), []);
    init.order("j1");
    init.logs("the worker was recycled in ");
    init.order("j2");
    stage.becomes("j2", &[Outcome::Acked(None)]);
    init.stops();
}

#[test]
fn the_memory_of_two_workers_together_is_no_reason_to_recycle_the_next_one() {
    let stage = Stage::new();
    let script = "
is_old = not os.path.exists(os.environ['MARK'])
open(os.environ['MARK'], 'w').close()
shared = bytearray(100 << 20)
for _ in range(40):
    child(rest)
kept = bytearray(400 << 20) if is_old else None
link = Link()
link.ready()
while True:
    held = link.job()
    while is_old and held == 'j12' and held not in orders():
        time.sleep(0.01)
    link.ack(held)";
    let start = stage.worker(script).with("MARK", stage.at("mark"));
    let start = start.with_all(&[
        ("OJS_WORKER_RECYCLE_OVERLAP", "on"),
        ("OJS_WORKER_MAX_MEMORY", "400MiB"),
        ("OJS_HEARTBEAT_INTERVAL", "100ms"),
    ]);
    let mut init = start.start();
    stage.enqueue(1..=12);
    init.notes_line("job j12");
    init.logs("the next worker was started beside the old one");
    // As many as it takes until its memory counts.
    stage.enqueue(13..=40);
    for number in 13..=40 {
        stage.becomes(&format!("j{number}"), &[Outcome::Acked(None)]);
    }
    init.order("j12");
    init.logs("the worker was recycled in ");
    let before = stage.count(Endpoint::Heartbeat);
    let goes_on = || stage.count(Endpoint::Heartbeat) >= before + 5;
    assert!(wait_until(PATIENCE, goes_on), "{}", init.story());
    let recyclings = init.log().matches("recycling the worker, because").count();
    assert_eq!(recyclings, 1, "{}", init.story());
    init.stops();
}

#[test]
fn what_the_kernel_ended_before_a_worker_took_over_does_not_explain_its_end() {
    let stage = Stage::new();
    let cgroup = Cgroup::new(&stage, "8000000000\n");
    let start = cgroup.of(stage.worker("note('runs'); link = Link(); link.ready(); link.work()"));
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    init.notes_times("runs", 1);
    cgroup.has_ended(1);
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the worker was recycled in ");
    let [worker] = proc::descendants(init.pid).try_into().unwrap();
    sys::send(worker, libc::SIGKILL).unwrap();
    init.ends_with(137);
    assert!(!init.log().contains("oom_kill"), "{}", init.story());
}

/// Then nobody could tell a process of the old worker from one of the next.
#[test]
fn without_a_proc_the_old_worker_ends_before_the_next_one_starts() {
    let stage = Stage::new();
    let unmount = "while umount -l /proc 2> /dev/null; do :; done; [ ! -e /proc/self ] && exec \"$@\"";
    let start = stage
        .worker(WORKS)
        .through(&["unshare", "-m", "--", "sh", "-c", unmount, "sh"]);
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    init.notes_times("runs", 1);
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the worker was recycled in ");
    init.notes_times("runs", 2);
    assert!(!init.log().contains("beside the old one"), "{}", init.story());
    init.stops();
}

#[test]
fn a_next_worker_that_cannot_run_leaves_the_old_one_at_work() {
    let stage = Stage::new();
    let script = "
note('runs')
if os.path.exists(os.environ['BROKEN']):
    os._exit(7)
link = Link()
link.ready()
link.work()";
    let broken = stage.at("broken");
    let start = stage.worker(script).with("BROKEN", &broken);
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    std::fs::write(&broken, "").unwrap();
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the next worker ended before it said ready, so the old one goes on; another attempt in 1 s");
    stage.enqueue([2]);
    stage.becomes("j2", &[Outcome::Acked(None)]);
    std::fs::remove_file(&broken).unwrap();
    init.logs("the worker was recycled in ");
    init.stops();
}

#[test]
fn a_next_worker_whose_program_is_being_replaced_leaves_the_old_one_at_work() {
    let stage = Stage::new();
    let program = stage.at("worker");
    symlink("/usr/bin/python3", &program).unwrap();
    let raw = root().join("tests/support/raw_worker.py");
    let script = "link = Link(); link.ready(); link.work()";
    let words: [OsString; 5] = [
        program.clone().into(),
        "-S".into(),
        "-E".into(),
        raw.into(),
        script.into(),
    ];
    let start = stage.command(&words);
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    std::fs::remove_file(&program).unwrap();
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the next worker cannot be started, so the old one goes on; another attempt follows: ");
    stage.enqueue([2]);
    stage.becomes("j2", &[Outcome::Acked(None)]);
    symlink("/usr/bin/python3", &program).unwrap();
    init.logs("the worker was recycled in ");
    init.stops();
}

#[test]
fn what_an_old_worker_leaves_in_its_process_group_ends_with_it() {
    let stage = Stage::new();
    let script = "
child(rest)
note('left')
link = Link()
link.ready()
link.work()";
    let mut init = stage.worker(script).with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    init.notes_times("left", 1);
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.logs("the worker was recycled in ");
    init.notes_times("left", 2);
    // The next worker and its child.
    let are_two = || proc::descendants(init.pid).len() == 2;
    assert!(wait_until(PATIENCE, are_two), "{}", init.story());
    init.stops();
}

/// A wrapper that waits for its child and passes no signal on.
#[test]
fn with_process_group_the_old_worker_of_two_is_asked_to_end_with_its_whole_group() {
    let stage = Stage::new();
    let script = "
def works():
    def asked(*_):
        note('asked')
        os._exit(0)
    signal.signal(signal.SIGTERM, asked)
    link = Link()
    link.ready()
    note('runs')
    link.work()
pid = child(works)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.waitpid(pid, 0)";
    let start = stage.worker(script).with("OJS_INIT_PROCESS_GROUP", "true");
    let mut init = start.with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    init.notes_times("runs", 1);
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.notes_line("asked");
    init.logs("the worker was recycled in ");
    init.notes_times("runs", 2);
    init.stops();
}

#[test]
fn the_log_says_how_the_old_worker_of_two_ended() {
    let stage = Stage::new();
    let script = "
link = Link()
link.ready()
held = link.job()
note('has', held)
while held not in orders():
    time.sleep(0.01)
die(signal.SIGSEGV)";
    let mut init = stage.worker(script).with("OJS_WORKER_RECYCLE_OVERLAP", "on").start();
    stage.enqueue([1]);
    init.notes_line("has j1");
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    stage.enqueue([2]);
    init.notes_line("has j2");
    init.order("j1");
    init.logs("one of two of the worker, ended: killed by SIGSEGV");
    assert_eq!(stage.failure("j1")["code"], "worker_death");
    init.signal(libc::SIGKILL);
}

#[test]
fn a_job_that_outlasts_the_grace_period_is_cancelled_and_fails_as_in_a_shutdown() {
    let stage = Stage::new();
    let script = "
note('runs')
link = Link()
link.ready()
link.job()
link.until('cancel')
note('cancelled')
rest()";
    let start = stage.worker(script).with("OJS_SHUTDOWN_GRACE_PERIOD", "300ms");
    let start = start.with_all(&[ONE_AT_A_TIME]);
    let mut init = start.with("OJS_CANCEL_GRACE", "200ms").start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.notes_line("cancelled");
    let error = stage.failure("j1");
    assert_eq!(error["code"], "shutdown", "{error}");
    assert_eq!(error["retryable"], true, "{error}");
    init.notes_times("runs", 2);
    init.stops();
}

#[test]
fn a_worker_that_takes_too_much_memory_is_replaced_before_it_takes_more() {
    let stage = Stage::new();
    let script = "
note('runs')
link = Link()
link.ready()
kept = []
while True:
    held = link.job()
    kept.append(b'x' * (4 << 20))
    with open('/proc/self/statm') as pages:
        note('rss', int(pages.read().split()[1]) * 4096 >> 20)
    time.sleep(0.02)
    link.ack(held)";
    let start = stage.worker(script).with("OJS_WORKER_MAX_MEMORY", "100MiB");
    let mut init = start.with("OJS_HEARTBEAT_INTERVAL", "50ms").start();
    stage.enqueue(1..=80);
    stage.wait_for_outcomes();
    assert!(lives(&init, "runs") >= 3, "{}", init.story());
    init.logs("(worker.max_memory)");
    let most = init
        .notes()
        .iter()
        .filter_map(|line| line.strip_prefix("rss ")?.parse::<u64>().ok())
        .max();
    // Two heartbeats may pass until the next look, with a job of 4 MiB every 20 ms.
    assert!(most.is_some_and(|most| most < 180), "{most:?} MiB");
    init.stops();
}

#[test]
fn a_sigterm_in_a_recycling_ends_the_worker_for_good_and_counts_as_a_shutdown() {
    let stage = Stage::new();
    let mut init = stage.worker(OBEYS).with_all(&[ONE_AT_A_TIME]).start();
    stage.enqueue([1]);
    init.notes_line("job j1");
    assert_eq!(run(&stage, &init, &["recycle"]).status, Some(0));
    init.signal(libc::SIGTERM);
    let came = run(&stage, &init, &["recycle"]);
    assert_eq!(came.status, Some(1), "{came:?}");
    init.order("ack j1");
    init.ends_with(0);
    stage.becomes("j1", &[Outcome::Acked(None)]);
    assert!(!init.log().contains("was recycled"), "{}", init.story());
}
