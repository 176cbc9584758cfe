//! Signals: what each makes of the worker, its jobs and the conversation with the backend.

use std::time::Duration;

use crate::backend::{Endpoint, Outcome};
use crate::stage::{Init, PATIENCE, Stage, moment, never};
use crate::support::wait::{now, spin, wait_until};
use crate::support::{proc, sys};

/// Longest that a process with a SIGKILL takes to be gone, on a machine with little time for it.
const LONG_ENOUGH_TO_DIE: Duration = Duration::from_secs(5);

/// A worker that takes jobs, answers none and notes what it is told.
const HOLDS: &str = "
link = Link()
link.ready(2)
link.job()
link.note_all()
rest()";

/// A worker like `HOLDS`, and no SIGTERM ends it.
const STUCK: &str = "
note_signals(signal.SIGTERM)
link = Link()
link.ready(2)
link.job()
link.note_all()
rest()";

/// One word for a shell.
fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Waits until the init has read this many signals of its own: two that are pending at once are
/// one.
fn signals_read(init: &mut Init, count: usize) {
    let read = wait_until(PATIENCE, || init.log().matches("received SIG").count() >= count);
    assert!(read, "{}", init.story());
}

#[test]
fn a_job_that_is_left_at_the_deadline_is_cancelled_and_has_its_grace() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage
        .worker(HOLDS)
        .with_all(&[("OJS_GRACE_PERIOD", "100ms"), ("OJS_CANCEL_GRACE", "300ms")])
        .start();
    init.notes_line("job j1");
    init.signal(libc::SIGTERM);
    init.notes_line("cancel shutdown j1");
    let cancelled = now();
    let took = init.ends_with(0);
    let real = cancelled.elapsed();
    assert!(
        real > Duration::from_millis(200) && took < Duration::from_secs(8),
        "{real:?}, {took:?}"
    );
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn a_storm_of_stop_signals_ends_the_init_and_leaves_nobody() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(STUCK).start();
    init.notes_line("job j1");
    let child = proc::children(init.pid)[0];
    for round in 0..2000 {
        if !init.is_running() {
            break;
        }
        init.signal([libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGCONT][round % 5]);
    }
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
    assert!(!proc::lives(child));
}

#[test]
fn a_third_stop_signal_leaves_no_grandchild_in_a_session_of_its_own() {
    // A generation can be killed when the one above it is gone, and the init takes no more than
    // this for all of them. It can be too little where the processes that end get no processor.
    // Then it is tried again.
    const AT_MOST: Duration = Duration::from_millis(100);
    for _ in 0..5 {
        let (left, silence, story) = left_by_a_third_stop_signal();
        if left == 0 {
            return;
        }
        assert!(silence >= AT_MOST, "{left} are left after {silence:?}: {story}");
    }
    panic!("never did all of them end");
}

/// How many of five generations, each in a session of its own, outlive three stop signals, how long
/// the init took to end after its last word, and what it said.
fn left_by_a_third_stop_signal() -> (usize, Duration, String) {
    let stage = Stage::new();
    stage.enqueue([1]);
    let nested = (0..4).fold("sleep 1000".to_owned(), |inner, _| {
        format!("sh -c {} & wait", shell_quoted(&format!("setsid {inner}")))
    });
    let script = format!("subprocess.Popen(['setsid', 'sh', '-c', {nested:?}])\n{STUCK}");
    let mut init = stage
        .worker(&format!("import subprocess\n{script}"))
        .start_outside_a_namespace();
    init.notes_line("job j1");
    let sleeps = |pid: &i32| proc::image(*pid).is_some_and(|image| image.ends_with("sleep"));
    let is_there = wait_until(PATIENCE, || proc::descendants(init.pid).iter().any(sleeps));
    assert!(is_there, "{}", init.story());
    let all = proc::descendants(init.pid);
    // All in one turn: nothing happens between them that would end anybody.
    for signal in [libc::SIGSTOP, libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGCONT] {
        init.signal(signal);
    }
    assert!(wait_until(PATIENCE, || !init.is_running()), "{}", init.story());
    let silence = init.silent_for();
    // A process that was sent SIGKILL is gone as soon as it gets a processor; any other sleeps on.
    let lives = |pid: &&i32| proc::lives(**pid);
    wait_until(LONG_ENOUGH_TO_DIE, || !all.iter().any(|pid| proc::lives(*pid)));
    let left: Vec<i32> = all.iter().filter(lives).copied().collect();
    for pid in &left {
        let _ = sys::send(*pid, libc::SIGKILL);
    }
    (left.len(), silence, init.story())
}

#[test]
fn without_a_drain_the_exit_handlers_of_an_idle_worker_run() {
    let stage = Stage::new();
    let script = "
def leave(*_):
    time.sleep(0.2)
    note('left')
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
link = Link()
link.ready()
rest()";
    let mut init = stage.worker(script).with("OJS_GRACE_PERIOD", "0s").start();
    init.notes_line("ready");
    init.stops();
    init.notes_line("left");
}

#[test]
fn a_job_acked_when_it_is_cancelled_in_the_stop_phase_is_acked() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script =
        "link = Link(); link.ready(); held = link.job(); link.until('cancel'); link.ack(held); link.note_all()";
    let mut init = stage.worker(script).with("OJS_GRACE_PERIOD", "100ms").start();
    init.notes_line("job j1");
    init.stops();
    assert_eq!(stage.outcomes("j1"), [Outcome::Acked(None)]);
}

#[test]
fn a_stopped_worker_that_holds_a_job_is_ended_after_its_cancel_grace() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker(HOLDS).with("OJS_GRACE_PERIOD", "100ms").start();
    init.notes_line("job j1");
    let worker = proc::children(init.pid)[0];
    sys::send(worker, libc::SIGSTOP).unwrap();
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
}

#[test]
fn an_idle_stopped_worker_is_woken_up_and_ends_by_itself() {
    let stage = Stage::new();
    let script = "
def leave(*_):
    note('left')
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
link = Link()
link.ready()
rest()";
    let mut init = stage.worker(script).start();
    init.notes_line("ready");
    sys::send(proc::children(init.pid)[0], libc::SIGSTOP).unwrap();
    init.stops();
    init.notes_line("left");
}

#[test]
fn other_signals_reach_the_worker_and_the_init_goes_on() {
    let stage = Stage::new();
    let rt = 41;
    let signals = [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH, rt];
    let script = "
note_signals(signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, 41)
Link().ready()
rest()";
    let mut init = stage.worker(script).start();
    init.notes_line("ready");
    for signal in signals {
        init.signal(signal);
        init.notes_line(&format!("signal {signal}"));
    }
    init.signal(libc::SIGWINCH);
    init.notes_times(&format!("signal {}", libc::SIGWINCH), 2);
    init.stops();
    assert_eq!(
        init.notes().iter().filter(|line| line.starts_with("signal")).count(),
        signals.len() + 1
    );
    // The signal may be the STOPSIGNAL of the image, which is said once.
    let complaints = init.complaints();
    let [warning] = complaints.as_slice() else {
        panic!("{complaints:?}")
    };
    assert!(
        warning.contains("if it is this image's STOPSIGNAL: -r WINCH:TERM"),
        "{warning}"
    );
}

#[test]
fn the_signals_of_the_lifecycle_do_not_reach_the_worker_as_they_come() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
note_signals(signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT)
link = Link()
link.ready()
link.job()
link.note_all()";
    let mut init = stage.worker(script).start();
    init.notes_line("job j1");
    for (count, signal) in [libc::SIGTSTP, libc::SIGCONT, libc::SIGINT].into_iter().enumerate() {
        init.signal(signal);
        signals_read(&mut init, count + 1);
    }
    init.notes_line("lifecycle terminate sigint");
    never("a signal for the worker", || {
        init.notes().iter().any(|line| line.starts_with("signal"))
    });
}

#[test]
fn the_worker_gets_the_signals_that_stand_for_transitions() {
    let stage = Stage::new();
    stage.enqueue([1]);
    // SIGTERM follows at once where no job is held, and might end it before it has noted the other.
    let script = "
note_signals(signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
link = Link()
link.ready()
held = link.job()
while 'signal 1\\n' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
link.ack(held)
rest()";
    let mut init = stage
        .worker(script)
        .with_all(&[
            ("OJS_ON_QUIET", "USR1"),
            ("OJS_ON_RESUME", "USR2"),
            ("OJS_ON_TERMINATE", "HUP"),
        ])
        .start();
    init.notes_line("job j1");
    init.signal(libc::SIGTSTP);
    init.notes_line("signal 10");
    init.signal(libc::SIGCONT);
    init.notes_line("signal 12");
    init.signal(libc::SIGTERM);
    init.notes_line("signal 1");
    init.ends_with(0);
}

#[test]
fn a_sigterm_before_the_worker_has_connected_ends_at_once_and_nothing_was_fetched() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let mut init = stage.worker("note('here'); rest()").start();
    init.notes_line("here");
    never("a FETCH for a worker that is not there", || {
        !stage.backend.records_of(Endpoint::Fetch).is_empty()
    });
    init.signal(libc::SIGTERM);
    let took = init.ends_with(0);
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn a_sigterm_as_soon_as_signals_are_blocked_is_never_lost() {
    for round in 0..20 {
        let stage = Stage::new();
        let mut init = stage.worker("Link().ready(); rest()").start();
        // Before that the kernel itself drops what the first process of a namespace has no handler
        // for.
        let term = sys::bit(libc::SIGTERM);
        let blocks = || proc::signal_mask(init.pid, "SigBlk").is_some_and(|mask| mask & term != 0);
        assert!(wait_until(PATIENCE, blocks));
        spin(Duration::from_micros(700 * round));
        init.signal(libc::SIGTERM);
        let took = init.ends_with(0);
        assert!(took < Duration::from_secs(5), "{took:?}");
        let has = |endpoint| !stage.backend.records_of(endpoint).is_empty();
        assert_eq!(has(Endpoint::Deregister), has(Endpoint::Register), "{}", init.story());
    }
}

#[test]
fn a_worker_that_connects_during_the_drain_learns_that_no_job_will_come() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def late():
    note('late', json.loads(Link().line())['state'])
    rest()
link = Link()
link.ready()
held = link.job()
link.until('lifecycle')
child(late)
while 'late' not in open(os.environ['NOTES']).read():
    time.sleep(0.01)
link.ack(held)
link.note_all()";
    let mut init = stage.worker(script).start();
    init.notes_line("job j1");
    stage.enqueue([2]);
    init.stops();
    init.notes_line("late terminate");
    assert!(stage.outcomes("j2").is_empty());
}

#[test]
fn daemons_that_the_worker_leaves_in_a_shutdown_are_gone_with_the_init() {
    let stage = Stage::new();
    let script = "
def daemon():
    note_signals(signal.SIGTERM)
    note('daemon', os.getpid())
    rest()
for _ in range(5):
    child(lambda: child(daemon, session=True))
Link().ready()
rest()";
    let mut init = stage
        .worker(script)
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "3s"), ("OJS_GRACE_PERIOD", "500ms")])
        .start();
    init.notes_line("ready");
    let counted = wait_until(PATIENCE, || {
        init.notes().iter().filter(|line| line.starts_with("daemon")).count() == 5
    });
    assert!(counted);
    let all = proc::descendants(init.pid);
    init.stops();
    assert!(all.iter().all(|pid| !proc::lives(*pid)));
}

#[test]
fn behind_another_process_it_adopts_and_ends_what_its_worker_leaves() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
def daemon():
    note_signals(signal.SIGTERM)
    note('daemon', os.getpid())
    rest()
for _ in range(3):
    child(lambda: child(daemon, session=True))
link = Link()
link.ready()
link.work()";
    let status = stage.at("status").display().to_string();
    let shell = format!(r#""$0" "$@"; echo $? > {status}.new; mv {status}.new {status}; sleep 60"#);
    let init = stage
        .worker(script)
        .through(&["sh", "-c", &shell])
        .with_all(&[("OJS_TERMINATION_GRACE_PERIOD", "3s"), ("OJS_GRACE_PERIOD", "300ms")])
        .start();
    let is_there = || init.notes().iter().filter(|line| line.starts_with("daemon")).count() == 3;
    assert!(wait_until(PATIENCE, is_there), "{}", init.story());
    stage.wait_for_outcomes();
    let ours = proc::children(init.pid)[0];
    let all = proc::descendants(ours);
    assert!(all.len() >= 4, "{all:?}");
    sys::send(ours, libc::SIGTERM).unwrap();
    assert!(wait_until(PATIENCE, || stage.at("status").exists()), "{}", init.story());
    let is_gone = wait_until(LONG_ENOUGH_TO_DIE, || !all.iter().any(|pid| proc::lives(*pid)));
    assert!(is_gone, "{all:?}: {}", init.story());
    assert_eq!(std::fs::read_to_string(status).unwrap(), "0\n");
}

#[test]
fn nothing_is_reported_after_the_fail_of_a_shutdown_although_the_worker_wrote_until_it_was_killed() {
    let stage = Stage::new();
    stage.enqueue([1]);
    let script = "
note_signals(signal.SIGTERM)
link = Link()
link.ready()
held = link.job()
while True:
    time.sleep(0.002)
    link.say('heartbeat', job_id=held)
    note('beat', time.monotonic_ns())";
    let mut init = stage
        .worker(script)
        .with_all(&[
            ("OJS_TERMINATION_GRACE_PERIOD", "3s"),
            ("OJS_GRACE_PERIOD", "0s"),
            ("OJS_CANCEL_GRACE", "200ms"),
        ])
        .start();
    init.notes_line("job j1");
    init.stops();
    assert_eq!(stage.failure("j1")["type"], "ShutdownError");
    let notes = init.notes();
    let last = notes.iter().rev().find_map(|line| line.strip_prefix("beat ")).unwrap();
    assert!(stage.settled_at("j1") > moment(last), "{}", init.story());
}
